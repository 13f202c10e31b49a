/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Output of mmbench: the table, the CSV file, and the progress line. */
#define _GNU_SOURCE /* gmtime_r, isatty */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/mmbench/mmbench.h"

#define CELL 128 /* bytes of text in a cell of the table; the column is as wide as it needs to be */
#define TEXT 96

double mm_bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *mm_bench_size_text(uint64_t bytes, char *text) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    while (unit < 4 && bytes >= (unit ? 1024 : 8192) && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

uint64_t mm_bench_op_size(const struct mm_bench_item *item, size_t op) { return item->size >> item->of->size_shifts[op]; }
uint32_t mm_bench_op_threads(const struct mm_bench_item *item, size_t op) { return item->threads >> item->of->threads_shifts[op]; }

/* ---- progress --------------------------------------------------------------------------------- */

static struct {
    size_t total, done;
    double began; /* when the item began */
    bool terminal;
    char what[TEXT];
} progress;

static void show(void) {
    if (progress.terminal) fprintf(stderr, "\r\033[K[%zu/%zu] %s %.0f s", progress.done + 1, progress.total, progress.what, mm_bench_now() - progress.began);
}

void mm_bench_progress_total(size_t items) {
    progress.total = items;
    progress.terminal = isatty(STDERR_FILENO);
}

void mm_bench_progress(enum mm_bench_allocator allocator, const struct mm_bench_item *item) {
    char size[32];
    progress.began = mm_bench_now();
    snprintf(progress.what, sizeof progress.what, "%s %s %s, %u threads:", mm_bench_allocator_names[allocator], item->of->name,
             mm_bench_size_text(item->size, size), item->threads);
    show();
}

void mm_bench_progress_tick(void) {
    if (progress.total) show();
}

void mm_bench_progress_end(enum mm_bench_allocator allocator, const struct mm_bench_item *item, enum mm_bench_status status, const char *remark) {
    const bool told = status != MM_BENCH_OK && status != MM_BENCH_SKIPPED && status != MM_BENCH_TOO_LARGE;
    (void)allocator;
    (void)item;
    progress.done++;
    if (progress.terminal) fprintf(stderr, "\r\033[K");
    if (told || !progress.terminal)
        fprintf(stderr, "[%zu/%zu] %s %s%s%s\n", progress.done, progress.total, progress.what, mm_bench_status_names[status], told && remark[0] ? ": " : "",
                told ? remark : "");
}

/* ---- the table -------------------------------------------------------------------------------- */

static const char *number_text(double value, char *text) {
    const int digits = value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
    snprintf(text, 32, "%.*f", digits, value);
    return text;
}

/* "92.1 [85.0..120]", or what went wrong. */
static void cell(const struct mm_bench_row *row, char *text) {
    char median[32], least[32], most[32];
    text[0] = '\0';
    if (row->told && row->runs > 1)
        snprintf(text, CELL, "%s [%s..%s]", number_text(row->median, median), number_text(row->min, least), number_text(row->max, most));
    else if (row->told) snprintf(text, CELL, "%s", number_text(row->median, median));
    const size_t n = strlen(text);
    if (row->status == MM_BENCH_NULLS) snprintf(text + n, CELL - n, "%s%llu NULL", n ? ", " : "", (unsigned long long)row->nulls);
    else if (row->status == MM_BENCH_CORRUPT) snprintf(text + n, CELL - n, "%s%llu CORRUPT", n ? ", " : "", (unsigned long long)row->corrupt);
    else if (row->status != MM_BENCH_OK)
        snprintf(text, CELL, "%s",
                 row->status == MM_BENCH_TOO_LARGE ? "too large"
                 : row->status == MM_BENCH_PENDING ? "not reached"
                                                   : mm_bench_status_names[row->status]);
}

static void ratio_text(const struct mm_bench_row *row, char *text) {
    if (row->told && row->floor_value > 0) snprintf(text, 32, "%.1f", row->median / row->floor_value);
    else strcpy(text, "-");
}

void mm_bench_table_head(FILE *to, const struct mm_bench_machine *m) {
    fprintf(to, "%s, driver %s, CUDA %s, mm %s\n", m->gpu, m->driver, m->toolkit, MM_BENCH_COMMIT);
    fprintf(to, "Median [least..most]; x floor: over what the hardware needs for the least an allocator could do.\n");
}

static bool any(const struct mm_bench_item *item, const struct mm_bench_options *o, size_t op) {
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
        if (o->allocators[a] && item->rows[a][op].status != MM_BENCH_PENDING) return true;
    return false;
}

/* The least (of a share: the greatest) of the published rows for an operation. NULL: there is none. */
static const struct mm_bench_result *best_published(const struct mm_bench_results *others, const struct mm_bench_item *item, size_t op) {
    const char *of = item->of->name;
    const bool any_threads = !strcmp(of, "util") || !strcmp(of, "init"); /* their number is not part of what is measured */
    const struct mm_bench_key key = {
        NULL, of, item->of->ops[op].name, mm_bench_op_size(item, op), mm_bench_op_size(item, op), any_threads ? 0 : mm_bench_op_threads(item, op)};
    const struct mm_bench_result *best = NULL;
    for (const struct mm_bench_result *r = NULL; (r = mm_bench_result_next(others, r, &key)) != NULL;) {
        if (mm_bench_is_allocator(r->allocator) || !mm_bench_result_is_fine(r) || strcmp(r->unit, item->of->ops[op].unit) != 0) continue;
        if (!best || (!strcmp(r->unit, "share") ? r->row.median > best->row.median : r->row.median < best->row.median)) best = r;
    }
    return best;
}

static void show_published(FILE *to, const struct mm_bench_result *best, const struct mm_bench_row *mm) {
    char text[32];
    if (!best) return;
    fprintf(to, "  %10s", number_text(best->row.median, text));
    if (mm->told && best->row.median > 0) fprintf(to, " %9s", number_text(mm->median / best->row.median, text));
    else fprintf(to, " %9s", "-");
    fprintf(to, "  %s", best->allocator);
}

void mm_bench_table(FILE *to, const struct mm_bench_options *o, const struct mm_bench_item *items, size_t count) {
    char size[32], text[CELL], ratio[32];
    bool shown[MM_BENCH_ALLOCATORS];
    if (count == 0) return;
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) shown[a] = o->allocators[a] && mm_bench_measures(items[0].of, (enum mm_bench_allocator)a);
    const bool both = shown[MM_BENCH_MM] && shown[MM_BENCH_BUILTIN];
    fprintf(to, "\n%s: %s\n%10s %9s  %-18s %-6s", items[0].of->name, items[0].of->about, "size", "threads", "", "unit");
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
        if (shown[a]) fprintf(to, "  %26s %8s", mm_bench_allocator_names[a], "x floor");
    fprintf(to, "%s%s\n", both ? "  builtin/mm" : "", o->others.count ? "   published mm/publ." : "");
    for (size_t i = 0; i < count; i++)
        for (size_t op = 0; op < mm_bench_op_count(items[i].of); op++) {
            if (!any(&items[i], o, op)) continue;
            const struct mm_bench_row *mm = &items[i].rows[MM_BENCH_MM][op];
            const struct mm_bench_row *cuda = &items[i].rows[MM_BENCH_BUILTIN][op];
            fprintf(to, "%10s %9u  %-18s %-6s", mm_bench_size_text(mm_bench_op_size(&items[i], op), size), mm_bench_op_threads(&items[i], op),
                    items[i].of->ops[op].name, items[i].of->ops[op].unit);
            for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) {
                if (!shown[a]) continue;
                cell(&items[i].rows[a][op], text);
                ratio_text(&items[i].rows[a][op], ratio);
                fprintf(to, "  %26s %8s", text, ratio);
            }
            const struct mm_bench_result *best = best_published(&o->others, &items[i], op);
            if (both && mm->told && cuda->told && mm->median > 0) fprintf(to, "  %10s", number_text(cuda->median / mm->median, text));
            else if (both && best) fprintf(to, "  %10s", "-");
            show_published(to, best, mm);
            fprintf(to, "\n");
        }
    fflush(to);
}

/* ---- CSV -------------------------------------------------------------------------------------- */

const char mm_bench_csv_fields[] = "allocator,case,size,threads,op,unit,median,min,max,runs,floor,ratio,null_count,corrupt_count,checked,status";

void mm_bench_csv_head(FILE *to, const struct mm_bench_options *o, const struct mm_bench_machine *m) {
    char date[32], settings[64];
    const time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
    fprintf(to, "# mmbench, %s UTC\n# GPU: %s\n# driver: %s (CUDA %s)\n# CUDA toolkit: %s\n# mm: %s\n# options: %s\n", date, m->gpu, m->driver, m->cuda,
            m->toolkit, MM_BENCH_COMMIT, mm_bench_settings(o, settings));
    fprintf(to, "# floor: what the hardware needs, in the row's unit, same process; of malloc: load a block pointer,"
                " one atomic per warp; of free: one atomic per warp on a bitmap; of latency: one atomic."
                " ratio: median/floor.\n");
    fprintf(to, "# status: ok; null, corrupt (no time is told); crash, hung, skipped after a failure of the series,"
                " toolarge: no result.\n");
    fprintf(to, "%s\n", mm_bench_csv_fields);
}

void mm_bench_csv_rows(FILE *to, enum mm_bench_allocator allocator, const struct mm_bench_item *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t op = 0; op < mm_bench_op_count(items[i].of); op++) {
            const struct mm_bench_row *row = &items[i].rows[allocator][op];
            if (row->status == MM_BENCH_PENDING || row->is_old) continue;
            fprintf(to, "%s,%s,%llu,%u,%s,%s,", mm_bench_allocator_names[allocator], items[i].of->name, (unsigned long long)mm_bench_op_size(&items[i], op),
                    mm_bench_op_threads(&items[i], op), items[i].of->ops[op].name, items[i].of->ops[op].unit);
            if (row->told) fprintf(to, "%.6g,%.6g,%.6g,%u,", row->median, row->min, row->max, row->runs);
            else fprintf(to, ",,,0,");
            if (row->told && row->floor_value > 0) fprintf(to, "%.6g,%.4g,", row->floor_value, row->median / row->floor_value);
            else fprintf(to, ",,");
            if (row->status <= MM_BENCH_CORRUPT) fprintf(to, "%llu,%llu,", (unsigned long long)row->nulls, (unsigned long long)row->corrupt);
            else fprintf(to, ",,");
            fprintf(to, "%s,%s\n", row->checked, mm_bench_status_names[row->status]);
        }
    fflush(to);
}

static bool same_floor(const struct mm_bench_floor *a, const struct mm_bench_floor *b) {
    return a->allocator == b->allocator && a->name == b->name && a->threads == b->threads && a->every_shift == b->every_shift;
}

/* Among all values with the key of `like`: the number below `value`, and the number equal to it. */
static void rank(const struct mm_bench_floors *floors, const struct mm_bench_floor *like, double value, size_t *below, size_t *equal) {
    *below = *equal = 0;
    for (size_t i = 0; i < floors->count; i++) {
        if (!same_floor(&floors->all[i], like)) continue;
        *below += floors->all[i].value < value;
        *equal += floors->all[i].value == value;
    }
}

/* The k-th smallest of these values, from 0. */
static double kth(const struct mm_bench_floors *floors, const struct mm_bench_floor *like, size_t k) {
    for (size_t i = 0; i < floors->count; i++) {
        size_t below, equal;
        if (!same_floor(&floors->all[i], like)) continue;
        rank(floors, like, floors->all[i].value, &below, &equal);
        if (below <= k && k < below + equal) return floors->all[i].value;
    }
    return 0;
}

void mm_bench_csv_floors(FILE *to, const struct mm_bench_floors *floors) {
    for (size_t i = 0; i < floors->count; i++) {
        const struct mm_bench_floor *f = &floors->all[i];
        size_t count = 0;
        bool first = true;
        for (size_t k = 0; k < floors->count; k++) {
            if (!same_floor(&floors->all[k], f)) continue;
            first = first && k >= i;
            count++;
        }
        if (!first) continue;
        fprintf(to, "%s,%s,0,%u,%s,%s,%.6g,%.6g,%.6g,%zu,,,0,0,,ok\n", mm_bench_allocator_names[f->allocator], f->every_shift ? "floor_warp" : "floor",
                f->threads, mm_bench_floor_names[f->name], !strcmp(mm_bench_floor_names[f->name], "latency") ? "cycles" : "us",
                (kth(floors, f, (count - 1) / 2) + kth(floors, f, count / 2)) / 2, kth(floors, f, 0), kth(floors, f, count - 1), count);
    }
    fflush(to);
}
