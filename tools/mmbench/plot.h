/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench --plot: rows of CSV files as pictures in SVG. No child is started.
 *
 *   rows.c      CSV files: mmbench's own, and those of the measurements of published allocators
 *   svg.c       shapes and text (svg.h)
 *   look.c      how lines, marks, numbers and names look (draw.h has what this and the next two share)
 *   below.c     around the axes: machines, what failed, notes
 *   plot.c      one picture: axes, lines, their names
 *   pictures.c  which pictures there are, what stands in each, and their files
 *
 * Words: a TIME is a row that a picture can have, a median or a failure; a CURVE is an allocator's times in a picture,
 * along x (size or threads).
 */
#ifndef MM_BENCH_PLOT_H
#define MM_BENCH_PLOT_H

#include "tools/mmbench/mmbench.h"

#define MM_BENCH_NAME_BYTES 32 /* of an allocator's name, with its end */
#define MM_BENCH_NOTE_BYTES 256

/* ---- rows.c ----------------------------------------------------------------------------------- */

struct mm_bench_time {
    size_t name; /* index of its allocator */
    const struct mm_bench_case *of;
    int op;
    uint64_t size, threads;
    enum mm_bench_status status;
    double median, min, max; /* us, if the status is MM_BENCH_OK; min and max may be NAN: not told */
};

/* What a comment line "# note: PATTERN: TEXT" says of allocators. */
struct mm_bench_note {
    char pattern[MM_BENCH_NAME_BYTES], text[MM_BENCH_NOTE_BYTES];
};

/* Where a file's rows come from, as far as its comment lines say so. */
struct mm_bench_source {
    char gpu[128], driver[64], date[16];
};

/* The first MM_BENCH_ALLOCATORS names are mm_bench_allocator_names, whether there are rows of them or not. */
struct mm_bench_rows {
    struct mm_bench_time *times;
    char (*names)[MM_BENCH_NAME_BYTES];
    struct mm_bench_note *notes;
    struct mm_bench_source *sources; /* one for each file */
    size_t time_count, name_count, note_count, source_count;
    size_t time_room, name_room, note_room, source_room;
};

void mm_bench_rows_begin(struct mm_bench_rows *rows);
/* Adds the rows of one file. False: one line was written to stderr. */
bool mm_bench_rows_read(struct mm_bench_rows *rows, const char *path);
void mm_bench_rows_end(struct mm_bench_rows *rows);

/* ---- plot.c ----------------------------------------------------------------------------------- */

struct mm_bench_curve {
    size_t name;
    const struct mm_bench_time **times; /* by growing x */
    size_t count;
};

struct mm_bench_picture {
    const struct mm_bench_case *of;
    int op;
    bool by_threads; /* what x is; else size */
    uint64_t fixed;  /* what is the same at every x: bytes if by_threads, else threads */
    const struct mm_bench_rows *rows;
    struct mm_bench_curve *curves;
    size_t count; /* at least one, with at least one time that is MM_BENCH_OK among all */
};

/* Where a time stands on x. */
uint64_t mm_bench_x(const struct mm_bench_picture *p, const struct mm_bench_time *t);
void mm_bench_plot(FILE *to, const struct mm_bench_picture *p);

/* ---- pictures.c ------------------------------------------------------------------------------- */

enum mm_bench_drawn { MM_BENCH_DRAWN, MM_BENCH_UNREADABLE, MM_BENCH_UNWRITABLE };

/* Reads the files, and writes every picture that there are times for into the directory, which is made if it is not
 * there. If not MM_BENCH_DRAWN, one line was written to stderr. */
enum mm_bench_drawn mm_bench_pictures(const char *directory, char *const *files, size_t count);

#endif
