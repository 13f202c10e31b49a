/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs the items of a case with one allocator. A child serves items as long as it answers and the heap's size stays the same. If it
 * fails, its item fails, and the larger items of the series are skipped. Floors are measured when a child has started and
 * before it ends; a row's floor is the median of the floors that the same child measured.
 */
#define _GNU_SOURCE /* popen */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/mmbench.h"

#define LINE MM_BENCH_LINE_BYTES
#define OTHER_MEMORY (1ull << 30) /* memory of the GPU that is not the heap's: pointers, modules, the driver's own */

/* The outcome of a request. */
enum reply { REPLY_DONE, REPLY_HUNG, REPLY_CRASH, REPLY_INTERRUPTED };

static enum reply reply_of(enum mm_bench_said said) {
    return said == MM_BENCH_SILENT ? REPLY_HUNG : said == MM_BENCH_INTERRUPTED ? REPLY_INTERRUPTED : REPLY_CRASH;
}

static enum reply not_understood(struct mm_bench_session *s, const char *line) {
    snprintf(s->remark, sizeof s->remark, "said \"%.80s\", which is no answer", line);
    return REPLY_CRASH;
}

/* ---- identify --------------------------------------------------------------------------------- */

#define NAME 32 /* bytes of an allocator's name; "%31s" below */

static enum reply wait_ready(struct mm_bench_session *s, unsigned seconds, struct mm_bench_machine *m, char name[NAME]) {
    char line[LINE];
    double deadline = 0;
    struct mm_bench_machine heard;
    unsigned long long memory = 0;
    int gpu = 0;
    memset(&heard, 0, sizeof heard);
    const enum mm_bench_said said = mm_bench_session_read(s, line, seconds, &deadline);
    if (said != MM_BENCH_LINE) return reply_of(said);
    if (sscanf(line, "ready %31s %15s %15s %llu %n", name, heard.toolkit, heard.cuda, &memory, &gpu) != 4 || !gpu) return not_understood(s, line);
    heard.memory = memory;
    snprintf(heard.gpu, sizeof heard.gpu, "%.100s", line + gpu);
    if (m) *m = heard;
    return REPLY_DONE;
}

static enum reply identity(struct mm_bench_session *s, unsigned seconds, char *identity) {
    char line[LINE];
    double deadline = 0;
    mm_bench_session_send(s, "identify\n");
    for (;;) {
        const enum mm_bench_said said = mm_bench_session_read(s, line, seconds, &deadline);
        if (said != MM_BENCH_LINE) return reply_of(said);
        if (!strcmp(line, "done")) return REPLY_DONE;
        if (sscanf(line, "identity %15s", identity) != 1) return not_understood(s, line);
    }
}

/* The driver's version, from nvidia-smi, else from /proc. */
static void find_driver(struct mm_bench_machine *m) {
    FILE *from = popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", "r");
    char line[256] = "";
    if (from) {
        if (fscanf(from, "%63[0-9.]", m->driver) != 1) m->driver[0] = '\0';
        pclose(from);
    }
    if (!m->driver[0] && (from = fopen("/proc/driver/nvidia/version", "r")) != NULL) {
        const char *at = fgets(line, sizeof line, from) ? line : "";
        for (; *at && !strchr(m->driver, '.'); at++) /* the first word that is a number with a point */
            if (at[0] != ' ' || sscanf(at, " %63[0-9.]", m->driver) != 1) m->driver[0] = '\0';
        fclose(from);
    }
    if (!m->driver[0]) strcpy(m->driver, "unknown");
}

bool mm_bench_identify(const struct mm_bench_options *o, struct mm_bench_machine *m) {
    static const char no_gpu[] = "no GPU: "; /* the begin of a child's @fatal line */
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) {
        const char *name = mm_bench_allocator_names[a];
        char called[NAME] = "", is[16] = "nothing";
        const bool is_pool = mm_bench_is_pool((enum mm_bench_allocator)a);
        const char *const child = is_pool ? "mm" : name, *const expected = a <= MM_BENCH_BUILTIN || is_pool ? child : "sibling";
        struct mm_bench_session s;
        if (!o->allocators[a]) continue;
        if (!mm_bench_session_open(&s, (enum mm_bench_allocator)a, 256u << 20, o->timeout)) {
            fprintf(stderr, "mmbench: cannot start a process for %s\n", name);
            return false;
        }
        enum reply reply = wait_ready(&s, o->timeout, m, called);
        if (reply == REPLY_DONE) reply = identity(&s, o->timeout, is);
        mm_bench_session_close(&s, reply == REPLY_HUNG || reply == REPLY_INTERRUPTED, o->timeout);
        if (reply == REPLY_HUNG) fprintf(stderr, "mmbench: the child for %s did not answer within %u s; expected a GPU that does\n", name, o->timeout);
        else if (reply != REPLY_DONE && !strncmp(s.remark, no_gpu, strlen(no_gpu))) fprintf(stderr, "mmbench: no GPU here (%s)\n", s.remark + strlen(no_gpu));
        else if (reply != REPLY_DONE) fprintf(stderr, "mmbench: the child for %s: %s; expected a GPU\n", name, s.remark[0] ? s.remark : "ended without a word");
        else if (strcmp(called, child) != 0 || strcmp(is, expected) != 0)
            fprintf(stderr, "mmbench: the child for %s is called %s, and its allocator is %s; expected %s\n", name, called, is, expected);
        else continue;
        return false;
    }
    find_driver(m);
    return true;
}

/* ---- floors ----------------------------------------------------------------------------------- */

static int floor_find(const char *name) {
    for (int i = 0; i < MM_BENCH_FLOORS; i++)
        if (!strcmp(mm_bench_floor_names[i], name)) return i;
    return -1;
}

static void floor_add(struct mm_bench_floors *floors, struct mm_bench_floor floor) {
    if (floors->count == floors->room) {
        floors->room = floors->room ? floors->room * 2 : 64;
        floors->all = (struct mm_bench_floor *)realloc(floors->all, floors->room * sizeof *floors->all);
        if (!floors->all) abort();
    }
    floors->all[floors->count++] = floor;
}

/* The median of a session's values, of which there are at most two; 0 if there is none. */
static double floor_value(const struct mm_bench_floors *floors, const struct mm_bench_floor *like) {
    double sum = 0;
    unsigned n = 0;
    for (size_t i = 0; i < floors->count; i++) {
        const struct mm_bench_floor *f = &floors->all[i];
        if (f->session == like->session && f->name == like->name && f->threads == like->threads && f->every_shift == like->every_shift) {
            sum += f->value;
            n++;
        }
    }
    return n ? sum / n : 0;
}

/* Measures floors for every number of threads among the items. */
static enum reply measure_floors(struct mm_bench_session *s, unsigned seconds, const struct mm_bench_item *items, size_t count, struct mm_bench_floor like,
                                 struct mm_bench_floors *floors) {
    char line[LINE], name[16];
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        double deadline = 0;
        for (size_t k = 0; k < i; k++) known |= items[k].threads == items[i].threads;
        if (known) continue;
        like.threads = items[i].threads;
        like.every_shift = items[i].of->every_shift;
        snprintf(line, sizeof line, "floor %u %u\n", like.threads, like.every_shift);
        mm_bench_session_send(s, line);
        for (;;) {
            const enum mm_bench_said said = mm_bench_session_read(s, line, seconds, &deadline);
            if (said != MM_BENCH_LINE) return reply_of(said);
            if (!strcmp(line, "done")) break;
            if (sscanf(line, "floor %15s %*15s %lf", name, &like.value) != 2 || (like.name = floor_find(name)) < 0) return not_understood(s, line);
            floor_add(floors, like);
        }
    }
    return REPLY_DONE;
}

/* ---- one item --------------------------------------------------------------------------------- */

/* Parses one "@row"; false if it is malformed. */
static bool read_row(const char *line, const struct mm_bench_item *item, struct mm_bench_row *rows) {
    char op[32], unit[16], number[3][32], floor[16], status[16];
    unsigned long long nulls, corrupt;
    unsigned runs;
    int checked = 0;
    if (sscanf(line, "row %31s %15s %31s %31s %31s %u %15s %llu %llu %15s %n", op, unit, number[0], number[1], number[2], &runs, floor, &nulls, &corrupt,
               status, &checked) != 10 ||
        !checked)
        return false;
    const int i = mm_bench_op_find(item->of, op);
    if (i < 0 || strcmp(item->of->ops[i].unit, unit) != 0) return false;
    struct mm_bench_row row;
    memset(&row, 0, sizeof row);
    row.status = mm_bench_status_find(status);
    if (row.status != MM_BENCH_OK && row.status != MM_BENCH_NULLS && row.status != MM_BENCH_CORRUPT) return false;
    row.told = strcmp(number[0], "-") != 0;
    if (row.told) {
        double *values[] = {&row.median, &row.min, &row.max};
        for (int k = 0; k < 3; k++) {
            char *end;
            *values[k] = strtod(number[k], &end);
            if (end == number[k] || *end) return false;
        }
    }
    row.runs = runs;
    row.floor = floor_find(floor);
    if (row.floor < 0) row.floor_value = strtod(floor, NULL); /* its own floor; 0 for "-" */
    row.nulls = nulls;
    row.corrupt = corrupt;
    snprintf(row.checked, sizeof row.checked, "%.79s", line + checked);
    rows[i] = row;
    return true;
}

static enum reply run_item(struct mm_bench_session *s, unsigned seconds, const struct mm_bench_item *item, struct mm_bench_row *rows) {
    char line[LINE];
    double deadline = 0;
    snprintf(line, sizeof line, "run %s %llu %u %u\n", item->of->name, (unsigned long long)item->size, item->threads, item->runs);
    mm_bench_session_send(s, line);
    for (;;) {
        const enum mm_bench_said said = mm_bench_session_read(s, line, seconds, &deadline);
        if (said != MM_BENCH_LINE) return reply_of(said);
        if (!strcmp(line, "done")) return REPLY_DONE;
        if (!read_row(line, item, rows)) return not_understood(s, line);
    }
}

/* Rows without an answer get this status. */
static void mark(const struct mm_bench_item *item, struct mm_bench_row *rows, enum mm_bench_status status) {
    for (size_t i = 0; i < mm_bench_op_count(item->of); i++)
        if (rows[i].status == MM_BENCH_PENDING) {
            rows[i].status = status;
            rows[i].floor = -1;
        }
}

/* If a child fails after it sent all rows, the failure belongs to the last one: discard that. */
static void take_back_last(const struct mm_bench_item *item, struct mm_bench_row *rows) { memset(&rows[mm_bench_op_count(item->of) - 1], 0, sizeof *rows); }

/* The worst status of an item's rows. */
static enum mm_bench_status status_of(const struct mm_bench_item *item, const struct mm_bench_row *rows) {
    enum mm_bench_status worst = MM_BENCH_PENDING;
    for (size_t i = 0; i < mm_bench_op_count(item->of); i++)
        if (rows[i].status > worst) worst = rows[i].status;
    return worst;
}

/* After such a status, the larger items of the series are skipped. */
static bool has_failed(enum mm_bench_status status) { return status != MM_BENCH_OK && status != MM_BENCH_TOO_LARGE && status != MM_BENCH_SKIPPED; }

static bool larger_in_series(const struct mm_bench_item *failed, const struct mm_bench_item *item) {
    switch (item->of->series) {
    case MM_BENCH_BY_SIZE: return item->size > failed->size && item->threads >= failed->threads;
    case MM_BENCH_BY_THREADS: return item->size == failed->size && item->threads > failed->threads;
    default: return false;
    }
}

/* ---- a case ----------------------------------------------------------------------------------- */

struct runner {
    struct mm_bench_session session;
    uint64_t heap; /* of the session */
    size_t first;  /* the first item of the session */
    struct mm_bench_floor like;
};

static enum reply begin(struct runner *r, const struct mm_bench_item *items, size_t i, size_t count, unsigned seconds, struct mm_bench_floors *floors) {
    static unsigned sessions;
    char name[NAME];
    r->heap = mm_bench_heap(&items[i], r->like.allocator);
    r->first = i;
    r->like.session = ++sessions;
    if (!mm_bench_session_open(&r->session, r->like.allocator, r->heap, seconds)) return REPLY_CRASH;
    const enum reply reply = wait_ready(&r->session, seconds, NULL, name);
    if (reply != REPLY_DONE || !items[i].of->floors) return reply;
    return measure_floors(&r->session, seconds, items + i, count - i, r->like, floors);
}

/* Ends the session and sets the floors of its rows. If the child fails while it measures the last floors, only these are lost. */
static void end(struct runner *r, struct mm_bench_item *items, size_t after, size_t count, enum reply why, unsigned seconds, struct mm_bench_floors *floors) {
    if (why == REPLY_DONE && items[r->first].of->floors) why = measure_floors(&r->session, seconds, items + r->first, count - r->first, r->like, floors);
    mm_bench_session_close(&r->session, why == REPLY_HUNG || why == REPLY_INTERRUPTED, seconds);
    for (size_t i = r->first; i < after; i++)
        for (size_t k = 0; k < mm_bench_op_count(items[i].of); k++) {
            struct mm_bench_row *row = &items[i].rows[r->like.allocator][k];
            if (!row->told || row->floor < 0) continue;
            r->like.name = row->floor;
            r->like.threads = items[i].threads;
            r->like.every_shift = items[i].of->every_shift;
            row->floor_value = floor_value(floors, &r->like);
        }
}

/* A heap that grows (0) is never too large here: malloc returns NULL instead. */
static bool is_too_large(const struct mm_bench_item *item, uint64_t heap, uint64_t memory) {
    return heap != 0 && (item->asked_bytes > heap || heap + OTHER_MEMORY > memory);
}

enum mm_bench_outcome mm_bench_run(const struct mm_bench_options *o, const struct mm_bench_machine *m, enum mm_bench_allocator allocator,
                                   struct mm_bench_item *items, size_t count, struct mm_bench_floors *floors) {
    struct runner r;
    const struct mm_bench_item *failed = NULL;
    enum reply reply = REPLY_DONE;
    bool is_late = false;
    memset(&r, 0, sizeof r);
    r.like.allocator = allocator;
    for (size_t i = 0; i < count && reply != REPLY_INTERRUPTED && !is_late; i++) {
        struct mm_bench_item *item = &items[i];
        struct mm_bench_row *rows = item->rows[allocator];
        const unsigned seconds = o->timeout * (item->of->patience ? item->of->patience : 1);
        if (rows[0].is_old) {
            if (has_failed(status_of(item, rows))) failed = item;
            continue;
        }
        is_late = o->until > 0 && mm_bench_now() > o->until;
        if (is_late) break;
        if (is_too_large(item, mm_bench_heap(item, allocator), m->memory)) mark(item, rows, MM_BENCH_TOO_LARGE);
        else if (failed && larger_in_series(failed, item)) mark(item, rows, MM_BENCH_SKIPPED);
        mm_bench_progress(allocator, item);
        if (rows[0].status == MM_BENCH_PENDING) {
            if (r.session.pid && (item->of->fresh || r.heap != mm_bench_heap(item, allocator))) end(&r, items, i, count, REPLY_DONE, seconds, floors);
            reply = r.session.pid ? REPLY_DONE : begin(&r, items, i, count, seconds, floors);
            if (reply == REPLY_DONE) reply = run_item(&r.session, seconds, item, rows);
            if (reply == REPLY_INTERRUPTED) {
                memset(rows, 0, sizeof item->rows[allocator]);
                break;
            }
            if (reply != REPLY_DONE) end(&r, items, i + 1, count, reply, seconds, floors);
            if (reply != REPLY_DONE) take_back_last(item, rows);
            mark(item, rows, reply == REPLY_HUNG ? MM_BENCH_HUNG : MM_BENCH_CRASH);
            if (has_failed(status_of(item, rows))) failed = item;
        }
        mm_bench_progress_end(allocator, item, status_of(item, rows), r.session.remark);
        r.session.remark[0] = '\0';
    }
    const unsigned seconds = o->timeout;
    if (r.session.pid) end(&r, items, count, count, reply == REPLY_INTERRUPTED ? reply : REPLY_DONE, seconds, floors);
    return reply == REPLY_INTERRUPTED ? MM_BENCH_STOPPED : is_late ? MM_BENCH_LATE : MM_BENCH_DONE;
}
