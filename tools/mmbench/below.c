/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What stands around the axes of a picture: where its rows come from, what failed, notes. */
#define _GNU_SOURCE /* open_memstream */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/draw.h"

#define MARK_RADIUS 4.0

/* ---- where rows come from --------------------------------------------------------------------- */

static bool same_machine(const struct mm_bench_source *a, const struct mm_bench_source *b) {
    return !strcmp(a->gpu, b->gpu) && !strcmp(a->driver, b->driver);
}

/* One line for each machine, with the dates of the files that come from it. */
double mm_draw_sources(FILE *to, const struct mm_bench_rows *rows, double y) {
    for (size_t i = 0; i < rows->source_count; i++) {
        const struct mm_bench_source *s = &rows->sources[i];
        char text[MM_DRAW_TEXT_BYTES];
        bool told = false;
        int n = snprintf(text, sizeof text, "%s%s%s", s->gpu, s->driver[0] ? ", driver " : "", s->driver);
        for (size_t k = 0; k < rows->source_count; k++) {
            const char *date = rows->sources[k].date;
            if (!same_machine(s, &rows->sources[k])) continue;
            told = told || k < i;
            if (date[0] && n < MM_DRAW_TEXT_BYTES - 32)
                n += snprintf(text + n, sizeof text - (size_t)n, "%s%s", n > 0 ? ", " : "", date);
        }
        if (told || n == 0) continue;
        mm_svg_text(to, MM_DRAW_LEFT, y, MM_SVG_START, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_GREY, text);
        y += MM_DRAW_TEXT_GAP;
    }
    return y;
}

/* ---- what failed ------------------------------------------------------------------------------ */

static bool failed(const struct mm_bench_curve *c) {
    for (size_t i = 0; i < c->count; i++)
        if (c->times[i]->status != MM_BENCH_OK) return true;
    return false;
}

static bool has_status(const struct mm_bench_picture *p, int status) {
    for (size_t c = 0; c < p->count; c++)
        for (size_t i = 0; i < p->curves[c].count; i++)
            if ((int)p->curves[c].times[i]->status == status) return true;
    return false;
}

/* What the marks mean, of those that occur; each once. */
static void draw_meanings(FILE *to, const struct mm_bench_picture *p, double y) {
    double x = MM_DRAW_LEFT;
    for (int s = MM_BENCH_NULLS; s < MM_BENCH_STATUSES; s++) {
        const struct mm_draw_failure *f = &mm_draw_failures[s];
        if (!has_status(p, s) || (s == MM_BENCH_CORRUPT && has_status(p, MM_BENCH_NULLS))) continue;
        mm_svg_mark(to, f->mark, x + 5, y - MM_DRAW_MIDDLE, MARK_RADIUS, f->colour, NULL);
        mm_svg_text(to, x + 15, y, MM_SVG_START, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_INK, f->meaning);
        x += 15 + MM_DRAW_CHARACTER * (double)strlen(f->meaning) + 12;
    }
}

static void draw_failed_row(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f,
                            const struct mm_bench_curve *c, double y) {
    char text[MM_DRAW_TEXT_BYTES];
    const double middle = y - MM_DRAW_MIDDLE;
    mm_svg_line(to, MM_DRAW_LEFT, middle, MM_DRAW_RIGHT, middle, 1, MM_DRAW_GRID_MINOR, "");
    for (size_t i = 0; i < c->count; i++) {
        const struct mm_bench_time *t = c->times[i];
        const struct mm_draw_failure *why = &mm_draw_failures[t->status];
        if (t->status == MM_BENCH_OK) continue;
        mm_draw_time_text(p, t, text);
        mm_svg_mark(to, why->mark, mm_draw_at(&f->x, (double)mm_bench_x(p, t)), middle, MARK_RADIUS, why->colour, text);
    }
    mm_draw_name_text(p->rows, c->name, text);
    mm_svg_text(to, MM_DRAW_RIGHT + 8, y, MM_SVG_START, MM_DRAW_TEXT_SIZE, c->name < MM_BENCH_ALLOCATORS,
                MM_DRAW_INK, text);
}

double mm_draw_failed(FILE *to, const struct mm_bench_picture *p, const struct mm_draw_frame *f, double y) {
    bool any = false;
    for (size_t c = 0; c < p->count; c++) any = any || failed(&p->curves[c]);
    if (!any) return y;
    mm_svg_text(to, MM_DRAW_LEFT, y, MM_SVG_START, MM_DRAW_TEXT_SIZE, 1, MM_DRAW_INK,
                "Failed, and in no line, whatever time it took:");
    draw_meanings(to, p, y += MM_DRAW_TEXT_GAP + 2);
    y += 6;
    for (size_t c = 0; c < p->count; c++)
        if (failed(&p->curves[c])) draw_failed_row(to, p, f, &p->curves[c], y += MM_DRAW_TEXT_GAP);
    return y + MM_DRAW_TEXT_GAP + 8;
}

/* ---- notes ------------------------------------------------------------------------------------ */

/* Over as many lines as it needs. */
static double draw_wrapped(FILE *to, double y, double width, const char *text) {
    const size_t fits = (size_t)((width - MM_DRAW_LEFT) / MM_DRAW_CHARACTER);
    while (*text) {
        char line[MM_DRAW_TEXT_BYTES];
        size_t n = strlen(text);
        if (n > fits)
            for (n = fits; n > 0 && text[n] != ' ';) n--;
        if (n == 0) n = fits;
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        mm_svg_text(to, MM_DRAW_LEFT, y, MM_SVG_START, MM_DRAW_TEXT_SIZE, 0, MM_DRAW_GREY, line);
        y += MM_DRAW_TEXT_GAP;
        text += n;
        while (*text == ' ') text++;
    }
    return y;
}

static bool in_picture(const struct mm_bench_picture *p, size_t name) {
    for (size_t c = 0; c < p->count; c++)
        if (p->curves[c].name == name) return true;
    return false;
}

static bool noted(const struct mm_bench_picture *p, const struct mm_bench_note *note) {
    for (size_t c = 0; c < p->count; c++)
        if (fnmatch(note->pattern, p->rows->names[p->curves[c].name], 0) == 0) return true;
    return false;
}

double mm_draw_notes(FILE *to, const struct mm_bench_picture *p, double y, double width) {
    const struct mm_bench_rows *rows = p->rows;
    char line[MM_DRAW_TEXT_BYTES], *missing = NULL;
    size_t length = 0;
    bool any = false;
    for (size_t i = 0; i < rows->note_count; i++) {
        snprintf(line, sizeof line, "\xe2\x80\xa0 %s: %s", rows->notes[i].pattern, rows->notes[i].text);
        if (noted(p, &rows->notes[i])) y = draw_wrapped(to, y, width, line);
    }
    FILE *in = open_memstream(&missing, &length);
    if (!in) abort();
    for (size_t i = 0; i < rows->name_count; i++) {
        if (in_picture(p, i)) continue;
        fprintf(in, "%s%s", any ? ", " : "Not measured here: ", rows->names[i]);
        any = true;
    }
    fclose(in);
    y = draw_wrapped(to, y, width, missing);
    free(missing);
    return y;
}
