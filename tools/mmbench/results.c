/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rows of earlier measurements: files of mmbench --csv, and files of published allocators' rows (bench/peers-*.csv), whose case names hold the
 * operation (single_malloc, mixedu_free_cold), whose times are milliseconds, and whose threads are those of the kernel.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/mmbench.h"

#define LINE_BYTES 2048 /* comment lines are long */
#define FIELDS_MAX 24

static const char peers_fields[] = "allocator,case,size,threads,median_ms,min_ms,max_ms,failed_count";

/* Splits a line at its commas. Returns the number of fields, which is more than FIELDS_MAX if there is no room. */
static unsigned split(char *line, char **fields) {
    unsigned n = 0;
    for (char *at = line; at; n++) {
        char *comma = strchr(at, ',');
        if (comma) *comma = '\0';
        if (n < FIELDS_MAX) fields[n] = at;
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static bool try_value(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end;
}

static bool try_integer(const char *text, unsigned long long *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0;
}

static bool copy(char *to, size_t bytes, const char *from) { return (size_t)snprintf(to, bytes, "%s", from) < bytes; }

/* allocator,case,size,threads,op,unit,median,min,max,runs,floor,ratio,null_count,corrupt_count,checked,status */
static bool read_own(struct mm_bench_result *r, char **f) {
    unsigned long long size, threads, runs, nulls = 0, corrupt = 0;
    r->row.status = mm_bench_status_find(f[15]);
    r->row.told = f[6][0] != '\0';
    r->row.floor = -1;
    if (!try_integer(f[2], &size) || !try_integer(f[3], &threads) || !try_integer(f[9], &runs)) return false;
    if (r->row.told && (!try_value(f[6], &r->row.median) || !try_value(f[7], &r->row.min) || !try_value(f[8], &r->row.max))) return false;
    if (f[10][0] && !try_value(f[10], &r->row.floor_value)) return false;
    if ((f[12][0] && !try_integer(f[12], &nulls)) || (f[13][0] && !try_integer(f[13], &corrupt))) return false;
    r->size = size;
    r->threads = (uint32_t)threads;
    r->row.runs = (unsigned)runs;
    r->row.nulls = nulls;
    r->row.corrupt = corrupt;
    return r->row.status != MM_BENCH_PENDING && copy(r->allocator, sizeof r->allocator, f[0]) && copy(r->of, sizeof r->of, f[1]) &&
           copy(r->op, sizeof r->op, f[4]) && copy(r->unit, sizeof r->unit, f[5]) && copy(r->row.checked, sizeof r->row.checked, f[14]);
}

/* Our names for a published row: case, operation and unit. False: mmbench has no such row. */
static bool rename_case(struct mm_bench_result *r, const char *name) {
    static const char *const ops[] = {"_malloc", "_free"}, *const whole[][3] = {{"churn", "churn", "us"},
                                                                                {"frag", "span", "ratio"},
                                                                                {"util", "share", "share"},
                                                                                {"init", "allocating", "ms"}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(name, whole[i][0]))
            return copy(r->of, sizeof r->of, name) && copy(r->op, sizeof r->op, whole[i][1]) && copy(r->unit, sizeof r->unit, whole[i][2]);
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(name, ops[i]);
        if (!at) continue;
        strcpy(r->unit, "us");
        return snprintf(r->of, sizeof r->of, "%.*s%s", (int)(at - name), name, at + strlen(ops[i])) < (int)sizeof r->of &&
               copy(r->op, sizeof r->op, ops[i] + 1);
    }
    return false;
}

/* A row that mmbench does not have is left out: *is_known is false then. */
static bool read_peer(struct mm_bench_result *r, char **f, bool *is_known) {
    unsigned long long size, threads;
    *is_known = rename_case(r, f[1]);
    if (!*is_known) return true;
    if (!try_integer(f[2], &size) || !try_integer(f[3], &threads)) return false;
    if (!try_value(f[4], &r->row.median) || !try_value(f[5], &r->row.min) || !try_value(f[6], &r->row.max)) return false;
    const double unit = !strcmp(r->unit, "us") ? 1e3 : 1;
    r->size = size;
    r->threads = (uint32_t)(!strcmp(r->of, "warp") ? threads / 32 : threads);
    r->row.median *= unit;
    r->row.min *= unit;
    r->row.max *= unit;
    r->row.floor = -1;
    if (isnan(r->row.min) || isnan(r->row.max)) r->row.min = r->row.max = r->row.median;
    r->row.told = !strcmp(f[7], "0") || (!strcmp(r->of, "util") && f[7][0] != '-'); /* util ends with a NULL */
    r->row.status = r->row.told ? MM_BENCH_OK : MM_BENCH_CRASH;
    return copy(r->allocator, sizeof r->allocator, !strcmp(f[0], "cuda") ? "builtin" : f[0]);
}

static struct mm_bench_result *more(struct mm_bench_results *all) {
    if (all->count == all->room) {
        all->room = all->room ? all->room * 2 : 1024;
        all->all = (struct mm_bench_result *)realloc(all->all, all->room * sizeof *all->all);
        if (!all->all) abort();
    }
    memset(&all->all[all->count], 0, sizeof *all->all);
    return &all->all[all->count];
}

static void read_comment(struct mm_bench_results *all, const char *line) {
    static const struct {
        const char *begin;
        size_t at, bytes;
    } known[] = {{"# GPU: ", offsetof(struct mm_bench_results, gpu), sizeof all->gpu},
                 {"# driver: ", offsetof(struct mm_bench_results, driver), sizeof all->driver},
                 {"# mm: ", offsetof(struct mm_bench_results, commit), sizeof all->commit},
                 {"# options: ", offsetof(struct mm_bench_results, settings), sizeof all->settings}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(line, known[i].begin, strlen(known[i].begin))) snprintf((char *)all + known[i].at, known[i].bytes, "%s", line + strlen(known[i].begin));
}

/* Reads one line of a file. Returns what was expected, or NULL. */
static const char *read_line(struct mm_bench_results *all, char *line, int *is_own) {
    char *fields[FIELDS_MAX];
    bool is_known = true;
    if (line[0] == '#') read_comment(all, line);
    if (line[0] == '#' || !line[0]) return NULL;
    if (*is_own < 0) {
        *is_own = !strcmp(line, mm_bench_csv_fields) ? 1 : !strcmp(line, peers_fields) ? 0 : -1;
        return *is_own < 0 ? "the fields of a file of mmbench --csv" : NULL;
    }
    const unsigned n = split(line, fields);
    if (n != (*is_own ? 16u : 8u)) return "as many fields as its first line names";
    struct mm_bench_result *r = more(all);
    if (!(*is_own ? read_own(r, fields) : read_peer(r, fields, &is_known))) return "a row of mmbench --csv";
    all->count += is_known;
    return NULL;
}

bool mm_bench_results_read(struct mm_bench_results *all, const char *option, const char *path) {
    char line[LINE_BYTES];
    const char *expected = NULL;
    unsigned number = 0;
    int is_own = -1;
    FILE *from = fopen(path, "r");
    if (!from) {
        fprintf(stderr, "mmbench: %s: \"%s\" cannot be read: %s\n", option, path, strerror(errno));
        return false;
    }
    while (!expected && fgets(line, sizeof line, from)) {
        line[strcspn(line, "\n")] = '\0';
        number++;
        expected = read_line(all, line, &is_own);
    }
    fclose(from);
    if (!expected && is_own < 0) expected = "a file of mmbench --csv";
    if (expected) fprintf(stderr, "mmbench: %s: %s:%u: expected %s\n", option, path, number, expected);
    return !expected;
}

const struct mm_bench_result *mm_bench_result_next(const struct mm_bench_results *all, const struct mm_bench_result *after, const struct mm_bench_key *k) {
    for (const struct mm_bench_result *r = after ? after + 1 : all->all; r && r < all->all + all->count; r++)
        if ((!k->allocator || !strcmp(r->allocator, k->allocator)) && !strcmp(r->of, k->of) && !strcmp(r->op, k->op) && r->size >= k->size_least &&
            r->size <= k->size_most && (!k->threads || r->threads == k->threads))
            return r;
    return NULL;
}

bool mm_bench_result_is_fine(const struct mm_bench_result *r) { return r->row.status == MM_BENCH_OK && r->row.told; }

/* The row of an operation, or NULL. */
static const struct mm_bench_result *row_of(const struct mm_bench_results *all, int allocator, const struct mm_bench_item *item, size_t op) {
    const struct mm_bench_key key = {
        mm_bench_allocator_names[allocator], item->of->name, item->of->ops[op].name, mm_bench_op_size(item, op), mm_bench_op_size(item, op),
        mm_bench_op_threads(item, op)};
    return mm_bench_result_next(all, NULL, &key);
}

void mm_bench_results_use(const struct mm_bench_results *all, struct mm_bench_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) {
            const size_t ops = mm_bench_op_count(items[i].of);
            bool is_whole = true;
            for (size_t op = 0; op < ops; op++) is_whole = is_whole && row_of(all, a, &items[i], op);
            for (size_t op = 0; op < ops && is_whole; op++) {
                items[i].rows[a][op] = row_of(all, a, &items[i], op)->row;
                items[i].rows[a][op].is_old = true;
            }
        }
}
