/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/map.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/svg.h"

/* In pixels. */
#define CELL 10u
#define GAP 1u /* between cells, not within a run */
#define COLUMNS_MIN 32u
#define COLUMNS_MAX 256u

enum kind { KIND_SPAN = MM_USAGE_CLASSES, KIND_SMALL, KIND_FREE, KIND_RUN, KIND_NONE, KINDS };

struct cell {
    uint8_t kind;   /* enum kind, or the size class that has most of its pages or, if pages have objects of all sizes, of its bytes */
    uint8_t begins; /* whether a run begins here */
    uint8_t live;   /* the live share, 255 for all */
};

struct map {
    const struct mm_snapshot *of;
    uint32_t columns, rows;
    struct cell *cells;
    uint32_t counts[KINDS];
    uint64_t live[KINDS]; /* objects */
};

struct colour {
    char text[8];
};

/* The colours of size classes go from blue, for the smallest, to red. Neighbours also differ in brightness. */
static struct colour colour_of(uint32_t kind) {
    struct colour colour;
    if (kind >= KIND_SPAN) {
        static const char *const others[] = {"#8a7a6a", "#7a8a9a", "#e8e8e8", "#555555", "#ffffff"};
        strcpy(colour.text, others[kind - KIND_SPAN]);
        return colour;
    }
    const double hue = 4.0 * (1.0 - (double)mm_at_most(kind, MM_CLASS_COUNT - 1) / (MM_CLASS_COUNT - 1)),
                 value = kind % 2 ? 0.92 : 0.72; /* 0 red, 2 green, 4 blue */
    const double part = hue - (double)(int)hue, rising = 0.15 + 0.85 * part, falling = 1.0 - 0.85 * part;
    const double of[5][3] = {{1, rising, 0.15}, {falling, 1, 0.15}, {0.15, 1, rising}, {0.15, falling, 1}, {0.15, 0.15, 1}};
    const double *rgb = of[(int)hue];
    snprintf(colour.text, sizeof colour.text, "#%02x%02x%02x", (unsigned)(255 * value * rgb[0]), (unsigned)(255 * value * rgb[1]),
             (unsigned)(255 * value * rgb[2]));
    return colour;
}

static struct cell look(struct map *map, uint32_t s) {
    const struct mm_snapshot *of = map->of;
    struct cell cell = {KIND_NONE, 0, 0};
    struct mm_usage usage;
    memset(&usage, 0, sizeof usage);
    of->walk(&of->ref, s, s + 1, &usage);
    if (usage.free_segments) cell.kind = KIND_FREE;
    else if (usage.run_segments) cell.kind = KIND_RUN, cell.begins = usage.runs != 0, cell.live = 255;
    else if (usage.paged_segments) {
        const uint64_t bytes = usage.span_pages * MM_PAGE_BYTES + usage.small_bytes;
        uint64_t most = usage.span_pages * MM_PAGE_BYTES;
        cell.kind = usage.span_pages || !usage.small_pages ? KIND_SPAN : KIND_SMALL;
        for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
            const struct mm_class_usage *of_class = &usage.classes[c];
            const uint64_t has = of_class->pages ? of_class->pages * MM_PAGE_BYTES : of_class->bytes;
            map->live[c] += of_class->live;
            if (has > most) most = has, cell.kind = (uint8_t)c;
        }
        cell.live = (uint8_t)(bytes * 255 / MM_SEGMENT_BYTES);
    }
    map->counts[cell.kind]++, map->live[KIND_SPAN] += usage.spans, map->live[KIND_RUN] += usage.runs;
    return cell;
}

static void write_cells(const struct map *map, uint32_t kind, FILE *out) {
    const uint32_t side = CELL - GAP;
    const struct colour fill = colour_of(kind);
    if (!map->counts[kind]) return;
    fprintf(out, "<path fill=\"%s\"%s d=\"", fill.text, kind <= KIND_SMALL ? " fill-opacity=\"0.25\"" : "");
    for (uint32_t s = 0; s < map->of->segment_count; s++) {
        const struct cell *cell = &map->cells[s];
        if (cell->kind != kind) continue;
        const uint32_t x = s % map->columns, y = s / map->columns;
        const bool goes_on = kind == KIND_RUN && x + 1 < map->columns && s + 1 < map->of->segment_count && cell[1].kind == KIND_RUN && !cell[1].begins;
        mm_svg_rectangle(out, MM_SVG_MARGIN + x * CELL, MM_SVG_TITLE_HEIGHT + y * CELL, goes_on ? CELL : side, side);
    }
    fputs("\"/>\n", out);
    if (kind > KIND_SMALL) return;
    fprintf(out, "<path fill=\"%s\" d=\"", fill.text);
    for (uint32_t s = 0; s < map->of->segment_count; s++) {
        const struct cell *cell = &map->cells[s];
        if (cell->kind != kind || !cell->live) continue;
        const uint32_t tenths = side * 10 * cell->live / 255;
        fprintf(out, "M%u %uh%uv-%u.%uh-%uz", MM_SVG_MARGIN + s % map->columns * CELL, MM_SVG_TITLE_HEIGHT + s / map->columns * CELL + side, side, tenths / 10,
                tenths % 10, side);
    }
    fputs("\"/>\n", out);
}

static const char *name_of(uint32_t kind, char *name, size_t name_bytes) {
    if (kind < KIND_SPAN) snprintf(name, name_bytes, "%u bytes", mm_class_bytes(kind));
    else if (kind == KIND_SPAN) snprintf(name, name_bytes, "spans (less than 1 MiB)");
    else if (kind == KIND_SMALL) snprintf(name, name_bytes, "small memory, its objects not known");
    else snprintf(name, name_bytes, "%s", kind == KIND_RUN ? "runs (1 MiB and more)" : kind == KIND_FREE ? "free" : "not mapped, or on its way");
    return name;
}

static void write_legend(const struct map *map, uint32_t x, FILE *out) {
    uint32_t y = MM_SVG_TITLE_HEIGHT + MM_SVG_LEGEND_ROW / 2;
    char name[40];
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        if (!map->counts[kind] && !map->live[kind]) continue;
        mm_svg_legend(out, x, y, colour_of(kind).text);
        fprintf(out, "%s: %u segments", name_of(kind, name, sizeof name), map->counts[kind]);
        if (kind <= KIND_SPAN || kind == KIND_RUN) fprintf(out, ", %llu live", (unsigned long long)map->live[kind]);
        fputs("</text>\n", out);
        y += MM_SVG_LEGEND_ROW;
    }
}

void mm_map_write(const struct mm_snapshot *snapshot, const char *title, FILE *out) {
    struct map map = {snapshot, COLUMNS_MIN, 0, NULL, {0}, {0}};
    const uint32_t n = snapshot->segment_count;
    uint32_t legend = 0;
    map.cells = (struct cell *)calloc(n ? n : 1, sizeof *map.cells);
    if (!map.cells) return;
    while (map.columns < COLUMNS_MAX && map.columns * map.columns < n + n / 4) map.columns += 16;
    map.rows = (n + map.columns - 1) / map.columns;
    for (uint32_t s = 0; s < n; s++) map.cells[s] = look(&map, s);
    for (uint32_t kind = 0; kind < KINDS; kind++) legend += map.counts[kind] || map.live[kind] ? MM_SVG_LEGEND_ROW : 0;
    const uint32_t width = MM_SVG_MARGIN + map.columns * CELL + MM_SVG_MARGIN + MM_SVG_LEGEND_WIDTH, tall = map.rows * CELL;
    const uint32_t height = MM_SVG_TITLE_HEIGHT + (tall > legend ? tall : legend) + MM_SVG_MARGIN;
    mm_svg_begin(out, width, height, title,
                 "%u segments of %s, %u to a row, the lowest address first; the colour of what has most of its pages, filled as far as live", n,
                 mm_host_size(MM_SEGMENT_BYTES).text, map.columns);
    for (uint32_t kind = 0; kind < KIND_NONE; kind++) write_cells(&map, kind, out);
    write_legend(&map, MM_SVG_MARGIN + map.columns * CELL + MM_SVG_MARGIN, out);
    fputs("</svg>\n", out);
    free(map.cells);
}
