/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases of misuse. What is expected stands here, and is not worked out: kinds after the table in docs/contract.md; sizes are
 * those of the size classes, which are 32, 64, 96, 128, then four to each doubling (runtime/core/class.h), and of runs, which are
 * multiples of 4 MiB.
 *
 * Each case has a fresh heap with memory enough (misuse.sh), so what one thread gets is slices side by side from the beginning
 * of a block, and nothing is used again: nobody mallocs after a free. A block is as long as misuse_row.stretch says below. */
#include "tests/gpu/misuse.h"

#define KIB 1024
#define MIB (1024 * KIB)
#define SEGMENT (4 * MIB)

/* A slice of a block of which others are live, or were never handed out: either keeps it from becoming whole. */
#define AGAIN(asked, is) .bytes = asked, .count = 2, .released = 1, .kind = DOUBLE_FREE, .size = is
/* A block of `slices` slices, all of which come back, so that it is whole; if it is as long as a segment, that is nobody's. */
#define BLOCK(asked, slices, long) .bytes = asked, .count = slices, .released = slices, .stretch = long, .kind = NOT_ALLOCATED
/* A live allocation. */
#define MIDDLE_OF(asked, is, by) .bytes = asked, .count = 1, .kind = INTERIOR, .size = is, .offset = by
/* A block of which two slices were handed out, so the third is next. */
#define NEXT(asked, long) .bytes = asked, .count = 2, .stretch = long, .kind = NEVER, .offset = 2 * (asked)
#define AFTER_FREE(asked, by) .bytes = asked, .count = 1, .released = 1, .kind = NOT_ALLOCATED, .offset = by
/* A whole warp frees as one if its slices are in one word of slice bits: 64 neighbours. */
#define WARPS(asked, from, upto) \
    .bytes = asked, .count = 64, .first = from, .released = upto, .live_from = 32, .stretch = 64 * (asked), .kind = DOUBLE_FREE, .size = asked
#define AT(address) .pointer = WILD, .offset = (long long)(address), .kind = FOREIGN, .when = SAME_KERNEL
#define FROM(where) .pointer = where, .kind = FOREIGN

const struct misuse_row misuse_rows[] = {
    {.name = "double-free/slice-32", AGAIN(1, 32)},
    {.name = "double-free/slice-64", AGAIN(64, 64), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "double-free/slice-128", AGAIN(100, 128)},
    {.name = "double-free/slice-112", AGAIN(100, 112), .spacing = 16},
    {.name = "double-free/slice-224", AGAIN(200, 224)},
    {.name = "double-free/slice-1024", AGAIN(1000, 1024)},
    {.name = "double-free/slice-5120", AGAIN(5000, 5120)},
    {.name = "double-free/slice-65536", AGAIN(64 * KIB, 65536)},
    {.name = "double-free/slice-114688", AGAIN(100000, 114688)},
    {.name = "double-free/slice-1048576", AGAIN(1000000, 1048576)},
    {.name = "double-free/slice-2097152", AGAIN(2 * MIB, 2097152), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "double-free/slice-64", AGAIN(64, 64), .who = MIDDLE | SPACE},
    {.name = "double-free/slice-2097152", AGAIN(2 * MIB, 2097152), .who = MIDDLE | SPACE, .when = LATER_KERNEL},

    {.name = "double-free/warp-64", WARPS(64, 0, 32), .who = WARP | WARP_SPACE, .mode = ALL_MODES},
    {.name = "double-free/warp-1024", WARPS(1024, 0, 32), .who = WARP},
    {.name = "double-free/warp-65536", WARPS(65536, 0, 32), .who = WARP},
    {.name = "double-free/warp-64-some-lanes", WARPS(64, 20, 32), .who = WARP | WARP_SPACE},
    {.name = "double-free/warp-64-one-lane", WARPS(64, 7, 8), .who = WARP},

    {.name = "interior/slice-64/second-byte", MIDDLE_OF(64, 64, 1)},
    {.name = "interior/slice-64/half", MIDDLE_OF(64, 64, 32), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "interior/slice-64/half", MIDDLE_OF(64, 64, 32), .who = MIDDLE | SPACE},
    {.name = "interior/slice-1024/last-byte", MIDDLE_OF(1000, 1024, 1023)},
    {.name = "interior/slice-5120/16", MIDDLE_OF(5000, 5120, 16)},
    {.name = "interior/slice-1048576/half", MIDDLE_OF(MIB, 1048576, 512 * KIB)},
    {.name = "interior/slice-2097152/last-byte", MIDDLE_OF(2 * MIB, 2097152, 2 * MIB - 1)},
    {.name = "interior/run-4194304/64", MIDDLE_OF(2 * MIB + 1, 4194304, 64)},
    {.name = "interior/run-8388608/16", MIDDLE_OF(6 * MIB, 8388608, 16), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "interior/run-8388608/16", MIDDLE_OF(6 * MIB, 8388608, 16), .who = MIDDLE},
    {.name = "interior/run-8388608/end-of-first-segment", MIDDLE_OF(6 * MIB, 8388608, SEGMENT - 1)},
    {.name = "interior/run-8388608/second-segment", MIDDLE_OF(6 * MIB, 0, SEGMENT), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "interior/run-8388608/last-byte", MIDDLE_OF(6 * MIB, 0, 8 * MIB - 1)},
    {.name = "interior/run-104857600/16", MIDDLE_OF(100 * MIB, 104857600, 16)},
    {.name = "interior/run-104857600/last-segment", MIDDLE_OF(100 * MIB, 0, 96 * MIB)},
    /* the other lanes free theirs, as they may */
    {.name = "interior/slice-64/one-lane", .bytes = 64, .count = 32, .live_from = 32, .odd_lane = 7, .offset = 16, .kind = INTERIOR, .size = 64,
     .who = WARP},

    {.name = "never/next-64", NEXT(64, 64 * KIB), .mode = ALL_MODES},
    {.name = "never/next-64", NEXT(64, 64 * KIB), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "never/next-1048576", NEXT(MIB, SEGMENT)},
    {.name = "never/next-2097152", .bytes = 2 * MIB, .count = 1, .stretch = SEGMENT, .kind = NEVER, .offset = 2 * MIB},
    {.name = "never/last-of-block-1024", .bytes = 1024, .count = 2, .stretch = MIB, .pointer = END, .offset = -1024, .kind = NEVER},
    /* 43690 slices of 96 bytes and 64 bytes make a segment; 819 of 5,120 and 1,024 bytes */
    {.name = "never/behind-the-last-96", .bytes = 96, .count = 1, .stretch = SEGMENT, .pointer = END, .offset = -64, .kind = NEVER},
    {.name = "never/behind-the-last-5120", .bytes = 5120, .count = 1, .stretch = SEGMENT, .pointer = END, .offset = -1024, .kind = NEVER},

    {.name = "not-allocated/block-64", BLOCK(64, 1024, 64 * KIB), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "not-allocated/block-64", BLOCK(64, 1024, 64 * KIB), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "not-allocated/block-1024", BLOCK(1024, 1024, MIB)},
    {.name = "not-allocated/block-4096", BLOCK(4096, 1024, SEGMENT), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "not-allocated/block-4096/16", BLOCK(4096, 1024, SEGMENT), .offset = 16},
    {.name = "not-allocated/block-5120", BLOCK(5120, 819, SEGMENT)},
    {.name = "not-allocated/block-65536", BLOCK(64 * KIB, 64, SEGMENT)},
    {.name = "not-allocated/block-1048576", BLOCK(MIB, 4, SEGMENT)},
    {.name = "not-allocated/block-2097152", BLOCK(2 * MIB, 2, SEGMENT)},
    {.name = "not-allocated/run-4194304", AFTER_FREE(2 * MIB + 1, 0)},
    {.name = "not-allocated/run-8388608", AFTER_FREE(6 * MIB, 0), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "not-allocated/run-8388608", AFTER_FREE(6 * MIB, 0), .who = MIDDLE | SPACE, .when = LATER_KERNEL},
    {.name = "not-allocated/run-8388608/16", AFTER_FREE(6 * MIB, 16)},
    {.name = "not-allocated/run-8388608/second-segment", AFTER_FREE(6 * MIB, SEGMENT)},
    {.name = "not-allocated/run-104857600", AFTER_FREE(100 * MIB, 0)},
    /* one slice is live, at the front: the last block of its segment waits in the reserve, the heap's middle is nobody's, what is
     * far behind is not mapped */
    {.name = "not-allocated/last-block-64", .bytes = 64, .count = 1, .stretch = SEGMENT, .pointer = END, .offset = -64, .kind = NOT_ALLOCATED},
    {.name = "not-allocated/free-segment", .bytes = 64, .count = 1, .offset = 128ll * MIB, .kind = NOT_ALLOCATED},
    {.name = "not-allocated/not-mapped", .bytes = 64, .count = 1, .offset = 4096ll * MIB, .kind = NOT_ALLOCATED},

    {.name = "foreign/cudaMalloc", FROM(CUDA_MALLOC), .mode = ALL_MODES},
    {.name = "foreign/cudaMalloc", FROM(CUDA_MALLOC), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "foreign/cudaMallocManaged", FROM(MANAGED), .when = SAME_KERNEL},
    {.name = "foreign/cudaMallocHost", FROM(PINNED), .when = SAME_KERNEL},
    {.name = "foreign/host-stack", FROM(HOST_STACK), .when = SAME_KERNEL},
    {.name = "foreign/host-heap", FROM(HOST_HEAP), .when = SAME_KERNEL},
    {.name = "foreign/stack", FROM(STACK), .when = SAME_KERNEL, .mode = ALL_MODES},
    {.name = "foreign/stack", FROM(STACK), .when = SAME_KERNEL, .who = MIDDLE | SPACE},
    {.name = "foreign/shared", FROM(SHARED), .when = SAME_KERNEL},
    {.name = "foreign/global", FROM(GLOBAL), .when = SAME_KERNEL},
    {.name = "foreign/0x1", AT(0x1)},
    {.name = "foreign/0x7fffffffffff", AT(0x7fffffffffff)},
    {.name = "foreign/0xdeadbeefdeadbeef", AT(0xdeadbeefdeadbeef)},
    {.name = "foreign/all-ones", AT(-1)},

    {.name = "gpu-1/double-free/slice-64", AGAIN(64, 64), .device = 1, .when = BOTH_KERNELS | OTHER_GPU, .mode = REPORT | TRAP},
    {.name = "gpu-1/double-free/warp-64", WARPS(64, 0, 32), .who = WARP, .device = 1},
    {.name = "gpu-1/interior/run-8388608/16", MIDDLE_OF(6 * MIB, 8388608, 16), .device = 1, .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "gpu-1/not-allocated/run-8388608", AFTER_FREE(6 * MIB, 0), .device = 1},
    {.name = "gpu-1/foreign/cudaMalloc-of-gpu-0", FROM(CUDA_MALLOC_OF_ANOTHER), .device = 1, .when = SAME_KERNEL},
    {.name = "gpu-1/many/40", AT(0x1000), .times = 40, .device = 1},

    /* the first 32 are told; then, if there were more, how many. A warp's are as many as its slices that were free */
    {.name = "many/32", AT(0x1000), .times = 32},
    {.name = "many/33", AT(0x1000), .times = 33},
    {.name = "many/40", AT(0x1000), .times = 40, .who = ONE | TURNS, .mode = REPORT | IGNORE},
    {.name = "many/1000", AT(0x1000), .times = 1000},
    {.name = "many/double-free-64", .bytes = 64, .count = 64, .released = 40, .times = 40, .kind = DOUBLE_FREE, .size = 64, .who = ONE | TURNS},
    {.name = "many/warp-64", WARPS(64, 0, 32), .times = 33, .who = WARP},
};
const unsigned misuse_row_count = sizeof misuse_rows / sizeof *misuse_rows;
