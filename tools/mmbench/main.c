/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench: runs the cases in turn. */
#define _GNU_SOURCE /* ftruncate, fileno */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/mmbench/mmbench.h"

#define ITEMS_MAX (MM_BENCH_SIZES_MAX * MM_BENCH_SIZES_MAX)

static bool mm_failed(const struct mm_bench_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t op = 0; op < mm_bench_op_count(items[i].of); op++)
            for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) {
                const enum mm_bench_status status = items[i].rows[a][op].status;
                if (a != MM_BENCH_BUILTIN && status > MM_BENCH_OK && status < MM_BENCH_SKIPPED) return true;
            }
    return false;
}

/* The items of a case, with the rows of an earlier run. */
static size_t items_of(size_t c, const struct mm_bench_options *o, const struct mm_bench_results *old, struct mm_bench_item *items) {
    const size_t count = mm_bench_items(&mm_bench_cases[c], o, items, ITEMS_MAX);
    mm_bench_results_use(old, items, count);
    return count;
}

/* The items that have no rows yet, counted once for each allocator. */
static size_t items_left(const struct mm_bench_options *o, const struct mm_bench_item *items, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++)
        for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
            left += o->allocators[a] && mm_bench_measures(items[i].of, (enum mm_bench_allocator)a) && items[i].rows[a][0].status == MM_BENCH_PENDING;
    return left;
}

static int exit_status(enum mm_bench_outcome outcome, size_t left, bool failed) {
    if (outcome == MM_BENCH_STOPPED) fprintf(stderr, "mmbench: interrupted\n");
    if (outcome == MM_BENCH_LATE) fprintf(stderr, "mmbench: the minutes are over; %zu measurements are left, and --resume goes on with them\n", left);
    return outcome == MM_BENCH_STOPPED ? MM_BENCH_EXIT_SIGNAL : outcome == MM_BENCH_LATE ? MM_BENCH_EXIT_LATE : failed ? MM_BENCH_EXIT_MM_ROW : EXIT_SUCCESS;
}

static int measure(const struct mm_bench_options *o, const struct mm_bench_machine *m, const struct mm_bench_results *old, FILE *csv) {
    static struct mm_bench_item items[ITEMS_MAX];
    struct mm_bench_floors floors = {NULL, 0, 0};
    enum mm_bench_outcome outcome = MM_BENCH_DONE;
    bool failed = false;
    size_t left = 0;
    for (size_t c = 0; c < mm_bench_case_count; c++)
        if (o->cases[c]) left += items_left(o, items, items_of(c, o, old, items));
    mm_bench_progress_total(left);
    mm_bench_table_head(stdout, m);
    if (csv && old->count == 0) mm_bench_csv_head(csv, o, m);
    for (size_t c = 0; c < mm_bench_case_count && outcome == MM_BENCH_DONE; c++) {
        if (!o->cases[c] || !mm_bench_measures_any(&mm_bench_cases[c], o->allocators)) continue;
        const size_t count = items_of(c, o, old, items), before = items_left(o, items, count);
        for (int a = 0; a < MM_BENCH_ALLOCATORS && outcome == MM_BENCH_DONE; a++) {
            if (!o->allocators[a] || !mm_bench_measures(&mm_bench_cases[c], (enum mm_bench_allocator)a)) continue;
            outcome = mm_bench_run(o, m, (enum mm_bench_allocator)a, items, count, &floors);
            if (csv) mm_bench_csv_rows(csv, (enum mm_bench_allocator)a, items, count);
        }
        mm_bench_table(stdout, o, items, count);
        left -= before - items_left(o, items, count);
        failed = failed || mm_failed(items, count);
    }
    if (csv) mm_bench_csv_floors(csv, &floors);
    free(floors.all);
    return exit_status(outcome, left, failed);
}

/* With --resume: reads what the file holds already, if there is such a file. False: one line was written to stderr. */
static bool read_old(const struct mm_bench_options *o, struct mm_bench_results *old) {
    struct stat file;
    const bool has_rows = o->resume && stat(o->csv, &file) == 0 && file.st_size > 0;
    return !has_rows || mm_bench_results_read(old, "--resume", o->csv);
}

/* Whether old rows are of this machine, this commit and these options. False: one line about the first difference was written to stderr. */
static bool is_same_run(const struct mm_bench_options *o, const struct mm_bench_results *old, const struct mm_bench_machine *m) {
    char driver[sizeof old->driver], settings[64];
    snprintf(driver, sizeof driver, "%s (CUDA %s)", m->driver, m->cuda);
    const struct {
        const char *what, *is, *expected;
    } parts[] = {{"GPU", old->gpu, m->gpu},
                 {"driver", old->driver, driver},
                 {"commit of mm", old->commit, MM_BENCH_COMMIT},
                 {"options", old->settings, mm_bench_settings(o, settings)}};
    for (size_t i = 0; old->count != 0 && i < sizeof parts / sizeof *parts; i++) {
        if (!strcmp(parts[i].is, parts[i].expected)) continue;
        fprintf(stderr, "mmbench: --resume: %s of \"%s\": %s; expected %s\n", parts[i].what, o->csv, parts[i].is[0] ? parts[i].is : "unknown",
                parts[i].expected);
        return false;
    }
    return true;
}

/* Opens without truncating: the old contents are deleted only when there are results to write. */
static FILE *open_csv(const char *path) {
    FILE *csv = fopen(path, "a");
    if (!csv) fprintf(stderr, "mmbench: --csv: \"%s\" cannot be written: %s\n", path, strerror(errno));
    return csv;
}

static int close_csv(FILE *csv, const char *path, int status) {
    const bool failed = ferror(csv) != 0;
    if (fclose(csv) == 0 && !failed) return status;
    fprintf(stderr, "mmbench: --csv: \"%s\" could not be written: %s\n", path, strerror(errno));
    return MM_BENCH_EXIT_FAILED;
}

int main(int argc, char **argv) {
    struct mm_bench_options o;
    struct mm_bench_machine machine;
    struct mm_bench_results old;
    FILE *csv = NULL;
    int status = mm_bench_parse(argc, argv, &o);
    if (status >= 0) return status;
    if (o.replay) return mm_bench_replay(&o);
    memset(&machine, 0, sizeof machine);
    memset(&old, 0, sizeof old);
    if (!read_old(&o, &old) || (o.csv && !(csv = open_csv(o.csv)))) return MM_BENCH_EXIT_USAGE;
    mm_bench_catch_signals();
    if (!mm_bench_find_children(o.allocators) || !mm_bench_identify(&o, &machine)) {
        status = MM_BENCH_EXIT_FAILED;
    } else if (!is_same_run(&o, &old, &machine)) {
        status = MM_BENCH_EXIT_USAGE;
    } else {
        /* This fails for a device or a pipe, which hold no old contents. */
        if (csv && old.count == 0 && ftruncate(fileno(csv), 0) != 0) errno = 0;
        status = measure(&o, &machine, &old, csv);
    }
    free(old.all);
    free(o.others.all);
    return csv ? close_csv(csv, o.csv, status) : status;
}
