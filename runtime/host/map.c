/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/map.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/svg.h"

/* In pixels. */
#define GAP 1u /* between cells, not within a run */
#define COLUMNS_MIN 32u
#define COLUMNS_MAX 256u

enum kind { KIND_SPAN = MM_USAGE_CLASSES, KIND_SMALL, KIND_FREE, KIND_RUN, KIND_NONE, KINDS };
MM_STATIC_ASSERT((int)KINDS == (int)MM_MAP_KINDS, "the header says how many");

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

static struct mm_map_cell look(const struct mm_snapshot *of, struct mm_map *map, uint32_t s) {
    struct mm_map_cell cell = {KIND_NONE, 0, 0};
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

static void write_kind(const struct mm_map *map, uint32_t kind, uint32_t columns, FILE *out) {
    const uint32_t side = MM_MAP_CELL - GAP;
    const struct colour fill = colour_of(kind);
    if (!map->counts[kind]) return;
    fprintf(out, "<path fill=\"%s\"%s d=\"", fill.text, kind <= KIND_SMALL ? " fill-opacity=\"0.25\"" : "");
    for (uint32_t s = 0; s < map->segment_count; s++) {
        const struct mm_map_cell *cell = &map->cells[s];
        if (cell->kind != kind) continue;
        const uint32_t x = s % columns, y = s / columns;
        const bool goes_on = kind == KIND_RUN && x + 1 < columns && s + 1 < map->segment_count && cell[1].kind == KIND_RUN && !cell[1].begins;
        mm_svg_rectangle(out, x * MM_MAP_CELL, y * MM_MAP_CELL, goes_on ? MM_MAP_CELL : side, side);
    }
    fputs("\"/>\n", out);
    if (kind > KIND_SMALL) return;
    fprintf(out, "<path fill=\"%s\" d=\"", fill.text);
    for (uint32_t s = 0; s < map->segment_count; s++) {
        const struct mm_map_cell *cell = &map->cells[s];
        if (cell->kind != kind || !cell->live) continue;
        const uint32_t tenths = side * 10 * cell->live / 255;
        fprintf(out, "M%u %uh%uv-%u.%uh-%uz", s % columns * MM_MAP_CELL, s / columns * MM_MAP_CELL + side, side, tenths / 10, tenths % 10, side);
    }
    fputs("\"/>\n", out);
}

void mm_map_write_cells(const struct mm_map *map, uint32_t columns, FILE *out) {
    for (uint32_t kind = 0; kind < KIND_NONE; kind++) write_kind(map, kind, columns, out);
}

static const char *name_of(uint32_t kind, char *name, size_t name_bytes) {
    if (kind < KIND_SPAN) snprintf(name, name_bytes, "%u bytes", mm_class_bytes(kind));
    else if (kind == KIND_SPAN) snprintf(name, name_bytes, "spans (less than 1 MiB)");
    else if (kind == KIND_SMALL) snprintf(name, name_bytes, "small memory, its objects not known");
    else snprintf(name, name_bytes, "%s", kind == KIND_RUN ? "runs (1 MiB and more)" : kind == KIND_FREE ? "free" : "not mapped, or on its way");
    return name;
}

void mm_map_write_key(uint32_t kind, uint32_t x, uint32_t y, FILE *out) {
    char name[40];
    mm_svg_legend(out, x, y, colour_of(kind).text);
    fputs(name_of(kind, name, sizeof name), out);
}

static void write_legend(const struct mm_map *map, uint32_t x, FILE *out) {
    uint32_t y = MM_SVG_TITLE_HEIGHT + MM_SVG_LEGEND_ROW / 2;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        if (!mm_map_has(map, kind)) continue;
        mm_map_write_key(kind, x, y, out);
        fprintf(out, ": %u segments", map->counts[kind]);
        if (kind <= KIND_SPAN || kind == KIND_RUN) fprintf(out, ", %llu live", (unsigned long long)map->live[kind]);
        fputs("</text>\n", out);
        y += MM_SVG_LEGEND_ROW;
    }
}

bool mm_map_has(const struct mm_map *map, uint32_t kind) { return map->counts[kind] || map->live[kind]; }
uint32_t mm_map_used(const struct mm_map *map) { return map->segment_count - map->counts[KIND_FREE] - map->counts[KIND_NONE]; }

uint32_t mm_map_columns(uint32_t segments) {
    uint32_t columns = COLUMNS_MIN;
    while (columns < COLUMNS_MAX && columns * columns < segments + segments / 4) columns += 16;
    return columns;
}

struct mm_map *mm_map_take(const struct mm_snapshot *of) {
    const uint32_t n = of->segment_count;
    struct mm_map *map = (struct mm_map *)calloc(1, sizeof *map + n * sizeof *map->cells);
    if (!map) return NULL;
    map->segment_count = n;
    for (uint32_t s = 0; s < n; s++) map->cells[s] = look(of, map, s);
    return map;
}

void mm_map_write(const struct mm_map *map, const char *title, FILE *out) {
    const uint32_t n = map->segment_count, columns = mm_map_columns(n);
    uint32_t legend = 0;
    for (uint32_t kind = 0; kind < KINDS; kind++) legend += mm_map_has(map, kind) ? MM_SVG_LEGEND_ROW : 0;
    const uint32_t width = MM_SVG_MARGIN + columns * MM_MAP_CELL + MM_SVG_MARGIN + MM_SVG_LEGEND_WIDTH, tall = (n + columns - 1) / columns * MM_MAP_CELL;
    const uint32_t height = MM_SVG_TITLE_HEIGHT + (tall > legend ? tall : legend) + MM_SVG_MARGIN;
    mm_svg_begin(out, width, height, title,
                 "%u segments of %s, %u to a row, the lowest address first; the colour of what has most of its pages, filled as far as live", n,
                 mm_host_size(MM_SEGMENT_BYTES).text, columns);
    fprintf(out, "<g transform=\"translate(%u %u)\">\n", MM_SVG_MARGIN, MM_SVG_TITLE_HEIGHT);
    mm_map_write_cells(map, columns, out);
    fputs("</g>\n", out);
    write_legend(map, MM_SVG_MARGIN + columns * MM_MAP_CELL + MM_SVG_MARGIN, out);
    fputs("</svg>\n", out);
}
