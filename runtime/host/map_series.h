/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Maps of a heap over a run (MM_MAP_SERIES): one picture with at most MM_HOST_MAP_FRAMES frames, and one of the end.
 *
 * At first each launch gets a frame. When there is no more room, every second frame is dropped, and from then on only every second launch gets one, and so on. So
 * the frames cover all launches evenly, however many there are, and the number of waits grows with the logarithm of the number of launches.
 *
 * Threads may launch at the same time, and wait for their launches in any order. So a caller keeps the number of its launch, and a frame is filed by that
 * number. A later launch may already have run when the map is taken: the frame then shows its requests, too. The caller excludes other calls for the series. */
#ifndef MM_HOST_MAP_SERIES_H
#define MM_HOST_MAP_SERIES_H

#include <stdbool.h>

#include "runtime/host/map.h"
#include "runtime/host/map_frames.h"

/* A launch was made. Returns its number if it gets a frame when it has ended: then mm_map_series_add is called with it, unless that fails. Else 0. */
uint64_t mm_map_series_count(struct mm_map_series *series);
/* Adds the frame of a launch, unless the stride has grown past it since. Frees the map, at once or later. NULL: no memory, no frame. */
void mm_map_series_add(struct mm_map_series *series, uint64_t launch, struct mm_map *map);
/* Sets the frame of the end, in place of any earlier one. */
void mm_map_series_end(struct mm_map_series *series, struct mm_map *map);

bool mm_map_series_has_any(const struct mm_map_series *series);
void mm_map_series_write(const struct mm_map_series *series, const char *title, FILE *out);
/* Frees the frames; the series is zeros then. */
void mm_map_series_drop(struct mm_map_series *series);

#endif
