/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a heap keeps for maps over a run (map_series.h). */
#ifndef MM_HOST_MAP_FRAMES_H
#define MM_HOST_MAP_FRAMES_H

#include <stdint.h>

#include "mmconfig.h"

struct mm_map;
struct mm_map_frame {
    struct mm_map *map;
    uint64_t launch; /* of the heap's context, from 1 */
};

/* Begins as zeros. */
struct mm_map_series {
    struct mm_map_frame frames[MM_HOST_MAP_FRAMES], end;
    unsigned count, stride_shift; /* log2 of the launches per frame */
    uint64_t launches;
};

#endif
