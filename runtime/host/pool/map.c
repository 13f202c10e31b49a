/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A picture of a pool (SVG, MM_HEAP_MAP): a row for each range from the driver, slabs first, the lowest address first. A row has COLUMNS columns, each of the
 * same part of its range, filled from below: live, then freed and waiting for kernels, then free. Only the first MM_POOL_MAP_ROWS ranges are drawn, so the
 * picture is at most some 3 MB; the legend counts all of them. */
#define _GNU_SOURCE /* open_memstream */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/host/env.h"
#include "runtime/host/pool/output.h"
#include "runtime/host/say.h"
#include "runtime/host/svg.h"

/* In pixels. */
#define COLUMN 2u
#define BAR 12u
#define ROW 16u
#define TEXT_WIDTH 420u /* of a row's text */

#define COLUMNS 256u /* divides MM_POOL_RANGE_BYTES, and so each range */

enum kind { KIND_LIVE, KIND_WAITING, KIND_FREE, KINDS };
static const char *const colours[KINDS] = {"#3465a4", "#f0a030", "#e0e0e0"};
static const char *const names[KINDS] = {"live", "freed (waits for kernels, or in a magazine)", "free"};

struct row {
    uint64_t base, bytes;
    bool is_slab;
    uint64_t sum[KINDS], column[COLUMNS][KINDS]; /* bytes */
};

struct map {
    struct row *rows;
    uint32_t count, at;                  /* at: the row of the block that was seen last */
    uint64_t parts[KINDS], bytes[KINDS]; /* of all ranges: allocations, or free blocks */
};

static enum kind kind_of(uint64_t address) {
    const struct mm_allocation *const a = mm_pool_allocation_at(address);
    if (!a) return KIND_FREE;
    const int state = __atomic_load_n(&a->state, __ATOMIC_ACQUIRE);
    return state == MM_ALLOCATION_PENDING || state == MM_ALLOCATION_CACHED ? KIND_WAITING : KIND_LIVE;
}

/* The drawn slab that contains the address, or NULL. Addresses rise from call to call, as in the rows. */
static struct row *slab_of(struct map *map, uint64_t address) {
    while (map->at < map->count && map->rows[map->at].base + map->rows[map->at].bytes <= address) map->at++;
    return map->at < map->count ? &map->rows[map->at] : NULL;
}

static void add(struct map *map, struct row *row, uint64_t base, uint64_t bytes, enum kind kind) {
    map->parts[kind]++, map->bytes[kind] += bytes;
    if (!row) return;
    row->sum[kind] += bytes;
    const uint64_t each = row->bytes / COLUMNS;
    for (uint64_t at = base - row->base, end = at + bytes, next; at < end; at = next) {
        next = (at / each + 1) * each < end ? (at / each + 1) * each : end;
        row->column[at / each][kind] += next - at;
    }
}

static void see_block(void *seen, uint64_t base, uint64_t bytes, bool is_live) {
    struct map *const map = (struct map *)seen;
    add(map, slab_of(map, base), base, bytes, is_live ? kind_of(base) : KIND_FREE);
}

/* Makes rows for the pool's slabs, or its other ranges. The latter are seen here; a free one is in no table. */
static void add_ranges(struct map *map, const struct mm_pool *p, bool are_slabs) {
    for (uint64_t i = 0; i < mm_pool_ranges.count; i++) {
        const struct mm_pool_range *const range = &mm_pool_ranges.list[i];
        struct row *row = NULL;
        if (range->pool != p || range->is_slab != are_slabs) continue;
        if (map->count < MM_POOL_MAP_ROWS) row = &map->rows[map->count++], row->base = range->base, row->bytes = range->bytes, row->is_slab = are_slabs;
        if (!are_slabs) add(map, row, range->base, range->bytes, kind_of(range->base));
    }
}

/* How far a column is filled with a kind and those below it, in pixels: any live byte is seen. */
static uint32_t filled(const struct row *row, uint32_t column, enum kind kind) {
    const uint64_t each = row->bytes / COLUMNS;
    uint64_t bytes = 0;
    for (unsigned k = 0; k <= kind; k++) bytes += row->column[column][k];
    return (uint32_t)((bytes * BAR + each - 1) / each);
}

/* Draws a kind in all rows; columns of the same fill are one rectangle. */
static void write_kind(const struct map *map, enum kind kind, FILE *out) {
    fprintf(out, "<path fill=\"%s\" d=\"", colours[kind]);
    for (uint32_t i = 0; i < map->count; i++) {
        for (uint32_t c = 0, next; c < COLUMNS; c = next) {
            const struct row *const row = &map->rows[i];
            const uint32_t from = kind == KIND_LIVE ? 0 : filled(row, c, (enum kind)(kind - 1)), end = filled(row, c, kind);
            next = c + 1;
            while (next < COLUMNS && filled(row, next, kind) == end && (kind == KIND_LIVE || filled(row, next, (enum kind)(kind - 1)) == from)) next++;
            if (from < end) mm_svg_rectangle(out, MM_SVG_MARGIN + c * COLUMN, MM_SVG_TITLE_HEIGHT + i * ROW + BAR - end, (next - c) * COLUMN, end - from);
        }
    }
    fputs("\"/>\n", out);
}

static void write_texts(const struct map *map, FILE *out) {
    for (uint32_t i = 0; i < map->count; i++) {
        const struct row *const row = &map->rows[i];
        fprintf(out, "<text x=\"%u\" y=\"%u\">0x%" PRIx64 ": %s of %s", 2 * MM_SVG_MARGIN + COLUMNS * COLUMN, MM_SVG_TITLE_HEIGHT + i * ROW + BAR - 2,
                row->base, row->is_slab ? "slab" : "range", mm_host_size(row->bytes).text);
        fprintf(out, ", live %s", mm_host_size(row->sum[KIND_LIVE]).text);
        fprintf(out, ", freed %s</text>\n", mm_host_size(row->sum[KIND_WAITING]).text);
    }
}

static void write_legend(const struct map *map, FILE *out) {
    const uint32_t x = 2 * MM_SVG_MARGIN + COLUMNS * COLUMN + TEXT_WIDTH;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        mm_svg_legend(out, x, MM_SVG_TITLE_HEIGHT + MM_SVG_LEGEND_ROW / 2 + kind * MM_SVG_LEGEND_ROW, colours[kind]);
        fprintf(out, "%s: %" PRIu64 " with %s</text>\n", names[kind], map->parts[kind], mm_host_size(map->bytes[kind]).text);
    }
}

static void write_map(const struct map *map, const struct mm_pool *p, FILE *out) {
    const uint32_t tall = map->count * ROW, legend = KINDS * MM_SVG_LEGEND_ROW;
    char title[80];
    snprintf(title, sizeof title, "Pool of device %d, process %ld, at the end", p->device, (long)getpid());
    mm_svg_begin(out, 3 * MM_SVG_MARGIN + COLUMNS * COLUMN + TEXT_WIDTH + MM_SVG_LEGEND_WIDTH,
                 MM_SVG_TITLE_HEIGHT + (tall > legend ? tall : legend) + MM_SVG_MARGIN, title,
                 "%" PRIu64 " slabs and %" PRIu64 " other ranges, of which %u are drawn, each in a row; a column is 1/%u of its range", p->slabs, p->wholes,
                 map->count, COLUMNS);
    for (unsigned kind = 0; kind < KINDS; kind++) write_kind(map, (enum kind)kind, out);
    write_texts(map, out);
    write_legend(map, out);
    fputs("</svg>\n", out);
}

void mm_pool_draw(struct mm_pool *p, struct mm_pool_output *o) {
    struct map map = {NULL, 0, 0, {0}, {0}};
    if (!mm_host_env_get()->heap_map || p->slabs + p->wholes == 0) return;
    map.rows = (struct row *)calloc(MM_POOL_MAP_ROWS, sizeof *map.rows);
    FILE *const out = map.rows ? open_memstream(&o->picture, &o->picture_bytes) : NULL;
    if (out) {
        add_ranges(&map, p, true);
        mm_fit_walk(p->fit, see_block, &map);
        add_ranges(&map, p, false);
        write_map(&map, p, out);
    }
    o->lacks_memory = !out || fclose(out) != 0;
    if (o->lacks_memory) free(o->picture), o->picture = NULL;
    free(map.rows);
}
