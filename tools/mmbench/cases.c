/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases. Names and sizes are those of earlier measurements of the published allocators. */
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

#define GRAPH_OPS {{"init", "us"}, {"insert", "us"}, {"delete", "us"}, {"range", "us"}, {"free", "us"}}
#define GRAPH_SIZE_SHIFTS {0, MM_BENCH_GRAPH_BATCH_SHIFT, MM_BENCH_GRAPH_BATCH_SHIFT, MM_BENCH_GRAPH_BATCH_SHIFT, 0}
/* clang-format on */
#define GRAPH_VERTICES (1u << 20)
#define GRAPH_EDGES (16u * GRAPH_VERTICES)

/* 64 CTAs of 128 threads: each CTA has its own multiprocessor (child/converged.h). */
#define CONVERGED_THREADS (64 * 128)

/* If an item would need more than 7/8 of --heap, it gets its own heap, larger than the bytes it asks for by 1/2^FITS_SHIFT. */
#define FITS_SHIFT 3
#define CUDA_HEAP (8u * MIB) /* the default of CUDA's allocator */

#define GPU_THREADS (256 * KIB) /* an H200 runs 270,336 threads at a time */
#define LATENCY_CALLS 10000000
#define LATENCY_CALLS_QUICK 1000000

#define FOOTPRINT_SIZE(size, objects, sizing) size,
#define FOOTPRINT_THREADS(size, objects, sizing) objects,
#define FOOTPRINT_SECONDS 30
#define FOOTPRINT_SECONDS_QUICK 2
#define PINNED_THREADS(size) (256 * MIB / (size))

#define UTIL_THREADS 65536
#define ENDURANCE_LARGEST 4096
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
     .sizes = {ENDURANCE_LARGEST}, .threads = {1}, .asked = MM_BENCH_ASKED_LITTLE, .heap = 2 * GIB, .patience = 6,
     .fresh = true},
    {.name = "latency", .about = "10^7 single calls of each, in turn; p99: the 99th percentile; over: longest / median; size 4096: any from 16",
     .ops = {{"malloc", "cycles"}, {"malloc_p99", "cycles"}, {"malloc_over", "ratio"}, {"free", "cycles"}, {"free_p99", "cycles"},
             {"free_over", "ratio"}, {"grown", "calls"}, {"grown_longest", "cycles"}},
     .sizes = {16, 16, 16, 16, 4 * KIB}, .threads = {1, 32, 1024, GPU_THREADS, GPU_THREADS}, .paired = true,
     .asked = MM_BENCH_ASKED_LITTLE, .grows = true, .patience = 2, .floors = true, .fresh = true},
    {.name = "footprint", .about = "device memory of the heap: 40 rounds, each frees half and allocates it anew; all freed: after 1 s, 30 s (quick: 2)",
     .ops = {{"live", "MiB"}, {"taken", "MiB"}, {"taken_over", "ratio"}, {"beyond", "MiB"}, {"taken_end", "MiB"}, {"freed_1s", "MiB"},
             {"freed_late", "MiB"}},
     .sizes = {MM_BENCH_FOOTPRINT(FOOTPRINT_SIZE)}, .threads = {MM_BENCH_FOOTPRINT(FOOTPRINT_THREADS)}, .paired = true,
     .heap = CUDA_HEAP, .grows = true, .patience = 12, .fresh = true},
    {.name = "pinned", .about = "device memory of the heap: 256 MiB of one size, all but 1 object in 1,000 freed, then other sizes likewise",
     .ops = {{"live", "MiB"}, {"taken", "MiB"}, {"taken_over", "ratio"}, {"beyond", "MiB"}, {"taken_end", "MiB"}, {"freed_1s", "MiB"}},
     .sizes = {64, KIB, 4 * KIB}, .threads = {PINNED_THREADS(64), PINNED_THREADS(KIB), PINNED_THREADS(4 * KIB)}, .paired = true,
     .series = MM_BENCH_BY_SIZE, .heap = GIB, .grows = true, .patience = 2, .fresh = true},
    {.name = "converged", .about = "arithmetic by all lanes: alone; after malloc and free by one lane; by all; its time, and whole warps",
     .ops = {{"plain", "cycles"}, {"lane", "cycles"}, {"lane_over", "ratio"}, {"lane_full", "share"}, {"all", "cycles"},
             {"all_over", "ratio"}, {"all_full", "share"}},
     .sizes = {64}, .threads = {CONVERGED_THREADS}, .asked = MM_BENCH_ASKED_LITTLE},
    {.name = "graph", .about = "lists of neighbours, R-MAT: built, edges in and out, into a range, freed; size: edges",
     .ops = GRAPH_OPS, .sizes = {GRAPH_EDGES}, .threads = {GRAPH_VERTICES}, .asked = MM_BENCH_ASKED_LITTLE,
     .quick_shift = 4, .size_shifts = GRAPH_SIZE_SHIFTS, .threads_shifts = {[3] = MM_BENCH_GRAPH_RANGE_SHIFT},
     .patience = 6},
    {.name = "graph_lesmis", .about = "the same with a small real graph, the characters of Les Miserables",
     .ops = GRAPH_OPS, .sizes = {MM_BENCH_LESMIS_EDGES}, .threads = {MM_BENCH_LESMIS_VERTICES},
     .asked = MM_BENCH_ASKED_LITTLE, .size_shifts = GRAPH_SIZE_SHIFTS,
     .threads_shifts = {[3] = MM_BENCH_LESMIS_RANGE_SHIFT}},
};
/* clang-format on */
const size_t mm_bench_case_count = sizeof mm_bench_cases / sizeof *mm_bench_cases;
_Static_assert(sizeof mm_bench_cases / sizeof *mm_bench_cases <= sizeof((struct mm_bench_options *)0)->cases, "an option for each case");

const char *const mm_bench_allocator_names[] = {"mm", "builtin"};
const char *const mm_bench_floor_names[] = {"store", "atomic", "bitmap", "latency"};
const char *const mm_bench_status_names[] = {"pending", "ok", "null", "corrupt", "crash", "hung", "skipped", "toolarge"};

size_t mm_bench_op_count(const struct mm_bench_case *c) {
    size_t n = 0;
    while (n < MM_BENCH_OPS_MAX && c->ops[n].name) n++;
    return n;
}

int mm_bench_op_find(const struct mm_bench_case *c, const char *name) {
    for (size_t i = 0; i < mm_bench_op_count(c); i++)
        if (!strcmp(c->ops[i].name, name)) return (int)i;
    return -1;
}

enum mm_bench_status mm_bench_status_find(const char *name) {
    for (int i = 0; i < MM_BENCH_STATUSES; i++)
        if (!strcmp(mm_bench_status_names[i], name)) return (enum mm_bench_status)i;
    return MM_BENCH_PENDING;
}

uint64_t mm_bench_heap(const struct mm_bench_item *item, enum mm_bench_allocator allocator) {
    return item->of->grows && allocator == MM_BENCH_MM ? 0 : item->heap;
}

static uint64_t asked_bytes(const struct mm_bench_case *c, uint64_t size, uint64_t threads) {
    uint64_t sum = 0, n = 0;
    switch (c->asked) {
    case MM_BENCH_ASKED_LITTLE: return 0;
    case MM_BENCH_ASKED_HALF: return threads * (size + 16) / 2;
    case MM_BENCH_ASKED_POWERS:
        for (uint64_t power = 16; power <= size; power *= 2, n++) sum += power;
        return n ? threads * sum / n : 0;
    default: return threads * size;
    }
}

/* A quick run takes the first, the middle and the last element of a list. */
static bool taken(size_t i, size_t n, bool quick) { return !quick || i == 0 || i == n / 2 || i == n - 1; }

size_t mm_bench_items(const struct mm_bench_case *c, const struct mm_bench_options *o, struct mm_bench_item *items, size_t max) {
    size_t sizes = 0, threads = 0, count = 0;
    while (sizes < MM_BENCH_SIZES_MAX && c->sizes[sizes]) sizes++;
    while (threads < MM_BENCH_SIZES_MAX && c->threads[threads]) threads++;
    for (size_t s = 0; s < sizes; s++)
        for (size_t t = 0; t < threads; t++) {
            if (c->paired && s != t) continue;
            const bool quick = o->quick && !c->paired;
            if (!taken(s, sizes, quick) || !taken(t, threads, quick) || count == max) continue;
            struct mm_bench_item *item = &items[count++];
            memset(item, 0, sizeof *item);
            item->of = c;
            item->size = c->sizes[s] >> (o->quick ? c->quick_shift : 0);
            item->threads = c->threads[t] >> (o->quick ? c->quick_shift : 0);
            item->runs = o->runs;
            item->heap = o->heap ? o->heap : 8 * GIB;
            if (c->heap_large && s > 0) item->heap = c->heap_large;
            if (c->heap && !(o->heap && !strcmp(c->name, "endurance"))) item->heap = c->heap;
            if (!strcmp(c->name, "init")) item->size = item->heap;
            if (!strcmp(c->name, "endurance")) {
                item->threads = (uint32_t)(item->heap / 4 * 3 / ((16 + ENDURANCE_LARGEST) / 2));
                item->runs = o->quick ? ENDURANCE_ROUNDS_QUICK : ENDURANCE_ROUNDS;
            }
            if (!strcmp(c->name, "latency")) item->runs = o->quick ? LATENCY_CALLS_QUICK : LATENCY_CALLS;
            if (!strcmp(c->name, "footprint")) item->runs = o->quick ? FOOTPRINT_SECONDS_QUICK : FOOTPRINT_SECONDS;
            item->asked_bytes = asked_bytes(c, item->size, item->threads);
            if (c->heap_fits && !o->heap && item->asked_bytes > item->heap - (item->heap >> FITS_SHIFT))
                item->heap = item->asked_bytes + (item->asked_bytes >> FITS_SHIFT);
        }
    return count;
}
