/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A profile as a flame graph (SVG): the bar of the heap, below it those of the kernels, below each those of the sizes that it requested. A bar is as wide as the
 * bytes that were requested. */
#include <inttypes.h>
#include <string.h>

#include "runtime/host/profile.h"
#include "runtime/host/say.h"

/* In pixels. */
#define MARGIN 10u
#define WIDTH 1180u
#define ROW 20u
#define TITLE_HEIGHT 54u
#define CHARACTER_TENTHS 68u /* width of a character, at most */

/* XML: no special characters, no control characters. most: characters that are written. */
static void write_text(const char *text, size_t most, FILE *out) {
    for (size_t n = 0; *text && n < most; text++, n++) {
        if (*text == '<') fputs("&lt;", out);
        else if (*text == '>') fputs("&gt;", out);
        else if (*text == '&') fputs("&amp;", out);
        else fputc((unsigned char)*text < ' ' ? '?' : *text, out);
    }
}

/* Kernels have colours from red to yellow, by their names, so that two pictures of one program agree. */
static unsigned hash_of(const char *name) {
    unsigned hash = 2166136261u; /* FNV-1a */
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

struct bar {
    uint64_t from, bytes, all; /* of `all` bytes it begins at `from` */
    unsigned row, colour;      /* 0xrrggbb */
};

/* In tenths of a pixel. */
static uint64_t at(const struct bar *b, uint64_t bytes) { return b->all ? (uint64_t)((double)bytes / (double)b->all * (10.0 * WIDTH) + 0.5) : 0; }

static void write_bar(const struct bar *b, const char *name, const struct mm_profile_counts *n, FILE *out) {
    const uint64_t x = at(b, b->from), width = at(b, b->from + b->bytes) - x, left = x + 10 * MARGIN;
    const unsigned y = TITLE_HEIGHT + b->row * ROW;
    const uint64_t fitting = width / CHARACTER_TENTHS;
    if (width == 0) return;
    const uint64_t per_mille = (uint64_t)((double)b->bytes / (double)b->all * 1000 + 0.5);
    fputs("<g><title>", out);
    write_text(name, SIZE_MAX, out);
    fprintf(out, ": %" PRIu64 " bytes (%" PRIu64 ".%" PRIu64 " %%) by %" PRIu64 " mallocs; %" PRIu64 " bytes live at the end</title>", b->bytes, per_mille / 10,
            per_mille % 10, n->mallocs, n->live_bytes);
    fprintf(out,
            "<rect x=\"%" PRIu64 ".%" PRIu64 "\" y=\"%u\" width=\"%" PRIu64 ".%" PRIu64
            "\" height=\"%u\" fill=\"#%06x\" stroke=\"#fff\" stroke-width=\"0.5\"/>",
            left / 10, left % 10, y, width / 10, width % 10, ROW - 1, b->colour);
    if (fitting > 3) {
        fprintf(out, "<text x=\"%" PRIu64 "\" y=\"%u\">", left / 10 + 3, y + 14);
        write_text(name, strlen(name) <= fitting - 1 ? SIZE_MAX : fitting - 3, out);
        fprintf(out, "%s</text>", strlen(name) <= fitting - 1 ? "" : "..");
    }
    fputs("</g>\n", out);
}

/* The bars of a kernel, which begin at `from`. */
static void write_kernel(const struct mm_profile *p, const struct mm_profile_kernel *k, uint64_t from, FILE *out) {
    const unsigned hash = hash_of(k->name), green = 90 + hash % 130, blue = hash / 130 % 60;
    struct bar bar = {from, k->all.bytes, p->all.bytes, 1, 0xe00000 + green * 0x100 + blue};
    write_bar(&bar, k->name, &k->all, out);
    for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) {
        char name[48];
        snprintf(name, sizeof name, "up to %s", mm_host_size(mm_profile_size(s)).text);
        bar = (struct bar){from, k->sizes[s].bytes, p->all.bytes, 2, 0xf0f0f0 - (s % 2 ? 0x181818 : 0)};
        write_bar(&bar, name, &k->sizes[s], out);
        from += k->sizes[s].bytes;
    }
}

void mm_profile_write_svg(const struct mm_profile *p, const char *title, FILE *out) {
    const unsigned width = WIDTH + 2 * MARGIN, height = TITLE_HEIGHT + 3 * ROW + MARGIN;
    const struct bar all = {0, p->all.bytes, p->all.bytes, 0, 0xb0c4de};
    uint64_t from = 0;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" font-family=\"monospace\" font-size=\"11\">\n",
            width, height, width, height);
    fprintf(out, "<rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n<text x=\"%u\" y=\"24\" font-size=\"16\" font-family=\"sans-serif\">", width, height,
            MARGIN);
    write_text(title, SIZE_MAX, out);
    fprintf(out, ": requests of kernels</text>\n<text x=\"%u\" y=\"44\" font-family=\"sans-serif\">", MARGIN);
    fprintf(out, "%" PRIu64 " mallocs, %" PRIu64 " NULLs, %" PRIu64 " frees; %s live at most", p->sum.mallocs, p->sum.nulls, p->sum.frees,
            mm_host_size(p->most_bytes).text);
    if (p->sum.dropped) fprintf(out, "; %" PRIu64 " later events are not counted", p->sum.dropped);
    fputs(". As wide as the bytes requested; a row of kernels, below it their sizes</text>\n", out);
    char root[64];
    snprintf(root, sizeof root, "%s in all", mm_host_size(p->all.bytes).text);
    write_bar(&all, root, &p->all, out);
    for (size_t i = 0; i < p->count; i++) {
        write_kernel(p, &p->kernels[i], from, out);
        from += p->kernels[i].all.bytes;
    }
    fputs("</svg>\n", out);
}
