/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Parts of the pictures (SVG) of heaps and pools. All lengths are in pixels; texts have none of XML's special characters. */
#ifndef MM_HOST_SVG_H
#define MM_HOST_SVG_H

#include <stdint.h>
#include <stdio.h>

#define MM_SVG_MARGIN 20u
#define MM_SVG_TITLE_HEIGHT 58u
#define MM_SVG_LEGEND_ROW 18u
#define MM_SVG_LEGEND_WIDTH 320u

/* Begins a picture, with a heading and a line below it (`format`). */
void mm_svg_begin(FILE *out, uint32_t width, uint32_t height, const char *title, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A rectangle of a path. */
void mm_svg_rectangle(FILE *out, uint32_t x, uint32_t y, uint32_t width, uint32_t height);
/* The square and the beginning of the text of a row of the legend; "</text>\n" ends it. y: of the text. */
void mm_svg_legend(FILE *out, uint32_t x, uint32_t y, const char *colour);

#endif
