/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How an allocator's line looks, what marks mean, and how numbers and names are written in pictures. */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "tools/mmbench/draw.h"

#define FAILED "#c00000"

/* ---- lines and marks -------------------------------------------------------------------------- */

/* Names that are the same up to the first "_" are of one family. */
static bool same_family(const char *a, const char *b) {
    const size_t n = strcspn(a, "_");
    return n == strcspn(b, "_") && !strncmp(a, b, n);
}

static size_t first_of_family(const struct mm_bench_rows *rows, size_t name) {
    size_t i = MM_BENCH_ALLOCATORS;
    while (!same_family(rows->names[i], rows->names[name])) i++;
    return i;
}

/* A family has a colour; its members differ in dashes and marks. */
struct mm_draw_style mm_draw_style_of(const struct mm_bench_rows *rows, size_t name) {
    static const char *const colours[] = {"#e8590c", "#2f9e44", "#9c36b5", "#0c8599", "#c2255c",
                                          "#8a5a2b", "#7a8a00", "#5c5f9e", "#d6a100", "#495057"};
    static const char *const dashes[] = {"", "6 3", "2 2", "9 3 2 3", "1 3", "12 3"};
    static const enum mm_svg_mark marks[] = {MM_SVG_DISC, MM_SVG_SQUARE,  MM_SVG_TRIANGLE,
                                             MM_SVG_RING, MM_SVG_DIAMOND, MM_SVG_WEDGE};
    size_t family = 0, member = 0;
    if (name == MM_BENCH_MM) return (struct mm_draw_style){"#0b5fff", "", MM_SVG_DISC, 4.0, 4.2};
    if (name == MM_BENCH_BUILTIN) return (struct mm_draw_style){"#000000", "", MM_SVG_SQUARE, 2.6, 3.8};
    const size_t first = first_of_family(rows, name);
    for (size_t i = MM_BENCH_ALLOCATORS; i < first; i++) family += first_of_family(rows, i) == i;
    for (size_t i = first; i < name; i++) member += first_of_family(rows, i) == first;
    return (struct mm_draw_style){colours[family % (sizeof colours / sizeof *colours)],
                                  dashes[member % (sizeof dashes / sizeof *dashes)],
                                  marks[member % (sizeof marks / sizeof *marks)], 1.5, 3.0};
}

const struct mm_draw_failure mm_draw_failures[MM_BENCH_STATUSES] = {
    [MM_BENCH_NULLS] = {MM_SVG_CROSS, FAILED, "wrong or NULL results"},
    [MM_BENCH_CORRUPT] = {MM_SVG_CROSS, FAILED, "wrong or NULL results"},
    [MM_BENCH_CRASH] = {MM_SVG_TRIANGLE, FAILED, "crash"},
    [MM_BENCH_HUNG] = {MM_SVG_HOURGLASS, FAILED, "no answer in time"},
    [MM_BENCH_SKIPPED] = {MM_SVG_DOT, MM_DRAW_GREY, "not tried after a failure"},
    [MM_BENCH_TOO_LARGE] = {MM_SVG_DASH, MM_DRAW_GREY, "more than the heap"},
};

/* ---- texts ------------------------------------------------------------------------------------ */

void mm_draw_us_text(double us, char *text) {
    static const char *const units[] = {"\xc2\xb5s", "ms", "s"}; /* the micro sign, in UTF-8 */
    int unit = 0;
    while (unit < 2 && us >= 1000) {
        us /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.4g %s", us, units[unit]);
}

void mm_draw_grouped_text(uint64_t n, char *text) {
    char digits[32];
    const int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) *text++ = ',';
        *text++ = digits[i];
    }
    *text = '\0';
}

void mm_draw_name_text(const struct mm_bench_rows *rows, size_t name, char *text) {
    bool noted = false;
    for (size_t i = 0; i < rows->note_count; i++)
        noted = noted || fnmatch(rows->notes[i].pattern, rows->names[name], 0) == 0;
    snprintf(text, MM_DRAW_TEXT_BYTES, "%s%s%s", rows->names[name], name == MM_BENCH_BUILTIN ? " (CUDA)" : "",
             noted ? " \xe2\x80\xa0" : "");
}

double mm_draw_name_width(const struct mm_bench_picture *p) {
    char text[MM_DRAW_TEXT_BYTES];
    double most = 0;
    for (size_t c = 0; c < p->count; c++) {
        const bool bold = p->curves[c].name < MM_BENCH_ALLOCATORS;
        mm_draw_name_text(p->rows, p->curves[c].name, text);
        most = fmax(most, (double)strlen(text) * (bold ? MM_DRAW_CHARACTER_BOLD : MM_DRAW_CHARACTER));
    }
    return most;
}

void mm_draw_time_text(const struct mm_bench_picture *p, const struct mm_bench_time *t, char *text) {
    char median[32], least[32], most[32], spread[80] = "", x[32];
    mm_bench_size_text(mm_bench_x(p, t), x);
    mm_draw_us_text(t->median, median);
    if (!isnan(t->min) && !isnan(t->max)) {
        mm_draw_us_text(t->min, least);
        mm_draw_us_text(t->max, most);
        snprintf(spread, sizeof spread, " [%s..%s]", least, most);
    }
    if (t->status == MM_BENCH_OK)
        snprintf(text, MM_DRAW_TEXT_BYTES, "%s, %s: %s%s", p->rows->names[t->name], x, median, spread);
    else
        snprintf(text, MM_DRAW_TEXT_BYTES, "%s, %s: %s", p->rows->names[t->name], x,
                 mm_draw_failures[t->status].meaning);
}
