/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The core on the GPU, with access to its internals: compiled by plain nvcc with the core's source. Each test has
 * its own heap in cudaMalloc memory, which the heap checker checks afterwards. Filling and reusing: test_fill.cu.
 */
#include "tests/gpu/facts.h"
#include "tests/gpu/support.h"
#include "tests/gpu/work.h"

#define SEGMENTS 2048ull

/* ---- size classes: the GPU computes the same as the CPU ---- */

__global__ void facts_of(struct class_facts *out, uint32_t n) {
    const uint32_t bytes = thread_index();
    if (bytes >= n) return;
    out[bytes] = facts_of_size(bytes);
}
START_TEST(test_class) {
    const uint32_t n = (uint32_t)MM_SLICE_BYTES_MAX + 1;
    struct class_facts *device, *host = (struct class_facts *)malloc(n * sizeof *host);
    CUDA_OK(cudaMalloc(&device, n * sizeof *device));
    facts_of<<<n / 256 + 1, 256>>>(device, n);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(host, device, n * sizeof *host, cudaMemcpyDeviceToHost));
    for (uint32_t bytes = 0; bytes < n; bytes++) {
        const struct class_facts e = expect_class(bytes), *g = &host[bytes];
        ck_assert_msg(memcmp(&e, g, sizeof e) == 0, "size %u", bytes);
    }
    CUDA_OK(cudaFree(device));
    free(host);
}
END_TEST

/* ---- bitmap tree: each segment is taken by exactly one thread, and put back ---- */

__global__ void take_all(struct mm_heap_ref ref, unsigned *taken_by, unsigned *count) {
    for (uint32_t s; (s = mm_tree_take(mm_segment_free_tree(&ref), mm_random(), 0)) != MM_TREE_NONE;) {
        atomicAdd(count, 1);
        atomicAdd(&taken_by[s], 1);
    }
}
__global__ void put_all(struct mm_heap_ref ref, unsigned n) {
    if (thread_index() < n) mm_tree_insert(mm_segment_free_tree(&ref), thread_index());
}
START_TEST(test_tree) {
    struct gpu_heap f = gpu_heap_create(SEGMENTS);
    unsigned *taken, *host = (unsigned *)malloc((SEGMENTS + 1) * sizeof *host);
    CUDA_OK(cudaMalloc(&taken, (SEGMENTS + 1) * sizeof *taken));
    for (int round = 0; round < 20; round++) {
        CUDA_OK(cudaMemset(taken, 0, (SEGMENTS + 1) * sizeof *taken));
        take_all<<<64, 256>>>(f.ref, taken, taken + SEGMENTS);
        KERNEL_OK();
        CUDA_OK(cudaMemcpy(host, taken, (SEGMENTS + 1) * sizeof *host, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(host[SEGMENTS], SEGMENTS);
        for (unsigned s = 0; s < SEGMENTS; s++) ck_assert_uint_eq(host[s], 1);
        put_all<<<SEGMENTS / 128, 128>>>(f.ref, SEGMENTS);
        KERNEL_OK();
        check_drained(f.ref, SEGMENTS);
    }
    CUDA_OK(cudaFree(taken));
    free(host);
    gpu_heap_destroy(f);
}
END_TEST

/* ---- segments: groups of pages are taken and given back, and no page has two owners ---- */

__global__ void take_pages(struct mm_heap_ref ref, unsigned *owners, unsigned *twice, unsigned *taken) {
    const uint32_t salt = thread_index(), k = salt / 32 % (MM_ROOMS_EVEN + 1);
    for (uint32_t round = 0; round < 8; round++) {
        uint64_t groups = 0;
        const uint32_t s = mm_pages_take(&ref, k, 1 + (salt + round) % 5, &groups);
        if (s == MM_TREE_NONE) continue;
        const uint64_t pages = mm_cut_pages(mm_cut_evenly(k), groups);
        for (int set = 1; set >= 0; set--)
            for (uint64_t rest = pages; rest; rest &= rest - 1)
                if (atomicExch(&owners[s * MM_SEGMENT_PAGES + mm_ctz(rest)], set ? salt + 1 : 0) != (set ? 0 : salt + 1)) atomicAdd(twice, 1);
        atomicAdd(taken, 1);
        __threadfence();
        mm_pages_put(&ref, s, pages);
    }
}
START_TEST(test_segment) {
    struct gpu_heap f = gpu_heap_create(64);
    unsigned *owners, counts[2];
    const size_t n = 64 * MM_SEGMENT_PAGES;
    CUDA_OK(cudaMalloc(&owners, (n + 2) * sizeof *owners));
    CUDA_OK(cudaMemset(owners, 0, (n + 2) * sizeof *owners));
    for (int round = 0; round < 10; round++) {
        take_pages<<<256, 256>>>(f.ref, owners, owners + n, owners + n + 1);
        KERNEL_OK();
        check_heap(f.ref);
    }
    CUDA_OK(cudaMemcpy(counts, owners + n, sizeof counts, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(counts[0], 0);
    ck_assert_uint_gt(counts[1], 1000);
    check_drained(f.ref, 64);
    CUDA_OK(cudaFree(owners));
    gpu_heap_destroy(f);
}
END_TEST

/* ---- slices and blocks: random sizes and lifetimes, payload keyed to address and owner ---- */

#define HELD 8

__global__ void hammer(struct mm_heap_ref ref, unsigned rounds, unsigned max_bytes, struct tally *t) {
    unsigned *held[HELD], sizes[HELD], seed = mix(thread_index() + 1);
    for (int i = 0; i < HELD; i++) held[i] = NULL;
    for (unsigned r = 0; r < rounds; r++) {
        seed = mix(seed + r);
        const int slot = seed % HELD;
        if (held[slot] != NULL) {
            unsigned *p = held[slot];
            const unsigned words = sizes[slot] / 4;
            if (p[0] != (thread_index() ^ slot) || p[words / 2] != p[0] || p[words - 1] != p[0]) atomicAdd(&t->corrupt, 1);
            heap_free(&ref, p);
            held[slot] = NULL;
        } else {
            sizes[slot] = 4 + (seed >> 8) % max_bytes / 4 * 4;
            held[slot] = (unsigned *)heap_malloc(&ref, sizes[slot]);
            if (held[slot] == NULL) {
                atomicAdd(&t->nulls, 1);
            } else {
                held[slot][0] = held[slot][sizes[slot] / 8] = held[slot][sizes[slot] / 4 - 1] = thread_index() ^ slot;
            }
        }
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != NULL) {
            if (held[i][0] != (thread_index() ^ i)) atomicAdd(&t->corrupt, 1);
            heap_free(&ref, held[i]);
        }
}
static void hammer_case(uint64_t segments, unsigned threads, unsigned rounds, unsigned max_bytes, int nulls_allowed) {
    NEEDS(gpu_heap_bytes(segments));
    struct gpu_heap f = gpu_heap_create(segments);
    struct tally *t, host;
    CUDA_OK(cudaMalloc(&t, sizeof *t));
    CUDA_OK(cudaMemset(t, 0, sizeof *t));
    hammer<<<threads / 256, 256>>>(f.ref, rounds, max_bytes, t);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(host.corrupt, 0);
    if (!nulls_allowed) ck_assert_uint_eq(host.nulls, 0);
    no_misuse(f.ref);
    ck_assert_uint_eq(gpu_heap_header(f.ref).null_count, host.nulls);
    check_drained(f.ref, segments);
    CUDA_OK(cudaFree(t));
    gpu_heap_destroy(f);
}
START_TEST(test_slice_small) { hammer_case(SEGMENTS, 1 << 18, 64, 512, 0); }
END_TEST
START_TEST(test_slice_mixed) { hammer_case(8 * SEGMENTS, 1 << 17, 64, 4096, 0); }
END_TEST
START_TEST(test_slice_large) { hammer_case(4 * SEGMENTS, 1 << 10, 64, 1 << 20, 0); }
END_TEST
START_TEST(test_slice_exhausted) { hammer_case(96, 1 << 17, 64, 4096, 1); }
END_TEST
START_TEST(test_runs_and_slices) { hammer_case(SEGMENTS, 1 << 10, 64, 12 << 20, 1); }
END_TEST

/* ---- converged warps allocate until NULL: every slice reaches a lane ---- */

__global__ void take_until_null(struct mm_heap_ref ref, unsigned bytes, struct tally *t) {
    while (heap_malloc(&ref, bytes) != NULL) atomicAdd(&t->bytes, (unsigned long long)bytes);
    atomicAdd(&t->nulls, 1);
}
START_TEST(test_every_slice) {
    static const unsigned sizes[] = {65536, 5120, 3072, 1792};
    for (int round = 0; round < 8; round++) {
        const unsigned size = sizes[round / 2];
        const uint64_t segments = size == 65536 ? 8512 : 512;
        const uint64_t all = segments * (MM_SEGMENT_PAGES >> expect_class(size).page_shift) * expect_class(size).slices * size;
        if (!gpu_has(gpu_heap_bytes(segments))) continue;
        struct gpu_heap f = gpu_heap_create(segments);
        struct tally *t, host;
        CUDA_OK(cudaMalloc(&t, sizeof *t));
        CUDA_OK(cudaMemset(t, 0, sizeof *t));
        take_until_null<<<64, 128>>>(f.ref, size, t);
        KERNEL_OK();
        CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(host.bytes, all);
        ck_assert_uint_eq(host.nulls, 64 * 128);
        ck_assert_uint_eq(check_heap(f.ref), host.bytes);
        CUDA_OK(cudaFree(t));
        gpu_heap_destroy(f);
    }
}
END_TEST

/* ---- misuse: distinguished, counted, harmless ---- */

__global__ void misuse(struct mm_heap_ref ref, char **kept) {
    char *slice = (char *)heap_malloc(&ref, 100), *body = (char *)heap_malloc(&ref, 5000);
    char *run = (char *)heap_malloc(&ref, 9 << 20);
    const uint32_t c = mm_class_of(100), bytes = mm_class_bytes(c);
    kept[0] = slice, kept[1] = body, kept[2] = run;
    int on_stack;
    heap_free(&ref, &on_stack);                                    /* foreign */
    heap_free(&ref, kept);                                         /* foreign: cudaMalloc */
    heap_free(&ref, (char *)ref.user_base + ref.user_bytes);       /* foreign: just behind */
    heap_free(&ref, slice + 16);                                   /* interior */
    heap_free(&ref, body + 48);                                    /* interior */
    heap_free(&ref, run + MM_SEGMENT_BYTES);                       /* interior */
    heap_free(&ref, run + 16);                                     /* interior */
    heap_free(&ref, slice + bytes * 100);                          /* never handed out: free, as after a free */
    heap_free(&ref, slice + (uint64_t)bytes * mm_class_slices(c)); /* behind the last slice: never */
    heap_free(&ref, slice + MM_PAGE_BYTES * 5);                    /* in an unowned page */
    heap_free(&ref, (char *)ref.user_base + ref.user_bytes / 2);   /* in a free segment */
    heap_free(&ref, slice);
    heap_free(&ref, slice); /* double */
    heap_free(&ref, run);
    heap_free(&ref, run); /* unowned by now: not allocated */
    heap_free(&ref, body);
    heap_free(&ref, NULL);
}
START_TEST(test_misuse) {
    struct gpu_heap f = gpu_heap_create(64);
    char **kept;
    CUDA_OK(cudaMalloc(&kept, 3 * sizeof *kept));
    misuse<<<1, 1>>>(f.ref, kept);
    KERNEL_OK();
    const struct mm_heap head = gpu_heap_header(f.ref);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_FOREIGN], 3);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_INTERIOR], 4);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_NOT_ALLOCATED], 3);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_NEVER], 1);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_DOUBLE_FREE], 2);
    check_drained(f.ref, 64);
    CUDA_OK(cudaFree(kept));
    gpu_heap_destroy(f);
}
END_TEST

/* If threads of one warp or several free a pointer at the same time, exactly one free succeeds; the others are misuse of some kind. */
__global__ void get_each(struct mm_heap_ref ref, unsigned bytes, void **p, unsigned n) {
    if (thread_index() < n) p[thread_index()] = heap_malloc(&ref, bytes);
}
__global__ void free_four_times(struct mm_heap_ref ref, void **p, unsigned n, int same_warp) {
    if (thread_index() < 4 * n) heap_free(&ref, p[same_warp ? thread_index() / 4 : thread_index() % n]);
}
START_TEST(test_misuse_at_once) {
    static const unsigned sizes[] = {16, 64, 1000, 65536, 100000, 2 << 20, 5 << 20};
    const unsigned most = 1 << 14;
    void **p;
    CUDA_OK(cudaMalloc(&p, most * sizeof *p));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int same_warp = 0; same_warp < 2; same_warp++) {
            struct gpu_heap f = gpu_heap_create(SEGMENTS);
            const unsigned n = sizes[i] <= 1000 ? most : sizes[i] <= 65536 ? 4096 : 128;
            get_each<<<n / 128, 128>>>(f.ref, sizes[i], p, n);
            KERNEL_OK();
            ck_assert_uint_eq(gpu_heap_header(f.ref).null_count, 0);
            free_four_times<<<n / 32, 128>>>(f.ref, p, n, same_warp);
            KERNEL_OK();
            uint64_t all = 0;
            const struct mm_heap head = gpu_heap_header(f.ref);
            for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) all += head.misuse[kind];
            ck_assert_msg(all == 3 * n, "%u B: %llu misuses, not %u", sizes[i], (unsigned long long)all, 3 * n);
            check_drained(f.ref, SEGMENTS);
            gpu_heap_destroy(f);
        }
    CUDA_OK(cudaFree(p));
}
END_TEST

/* ---- the host does not answer: NULL after the time limit, one wait for all threads; a late answer is found ---- */

static __global__ void take_until_null(struct mm_heap_ref ref, uint64_t bytes, unsigned *got, unsigned long long *longest_ns) {
    for (;;) {
        const uint64_t start = mm_now_ns();
        void *p = heap_malloc(&ref, bytes);
        atomicMax(longest_ns, (unsigned long long)(mm_now_ns() - start));
        if (p == NULL) break;
        atomicAdd(got, 1);
    }
}
START_TEST(test_no_answer) {
    const unsigned wait_ms = 200;
    struct gpu_heap f = gpu_heap_create(SEGMENTS);
    struct mm_mailbox *box;
    unsigned long long *longest, ns;
    unsigned *got, is;
    CUDA_OK(cudaHostAlloc(&box, sizeof *box, cudaHostAllocMapped));
    CUDA_OK(cudaMalloc(&longest, sizeof *longest));
    CUDA_OK(cudaMalloc(&got, sizeof *got));
    memset(box, 0, sizeof *box);
    f.ref.mailbox = (uint64_t)box;
    f.ref.grow_polls = wait_ms * (1000000u / MM_GROW_LOOK_NS);
    for (int round = 0; round < 3; round++) {
        CUDA_OK(cudaMemset(longest, 0, sizeof *longest));
        CUDA_OK(cudaMemset(got, 0, sizeof *got));
        if (round == 2) box->answer = mm_answer_make(box->wanted >> 32, 0, 0); /* no */
        const double start = host_ms();
        take_until_null<<<64, 256>>>(f.ref, round == 0 ? 64 << 10 : 5000, got, longest);
        KERNEL_OK();
        const double took_ms = host_ms() - start;
        CUDA_OK(cudaMemcpy(&ns, longest, sizeof ns, cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemcpy(&is, got, sizeof is, cudaMemcpyDeviceToHost));
        printf("16,384 threads, no answer, %u ms allowed, round %d: %u served, then NULL after %.1f ms at most\n", wait_ms, round, is, (double)ns * 1e-6);
        if (round == 0) ck_assert_uint_ge(ns, wait_ms * 1000000ull / 2);
        ck_assert_uint_le(ns, 5 * wait_ms * 1000000ull);
        ck_assert_uint_ge(is, round == 0 ? SEGMENTS * 16 * 9 / 10 : 0);
        /* One request; after a refusal, one more each time that the refusal expired. */
        ck_assert_uint_le(box->wanted >> 32, 1 + (round == 2 ? (unsigned)(took_ms * 1e6 / MM_GROW_REFUSAL_NS) : 0));
    }
    CUDA_OK(cudaFreeHost(box));
    CUDA_OK(cudaFree(longest));
    CUDA_OK(cudaFree(got));
    gpu_heap_destroy(f);
}
END_TEST

int main(void) {
    Suite *s = suite_create("core on the GPU");
    add_test(s, "class", test_class);
    add_test(s, "tree", test_tree);
    add_test(s, "segment", test_segment);
    add_test(s, "slice, small", test_slice_small);
    add_test(s, "slice, mixed", test_slice_mixed);
    add_test(s, "slice, large", test_slice_large);
    add_test(s, "slice, exhausted", test_slice_exhausted);
    add_test(s, "runs and slices", test_runs_and_slices);
    add_test(s, "every slice", test_every_slice);
    add_test(s, "misuse", test_misuse);
    add_test(s, "misuse at once", test_misuse_at_once);
    add_test(s, "no answer", test_no_answer);
    return run_suite(s);
}
