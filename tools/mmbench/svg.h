/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes and text in SVG. Coordinates in pixels from the top left; colours as "#rrggbb". */
#ifndef MM_BENCH_SVG_H
#define MM_BENCH_SVG_H

#include <stdio.h>

#define MM_SVG_COLOUR_BYTES 8

enum mm_svg_anchor { MM_SVG_START, MM_SVG_MIDDLE, MM_SVG_END };
/* What a mark's shape is; the hollow ones are filled with white. */
enum mm_svg_mark {
    MM_SVG_DISC,
    MM_SVG_SQUARE,
    MM_SVG_TRIANGLE,
    MM_SVG_DIAMOND,
    MM_SVG_RING,
    MM_SVG_WEDGE, /* a triangle on its tip */
    MM_SVG_CROSS,
    MM_SVG_DASH,
    MM_SVG_HOURGLASS,
    MM_SVG_DOT
};

void mm_svg_begin(FILE *to, double width, double height, const char *title);
void mm_svg_end(FILE *to);
/* A group; everything in it is called `title` by what shows such names. */
void mm_svg_group(FILE *to, const char *title);
void mm_svg_group_end(FILE *to);
/* `size` in pixels; bold if weight is not 0. */
void mm_svg_text(FILE *to, double x, double y, enum mm_svg_anchor anchor, double size, int bold, const char *colour,
                 const char *text);
/* The same, from bottom to top, its middle at x, y. */
void mm_svg_text_up(FILE *to, double x, double y, double size, const char *colour, const char *text);
/* `dash` as in stroke-dasharray; "": none. */
void mm_svg_line(FILE *to, double x0, double y0, double x1, double y1, double width, const char *colour,
                 const char *dash);
/* A path: begin, then points, each moved to (the first, and where the line has a gap) or joined, then end. */
void mm_svg_path_begin(FILE *to, double width, const char *colour, const char *dash);
void mm_svg_path_point(FILE *to, double x, double y, int joined);
void mm_svg_path_end(FILE *to);
/* A mark, `radius` from its middle to its edge; `title` may be NULL. */
void mm_svg_mark(FILE *to, enum mm_svg_mark mark, double x, double y, double radius, const char *colour,
                 const char *title);

#endif
