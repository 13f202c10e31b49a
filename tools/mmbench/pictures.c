/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which pictures there are; their files. */
#define _GNU_SOURCE /* mkstemp, fchmod */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/mmbench/plot.h"

#define USUAL_SIZE 64 /* bytes, of what grows with the threads */
#define PATH_BYTES 4096

static const struct {
    const char *file, *of, *op;
} pictures[] = {
    {"malloc-size.svg", "single", "malloc"},     {"free-size.svg", "single", "free"},
    {"malloc-mixed.svg", "mixed", "malloc"},     {"free-mixed.svg", "mixed", "free"},
    {"malloc-threads.svg", "scaling", "malloc"}, {"free-threads.svg", "scaling", "free"},
};
#define PICTURES (sizeof pictures / sizeof *pictures)

/* ---- what stands in one ----------------------------------------------------------------------- */

uint64_t mm_bench_x(const struct mm_bench_picture *p, const struct mm_bench_time *t) {
    return p->by_threads ? t->threads : t->size;
}

static const struct mm_bench_picture *sorted; /* qsort has no place for it */

/* By allocator, by x, and as the files were given. */
static int order(const void *a, const void *b) {
    const struct mm_bench_time *l = *(const struct mm_bench_time *const *)a;
    const struct mm_bench_time *r = *(const struct mm_bench_time *const *)b;
    const uint64_t x = mm_bench_x(sorted, l), y = mm_bench_x(sorted, r);
    if (l->name != r->name) return l->name < r->name ? -1 : 1;
    if (x != y) return x < y ? -1 : 1;
    return l < r ? -1 : l > r;
}

static bool belongs(const struct mm_bench_picture *p, const struct mm_bench_time *t) {
    return t->of == p->of && t->op == p->op && (p->by_threads ? t->size : t->threads) == p->fixed;
}

/* The picture's times, sorted; of two at the same place the first stands. Returns their number. */
static size_t gather(const struct mm_bench_picture *p, const struct mm_bench_time **times) {
    size_t all = 0, count = 0;
    for (size_t i = 0; i < p->rows->time_count; i++)
        if (belongs(p, &p->rows->times[i])) times[all++] = &p->rows->times[i];
    sorted = p;
    qsort(times, all, sizeof *times, order);
    for (size_t i = 0; i < all; i++)
        if (count == 0 || times[i]->name != times[count - 1]->name ||
            mm_bench_x(p, times[i]) != mm_bench_x(p, times[count - 1]))
            times[count++] = times[i];
    return count;
}

static bool any_ok(const struct mm_bench_time *const *times, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (times[i]->status == MM_BENCH_OK) return true;
    return false;
}

static void cut_into_curves(struct mm_bench_picture *p, const struct mm_bench_time **times, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || times[i]->name != times[i - 1]->name)
            p->curves[p->count++] = (struct mm_bench_curve){times[i]->name, &times[i], 0};
        p->curves[p->count - 1].count++;
    }
}

static void set_up(struct mm_bench_picture *p, size_t which, const struct mm_bench_rows *rows) {
    const struct mm_bench_case *c = mm_bench_cases;
    while (strcmp(c->name, pictures[which].of) != 0) c++;
    memset(p, 0, sizeof *p);
    p->of = c;
    p->op = mm_bench_op_find(c, pictures[which].op);
    p->by_threads = c->series == MM_BENCH_BY_THREADS;
    p->fixed = p->by_threads ? USUAL_SIZE : c->threads[0];
    p->rows = rows;
}

/* ---- files ------------------------------------------------------------------------------------ */

static enum mm_bench_drawn not_written(const char *path) {
    fprintf(stderr, "mmbench: --plot: \"%s\" cannot be written: %s\n", path, strerror(errno));
    return MM_BENCH_UNWRITABLE;
}

/* All of it or nothing: what stood there before stays until the new one is complete. */
static enum mm_bench_drawn write_picture(const char *directory, const char *file, const struct mm_bench_picture *p) {
    char path[PATH_BYTES], temporary[PATH_BYTES + 8];
    const mode_t mask = umask(0);
    umask(mask);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) return not_written(directory);
    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        return not_written(directory);
    }
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const int fd = mkstemp(temporary);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    if (!to) return not_written(path);
    mm_bench_plot(to, p);
    bool fine = !ferror(to) && fchmod(fd, 0666 & ~mask) == 0;
    fine = fclose(to) == 0 && fine && rename(temporary, path) == 0;
    if (fine) return MM_BENCH_DRAWN;
    not_written(path);
    unlink(temporary);
    return MM_BENCH_UNWRITABLE;
}

/* *drawn counts those that there is something for. */
static enum mm_bench_drawn draw(const char *directory, const struct mm_bench_rows *rows, size_t which,
                                unsigned *drawn) {
    struct mm_bench_picture p;
    enum mm_bench_drawn status = MM_BENCH_DRAWN;
    set_up(&p, which, rows);
    const struct mm_bench_time **times = (const struct mm_bench_time **)calloc(rows->time_count + 1, sizeof *times);
    p.curves = (struct mm_bench_curve *)calloc(rows->name_count, sizeof *p.curves);
    if (!times || !p.curves) abort();
    const size_t count = gather(&p, times);
    if (any_ok(times, count)) {
        cut_into_curves(&p, times, count);
        status = write_picture(directory, pictures[which].file, &p);
        ++*drawn;
    }
    free(p.curves);
    free(times);
    return status;
}

enum mm_bench_drawn mm_bench_pictures(const char *directory, char *const *files, size_t count) {
    struct mm_bench_rows rows;
    unsigned drawn = 0;
    enum mm_bench_drawn status = MM_BENCH_DRAWN;
    mm_bench_rows_begin(&rows);
    for (size_t i = 0; i < count && status == MM_BENCH_DRAWN; i++)
        if (!mm_bench_rows_read(&rows, files[i])) status = MM_BENCH_UNREADABLE;
    for (size_t i = 0; i < PICTURES && status == MM_BENCH_DRAWN; i++) status = draw(directory, &rows, i, &drawn);
    if (status == MM_BENCH_DRAWN && drawn == 0) {
        fprintf(stderr, "mmbench: --plot: nothing to draw; expected times of the cases single, mixed or scaling\n");
        status = MM_BENCH_UNREADABLE;
    }
    mm_bench_rows_end(&rows);
    return status;
}
