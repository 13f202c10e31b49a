/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A picture of a heap (SVG): one cell for each segment up to the last mapped one, row by row. The colour of a cell stands for the size class that has most
 * of its pages; the filled part of the cell is the live share. The segments of a run are one bar. */
#ifndef MM_HOST_MAP_H
#define MM_HOST_MAP_H

#include <stdio.h>

#include "runtime/host/snapshot.h"

/* title: the heading, plain text without XML's special characters. */
void mm_map_write(const struct mm_snapshot *snapshot, const char *title, FILE *out);

#endif
