/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the parts of a picture share: where things stand, how an allocator's line looks, how numbers are written. */
#ifndef MM_BENCH_DRAW_H
#define MM_BENCH_DRAW_H

#include "tools/mmbench/plot.h"
#include "tools/mmbench/svg.h"

/* Pixels. */
#define MM_DRAW_LEFT 78.0 /* of the axes */
#define MM_DRAW_RIGHT 770.0
#define MM_DRAW_TEXT_SIZE 12.0
#define MM_DRAW_TEXT_GAP 15.0                  /* from line to line */
#define MM_DRAW_MIDDLE (MM_DRAW_TEXT_SIZE / 3) /* of a text, above the line it stands on */
#define MM_DRAW_CHARACTER 6.7                  /* width of one on average, in the widest usual font */
#define MM_DRAW_CHARACTER_BOLD 7.8

#define MM_DRAW_INK "#222222"
#define MM_DRAW_GREY "#666666"
#define MM_DRAW_GRID "#cccccc"
#define MM_DRAW_GRID_MINOR "#ebebeb"

#define MM_DRAW_TEXT_BYTES 512 /* room for the texts below */

struct mm_draw_axis {
    double low, high; /* values */
    double from, to;  /* where they stand */
};

struct mm_draw_frame {
    struct mm_draw_axis x, y;
    double top, bottom;
};

/* ---- look.c ----------------------------------------------------------------------------------- */

struct mm_draw_style {
    const char *colour, *dash;
    enum mm_svg_mark mark;
    double width, radius;
};

struct mm_draw_failure {
    enum mm_svg_mark mark;
    const char *colour, *meaning;
};

/* The same in every picture of the same files. */
struct mm_draw_style mm_draw_style_of(const struct mm_bench_rows *rows, size_t name);
/* Of statuses from MM_BENCH_NULLS on. */
extern const struct mm_draw_failure mm_draw_failures[MM_BENCH_STATUSES];
/* 12.5 us, 3 ms */
void mm_draw_us_text(double us, char *text);
/* 1,000,000 */
void mm_draw_grouped_text(uint64_t n, char *text);
/* An allocator's name as it stands in pictures; what there is a note for has a dagger. */
void mm_draw_name_text(const struct mm_bench_rows *rows, size_t name, char *text);
/* How wide the widest name may be. */
double mm_draw_name_width(const struct mm_bench_picture *p);
/* "halloc, 64: 12 us [11 us..13 us]", or why there is no time. */
void mm_draw_time_text(const struct mm_bench_picture *p, const struct mm_bench_time *t, char *text);

/* ---- plot.c ----------------------------------------------------------------------------------- */

double mm_draw_at(const struct mm_draw_axis *a, double value);

/* ---- below.c ---------------------------------------------------------------------------------- */

/* Each begins at y, and returns where the next may begin. */
double mm_draw_sources(FILE *to, const struct mm_bench_rows *rows, double y);
double mm_draw_failed(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f, double y);
double mm_draw_notes(FILE *to, const struct mm_bench_picture *p, double y, double width);

#endif
