/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Logs of calls by the host, their text format, and the ranges of live blocks. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/host.h"

/* ---- logs ---------------------------------------------------------------------------------------- */

#define FIRST_ROOM 4096u

void host_log_begin(struct host_log *l) { memset(l, 0, sizeof *l); }

void host_log_end(struct host_log *l) {
    free(l->calls);
    free(l->sizes);
    host_log_begin(l);
}

static int grow(struct host_log *l) {
    const unsigned room = l->room ? 2 * l->room : FIRST_ROOM;
    struct host_call *calls = (struct host_call *)realloc(l->calls, room * sizeof *calls);
    if (calls) l->calls = calls;
    uint64_t *sizes = (uint64_t *)realloc(l->sizes, room * sizeof *sizes);
    if (sizes) l->sizes = sizes;
    if (!calls || !sizes) return 1;
    l->room = room;
    return 0;
}

static void note_malloc(struct host_log *l, uint64_t size) {
    l->calls[l->count] = (struct host_call){size, l->blocks};
    l->sizes[l->blocks++] = size;
    l->live += size;
    if (++l->live_blocks > l->most_live_blocks) l->most_live_blocks = l->live_blocks;
    if (l->live > l->most_live) l->most_live = l->live, l->most_live_call = l->count;
}

static void note_free(struct host_log *l, unsigned id) {
    l->calls[l->count] = (struct host_call){0, id};
    l->live -= l->sizes[id];
    l->sizes[id] = 0;
    l->live_blocks--;
}

const char *host_log_add(struct host_log *l, uint64_t size, long long free_id) {
    if (free_id < HOST_LOG_NONE) return "a negative id; expected -1, or the id of a block";
    if (size == 0 && free_id == HOST_LOG_NONE) return "neither a size nor an id; expected one of them";
    if (size != 0 && free_id != HOST_LOG_NONE) return "a size and an id; expected one of them";
    if (size > HOST_SIZE_MOST) return "a size above 2^40";
    if (l->count == HOST_CALLS_MOST) return "more than 2^23 calls";
    if (size == 0 && free_id >= l->blocks) return "frees a block before its allocation";
    if (size == 0 && l->sizes[free_id] == 0) return "frees a block that is free already";
    if (l->count == l->room && grow(l)) return "the host has no memory";
    if (size != 0) note_malloc(l, size);
    else note_free(l, (unsigned)free_id);
    l->count++;
    return NULL;
}

const char *host_log_complete(const struct host_log *l) {
    if (l->count == 0) return "no calls";
    return l->live_blocks ? "the log ends before everything is free" : NULL;
}

/* ---- the text format ----------------------------------------------------------------------------- */

#define LINE_BYTES 64 /* the longest valid line needs 22 */

/* Reads the digits at *at, up to 18 of them, and moves *at past them. Returns 1 if there are none, or more. */
static int read_number(const char **at, long long *value) {
    const size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 18) return 1;
    *value = strtoll(*at, NULL, 10);
    *at += digits;
    return 0;
}

static const char *read_call(struct host_log *l, const char *line) {
    long long size, id = HOST_LOG_NONE;
    if (read_number(&line, &size) || *line++ != ',') return "expected SIZE,ID in decimal";
    if (!strncmp(line, "-1", 2)) line += 2;
    else if (read_number(&line, &id)) return "expected SIZE,ID in decimal";
    return *line ? "expected SIZE,ID in decimal" : host_log_add(l, (uint64_t)size, id);
}

/* Removes the line's newline. Returns NULL, or why the line is refused. */
static const char *end_line(char line[LINE_BYTES], FILE *from) {
    char *end = strchr(line, '\n');
    if (!end) return feof(from) ? "no newline at the end" : "too long, or with a byte of value 0";
    *end = '\0';
    return NULL;
}

int host_log_read(struct host_log *l, FILE *from, char why[HOST_LOG_WHY_BYTES]) {
    char line[LINE_BYTES];
    unsigned number = 0;
    const char *wrong = NULL;
    while (!wrong && fgets(line, sizeof line, from)) {
        wrong = end_line(line, from);
        if (!wrong && number > 0) wrong = read_call(l, line);
        else if (!wrong && strcmp(line, HOST_LOG_HEADER) != 0) wrong = "expected " HOST_LOG_HEADER;
        number++;
    }
    if (!wrong && ferror(from)) wrong = "the file cannot be read";
    if (!wrong) wrong = host_log_complete(l);
    if (wrong) snprintf(why, HOST_LOG_WHY_BYTES, "line %u: %s", number, wrong);
    return wrong != NULL;
}

int host_log_write(const struct host_log *l, FILE *to) {
    fprintf(to, HOST_LOG_HEADER "\n");
    for (unsigned i = 0; i < l->count; i++)
        if (l->calls[i].size) fprintf(to, "%llu,-1\n", (unsigned long long)l->calls[i].size);
        else fprintf(to, "0,%u\n", l->calls[i].id);
    return fflush(to) != 0 || ferror(to);
}

/* ---- live address ranges ------------------------------------------------------------------------- */

int host_ranges_begin(struct host_ranges *r, unsigned room) {
    r->at = (struct host_range *)malloc(room * sizeof *r->at);
    r->count = 0;
    r->room = room;
    return r->at == NULL;
}

void host_ranges_end(struct host_ranges *r) {
    free(r->at);
    memset(r, 0, sizeof *r);
}

/* The first range that begins at `begin` or after it. */
static unsigned find(const struct host_ranges *r, uint64_t begin) {
    unsigned low = 0, high = r->count;
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (r->at[middle].begin < begin) low = middle + 1;
        else high = middle;
    }
    return low;
}

int host_ranges_add(struct host_ranges *r, uint64_t begin, uint64_t bytes, unsigned id) {
    const uint64_t end = begin + bytes;
    const unsigned i = find(r, begin);
    if (end <= begin || r->count == r->room || (i > 0 && r->at[i - 1].end > begin) || (i < r->count && r->at[i].begin < end)) return 1;
    memmove(r->at + i + 1, r->at + i, (r->count - i) * sizeof *r->at);
    r->at[i] = (struct host_range){begin, end, id};
    r->count++;
    return 0;
}

void host_ranges_remove(struct host_ranges *r, uint64_t begin, unsigned id) {
    const unsigned i = find(r, begin);
    if (i == r->count || r->at[i].begin != begin || r->at[i].id != id) return;
    r->count--;
    memmove(r->at + i, r->at + i + 1, (r->count - i) * sizeof *r->at);
}
