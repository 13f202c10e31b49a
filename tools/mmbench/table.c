/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases. Names and sizes are those of earlier measurements of the published allocators; the second half is the benchmarks of their papers
 * (docs/reference/benchmarks.md). */
#include "tools/mmbench/mmbench.h"

#include <string.h>

#define KIB 1024u
#define MIB (1024u * KIB)
#define GIB (1024ull * MIB)
#define MILLION 1000000

/* clang-format off */
#define MALLOC_FREE {{"malloc", "us"}, {"free", "us"}}
#define SIZES_SINGLE {16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192}
#define SIZES_FEW {16, 64, 256, 1024, 4096, 8192}
#define THREADS_SCALING {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 8388608}

#define GRAPH_OPS \
    {{"init", "us"}, {"insert", "us"}, {"delete", "us"}, {"range", "us"}, {"free", "us"}, {"lists", "MiB"}, {"taken", "MiB"}, {"taken_over", "ratio"}}
#define TIME {{"time", "us"}}
#define BURSTS .sizes = {4, 16, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 128 * KIB}, .threads = {BURST_CALLERS, BURST_CALLERS_FULL}
#define BURSTS_COLD .sizes = {16, KIB, 16 * KIB}, .threads = {BURST_CALLERS_FULL}
#define TREE {{"kdtree", "us"}}
#define TREE_SIZES {20000, 283000, 1100000, 7200000}
#define JOIN {{"thread", "us"}, {"thread_free", "us"}, {"warp", "us"}, {"warp_free", "us"}}
#define JOIN_SIZES {16384, 262144, MILLION, 10 * MILLION}
#define HOST_OPS \
    {{"malloc", "us"}, {"free", "us"}, {"all", "ms"}, {"async_malloc", "us"}, {"async_free", "us"}, {"async_all", "ms"}, {"live", "MiB"}, {"taken", "MiB"}}

#define PROBES \
    .ops = {{"probes", "count"}, {"over", "ratio"}, {"over_words", "ratio"}, {"sets", "count"}, {"warp_steps", "count"}, {"warp_over", "ratio"}, \
            {"beyond", "share"}, {"time", "us"}}, \
    .threads = {1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20}, .asked = MM_BENCH_ASKED_LITTLE, .grows = true, \
    .patience = LONG, .only = {"random-walk", "random-walk-bitmap", "random-walk-coop"}, .percent = 90
/* A half, a tenth, 1 % and .5 % of all units. */
#define PROBES_FREE(units) {(units) / 2, (units) / 10, (units) / 100, (units) / 200}
#define GRAPH_SIZE_SHIFTS {0, MM_BENCH_GRAPH_BATCH_SHIFT, MM_BENCH_GRAPH_BATCH_SHIFT, MM_BENCH_GRAPH_BATCH_SHIFT, 0}
/* clang-format on */
/* R-MAT graphs of scale 20, 21 and 22 (Gallatin's and the survey's); the larger ones have as many edges as rmat.h can number. */
#define GRAPH_SIZES \
    { 1u << 24, 1u << 27, 1u << 27 }
#define GRAPH_VERTICES \
    { 1u << 20, 1u << 21, 1u << 22 }

/* 64 CTAs of 128 threads: each CTA has its own multiprocessor (child/converged.h). */
#define CONVERGED_THREADS (64 * 128)

#define CUDA_HEAP (8u * MIB) /* the default of CUDA's allocator */

#define GPU_THREADS (256 * KIB) /* an H200 runs 270,336 threads at a time */
#define LATENCY_CALLS 10000000
#define LATENCY_CALLS_QUICK 1000000
#define LATENCY                                                                                                                             \
    .ops = {{"malloc", "cycles"},   {"malloc_p99", "cycles"}, {"malloc_over", "ratio"}, {"free", "cycles"},                                 \
            {"free_p99", "cycles"}, {"free_over", "ratio"},   {"grown", "calls"},       {"grown_longest", "cycles"}},                       \
    .sizes = {16, 16, 16, 16, 4 * KIB}, .threads = {1, 32, 1024, GPU_THREADS, GPU_THREADS}, .paired = true, .asked = MM_BENCH_ASKED_LITTLE, \
    .runs = LATENCY_CALLS, .runs_quick = LATENCY_CALLS_QUICK, .grows = true, .patience = 2, .floors = true, .fresh = true

#define LONG 3 /* times --timeout: a minute */

/* Callers are lanes 0 of warps: of 120 CTAs of 256 threads, as published, or of a full GPU. */
#define BURST_CALLERS (120 * 256 / 32)
#define BURST_CALLERS_FULL (GPU_THREADS / 32)

/* The heap of the case kdtree, as multiples of the root's index array, which has 4 bytes for each triangle. */
#define TREE_HEAP (200 * 4)
#define TREE_HEAP_TIGHT (20 * 4)

#define FOOTPRINT_SIZE(size, objects, sizing) size,
#define FOOTPRINT_THREADS(size, objects, sizing) objects,
#define FOOTPRINT_SECONDS 30
#define FOOTPRINT_SECONDS_QUICK 2
#define PINNED_THREADS(size) (256 * MIB / (size))

#define UTIL_THREADS 65536
#define ENDURANCE_ROUNDS 1000
#define ENDURANCE_ROUNDS_QUICK 50

/* clang-format off */
const struct mm_bench_case mm_bench_cases[] = {
    {.name = "single", .about = "one size for all threads; every allocation is made, then every one freed",
     .ops = MALLOC_FREE, .sizes = SIZES_SINGLE, .threads = {MILLION}, .series = MM_BENCH_BY_SIZE, .floors = true},
    {.name = "mixed", .about = "powers of two from 16 bytes to size",
     .ops = MALLOC_FREE, .sizes = {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}, .threads = {MILLION},
     .series = MM_BENCH_BY_SIZE, .asked = MM_BENCH_ASKED_POWERS, .floors = true},
    {.name = "mixedu", .about = "any size from 16 bytes to size",
     .ops = MALLOC_FREE, .sizes = {64, 128, 256, 512, 1024, 2048, 4096, 8192}, .threads = {MILLION},
     .series = MM_BENCH_BY_SIZE, .asked = MM_BENCH_ASKED_HALF, .floors = true},
    {.name = "scaling", .about = "from one thread to eight million",
     .ops = MALLOC_FREE, .sizes = {16, 64, 512, 8192}, .threads = THREADS_SCALING, .series = MM_BENCH_BY_THREADS,
     .heap_fits = true, .floors = true},
    {.name = "warp", .about = "lane 0 of each of 32,768 warps",
     .ops = MALLOC_FREE, .sizes = {64, KIB, 64 * KIB}, .threads = {32768}, .series = MM_BENCH_BY_SIZE,
     .every_shift = 5, .floors = true},
    {.name = "churn", .about = "32 rounds of malloc(16..512), write, check, free in one kernel",
     .ops = {{"churn", "us"}}, .sizes = {512}, .threads = {131072}, .asked = MM_BENCH_ASKED_LITTLE},
    {.name = "large", .about = "256 large ones; beyond 1 MiB a heap of 20 GiB",
     .ops = MALLOC_FREE, .sizes = {MIB, 16 * MIB + 1, 64 * MIB}, .threads = {256}, .series = MM_BENCH_BY_SIZE,
     .heap_large = 20 * GIB, .floors = true},
    {.name = "util", .about = "share of a heap of 2 GiB handed out before the first NULL, and in all",
     .ops = {{"share", "share"}, {"share_all", "share"}}, .sizes = {16, 48, 64, 256, 1000, 1024, 4096, 8192},
     .threads = {UTIL_THREADS}, .asked = MM_BENCH_ASKED_LITTLE, .heap = 2 * GIB, .patience = 2, .fresh = true},
    {.name = "frag", .about = "address span over bytes asked, in a fresh heap",
     .ops = {{"span", "ratio"}}, .sizes = SIZES_FEW, .threads = {MILLION}, .series = MM_BENCH_BY_SIZE, .fresh = true},
    {.name = "init", .about = "first launch of a module that does not allocate, then of one that does",
     .ops = {{"plain", "ms"}, {"allocating", "ms"}, {"plain_process", "ms"}, {"allocating_process", "ms"}},
     .sizes = {1}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = 3, .fresh = true},
    {.name = "single_cold", .about = "as single, the heap made anew before every run",
     .ops = MALLOC_FREE, .sizes = SIZES_FEW, .threads = {MILLION}, .series = MM_BENCH_BY_SIZE, .patience = 3,
     .floors = true},
    {.name = "mixedu_cold", .about = "as mixedu, the heap made anew before every run",
     .ops = MALLOC_FREE, .sizes = {64, 256, 1024, 4096, 8192}, .threads = {MILLION}, .series = MM_BENCH_BY_SIZE,
     .asked = MM_BENCH_ASKED_HALF, .patience = 3, .floors = true},
    {.name = "endurance", .about = "16..4096 bytes, live: 3/4 of the heap; every round half of it goes and comes anew",
     .ops = {{"malloc", "us"}, {"free", "us"}, {"live", "MiB"}, {"footprint_early", "MiB"}, {"footprint_last", "MiB"}},
     .sizes = {MM_BENCH_ENDURANCE_LARGEST}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .runs = ENDURANCE_ROUNDS,
     .runs_quick = ENDURANCE_ROUNDS_QUICK, .heap = 2 * GIB, .patience = 6, .fresh = true},
    {.name = "latency", .about = "10^7 single calls of each, in turn; p99: the 99th percentile; over: longest / median; size 4096: any from 16", LATENCY},
    {.name = "latency_cold", .about = "as latency, with the first calls of a new heap", LATENCY},
    {.name = "footprint", .about = "device memory of the heap: 40 rounds, each frees half and allocates it anew; all freed: after 1 s, 30 s (quick: 2)",
     .ops = {{"live", "MiB"}, {"taken", "MiB"}, {"taken_over", "ratio"}, {"beyond", "MiB"}, {"taken_end", "MiB"}, {"freed_1s", "MiB"},
             {"freed_late", "MiB"}},
     .sizes = {MM_BENCH_FOOTPRINT(FOOTPRINT_SIZE)}, .threads = {MM_BENCH_FOOTPRINT(FOOTPRINT_THREADS)}, .paired = true,
     .runs = FOOTPRINT_SECONDS, .runs_quick = FOOTPRINT_SECONDS_QUICK, .heap = CUDA_HEAP, .grows = true, .patience = 12,
     .fresh = true},
    {.name = "pinned", .about = "device memory of the heap: 256 MiB of one size, all but 1 object in 1,000 freed, then other sizes likewise",
     .ops = {{"live", "MiB"}, {"taken", "MiB"}, {"taken_over", "ratio"}, {"beyond", "MiB"}, {"taken_end", "MiB"}, {"freed_1s", "MiB"}},
     .sizes = {64, KIB, 4 * KIB}, .threads = {PINNED_THREADS(64), PINNED_THREADS(KIB), PINNED_THREADS(4 * KIB)}, .paired = true,
     .series = MM_BENCH_BY_SIZE, .heap = GIB, .grows = true, .patience = 2, .fresh = true},
    {.name = "converged", .about = "arithmetic by all lanes: alone; after malloc and free by one lane; by all; its time, and whole warps",
     .ops = {{"plain", "cycles"}, {"lane", "cycles"}, {"lane_over", "ratio"}, {"lane_full", "share"}, {"all", "cycles"},
             {"all_over", "ratio"}, {"all_full", "share"}},
     .sizes = {64}, .threads = {CONVERGED_THREADS}, .asked = MM_BENCH_ASKED_LITTLE},
    {.name = "graph", .about = "lists of neighbours, R-MAT: built, edges in and out, into a range, freed; size: edges",
     .ops = GRAPH_OPS, .sizes = GRAPH_SIZES, .threads = GRAPH_VERTICES, .paired = true, .asked = MM_BENCH_ASKED_LITTLE,
     .heap = 8 * GIB, .grows = true, .quick_shift = 4, .size_shifts = GRAPH_SIZE_SHIFTS,
     .threads_shifts = {[3] = MM_BENCH_GRAPH_RANGE_SHIFT}, .patience = LONG, .fresh = true},
    {.name = "graph_cold", .about = "as graph, the heap made anew before every run", .ops = GRAPH_OPS, .sizes = {1 << 22}, .threads = {1 << 18},
     .asked = MM_BENCH_ASKED_LITTLE, .heap = 8 * GIB, .grows = true, .quick_shift = 4, .size_shifts = GRAPH_SIZE_SHIFTS,
     .threads_shifts = {[3] = MM_BENCH_GRAPH_RANGE_SHIFT}, .patience = LONG, .fresh = true},
    {.name = "graph_lesmis", .about = "the same with a small real graph, the characters of Les Miserables",
     .ops = GRAPH_OPS, .sizes = {MM_BENCH_LESMIS_EDGES}, .threads = {MM_BENCH_LESMIS_VERTICES},
     .asked = MM_BENCH_ASKED_LITTLE, .heap = 8 * GIB, .grows = true, .size_shifts = GRAPH_SIZE_SHIFTS,
     .threads_shifts = {[3] = MM_BENCH_LESMIS_RANGE_SHIFT}, .fresh = true},
    {.name = "ad", .about = "lane 0 of each of 960 warps, then of a full GPU: malloc, write, read, free",
     .ops = TIME, BURSTS, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "acd", .about = "the same, each caller: 10 to 100 times malloc, then as often free",
     .ops = TIME, BURSTS, .series = MM_BENCH_BY_SIZE, .asked = MM_BENCH_ASKED_BURSTS, .patience = LONG},
    {.name = "p", .about = "the same in 10 launches, each caller: malloc, or free of what it holds, with probability 3/4",
     .ops = TIME, BURSTS, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "ad_cold", .about = "as ad, the heap made anew before every run", .ops = TIME, BURSTS_COLD, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "acd_cold", .about = "as acd, the heap made anew before every run", .ops = TIME, BURSTS_COLD, .series = MM_BENCH_BY_SIZE,
     .asked = MM_BENCH_ASKED_BURSTS, .patience = LONG},
    {.name = "p_cold", .about = "as p, the heap made anew before every run", .ops = TIME, BURSTS_COLD, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "half", .about = "a heap of 2 GiB; in each round a million allocate, and a random half of them is freed, until there is a NULL",
     .ops = {{"rounds", "count"}, {"share", "share"}, {"span", "ratio"}, {"malloc", "us"}, {"free", "us"}}, .sizes = {16, 64}, .threads = {MILLION},
     .asked = MM_BENCH_ASKED_LITTLE, .heap = 2 * GIB, .patience = LONG, .fresh = true},
    {.name = "write", .about = "each thread writes a list of words; floor: lists from a bump pointer",
     .ops = {{"malloc", "us"}, {"write", "us"}, {"free", "us"}}, .sizes = {16, 64, 256, KIB, 4 * KIB}, .threads = {MILLION},
     .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "write_cold", .about = "as write, the heap made anew before every run", .ops = {{"malloc", "us"}, {"write", "us"}, {"free", "us"}},
     .sizes = {64, KIB}, .threads = {MILLION}, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "workgen", .about = "each thread writes a list of any length to size; floor: prefix sum of the lengths, one cudaMalloc",
     .ops = TIME, .sizes = {64, 4 * KIB}, .threads = {1, 32, 1024, 32768, MIB}, .series = MM_BENCH_BY_THREADS, .patience = LONG},
    {.name = "workgen_cold", .about = "as workgen, the heap made anew before every run", .ops = TIME, .sizes = {64, 4 * KIB}, .threads = {MIB},
     .patience = LONG},
    {.name = "registers", .about = "registers and stack of a kernel without an allocation, with malloc, with free, with both",
     .ops = {{"plain", "count"}, {"malloc", "count"}, {"malloc_stack", "bytes"}, {"free", "count"}, {"free_stack", "bytes"}, {"pair", "count"},
             {"pair_stack", "bytes"}},
     .sizes = {64}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE},
    {.name = "kdtree", .about = "a k-d tree over triangles, by one kernel; two index arrays for each inner node; heap: 200 times the root's array",
     .ops = TREE, .sizes = TREE_SIZES, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .heap_times = TREE_HEAP, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "kdtree_tight", .about = "the same with a heap of 20 times the root's array", .ops = TREE, .sizes = TREE_SIZES, .threads = {1},
     .asked = MM_BENCH_ASKED_LITTLE, .heap_times = TREE_HEAP_TIGHT, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "kdtree_cold", .about = "as kdtree, the heap made anew before every run", .ops = TREE, .sizes = {283000}, .threads = {1},
     .asked = MM_BENCH_ASKED_LITTLE, .heap_times = TREE_HEAP, .patience = LONG},
    {.name = "join", .about = "hash join, matches into chained pages of 256 bytes; a chain for each thread, then for each warp; size: tuples",
     .ops = JOIN, .sizes = JOIN_SIZES, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "join_zipf", .about = "the same, keys of one side by a Zipf distribution with exponent 3/4",
     .ops = JOIN, .sizes = JOIN_SIZES, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .series = MM_BENCH_BY_SIZE, .patience = LONG},
    {.name = "join_cold", .about = "as join, the heap made anew before every run",
     .ops = JOIN, .sizes = {MILLION}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG},
    {.name = "join_counter", .about = "the same join without an allocator: one array, and a counter",
     .ops = {{"join", "us"}}, .sizes = JOIN_SIZES, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG},
    {.name = "join_scan", .about = "the same join without an allocator: matches counted, prefix sum, written",
     .ops = {{"join", "us"}}, .sizes = JOIN_SIZES, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG},
    {.name = "probes", .about = "units that malloc tries, over the paper's formulas; of 2^20 units so many are free at the start: size", PROBES,
     .sizes = PROBES_FREE(1u << 20)},
    {.name = "probes_large", .about = "the same with 2^25 units", PROBES, .sizes = PROBES_FREE(1u << 25)},
    {.name = "pagerank", .about = "R-MAT: lists of neighbours built, ten rounds of PageRank over them, freed; size: edges",
     .ops = {{"build", "us"}, {"rank", "us"}, {"free", "us"}}, .sizes = GRAPH_SIZES, .threads = GRAPH_VERTICES, .paired = true,
     .asked = MM_BENCH_ASKED_LITTLE, .quick_shift = 4, .patience = LONG, .fresh = true},
    {.name = "triangles", .about = "R-MAT, simple and oriented: sorted lists built, triangles counted over them, freed; size: edges",
     .ops = {{"build", "us"}, {"count", "us"}, {"free", "us"}}, .sizes = GRAPH_SIZES, .threads = GRAPH_VERTICES, .paired = true,
     .asked = MM_BENCH_ASKED_LITTLE, .quick_shift = 4, .patience = LONG, .fresh = true},
    {.name = "pagerank_cold", .about = "as pagerank, the heap made anew before every run", .ops = {{"build", "us"}, {"rank", "us"}, {"free", "us"}},
     .sizes = {1 << 22}, .threads = {1 << 18}, .paired = true, .asked = MM_BENCH_ASKED_LITTLE, .quick_shift = 4, .patience = LONG, .fresh = true},
    {.name = "triangles_cold", .about = "as triangles, the heap made anew before every run", .ops = {{"build", "us"}, {"count", "us"}, {"free", "us"}},
     .sizes = {1 << 22}, .threads = {1 << 18}, .paired = true, .asked = MM_BENCH_ASKED_LITTLE, .quick_shift = 4, .patience = LONG, .fresh = true},
    {.name = "malloc_large", .about = "cudaMalloc and cudaFree, and cudaMallocAsync and cudaFreeAsync, by the host: 50 blocks of 1 KiB to 16 MiB come and go",
     .ops = HOST_OPS, .sizes = {16 * MIB}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG, .is_of_host = true},
    {.name = "hostlog", .about = "the same: the blocks of a neural network in training",
     .ops = HOST_OPS, .sizes = {64 * MIB}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG, .is_of_host = true},
    {.name = "multistream", .about = "the same: allocate, two kernels, free; a round of one thread, and of 4 threads with a stream each",
     .ops = {{"one", "us"}, {"four", "us"}, {"four_over", "ratio"}, {"async_one", "us"}, {"async_four", "us"}, {"async_four_over", "ratio"}},
     .sizes = {MIB}, .threads = {4}, .asked = MM_BENCH_ASKED_LITTLE, .patience = LONG, .is_of_host = true},
};
/* clang-format on */
const size_t mm_bench_case_count = sizeof mm_bench_cases / sizeof *mm_bench_cases;
_Static_assert(sizeof mm_bench_cases / sizeof *mm_bench_cases <= sizeof((struct mm_bench_options *)0)->cases, "an option for each case");
