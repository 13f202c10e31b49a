/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One picture: both axes logarithmic, a line for each allocator, its name at the right, level with the line's end.
 * What failed is in no line, however fast it was: it stands below, in a row of its own for each allocator.
 */
#define _GNU_SOURCE /* open_memstream */
#include <math.h>
#include <stdlib.h>

#include "tools/mmbench/draw.h"

/* Pixels. */
#define HEIGHT_LEAST 430.0 /* of the axes */
#define INSET 14.0         /* from the frame to the first and the last x */
#define LEADER 26.0        /* from the frame to the names */
#define SAMPLE 32.0        /* of a line, before its name */
#define NAME_GAP 16.0      /* from name to name */
#define X_NAME_GAP 42.0
#define DECADE_NAMES 90.0 /* a power of ten as high as that has names at 2 and 5, too */
#define TITLE_SIZE 17.0

/* ---- axes ------------------------------------------------------------------------------------- */

double mm_draw_at(const struct mm_draw_axis *a, double value) {
    return a->from + (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low)) * (a->to - a->from);
}

/* The power of ten that is not above the value. */
static double decade(double value) {
    double power = 1;
    while (power > value) power /= 10;
    while (power * 10 <= value) power *= 10;
    return power;
}

/* The nearest of 1, 2, 5, 10, ... that is not above (below, if up) the value. */
static double rounded(double value, bool up) {
    static const double steps[] = {1, 2, 5, 10};
    const double power = decade(value);
    int i = 0;
    while (i < 3 && steps[i + 1] * power <= value) i++;
    return steps[up && steps[i] * power < value ? i + 1 : i] * power;
}

/* Whose spread is shown. */
static bool spread_shown(const struct mm_bench_time *t) {
    return t->name < MM_BENCH_ALLOCATORS && !isnan(t->min) && !isnan(t->max);
}

static void find_axes(const struct mm_bench_picture *p, struct mm_draw_frame *f) {
    double x_low = INFINITY, x_high = 0, y_low = INFINITY, y_high = 0;
    for (size_t c = 0; c < p->count; c++)
        for (size_t i = 0; i < p->curves[c].count; i++) {
            const struct mm_bench_time *t = p->curves[c].times[i];
            x_low = fmin(x_low, (double)mm_bench_x(p, t));
            x_high = fmax(x_high, (double)mm_bench_x(p, t));
            if (t->status != MM_BENCH_OK) continue;
            y_low = fmin(y_low, spread_shown(t) ? t->min : t->median);
            y_high = fmax(y_high, spread_shown(t) ? t->max : t->median);
        }
    y_low = rounded(y_low, false);
    y_high = rounded(y_high, true);
    f->x = (struct mm_draw_axis){x_low, x_high, MM_DRAW_LEFT + INSET, MM_DRAW_RIGHT - INSET};
    f->y = (struct mm_draw_axis){y_low, y_high, f->bottom, f->top};
    if (x_low >= x_high) f->x = (struct mm_draw_axis){x_low / 2, x_high * 2, MM_DRAW_LEFT, MM_DRAW_RIGHT};
    if (y_low >= y_high) f->y = (struct mm_draw_axis){y_low / 2, y_high * 2, f->bottom, f->top};
}

/* Lines at 1, 2, 3, ... of each power of ten; the ones have names, and where there are few of these the 2 and the 5. */
static void draw_y(FILE *to, const struct mm_draw_frame *f) {
    const bool names = mm_draw_at(&f->y, 1) - mm_draw_at(&f->y, 10) >= DECADE_NAMES;
    char text[32];
    for (double power = decade(f->y.low); power <= f->y.high; power *= 10)
        for (int i = 1; i < 10; i++) {
            const double y = mm_draw_at(&f->y, i * power);
            if (y > f->bottom + 0.1 || y < f->top - 0.1) continue;
            mm_draw_us_text(i * power, text);
            mm_svg_line(to, MM_DRAW_LEFT, y, MM_DRAW_RIGHT, y, 1, i == 1 ? MM_DRAW_GRID : MM_DRAW_GRID_MINOR, "");
            if (i == 1 || (names && (i == 2 || i == 5)))
                mm_svg_text(to, MM_DRAW_LEFT - 8, y + MM_DRAW_MIDDLE, MM_SVG_END, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_INK,
                            text);
        }
    mm_svg_text_up(to, 20, (f->top + f->bottom) / 2, MM_DRAW_TEXT_SIZE, MM_DRAW_INK,
                   "time of the kernel: median; least to most, of mm and builtin");
}

/* Lines at the powers of two; names where there is room. */
static void draw_x(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f) {
    char text[32];
    const double octave = mm_draw_at(&f->x, 2 * f->x.low) - f->x.from;
    unsigned step = 1, first = 0;
    while (step * octave < X_NAME_GAP) step *= 2;
    while (ldexp(1, (int)first) < f->x.low) first++;
    for (unsigned k = first; k < 64 && ldexp(1, (int)k) <= f->x.high; k++) {
        const double x = mm_draw_at(&f->x, ldexp(1, (int)k));
        const bool named = k % step == 0;
        mm_svg_line(to, x, f->top, x, f->bottom, 1, named ? MM_DRAW_GRID : MM_DRAW_GRID_MINOR, "");
        mm_bench_size_text(1ull << k, text);
        if (named) mm_svg_text(to, x, f->bottom + 17, MM_SVG_MIDDLE, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_INK, text);
    }
    const char *name = p->by_threads                           ? "threads (K = 1,024)"
                       : p->of->asked == MM_BENCH_ASKED_ALL ? "bytes of each request (K = 1,024)"
                                                            : "bytes of the largest requests (K = 1,024)";
    mm_svg_text(to, (MM_DRAW_LEFT + MM_DRAW_RIGHT) / 2, f->bottom + 36, MM_SVG_MIDDLE, MM_DRAW_TEXT_SIZE, 0,
                MM_DRAW_INK, name);
}

static void draw_frame(FILE *to, const struct mm_draw_frame *f) {
    mm_svg_line(to, MM_DRAW_LEFT, f->top, MM_DRAW_LEFT, f->bottom, 1, MM_DRAW_GREY, "");
    mm_svg_line(to, MM_DRAW_RIGHT, f->top, MM_DRAW_RIGHT, f->bottom, 1, MM_DRAW_GREY, "");
    mm_svg_line(to, MM_DRAW_LEFT, f->top, MM_DRAW_RIGHT, f->top, 1, MM_DRAW_GREY, "");
    mm_svg_line(to, MM_DRAW_LEFT, f->bottom, MM_DRAW_RIGHT, f->bottom, 1, MM_DRAW_GREY, "");
}

/* ---- lines and their names -------------------------------------------------------------------- */

/* The last time that counts, or NULL. */
static const struct mm_bench_time *last_of(const struct mm_bench_curve *c) {
    for (size_t i = c->count; i-- > 0;)
        if (c->times[i]->status == MM_BENCH_OK) return c->times[i];
    return NULL;
}

static void draw_curve(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f,
                       const struct mm_bench_curve *c) {
    const struct mm_draw_style s = mm_draw_style_of(p->rows, c->name);
    char text[MM_DRAW_TEXT_BYTES];
    int joined = 0;
    if (!last_of(c)) return;
    mm_svg_group(to, p->rows->names[c->name]);
    for (size_t i = 0; i < c->count; i++) {
        const struct mm_bench_time *t = c->times[i];
        const double x = mm_draw_at(&f->x, (double)mm_bench_x(p, t));
        if (t->status != MM_BENCH_OK || !spread_shown(t)) continue;
        mm_svg_line(to, x, mm_draw_at(&f->y, t->min), x, mm_draw_at(&f->y, t->max), 1, s.colour, "");
        mm_svg_line(to, x - 3, mm_draw_at(&f->y, t->min), x + 3, mm_draw_at(&f->y, t->min), 1, s.colour, "");
        mm_svg_line(to, x - 3, mm_draw_at(&f->y, t->max), x + 3, mm_draw_at(&f->y, t->max), 1, s.colour, "");
    }
    mm_svg_path_begin(to, s.width, s.colour, s.dash);
    for (size_t i = 0; i < c->count; i++) { /* a failure is a gap */
        const struct mm_bench_time *t = c->times[i];
        const bool ok = t->status == MM_BENCH_OK;
        const double x = mm_draw_at(&f->x, (double)mm_bench_x(p, t));
        if (ok) mm_svg_path_point(to, x, mm_draw_at(&f->y, t->median), joined);
        joined = ok;
    }
    mm_svg_path_end(to);
    for (size_t i = 0; i < c->count; i++) {
        const struct mm_bench_time *t = c->times[i];
        if (t->status != MM_BENCH_OK) continue;
        mm_draw_time_text(p, t, text);
        mm_svg_mark(to, s.mark, mm_draw_at(&f->x, (double)mm_bench_x(p, t)), mm_draw_at(&f->y, t->median), s.radius,
                    s.colour, text);
    }
    mm_svg_group_end(to);
}

struct label {
    const struct mm_bench_curve *curve;
    double end_x, end_y; /* of the line */
    double y;            /* of the name */
};

static int by_end(const void *a, const void *b) {
    const double d = ((const struct label *)a)->end_y - ((const struct label *)b)->end_y;
    return d < 0 ? -1 : d > 0;
}

/* As near to their lines' ends as they can be without touching each other. */
static void spread_labels(struct label *labels, size_t count, const struct mm_draw_frame *f) {
    double limit = f->top;
    for (size_t i = 0; i < count; i++) {
        labels[i].y = fmax(labels[i].end_y, limit);
        limit = labels[i].y + NAME_GAP;
    }
    limit = f->bottom;
    for (size_t i = count; i-- > 0;) {
        labels[i].y = fmin(labels[i].y, limit);
        limit = labels[i].y - NAME_GAP;
    }
}

static void draw_label(FILE *to, const struct mm_bench_picture *p, const struct label *l) {
    const struct mm_draw_style s = mm_draw_style_of(p->rows, l->curve->name);
    const double x = MM_DRAW_RIGHT + LEADER;
    const bool bold = l->curve->name < MM_BENCH_ALLOCATORS;
    char text[MM_DRAW_TEXT_BYTES];
    mm_draw_name_text(p->rows, l->curve->name, text);
    mm_svg_line(to, l->end_x, l->end_y, MM_DRAW_RIGHT, l->end_y, 0.6, s.colour, "1 4");
    mm_svg_line(to, MM_DRAW_RIGHT, l->end_y, x - 3, l->y, 0.6, s.colour, "");
    mm_svg_path_begin(to, s.width, s.colour, s.dash);
    mm_svg_path_point(to, x, l->y, 0);
    mm_svg_path_point(to, x + SAMPLE - 6, l->y, 1);
    mm_svg_path_end(to);
    mm_svg_mark(to, s.mark, x + SAMPLE / 2 - 3, l->y, s.radius, s.colour, NULL);
    mm_svg_text(to, x + SAMPLE, l->y + MM_DRAW_MIDDLE, MM_SVG_START, MM_DRAW_TEXT_SIZE, bold,
                bold ? s.colour : MM_DRAW_INK, text);
}

static void draw_labels(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f) {
    struct label *labels = (struct label *)calloc(p->count, sizeof *labels);
    size_t count = 0;
    if (!labels) abort();
    for (size_t c = 0; c < p->count; c++) {
        const struct mm_bench_time *last = last_of(&p->curves[c]);
        if (!last) continue;
        labels[count++] = (struct label){&p->curves[c], mm_draw_at(&f->x, (double)mm_bench_x(p, last)),
                                         mm_draw_at(&f->y, last->median), 0};
    }
    qsort(labels, count, sizeof *labels, by_end);
    spread_labels(labels, count, f);
    for (size_t i = 0; i < count; i++) draw_label(to, p, &labels[i]);
    free(labels);
}

/* Those of mm and of CUDA, which come first, are drawn last, mm's on top. */
static void draw_curves(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f) {
    for (size_t c = p->count; c-- > 0;) draw_curve(to, p, f, &p->curves[c]);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void title_text(const struct mm_bench_picture *p, char *text) {
    char number[32];
    mm_draw_grouped_text(p->fixed, number);
    snprintf(text, MM_DRAW_TEXT_BYTES, p->by_threads ? "%s of %s bytes by each thread" : "%s by %s threads",
             p->of->ops[p->op].name, number);
}

void mm_bench_plot(FILE *to, const struct mm_bench_picture *p) {
    struct mm_draw_frame f;
    char *body = NULL, title[MM_DRAW_TEXT_BYTES];
    size_t length = 0;
    FILE *in = open_memstream(&body, &length); /* how high the picture is is known at its end */
    if (!in) abort();
    const double width = MM_DRAW_RIGHT + LEADER + SAMPLE + mm_draw_name_width(p) + 8;
    title_text(p, title);
    mm_svg_text(in, MM_DRAW_LEFT, 30, MM_SVG_START, TITLE_SIZE, 1, MM_DRAW_INK, title);
    if (!p->by_threads) /* which ones the axis says */
        mm_svg_text(in, MM_DRAW_LEFT, 50, MM_SVG_START, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_INK, p->of->about);
    f.top = mm_draw_sources(in, p->rows, p->by_threads ? 50 : 50 + MM_DRAW_TEXT_GAP) + 2;
    f.bottom = f.top + fmax(HEIGHT_LEAST, NAME_GAP * (double)p->count);
    find_axes(p, &f);
    draw_y(in, &f);
    draw_x(in, p, &f);
    draw_frame(in, &f);
    draw_curves(in, p, &f);
    draw_labels(in, p, &f);
    const double y = mm_draw_failed(in, p, &f, f.bottom + 64);
    const double end = mm_draw_notes(in, p, y, width);
    fclose(in);
    mm_svg_begin(to, width, end, title);
    fputs(body, to);
    mm_svg_end(to);
    free(body);
}
