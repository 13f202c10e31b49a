/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Heaps on the GPU are filled to the last slice and used again: every byte of every allocation is painted, keyed to
 * its address, and read back when all allocations exist.
 */
#include "tests/gpu/expect.h"
#include "tests/gpu/support.h"
#include "tests/gpu/work.h"

#define MIXED 0u /* as a size: log-uniform from 16 B to 8 KiB */
#define MIXED_DOUBLINGS 9u
#define MIXED_NULLS 64u /* consecutive NULLs after which a thread of a mixed fill considers the heap full */

/* Results of a fill. */
struct fill_counts {
    unsigned long long got, wanted, nulls, outside, wrong; /* wanted: compared with the goal */
};
struct hoard {
    struct mm_heap_ref ref;
    uint64_t **p;
    unsigned *sizes;
    unsigned long long most; /* capacity of the arrays */
    struct fill_counts *counts;
};

static struct hoard hoard_create(struct mm_heap_ref ref, uint64_t most) {
    struct hoard h;
    memset(&h, 0, sizeof h);
    h.ref = ref;
    h.most = most;
    CUDA_OK(cudaMalloc(&h.p, most * sizeof *h.p));
    CUDA_OK(cudaMalloc(&h.sizes, most * sizeof *h.sizes));
    CUDA_OK(cudaMalloc(&h.counts, sizeof *h.counts));
    CUDA_OK(cudaMemset(h.counts, 0, sizeof *h.counts));
    return h;
}
static void hoard_destroy(struct hoard h) {
    CUDA_OK(cudaFree(h.p));
    CUDA_OK(cudaFree(h.sizes));
    CUDA_OK(cudaFree(h.counts));
}
static struct fill_counts hoard_counts(struct hoard h) {
    struct fill_counts c;
    CUDA_OK(cudaMemcpy(&c, h.counts, sizeof c, cudaMemcpyDeviceToHost));
    return c;
}

/* Allocates until there are `goal` allocations (mixed: bytes), or until NULL. */
__global__ void hoard_fill(struct hoard h, unsigned size, unsigned long long goal) {
    struct fill_counts *c = h.counts;
    unsigned seed = mix(thread_index() + 1), nulls = 0;
    for (;;) {
        seed = mix(seed + 0x9e3779b9u);
        const unsigned bytes = size != MIXED ? size : log_uniform(seed, MIXED_DOUBLINGS);
        const unsigned long long counts = size != MIXED ? 1 : bytes;
        if (atomicAdd(&c->wanted, counts) >= goal) break;
        uint64_t *p = (uint64_t *)heap_malloc(&h.ref, bytes);
        if (p == NULL) {
            atomicAdd(&c->wanted, 0 - counts);
            atomicAdd(&c->nulls, 1);
            if (++nulls == (size != MIXED ? 1 : MIXED_NULLS)) break;
            continue;
        }
        nulls = 0;
        const unsigned long long i = atomicAdd(&c->got, 1);
        if (!in_heap(&h.ref, p, bytes)) atomicAdd(&c->outside, 1);
        if (i < h.most) h.p[i] = p, h.sizes[i] = bytes;
    }
}

/* One warp per allocation: paints it, or checks the paint. */
__global__ void hoard_paint(struct hoard h, int look) {
    const unsigned lane = thread_index() % 32;
    const unsigned long long warps = gridDim.x * blockDim.x / 32;
    const unsigned long long n = h.counts->got < h.most ? h.counts->got : h.most;
    for (unsigned long long i = thread_index() / 32; i < n; i += warps) {
        uint64_t *p = h.p[i];
        const unsigned bytes = h.sizes[i];
        unsigned wrong = 0;
        for (unsigned at = lane; at < bytes / 8; at += 32) {
            const uint64_t key = payload_key(p, at, bytes);
            if (!look) p[at] = key;
            else wrong |= p[at] != key;
        }
        if (wrong) atomicAdd(&h.counts->wrong, 1);
    }
}

/* Frees by other threads than those that allocated, and out of order: `stride` is coprime to n. */
__global__ void hoard_free(struct hoard h, unsigned long long n, unsigned long long stride) {
    const unsigned long long threads = gridDim.x * blockDim.x;
    for (unsigned long long i = thread_index(); i < n; i += threads) heap_free(&h.ref, h.p[i * stride % n]);
}
static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

/* Fills, paints, checks. Returns the counts. */
static struct fill_counts fill(struct hoard h, unsigned size, uint64_t goal) {
    CUDA_OK(cudaMemset(h.counts, 0, sizeof *h.counts));
    if (size != MIXED && size >= 65536) hoard_fill<<<128, 128>>>(h, size, goal);
    else hoard_fill<<<512, 256>>>(h, size, goal);
    KERNEL_OK();
    hoard_paint<<<1024, 256>>>(h, 0);
    hoard_paint<<<1024, 256>>>(h, 1);
    KERNEL_OK();
    const struct fill_counts c = hoard_counts(h);
    ck_assert_msg(c.got <= h.most, "%u B: %llu got, there cannot be more than %llu", size, c.got, h.most);
    ck_assert_msg(c.outside == 0, "%u B: %llu outside the heap or not aligned", size, c.outside);
    ck_assert_msg(c.wrong == 0, "%u B: %llu of %llu overlap", size, c.wrong, c.got);
    return c;
}
static void free_all(struct hoard h, uint64_t n) {
    uint64_t stride = n / 3 * 2 + 1;
    while (n != 0 && gcd(stride, n) != 1) stride++;
    hoard_free<<<512, 256>>>(h, n, stride);
    KERNEL_OK();
    no_misuse(h.ref);
}

/* The number of allocations of a size that fit into a heap of `segments`. */
static uint64_t capacity(uint64_t segments, unsigned size) {
    if (size > 56 * MM_PAGE_BYTES) return segments / ((size + MM_SEGMENT_BYTES - 1) / MM_SEGMENT_BYTES);
    if (size > MM_SLICE_BYTES_MAX) { /* spans are contiguous; four lengths per doubling */
        uint64_t pages = 4, step = 1;
        while (pages * MM_PAGE_BYTES < size) pages += step, step += pages == 8 * step ? step : 0;
        return segments * (MM_SEGMENT_PAGES / pages);
    }
    return segments * (MM_SEGMENT_PAGES >> expect_class(size).page_shift) * expect_class(size).slices;
}
/* The least that a fill must get of `all`. Two runs of several segments that are taken at the same time may leave a gap
 * between them where a leaf of the free tree ends, so a few are lost. */
static uint64_t least_of(uint64_t all, unsigned size) { return size <= MM_SEGMENT_BYTES ? all : all * 93 / 100; }
static uint64_t segments_for(unsigned size) { return size <= 256 ? 64 : size < 65536 ? 512 : 2048; }

static const unsigned sizes[] = {16, 48, 64, 256, 1000, 1024, 4096, 8192, 65536, 100000, 1 << 20, 2 << 20, 3 << 20, 9 << 20};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* ---- to 90, 99 and 100 %, one size ---- */

START_TEST(test_fill) {
    static const unsigned percents[] = {90, 99, 100};
    for (size_t i = 0; i < SIZES; i++) {
        const uint64_t segments = segments_for(sizes[i]), all = capacity(segments, sizes[i]);
        struct gpu_heap f = gpu_heap_create(segments);
        struct hoard h = hoard_create(f.ref, all + 1000);
        for (int k = 0; k < 3; k++) {
            const struct fill_counts c = fill(h, sizes[i], all * percents[k] / 100);
            const uint64_t goal = all * percents[k] / 100, least = least_of(all, sizes[i]); /* the heap holds this much */
            ck_assert_msg(c.got <= goal && c.got >= (goal < least ? goal : least) && (c.nulls == 0 || goal > least),
                          "%u B to %u %%: %llu, not %llu; %llu NULLs", sizes[i], percents[k], c.got, (unsigned long long)goal, c.nulls);
            check_heap(f.ref);
            free_all(h, c.got);
            check_drained(f.ref, segments);
        }
        hoard_destroy(h);
        gpu_heap_destroy(f);
    }
}
END_TEST

/* ---- until NULL: everything, repeatedly, with and without a drain in between ---- */

START_TEST(test_refill) {
    for (size_t i = 0; i < SIZES; i++) {
        const uint64_t segments = segments_for(sizes[i]), all = capacity(segments, sizes[i]);
        struct gpu_heap f = gpu_heap_create(segments);
        struct hoard h = hoard_create(f.ref, all + 1000);
        uint64_t nulls = 0;
        for (int round = 0; round < 4; round++) {
            const struct fill_counts c = fill(h, sizes[i], ~0ull);
            nulls += c.nulls;
            ck_assert_msg(c.got <= all && c.got >= least_of(all, sizes[i]), "%u B, round %d: %llu, not %llu", sizes[i], round, c.got, (unsigned long long)all);
            ck_assert_uint_eq(c.nulls, sizes[i] >= 65536 ? 128 * 128 : 512 * 256);
            ck_assert_uint_eq(gpu_heap_header(f.ref).null_count, nulls);
            if (round != 1) check_heap(f.ref);
            free_all(h, c.got);
            if (round % 2) check_drained(f.ref, segments);
        }
        hoard_destroy(h);
        gpu_heap_destroy(f);
    }
}
END_TEST

/* ---- every n-th object of a full heap is freed and allocated again: single slices are reused ---- */

__global__ void free_every(struct hoard h, unsigned long long n, unsigned step) {
    const unsigned long long threads = gridDim.x * blockDim.x;
    for (unsigned long long i = thread_index() * (unsigned long long)step; i < n; i += threads * step) heap_free(&h.ref, h.p[i]);
}
/* Replaces every step-th object by a new one. */
__global__ void get_every(struct hoard h, unsigned size, unsigned long long n, unsigned step) {
    const unsigned long long threads = gridDim.x * blockDim.x;
    for (unsigned long long i = thread_index() * (unsigned long long)step; i < n; i += threads * step) {
        h.p[i] = (uint64_t *)heap_malloc(&h.ref, size);
        if (h.p[i] == NULL || !in_heap(&h.ref, h.p[i], size)) atomicAdd(&h.counts->outside, 1);
    }
}
START_TEST(test_holes) {
    static const unsigned steps[] = {2, 7, 64, 1000};
    for (size_t i = 0; i < SIZES && sizes[i] <= MM_SLICE_BYTES_MAX; i++) {
        const uint64_t segments = 64, all = capacity(segments, sizes[i]);
        struct gpu_heap f = gpu_heap_create(segments);
        struct hoard h = hoard_create(f.ref, all + 1000);
        ck_assert_uint_eq(fill(h, sizes[i], all).got, all);
        for (int k = 0; k < 4; k++) {
            free_every<<<256, 256>>>(h, all, steps[k]);
            KERNEL_OK();
            const uint64_t holes = (all + steps[k] - 1) / steps[k];
            ck_assert_uint_eq(check_heap(f.ref), (all - holes) * expect_class(sizes[i]).bytes);
            get_every<<<256, 256>>>(h, sizes[i], all, steps[k]);
            KERNEL_OK();
            ck_assert_msg(hoard_counts(h).outside == 0, "%u B, every %u.: %llu NULLs (or no good)", sizes[i], steps[k], hoard_counts(h).outside);
            hoard_paint<<<1024, 256>>>(h, 0);
            hoard_paint<<<1024, 256>>>(h, 1);
            KERNEL_OK();
            ck_assert_uint_eq(hoard_counts(h).wrong, 0);
            ck_assert_uint_eq(check_heap(f.ref), all * expect_class(sizes[i]).bytes);
        }
        free_all(h, all);
        check_drained(f.ref, segments);
        hoard_destroy(h);
        gpu_heap_destroy(f);
    }
}
END_TEST

/* ---- mixed sizes ---- */

START_TEST(test_fill_mixed) {
    const uint64_t segments = 8192, bytes = segments * MM_SEGMENT_BYTES;
    static const unsigned percents[] = {75, 90, 99, 100, 100};
    NEEDS(gpu_heap_bytes(segments) + bytes / 8); /* plus the hoard */
    struct gpu_heap f = gpu_heap_create(segments);
    struct hoard h = hoard_create(f.ref, bytes / 256);
    uint64_t before = 0;
    for (int k = 0; k < 5; k++) {
        /* Slices are up to a quarter larger than the request, a tenth on average. Free slices of other classes
         * do not help, so NULL may come a little before the end. */
        const uint64_t goal = percents[k] == 100 ? ~0ull : bytes / 100 * percents[k] / 115 * 100;
        const struct fill_counts c = fill(h, MIXED, goal);
        const uint64_t live = check_heap(f.ref);
        printf("mixed to %u %%: %llu allocations, %.2f %% of the heap live, %llu NULLs\n", percents[k], c.got, 100. * (double)live / (double)bytes, c.nulls);
        if (percents[k] <= 90) ck_assert_uint_eq(c.nulls, 0);
        if (percents[k] == 100) {
            ck_assert_uint_ge(live, bytes / 100 * 95);
            if (before) ck_assert_uint_ge(live, before / 100 * 98);
            before = live;
        }
        free_all(h, c.got);
        if (k == 3) ck_assert_uint_eq(check_heap(f.ref), 0); /* no drain before the next fill */
        else check_drained(f.ref, segments);
    }
    hoard_destroy(h);
    gpu_heap_destroy(f);
}
END_TEST

/* ---- one size after the other fills the whole heap, without a drain in between ---- */

START_TEST(test_turnover) {
    static const unsigned turn[] = {16, 4096, 48, 1 << 20, 256, 3 << 20, 1000, 96, 65536, 100000, 64, 9 << 20, 2 << 20, 16, 1024};
    const uint64_t segments = 256;
    struct gpu_heap f = gpu_heap_create(segments);
    struct hoard h = hoard_create(f.ref, capacity(segments, 16) + 1000);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof turn / sizeof turn[0]; i++) {
            const struct fill_counts c = fill(h, turn[i], ~0ull);
            const uint64_t all = capacity(segments, turn[i]);
            ck_assert_msg(c.got <= all && c.got >= least_of(all, turn[i]), "%u B after %u B: %llu, not %llu", turn[i], i ? turn[i - 1] : 0, c.got,
                          (unsigned long long)all);
            check_heap(f.ref);
            free_all(h, c.got);
            ck_assert_uint_eq(check_heap(f.ref), 0);
        }
    check_drained(f.ref, segments);
    hoard_destroy(h);
    gpu_heap_destroy(f);
}
END_TEST

int main(void) {
    Suite *s = suite_create("fill");
    add_test(s, "one size", test_fill);
    add_test(s, "one size, until NULL", test_refill);
    add_test(s, "holes", test_holes);
    add_test(s, "mixed sizes", test_fill_mixed);
    add_test(s, "turnover", test_turnover);
    return run_suite(s);
}
