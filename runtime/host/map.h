/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap as a picture (SVG): a cell for each segment up to the last one that is mapped, row by row. Its colour is the size class, how far
 * it is filled the share of it that is live; the segments of a run are one bar. */
#ifndef MM_HOST_MAP_H
#define MM_HOST_MAP_H

#include <stdio.h>

#include "runtime/host/snapshot.h"

/* title: what stands above it, plain text. */
void mm_map_write(const struct mm_snapshot *snapshot, const char *title, FILE *out);

#endif
