/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* CSV files whose rows pictures can have. Their comment lines are read, too: GPU, driver, date, notes. */
#define _GNU_SOURCE /* getline */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/plot.h"

#define FIELDS_MAX 24
#define PEERS_BUILTIN "cuda" /* what the measurements of published allocators call CUDA's own */
#define US_PER_MS 1000
#define US_LEAST 1e-6 /* what is beyond these is no time, and no axis need hold it */
#define US_MOST 1e15

enum field { ALLOCATOR, CASE, SIZE, THREADS, OP, UNIT, MEDIAN, MIN, MAX, STATUS, FIELDS };

/* A file's format is known by the line that names its fields. */
struct format {
    const char *line;
    const char *fields[FIELDS]; /* NULL: it has none */
};
static const struct format own = {
    mm_bench_csv_fields,
    {"allocator", "case", "size", "threads", "op", "unit", "median", "min", "max", "status"},
};
static const struct format peers = {
    "allocator,case,size,threads,median_ms,min_ms,max_ms,failed_count",
    {"allocator", "case", "size", "threads", NULL, NULL, "median_ms", "min_ms", "max_ms", "failed_count"},
};

struct reader {
    const char *path;
    size_t line; /* its number */
    const struct format *format;
    size_t columns, column[FIELDS];
    struct mm_bench_rows *rows;
};

/* ---- lists ------------------------------------------------------------------------------------ */

/* Room for one more. */
static void *grown(void *all, size_t count, size_t *room, size_t each) {
    if (count < *room) return all;
    *room = *room ? *room * 2 : 64;
    all = realloc(all, *room * each);
    if (!all) abort();
    return all;
}
/* A new last one of a list. */
#define MORE(type, list, count, room) \
    (list = (type *)grown(list, count, &(room), sizeof *(list)), &(list)[(count)++])

static size_t name_index(struct mm_bench_rows *rows, const char *name) {
    for (size_t i = 0; i < rows->name_count; i++)
        if (!strcmp(rows->names[i], name)) return i;
    rows->names =
        (char(*)[MM_BENCH_NAME_BYTES])grown(rows->names, rows->name_count, &rows->name_room, sizeof *rows->names);
    snprintf(rows->names[rows->name_count], sizeof *rows->names, "%s", name);
    return rows->name_count++;
}

void mm_bench_rows_begin(struct mm_bench_rows *rows) {
    memset(rows, 0, sizeof *rows);
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) name_index(rows, mm_bench_allocator_names[a]);
}

void mm_bench_rows_end(struct mm_bench_rows *rows) {
    free(rows->times);
    free(rows->names);
    free(rows->notes);
    free(rows->sources);
}

/* ---- one row ---------------------------------------------------------------------------------- */

static bool wrong(const struct reader *r, enum field field, const char *value, const char *expected) {
    fprintf(stderr, "mmbench: %s:%zu: %s: \"%s\"; expected %s\n", r->path, r->line, r->format->fields[field], value,
            expected);
    return false;
}

static bool read_count(const struct reader *r, enum field field, const char *text, uint64_t *count) {
    char *end;
    errno = 0;
    *count = strtoull(text, &end, 10);
    return (text[0] >= '0' && text[0] <= '9' && !*end && errno == 0) || wrong(r, field, text, "a number");
}

/* Nothing is NAN, too. */
static bool read_value(const struct reader *r, enum field field, const char *text, double *value) {
    char *end;
    *value = *text ? strtod(text, &end) : NAN;
    if (!*text || (end != text && !*end && !isinf(*value) && !(*value < 0))) return true;
    return wrong(r, field, text, "a number that is not negative");
}

/* The peers' count: NULLs and corrupted ones together, or why there is no time. */
static bool read_failed_count(const struct reader *r, const char *text, enum mm_bench_status *status) {
    static const enum mm_bench_status codes[] = {MM_BENCH_OK, MM_BENCH_HUNG, MM_BENCH_CRASH, MM_BENCH_SKIPPED,
                                                 MM_BENCH_TOO_LARGE};
    const long long most = sizeof codes / sizeof *codes;
    char *end;
    errno = 0;
    const long long count = strtoll(text, &end, 10);
    if (end == text || *end || errno || count <= -most) return wrong(r, STATUS, text, "a number from -4");
    *status = count > 0 ? MM_BENCH_NULLS : codes[-count];
    return true;
}

/* The peers write both in one: single_malloc. */
static bool means(const struct mm_bench_case *c, int op, const char *name) {
    const size_t n = strlen(c->name);
    return !strncmp(name, c->name, n) && name[n] == '_' && !strcmp(name + n + 1, c->ops[op].name);
}

/* Rows of other cases, such as floors, are not for pictures: of is NULL then. */
static void find_case(char *const *fields, struct mm_bench_time *t) {
    for (size_t i = 0; i < mm_bench_case_count && !t->of; i++) {
        const struct mm_bench_case *c = &mm_bench_cases[i];
        for (int op = 0; op < (int)mm_bench_op_count(c) && !t->of; op++) {
            if (fields[OP] ? strcmp(c->name, fields[CASE]) != 0 || strcmp(c->ops[op].name, fields[OP]) != 0
                           : !means(c, op, fields[CASE]))
                continue;
            t->of = c;
            t->op = op;
        }
    }
}

static bool is_time(double us) { return us >= US_LEAST && us <= US_MOST; }

static bool in_order(const struct mm_bench_time *t) { return !(t->min > t->median) && !(t->median > t->max); }

static bool read_row(struct reader *r, char *const *fields) {
    struct mm_bench_time t;
    const char *name = fields[ALLOCATOR];
    memset(&t, 0, sizeof t);
    if (!*name || strlen(name) >= MM_BENCH_NAME_BYTES)
        return wrong(r, ALLOCATOR, name, "a name of 31 characters at most");
    if (!read_count(r, SIZE, fields[SIZE], &t.size) || !read_count(r, THREADS, fields[THREADS], &t.threads))
        return false;
    if (r->format == &peers) {
        if (!read_failed_count(r, fields[STATUS], &t.status)) return false;
        if (!strcmp(name, PEERS_BUILTIN)) name = mm_bench_allocator_names[MM_BENCH_BUILTIN];
    } else {
        t.status = mm_bench_status_find(fields[STATUS]);
        if (t.status == MM_BENCH_PENDING)
            return wrong(r, STATUS, fields[STATUS], "ok, null, crash, hung or the like");
    }
    if (!read_value(r, MEDIAN, fields[MEDIAN], &t.median) || !read_value(r, MIN, fields[MIN], &t.min) ||
        !read_value(r, MAX, fields[MAX], &t.max))
        return false;
    if (t.status == MM_BENCH_OK && isnan(t.median))
        return wrong(r, MEDIAN, fields[MEDIAN], "a number where nothing failed");
    if (!in_order(&t)) return wrong(r, MEDIAN, fields[MEDIAN], "one between the least and the most");
    find_case(fields, &t);
    if (!t.of || strcmp(t.of->ops[t.op].unit, "us") != 0) return true;
    if (fields[UNIT] && strcmp(fields[UNIT], "us") != 0) return wrong(r, UNIT, fields[UNIT], "us");
    if (t.size == 0) return wrong(r, SIZE, fields[SIZE], "a number above 0");
    if (t.threads == 0) return wrong(r, THREADS, fields[THREADS], "a number above 0");
    if (r->format == &peers) {
        t.median *= US_PER_MS;
        t.min *= US_PER_MS;
        t.max *= US_PER_MS;
    }
    if (t.status == MM_BENCH_OK && !is_time(t.median)) return wrong(r, MEDIAN, fields[MEDIAN], "a time");
    if (!is_time(t.min)) t.min = NAN;
    if (!is_time(t.max)) t.max = NAN;
    t.name = name_index(r->rows, name);
    *MORE(struct mm_bench_time, r->rows->times, r->rows->time_count, r->rows->time_room) = t;
    return true;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* What follows `key` in a comment, or NULL. */
static const char *after(const char *line, const char *key) {
    const size_t n = strlen(key);
    return strncmp(line, key, n) == 0 ? line + n : NULL;
}

/* "..., 2026-11-23 ...": the first line of a file. */
static void read_date(const char *line, struct mm_bench_source *s) {
    static const char form[] = ", 0000-00-00";
    for (const char *at = line; *at; at++) {
        size_t n = 0;
        while (form[n] && (form[n] == '0' ? at[n] >= '0' && at[n] <= '9' : at[n] == form[n])) n++;
        if (form[n]) continue;
        snprintf(s->date, sizeof s->date, "%.*s", (int)n - 2, at + 2);
        return;
    }
}

static void read_comment(struct reader *r, const char *line, struct mm_bench_source *s) {
    const char *text, *colon;
    if ((text = after(line, "# GPU: "))) snprintf(s->gpu, sizeof s->gpu, "%s", text);
    if ((text = after(line, "# driver: "))) snprintf(s->driver, sizeof s->driver, "%s", text);
    if (r->line == 1) read_date(line, s);
    if (!(text = after(line, "# note: ")) || !(colon = strstr(text, ": "))) return;
    struct mm_bench_note *note = MORE(struct mm_bench_note, r->rows->notes, r->rows->note_count, r->rows->note_room);
    snprintf(note->pattern, sizeof note->pattern, "%.*s", (int)(colon - text), text);
    snprintf(note->text, sizeof note->text, "%s", colon + 2);
}

static size_t count_fields(const char *line) {
    size_t n = 1;
    for (; *line; line++) n += *line == ',';
    return n;
}

/* The column of that name in the line that names them. */
static size_t column_of(const char *line, const char *name) {
    const size_t length = strlen(name);
    for (size_t i = 0;; i++) {
        const size_t n = strcspn(line, ",");
        if (n == length && !strncmp(line, name, n)) return i;
        line += n + 1;
    }
}

static bool read_fields(struct reader *r, const char *line) {
    r->format = !strcmp(line, own.line) ? &own : !strcmp(line, peers.line) ? &peers : NULL;
    if (!r->format) {
        fprintf(stderr, "mmbench: %s:%zu: \"%.60s\" names no fields that it knows; expected %s or %s\n", r->path,
                r->line, line, own.line, peers.line);
        return false;
    }
    r->columns = count_fields(line);
    for (int f = 0; f < FIELDS; f++)
        if (r->format->fields[f]) r->column[f] = column_of(line, r->format->fields[f]);
    return true;
}

static bool split(struct reader *r, char *line) {
    char *columns[FIELDS_MAX], *fields[FIELDS];
    const size_t n = count_fields(line);
    if (n != r->columns) {
        fprintf(stderr, "mmbench: %s:%zu: %zu fields; expected %zu\n", r->path, r->line, n, r->columns);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        columns[i] = line;
        line += strcspn(line, ",");
        *line++ = '\0';
    }
    for (int f = 0; f < FIELDS; f++) fields[f] = r->format->fields[f] ? columns[r->column[f]] : NULL;
    return read_row(r, fields);
}

/* Without its end; what is not plain ASCII is shown as "?", in pictures and in errors. */
static void make_plain(char *line, size_t length) {
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (line[i] < ' ' || line[i] > '~') line[i] = '?';
}

static bool read_lines(struct reader *r, FILE *from) {
    struct mm_bench_source *source =
        MORE(struct mm_bench_source, r->rows->sources, r->rows->source_count, r->rows->source_room);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    bool fine = true;
    memset(source, 0, sizeof *source);
    while (fine && (n = getline(&line, &room, from)) > 0) {
        r->line++;
        make_plain(line, (size_t)n);
        if (line[0] == '#')
            read_comment(r, line, source);
        else if (line[0])
            fine = r->format ? split(r, line) : read_fields(r, line);
    }
    free(line);
    return fine;
}

bool mm_bench_rows_read(struct mm_bench_rows *rows, const char *path) {
    struct reader r;
    memset(&r, 0, sizeof r);
    r.path = path;
    r.rows = rows;
    FILE *from = fopen(path, "r");
    bool fine = from && read_lines(&r, from);
    if (!from || ferror(from)) {
        fprintf(stderr, "mmbench: --plot: \"%s\" cannot be read: %s\n", path, strerror(errno));
        fine = false;
    } else if (fine && !r.format) {
        fprintf(stderr, "mmbench: --plot: \"%s\" has no rows; expected a file of mmbench --csv\n", path);
        fine = false;
    }
    if (from) fclose(from);
    return fine;
}
