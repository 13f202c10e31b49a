/* Knobs of the host side: value, unit, reason. No code. */
#ifndef MM_HOST_HOSTCONFIG_H
#define MM_HOST_HOSTCONFIG_H

#include "mmconfig.h"

/* Variables of the environment that libmm.so reads; any other MM_* is said to be unknown. Those that
 * only mmnvcc and its shims read stand in the second list and are left alone. */
#define MM_HOST_VARIABLES "MM_HEAP_SIZE", "MM_VERBOSE"
#define MM_HOST_VARIABLES_ELSEWHERE "MM_LIBDIR", "MM_NVCC", "MM_CUDA_HOME"

/* Physical memory comes in chunks of one driver handle each. Each chunk is as large as everything before
 * it together, between these two: few handles for a large heap, little to begin with for a small one. */
#define MM_HOST_CHUNK_SEGMENTS_MIN 16   /* 64 MiB */
#define MM_HOST_CHUNK_SEGMENTS_MAX 2048 /* 8 GiB */
#define MM_HOST_CHUNKS_MAX 1024         /* what is tried before the rest is given up */

/* Share of the free memory that is mapped when nobody says how much. */
#define MM_HOST_DEFAULT_FREE_DIVISOR 4

/* Left unmapped even if more is asked for: the driver needs some for modules, stacks and its own copies,
 * and a launch without it fails. The smaller of this and a part of what is free. */
#define MM_HOST_RESERVE_BYTES (512ull << 20)
#define MM_HOST_RESERVE_FREE_DIVISOR 8

/* Alignments tried for the user addresses, largest first, as shifts. It is also the largest alignment an
 * aligned malloc can give. The last one must be that of a segment. */
#define MM_HOST_ALIGN_SHIFTS 30, 26, MM_SEGMENT_SHIFT

MM_STATIC_ASSERT(MM_HOST_CHUNK_SEGMENTS_MIN <= MM_HOST_CHUNK_SEGMENTS_MAX, "chunks only grow");

#endif
