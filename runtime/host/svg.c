/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/svg.h"

#include <stdarg.h>

void mm_svg_begin(FILE *out, uint32_t width, uint32_t height, const char *title, const char *format, ...) {
    va_list arguments;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"12\">\n",
            width, height, width, height);
    fprintf(out, "<rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n<text x=\"%u\" y=\"26\" font-size=\"16\">%s</text>\n", width, height, MM_SVG_MARGIN, title);
    fprintf(out, "<text x=\"%u\" y=\"46\">", MM_SVG_MARGIN);
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputs("</text>\n", out);
}

void mm_svg_rectangle(FILE *out, uint32_t x, uint32_t y, uint32_t width, uint32_t height) { fprintf(out, "M%u %uh%uv%uh-%uz", x, y, width, height, width); }

void mm_svg_legend(FILE *out, uint32_t x, uint32_t y, const char *colour) {
    fprintf(out, "<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" fill=\"%s\" stroke=\"#999\" stroke-width=\"0.5\"/>", x, y - 10, colour);
    fprintf(out, "<text x=\"%u\" y=\"%u\">", x + 18, y);
}
