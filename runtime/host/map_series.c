/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/map_series.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host/svg.h"

/* In pixels. */
#define ACROSS 4u /* frames in a row */
#define FRAME_WIDTH 280u
#define CAPTION 20u
#define KEY_WIDTH 300u
#define KEY_HEIGHT 18u

/* Whether a launch, counted from 1, gets a frame with the present stride. */
static bool is_due(const struct mm_map_series *s, uint64_t launch) { return (launch - 1) % (1ull << s->stride_shift) == 0; }

uint64_t mm_map_series_count(struct mm_map_series *s) {
    s->launches++;
    return is_due(s, s->launches) ? s->launches : 0;
}

/* Doubles the stride, and drops the frames that are no longer due: every second one, unless some are missing. */
static void thin(struct mm_map_series *s) {
    unsigned kept = 0;
    s->stride_shift++;
    for (unsigned i = 0; i < s->count; i++)
        if (is_due(s, s->frames[i].launch)) s->frames[kept++] = s->frames[i];
        else free(s->frames[i].map);
    s->count = kept;
}

void mm_map_series_add(struct mm_map_series *s, uint64_t launch, struct mm_map *map) {
    if (!map) return;
    while (s->count == MM_HOST_MAP_FRAMES && is_due(s, launch)) thin(s);
    if (launch > s->launches || !is_due(s, launch)) { /* of a heap that has ended; of a smaller stride */
        free(map);
        return;
    }
    unsigned at = s->count++;
    for (; at && s->frames[at - 1].launch > launch; at--) s->frames[at] = s->frames[at - 1];
    s->frames[at] = (struct mm_map_frame){map, launch};
}

void mm_map_series_end(struct mm_map_series *s, struct mm_map *map) {
    free(s->end.map);
    s->end = (struct mm_map_frame){map, s->launches};
}

bool mm_map_series_has_any(const struct mm_map_series *s) { return s->count || s->end.map; }

void mm_map_series_drop(struct mm_map_series *s) {
    for (unsigned i = 0; i < s->count; i++) free(s->frames[i].map);
    free(s->end.map);
    memset(s, 0, sizeof *s);
}

/* Frame i; the last one is that of the end. */
static const struct mm_map_frame *frame_at(const struct mm_map_series *s, unsigned i) { return i < s->count ? &s->frames[i] : &s->end; }
static unsigned frame_count(const struct mm_map_series *s) { return s->count + (s->end.map != NULL); }

static bool has_kind(const struct mm_map_series *s, uint32_t kind) {
    for (unsigned i = 0; i < frame_count(s); i++)
        if (mm_map_has(frame_at(s, i)->map, kind)) return true;
    return false;
}

static void write_frame(const struct mm_map_frame *f, bool is_end, uint32_t columns, uint32_t x, uint32_t y, FILE *out) {
    const uint32_t per_mille = FRAME_WIDTH * 1000 / (columns * MM_MAP_CELL);
    fprintf(out, "<text x=\"%u\" y=\"%u\">%s%llu: %u of %u segments in use</text>\n", x, y + CAPTION - 6, is_end ? "at the end, launches: " : "after launch ",
            (unsigned long long)f->launch, mm_map_used(f->map), f->map->segment_count);
    fprintf(out, "<g transform=\"translate(%u %u) scale(%u.%03u)\">\n", x, y + CAPTION, per_mille / 1000, per_mille % 1000);
    mm_map_write_cells(f->map, columns, out);
    fputs("</g>\n", out);
}

/* The keys of the kinds that occur, below the frames; returns the height. out: NULL: only that. */
static uint32_t write_keys(const struct mm_map_series *s, uint32_t y, FILE *out) {
    uint32_t n = 0;
    for (uint32_t kind = 0; kind < MM_MAP_KINDS; kind++) {
        if (!has_kind(s, kind)) continue;
        if (out) mm_map_write_key(kind, MM_SVG_MARGIN + n % ACROSS * KEY_WIDTH, y + n / ACROSS * KEY_HEIGHT + KEY_HEIGHT, out), fputs("</text>\n", out);
        n++;
    }
    return (n + ACROSS - 1) / ACROSS * KEY_HEIGHT;
}

void mm_map_series_write(const struct mm_map_series *s, const char *title, FILE *out) {
    uint32_t most = 1;
    for (unsigned i = 0; i < frame_count(s); i++)
        if (frame_at(s, i)->map->segment_count > most) most = frame_at(s, i)->map->segment_count;
    const uint32_t columns = mm_map_columns(most), rows = (most + columns - 1) / columns, across = FRAME_WIDTH + MM_SVG_MARGIN;
    const uint32_t down = CAPTION + rows * FRAME_WIDTH / columns + MM_SVG_MARGIN, keys = MM_SVG_TITLE_HEIGHT + (frame_count(s) + ACROSS - 1) / ACROSS * down;
    mm_svg_begin(out, MM_SVG_MARGIN + ACROSS * across, keys + write_keys(s, 0, NULL) + MM_SVG_MARGIN, title,
                 "The same place in each frame is the same segment; colours as in one map, filled as far as live");
    for (unsigned i = 0; i < frame_count(s); i++)
        write_frame(frame_at(s, i), i == s->count, columns, MM_SVG_MARGIN + i % ACROSS * across, MM_SVG_TITLE_HEIGHT + i / ACROSS * down, out);
    write_keys(s, keys, out);
    fputs("</svg>\n", out);
}
