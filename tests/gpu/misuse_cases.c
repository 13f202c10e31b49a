/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases of misuse. Expected values are written out, not computed: kinds follow the table in docs/reference/contract.md; sizes are
 * those of the size classes, which are 32, 64, 96, 128, then four to each doubling (runtime/core/class.h), of spans, which are
 * multiples of 16 KiB, and of runs, which are multiples of 1 MiB.
 *
 * Each case has a fresh heap with enough memory (misuse.sh), so one thread gets consecutive slices from the beginning of a block,
 * the first 32 of them, or all if the block has fewer. Nothing is reused, because no malloc follows a free. The length of a block is
 * misuse_row.stretch below. A block whose slices are all free stays in its class. */
#include "tests/gpu/misuse.h"

#define KIB 1024
#define MIB (1024 * KIB)
#define SEGMENT MIB

/* A slice of a block whose other slices are live, or were never handed out. */
#define AGAIN(asked, is) .bytes = asked, .count = 2, .released = 1, .kind = DOUBLE_FREE, .size = is
/* A block of `slices` slices, all of which are freed. */
#define BLOCK(asked, slices, long) .bytes = asked, .count = slices, .released = slices, .stretch = long, .kind = DOUBLE_FREE, .size = asked
/* A live allocation. */
#define MIDDLE_OF(asked, is, by) .bytes = asked, .count = 1, .kind = INTERIOR, .size = is, .offset = by
/* A block with two slices handed out; freeing the third one is a double free, as if it had been allocated and freed. */
#define NEXT(asked, long) .bytes = asked, .count = 2, .stretch = long, .kind = DOUBLE_FREE, .size = asked, .offset = 2 * (asked)
/* Behind the last slice of a block, as an offset from the block's end. */
#define BEHIND(asked, long, by) .bytes = asked, .count = 1, .stretch = long, .pointer = END, .offset = by, .kind = NEVER
#define AFTER_FREE(asked, by) .bytes = asked, .count = 1, .released = 1, .kind = NOT_ALLOCATED, .offset = by
/* A converged warp frees its slices together if they are in one word: 32 neighbours. */
#define WARPS(asked, from, upto) \
    .bytes = asked, .count = 32, .first = from, .released = upto, .live_from = 32, .stretch = 32 * (asked), .kind = DOUBLE_FREE, .size = asked
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
    {.name = "double-free/slice-65536", AGAIN(64 * KIB, 65536), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "double-free/slice-64", AGAIN(64, 64), .who = MIDDLE | SPACE},
    {.name = "double-free/slice-65536", AGAIN(64 * KIB, 65536), .who = MIDDLE | SPACE, .when = LATER_KERNEL},
    {.name = "double-free/block-512", BLOCK(512, 32, 16 * KIB), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "double-free/block-512", BLOCK(512, 32, 16 * KIB), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "double-free/block-4096", BLOCK(4096, 32, 128 * KIB), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "double-free/block-32768", BLOCK(32 * KIB, 32, SEGMENT)},
    {.name = "double-free/block-65536", BLOCK(64 * KIB, 16, SEGMENT)},
    {.name = "double-free/next-64", NEXT(64, 16 * KIB), .mode = ALL_MODES},
    {.name = "double-free/next-64", NEXT(64, 16 * KIB), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "double-free/next-65536", NEXT(64 * KIB, SEGMENT)},
    {.name = "double-free/last-of-block-1024",
     .bytes = 1024,
     .count = 2,
     .stretch = 32 * KIB,
     .pointer = END,
     .offset = -1024,
     .kind = DOUBLE_FREE,
     .size = 1024},

    {.name = "double-free/warp-64", WARPS(64, 0, 32), .who = WARP | WARP_SPACE, .mode = ALL_MODES},
    {.name = "double-free/warp-1024", WARPS(1024, 0, 32), .who = WARP},
    {.name = "double-free/warp-32768", WARPS(32768, 0, 32), .who = WARP},
    {.name = "double-free/warp-64-some-lanes", WARPS(64, 20, 32), .who = WARP | WARP_SPACE},
    {.name = "double-free/warp-64-one-lane", WARPS(64, 7, 8), .who = WARP},

    {.name = "interior/slice-64/second-byte", MIDDLE_OF(64, 64, 1)},
    {.name = "interior/slice-64/half", MIDDLE_OF(64, 64, 32), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "interior/slice-64/half", MIDDLE_OF(64, 64, 32), .who = MIDDLE | SPACE},
    {.name = "interior/slice-1024/last-byte", MIDDLE_OF(1000, 1024, 1023)},
    {.name = "interior/slice-5120/16", MIDDLE_OF(5000, 5120, 16)},
    {.name = "interior/slice-65536/last-byte", MIDDLE_OF(64 * KIB, 65536, 64 * KIB - 1)},
    {.name = "interior/block-4096/16", .bytes = 4096, .count = 32, .released = 32, .stretch = 128 * KIB, .kind = INTERIOR, .size = 4096, .offset = 16},
    {.name = "interior/span-81920/64", MIDDLE_OF(64 * KIB + 1, 81920, 64)},
    {.name = "interior/span-114688/16", MIDDLE_OF(100000, 114688, 16), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "interior/span-114688/16", MIDDLE_OF(100000, 114688, 16), .who = MIDDLE},
    {.name = "interior/span-114688/end-of-first-page", MIDDLE_OF(100000, 114688, 16 * KIB - 1)},
    {.name = "interior/span-114688/second-page", MIDDLE_OF(100000, 0, 16 * KIB), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "interior/span-114688/last-byte", MIDDLE_OF(100000, 0, 114687)},
    {.name = "interior/span-917504/last-page", MIDDLE_OF(MIB - 128 * KIB, 0, MIB - 144 * KIB)},
    {.name = "interior/run-1048576/half", MIDDLE_OF(MIB - 16 * KIB + 1, 1048576, 512 * KIB)},
    {.name = "interior/run-3145728/64", MIDDLE_OF(2 * MIB + 1, 3145728, 64)},
    {.name = "interior/run-6291456/16", MIDDLE_OF(6 * MIB, 6291456, 16), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "interior/run-6291456/16", MIDDLE_OF(6 * MIB, 6291456, 16), .who = MIDDLE},
    {.name = "interior/run-6291456/end-of-first-segment", MIDDLE_OF(6 * MIB, 6291456, SEGMENT - 1)},
    {.name = "interior/run-6291456/second-segment", MIDDLE_OF(6 * MIB, 0, SEGMENT), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "interior/run-6291456/last-byte", MIDDLE_OF(6 * MIB, 0, 6 * MIB - 1)},
    {.name = "interior/run-104857600/16", MIDDLE_OF(100 * MIB, 104857600, 16)},
    {.name = "interior/run-104857600/last-segment", MIDDLE_OF(100 * MIB, 0, 99 * MIB)},
    /* the other lanes free their own slices, which is valid */
    {.name = "interior/slice-64/one-lane", .bytes = 64, .count = 32, .live_from = 32, .odd_lane = 7, .offset = 16, .kind = INTERIOR, .size = 64, .who = WARP},

    /* A block holds 170 slices of 96 bytes, then 64 bytes; or 51 of 5,120, then 1,024 bytes; or 18 of 57,344, then 16 KiB. */
    {.name = "never/behind-the-last-96", BEHIND(96, 16 * KIB, -64), .mode = ALL_MODES},
    {.name = "never/behind-the-last-96", BEHIND(96, 16 * KIB, -64), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "never/behind-the-last-5120", BEHIND(5120, 256 * KIB, -1024), .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "never/behind-the-last-5120/last-byte", BEHIND(5120, 256 * KIB, -1)},
    {.name = "never/behind-the-last-57344", BEHIND(57344, SEGMENT, -16 * KIB)},

    {.name = "not-allocated/span-81920", AFTER_FREE(64 * KIB + 1, 0)},
    {.name = "not-allocated/span-114688", AFTER_FREE(100000, 0), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "not-allocated/span-114688", AFTER_FREE(100000, 0), .who = MIDDLE | SPACE, .when = SAME_KERNEL},
    {.name = "not-allocated/span-114688/16", AFTER_FREE(100000, 16)},
    {.name = "not-allocated/span-114688/second-page", AFTER_FREE(100000, 16 * KIB)},
    {.name = "not-allocated/span-1015808", AFTER_FREE(1000000, 0)},
    {.name = "not-allocated/run-1048576", AFTER_FREE(MIB, 0)},
    {.name = "not-allocated/run-3145728", AFTER_FREE(2 * MIB + 1, 0)},
    {.name = "not-allocated/run-6291456", AFTER_FREE(6 * MIB, 0), .when = BOTH_KERNELS | OTHER_GPU, .mode = ALL_MODES},
    {.name = "not-allocated/run-6291456", AFTER_FREE(6 * MIB, 0), .who = MIDDLE | SPACE, .when = LATER_KERNEL},
    {.name = "not-allocated/run-6291456/16", AFTER_FREE(6 * MIB, 16)},
    {.name = "not-allocated/run-6291456/second-segment", AFTER_FREE(6 * MIB, SEGMENT)},
    {.name = "not-allocated/run-104857600", AFTER_FREE(100 * MIB, 0)},
    /* One slice is live, at the beginning of the heap: the last page of its segment and the middle of the heap are unowned, addresses
     * far behind are not mapped. */
    {.name = "not-allocated/last-page", .bytes = 64, .count = 1, .stretch = SEGMENT, .pointer = END, .offset = -64, .kind = NOT_ALLOCATED},
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
    {.name = "gpu-1/interior/run-6291456/16", MIDDLE_OF(6 * MIB, 6291456, 16), .device = 1, .when = BOTH_KERNELS | OTHER_GPU},
    {.name = "gpu-1/not-allocated/run-6291456", AFTER_FREE(6 * MIB, 0), .device = 1},
    {.name = "gpu-1/foreign/cudaMalloc-of-gpu-0", FROM(CUDA_MALLOC_OF_ANOTHER), .device = 1, .when = SAME_KERNEL},
    {.name = "gpu-1/many/40", AT(0x1000), .times = 40, .device = 1},

    /* The first 32 are reported; if there were more, then the total. A warp counts one misuse for each of its slices that was free. */
    {.name = "many/32", AT(0x1000), .times = 32},
    {.name = "many/33", AT(0x1000), .times = 33},
    {.name = "many/40", AT(0x1000), .times = 40, .who = ONE | TURNS, .mode = REPORT | IGNORE},
    {.name = "many/1000", AT(0x1000), .times = 1000},
    {.name = "many/double-free-64", .bytes = 64, .count = 64, .released = 40, .times = 40, .kind = DOUBLE_FREE, .size = 64, .who = ONE | TURNS},
    {.name = "many/warp-64", WARPS(64, 0, 32), .times = 33, .who = WARP},
};
const unsigned misuse_row_count = sizeof misuse_rows / sizeof *misuse_rows;
