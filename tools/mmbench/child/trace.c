/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/mmbench/child/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4096u
#define LINE_BYTES 128 /* the longest valid line needs 87 */

void trace_end(struct trace *t) {
    free(t->events);
    free(t->sizes);
    memset(t, 0, sizeof *t);
}

static int grow(struct trace *t) {
    const size_t room = t->room ? 2 * t->room : FIRST_ROOM;
    struct trace_event *events = (struct trace_event *)realloc(t->events, room * sizeof *events);
    if (events) t->events = events;
    uint64_t *sizes = (uint64_t *)realloc(t->sizes, room * sizeof *sizes);
    if (sizes) t->sizes = sizes;
    if (!events || !sizes) return 1;
    t->room = room;
    return 0;
}

/* Reads a number in decimal, up to `most`, and moves *at past it and one following space. Returns 1 if there is none. */
static int read_number(const char **at, uint64_t most, uint64_t *value) {
    const char *c = *at;
    for (*value = 0; *c >= '0' && *c <= '9'; c++) {
        const unsigned digit = (unsigned)(*c - '0');
        if (*value > (most - digit) / 10 || digit > most) return 1;
        *value = *value * 10 + digit;
    }
    if (c == *at || (*c && *c != ' ') || (*c == ' ' && !c[1])) return 1;
    *at = *c ? c + 1 : c;
    return 0;
}

/* Adds an event whose numbers are in range. */
static const char *add(struct trace *t, const struct trace_event *e) {
    if (t->count == MM_TRACE_EVENTS) return "more events than a trace has";
    if (t->count == t->room && grow(t)) return "the host has no memory";
    if (e->kind == TRACE_FREE) {
        if (e->bytes >= t->mallocs) return "frees what was not allocated before";
        if (t->sizes[e->bytes] == 0) return "frees what was freed before";
        t->live -= t->sizes[e->bytes] - 1;
        t->sizes[e->bytes] = 0;
        t->frees++;
    } else if (e->kind == TRACE_MALLOC) {
        t->sizes[t->mallocs++] = e->bytes + 1;
        t->live += e->bytes;
        if (t->live > t->most_live) t->most_live = t->live;
    } else {
        t->nulls++;
    }
    t->events[t->count++] = *e;
    return NULL;
}

/* "m BYTES CTA THREAD", "m BYTES CTA THREAD ALIGNMENT", the same with n, or "f NUMBER CTA THREAD". */
static const char *read_event(struct trace *t, const char *line, uint32_t launch) {
    struct trace_event e;
    uint64_t thread, align = 1;
    memset(&e, 0, sizeof e);
    e.kind = (uint8_t)(line[0] == 'm' ? TRACE_MALLOC : line[0] == 'n' ? TRACE_NULL : TRACE_FREE);
    e.launch = launch;
    const uint64_t most = e.kind == TRACE_MALLOC ? MM_TRACE_BYTES_MAX : UINT64_MAX;
    line += 2;
    if (read_number(&line, most, &e.bytes)) return e.kind == TRACE_FREE ? "expected the number of a malloc" : "expected bytes, up to 2^40 unless it got NULL";
    if (read_number(&line, MM_TRACE_CTA_MAX, &e.cta)) return "expected the number of a CTA, below 2^48";
    if (read_number(&line, MM_TRACE_THREAD_MAX, &thread)) return "expected the number of a thread, up to 1023";
    if (*line && (e.kind == TRACE_FREE || read_number(&line, MM_TRACE_BYTES_MAX, &align) || align < 2 || (align & (align - 1)) != 0 || *line))
        return e.kind == TRACE_FREE ? "expected nothing more" : "expected an alignment, a power of two up to 2^40, or nothing more";
    while (align >> e.align_shift > 1) e.align_shift++;
    e.thread = (uint16_t)thread;
    return add(t, &e);
}

/* "end MALLOCS NULLS FREES DROPPED". */
static const char *read_end(struct trace *t, const char *line) {
    uint64_t mallocs, nulls, frees;
    if (read_number(&line, UINT64_MAX, &mallocs) || read_number(&line, UINT64_MAX, &nulls) || read_number(&line, UINT64_MAX, &frees) ||
        read_number(&line, UINT64_MAX, &t->dropped) || *line)
        return "expected end MALLOCS NULLS FREES DROPPED";
    if (mallocs != t->mallocs || nulls != t->nulls || frees != t->frees) return "its counts are not those of the lines before";
    return t->count ? NULL : "no events";
}

/* State of a reader. */
struct place {
    unsigned long long number; /* of the line */
    uint64_t launch;
    int has_launch, has_end;
};

static const char *read_line(struct trace *t, const char *line, struct place *p) {
    if (p->has_end) return "expected nothing after the line with end";
    if (p->number == 1) return strcmp(line, MM_TRACE_HEAD) == 0 ? NULL : "expected " MM_TRACE_HEAD;
    if (!strncmp(line, "end ", 4)) return p->has_end = 1, read_end(t, line + 4);
    if (!strncmp(line, "k ", 2)) {
        const char *at = line + 2;
        if (read_number(&at, MM_TRACE_LAUNCH_MAX, &p->launch) || *at) return "expected the number of a launch, below 2^24";
        p->has_launch = 1;
        if (p->launch >= t->launches) t->launches = (uint32_t)p->launch + 1;
        return NULL;
    }
    if (!strchr("mnf", line[0]) || line[0] == 0 || line[1] != ' ') return "expected a line that begins with k, m, n, f or end";
    return p->has_launch ? read_event(t, line, (uint32_t)p->launch) : "expected a line with k first";
}

/* Removes the line's newline. Returns NULL, or why the line is refused. */
static const char *end_line(char line[LINE_BYTES], FILE *from) {
    char *end = strchr(line, '\n');
    if (!end) return feof(from) ? "no newline at the end" : "too long, or with a byte of value 0";
    *end = '\0';
    return NULL;
}

int trace_read(struct trace *t, FILE *from, char why[TRACE_WHY_BYTES]) {
    char line[LINE_BYTES];
    struct place p = {0, 0, 0, 0};
    const char *wrong = NULL;
    while (!wrong && fgets(line, sizeof line, from)) {
        p.number++;
        wrong = end_line(line, from);
        if (!wrong) wrong = read_line(t, line, &p);
    }
    if (!wrong && ferror(from)) wrong = "the file cannot be read";
    if (!wrong && !p.has_end) wrong = p.number ? "the file ends without a line with end" : "the file is empty";
    if (wrong) snprintf(why, TRACE_WHY_BYTES, "line %llu: %s", p.number, wrong);
    return wrong != NULL;
}

int trace_read_file(struct trace *t, const char *path, char why[TRACE_WHY_BYTES]) {
    FILE *from = fopen(path, "r");
    if (!from) return snprintf(why, TRACE_WHY_BYTES, "%s", strerror(errno)), 1;
    const int wrong = trace_read(t, from, why);
    fclose(from);
    return wrong;
}
