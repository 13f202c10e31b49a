/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A picture of a heap (SVG): one cell for each segment up to the last mapped one, row by row. The colour of a cell stands for the size class that has most
 * of its pages; the filled part of the cell is the live share. The segments of a run are one bar. */
#ifndef MM_HOST_MAP_H
#define MM_HOST_MAP_H

#include <stdio.h>

#include "runtime/host/snapshot.h"

#define MM_MAP_KINDS (MM_USAGE_CLASSES + 5) /* what a cell shows (map.c) */
#define MM_MAP_CELL 10u                     /* pixels of a cell and the gap next to it */

struct mm_map_cell {
    uint8_t kind;   /* of MM_MAP_KINDS: the size class that has most of its pages or, if pages have objects of all sizes, of its bytes; or else */
    uint8_t begins; /* whether a run begins here */
    uint8_t live;   /* the live share, 255 for all */
};

struct mm_map {
    uint32_t segment_count;
    uint32_t counts[MM_MAP_KINDS]; /* segments */
    uint64_t live[MM_MAP_KINDS];   /* objects */
    struct mm_map_cell cells[];
};

/* What the picture of a heap shows. NULL: no memory. free() frees it. */
struct mm_map *mm_map_take(const struct mm_snapshot *snapshot);
/* title: the heading, plain text without XML's special characters. */
void mm_map_write(const struct mm_map *map, const char *title, FILE *out);

/* The cells, from the origin on, MM_MAP_CELL pixels each; how many to a row suits so many segments. */
void mm_map_write_cells(const struct mm_map *map, uint32_t columns, FILE *out);
uint32_t mm_map_columns(uint32_t segments);
/* Whether a kind occurs; its colour and name, in a <text> that the caller ends; segments that are in use. */
bool mm_map_has(const struct mm_map *map, uint32_t kind);
void mm_map_write_key(uint32_t kind, uint32_t x, uint32_t y, FILE *out);
uint32_t mm_map_used(const struct mm_map *map);

#endif
