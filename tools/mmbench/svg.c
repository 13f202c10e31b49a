/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/mmbench/svg.h"

#include <stdbool.h>

/* Text between tags or quotes. */
static void put(FILE *to, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        default: fputc(*text, to);
        }
    }
}

static void put_title(FILE *to, const char *title) {
    fputs("<title>", to);
    put(to, title);
    fputs("</title>", to);
}

static void put_dash(FILE *to, const char *dash) {
    if (*dash) fprintf(to, " stroke-dasharray=\"%s\"", dash);
}

void mm_svg_begin(FILE *to, double width, double height, const char *title) {
    fprintf(to,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\""
            " font-family=\"sans-serif\">\n",
            width, height, width, height);
    put_title(to, title);
    fprintf(to, "\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
}

void mm_svg_end(FILE *to) { fputs("</svg>\n", to); }

void mm_svg_group(FILE *to, const char *title) {
    fputs("<g>", to);
    put_title(to, title);
    fputc('\n', to);
}

void mm_svg_group_end(FILE *to) { fputs("</g>\n", to); }

void mm_svg_text(FILE *to, double x, double y, enum mm_svg_anchor anchor, double size, int bold, const char *colour,
                 const char *text) {
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%.1f\"%s fill=\"%s\">", x, y,
            anchors[anchor], size, bold ? " font-weight=\"bold\"" : "", colour);
    put(to, text);
    fputs("</text>\n", to);
}

void mm_svg_text_up(FILE *to, double x, double y, double size, const char *colour, const char *text) {
    fprintf(to, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\"", x, y);
    fprintf(to, " font-size=\"%.1f\" fill=\"%s\">", size, colour);
    put(to, text);
    fputs("</text>\n", to);
}

void mm_svg_line(FILE *to, double x0, double y0, double x1, double y1, double width, const char *colour,
                 const char *dash) {
    fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"%.1f\" stroke=\"%s\"", x0, y0, x1,
            y1, width, colour);
    put_dash(to, dash);
    fputs("/>\n", to);
}

void mm_svg_path_begin(FILE *to, double width, const char *colour, const char *dash) {
    fprintf(to, "<path fill=\"none\" stroke-linejoin=\"round\" stroke-width=\"%.1f\" stroke=\"%s\"", width, colour);
    put_dash(to, dash);
    fputs(" d=\"", to);
}

void mm_svg_path_point(FILE *to, double x, double y, int joined) {
    fprintf(to, "%c%.1f %.1f", joined ? 'L' : 'M', x, y);
}

void mm_svg_path_end(FILE *to) { fputs("\"/>\n", to); }

/* Around 0, 0, in radii; NULL: a circle. */
static const char *outline_of(enum mm_svg_mark mark) {
    switch (mark) {
    case MM_SVG_SQUARE: return "M-.9-.9H.9V.9H-.9Z";
    case MM_SVG_TRIANGLE: return "M0-1.1L1.1.9H-1.1Z";
    case MM_SVG_DIAMOND: return "M0-1.3L1.3 0L0 1.3L-1.3 0Z";
    case MM_SVG_WEDGE: return "M0 1.1L1.1-.9H-1.1Z";
    case MM_SVG_CROSS: return "M-1-1L1 1M-1 1L1-1";
    case MM_SVG_DASH: return "M-1 0H1";
    case MM_SVG_HOURGLASS: return "M-1-1.1H1L-1 1.1H1Z";
    default: return NULL;
    }
}

void mm_svg_mark(FILE *to, enum mm_svg_mark mark, double x, double y, double radius, const char *colour,
                 const char *title) {
    const bool strokes = mark == MM_SVG_CROSS || mark == MM_SVG_DASH;
    const char *path = outline_of(mark);
    if (path) {
        fprintf(to, "<path transform=\"translate(%.1f %.1f) scale(%.1f)\" d=\"%s\"", x, y, radius, path);
        if (strokes)
            fprintf(to, " fill=\"none\" stroke-width=\"0.5\" stroke=\"%s\"", colour);
        else
            fprintf(to, " fill=\"%s\"", colour);
    } else {
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"", x, y, mark == MM_SVG_DOT ? radius / 2 : radius);
        if (mark == MM_SVG_RING)
            fprintf(to, " fill=\"#ffffff\" stroke-width=\"1.2\" stroke=\"%s\"", colour);
        else
            fprintf(to, " fill=\"%s\"", colour);
    }
    if (title) {
        fputc('>', to);
        put_title(to, title);
        fprintf(to, "</%s>\n", path ? "path" : "circle");
    } else {
        fputs("/>\n", to);
    }
}
