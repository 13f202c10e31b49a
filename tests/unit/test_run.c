/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs of segments: found wherever there are enough neighbours, aligned, coalesced at once. */
#include "tests/unit/runs.h"

/* From the back, single segments from the front; rounded up to segments; one more than there is: NULL. */
START_TEST(every_length) {
    const uint32_t n = sizes[_i];
    unit_create(&heap, n);
    for (uint32_t count = 1; count <= n; count++) {
        const uint64_t least = count == 1 ? 56 * MM_PAGE_BYTES + 1 : SEGMENT(count - 1) + 1;
        for (int most = 0; most < 2; most++) {
            void *p = mm_cpu_malloc(&heap, most ? SEGMENT(count) : least);
            unit_holds(p == run_at(count == 1 ? 0 : n - count), "%u of %u segments: %p", count, n, p);
            unit_sound(&heap, SEGMENT(count));
            unit_free(&heap, p, 0, 0, "a run");
        }
    }
    unit_holds(mm_cpu_malloc(&heap, SEGMENT(n) + 1) == NULL, "more than the heap");
    unit_holds(mm_cpu_malloc(&heap, ~0ull) == NULL, "2^64 - 1 bytes");
    unit_holds(mm_cpu_malloc(&heap, ~0ull - MM_SEGMENT_BYTES + 2) == NULL, "rounded up it is 2^64");
    unit_holds(mm_cpu_aligned_malloc(&heap, ~0ull, 16) == NULL, "2^64 - 1 bytes, aligned");
    unit_holds(mm_cpu_aligned_malloc(&heap, ~0ull - MM_PAGE_BYTES + 2, 16) == NULL, "rounded up to pages it is 2^64");
    unit_eq(mm_cpu_null_count(&heap), 5);
    unit_fresh(&heap, n);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Fills the heap with runs of one length, as many as fit; frees them in any order: one run of everything fits again. */
START_TEST(fill_and_coalesce) {
    const uint32_t n = sizes[_i];
    void *held[201]; /* and the NULL */
    uint64_t seed = n;
    unit_create(&heap, n);
    for (uint32_t count = 1; count <= n; count += 1 + count / 8) {
        uint32_t got = 0;
        while ((held[got] = mm_cpu_malloc(&heap, SEGMENT(count))) != NULL) {
            unit_holds(held[got] == run_at(count == 1 ? got : n - (got + 1) * count), "run %u of %u segments", got, count);
            got++;
        }
        unit_eq(got, n / count);
        unit_sound(&heap, SEGMENT(got * count));
        while (got > 0) {
            const uint32_t i = (uint32_t)(unit_random(&seed) % got);
            mm_cpu_free(&heap, held[i]);
            held[i] = held[--got];
        }
        void *all = mm_cpu_malloc(&heap, SEGMENT(n));
        unit_holds(all == run_at(0), "no run of the whole heap");
        mm_cpu_free(&heap, all);
        unit_fresh(&heap, n);
    }
    unit_eq(unit_misuses(&heap), 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* A hole of every length at every position, across the borders of words too: it is found, and no longer run is. */
START_TEST(every_hole) {
    const uint32_t n = sizes[_i];
    unit_create(&heap, n);
    for (uint32_t s = 0; s < n; s++) mm_cpu_malloc(&heap, SEGMENT(1));
    for (uint32_t at = 0; at < n; at++)
        for (uint32_t count = 1; at + count <= n; count += count < 4 || count > 60 ? 1 : 7) {
            for (uint32_t s = at; s < at + count; s++) mm_cpu_free(&heap, run_at(s));
            void *longer = mm_cpu_malloc(&heap, SEGMENT(count + 1)), *p = mm_cpu_malloc(&heap, SEGMENT(count));
            unit_holds(longer == NULL, "a run of %u in a hole of %u at %u", count + 1, count, at);
            unit_holds(p == run_at(at), "the hole of %u at %u is not found", count, at);
            mm_cpu_free(&heap, p);
            for (uint32_t s = at; s < at + count; s++) mm_cpu_malloc(&heap, SEGMENT(1));
        }
    unit_sound(&heap, SEGMENT(n));
    unit_eq(unit_misuses(&heap), 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* The heap's end and beginning are not neighbours; nor are ends of words that are not adjacent. */
START_TEST(no_wrap_around) {
    const uint32_t n = sizes[_i];
    unit_create(&heap, n);
    for (uint32_t s = 0; s < n; s++) mm_cpu_malloc(&heap, SEGMENT(1));
    for (uint32_t count = 1; 2 * count < n; count++) {
        mm_cpu_free(&heap, run_at(count - 1));
        mm_cpu_free(&heap, run_at(n - count));
        unit_holds(mm_cpu_malloc(&heap, SEGMENT(count + 1)) == NULL, "a run around the end");
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Aligned to more than a segment, with user memory that begins anywhere. */
START_TEST(aligned_addresses) {
    const uint32_t n = sizes[_i];
    unit_create(&heap, n);
    const uint64_t base = heap.ref.user_base / SEGMENT(256) * SEGMENT(256);
    for (uint64_t begin = 0; begin < 9; begin++) {
        heap.ref.user_base = base + SEGMENT(begin); /* the memory is never accessed */
        for (uint64_t align = MM_SEGMENT_BYTES; align <= SEGMENT(256); align *= 2)
            for (uint32_t count = 1; count <= n; count = count * 2 + 1) {
                int fits = 0;
                for (uint32_t s = 0; s + count <= n; s++) fits |= (heap.ref.user_base + SEGMENT(s)) % align == 0;
                void *p = mm_cpu_aligned_malloc(&heap, SEGMENT(count), align);
                unit_holds((p != NULL) == (fits && align <= SEGMENT(n)), "%u segments aligned to %llu: %p", count, (unsigned long long)align, p);
                unit_eq((uintptr_t)p % align, 0);
                if (p) unit_free(&heap, p, 0, 0, "an aligned run");
                p = mm_cpu_aligned_malloc(&heap, 16, align); /* small, but aligned to more than slices are */
                if (p) unit_free(&heap, p, 0, 0, "a small aligned run");
            }
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* A request for zero bytes with an alignment larger than slices have is served like one byte. */
START_TEST(aligned_no_bytes) {
    for (uint32_t n = 1; n < 6; n++) {
        unit_create(&heap, n);
        for (uint64_t align = MM_SEGMENT_BYTES; align <= SEGMENT(n); align *= 2) {
            void *one = mm_cpu_aligned_malloc(&heap, 1, align);
            if (one) mm_cpu_free(&heap, one);
            void *none = mm_cpu_aligned_malloc(&heap, 0, align);
            unit_holds(none == one, "%u segments: 0 bytes aligned to %llu: %p, 1 byte: %p", n, (unsigned long long)align, none, one);
            unit_sound(&heap, none ? MM_SEGMENT_BYTES : 0);
            if (none) unit_free(&heap, none, 0, 0, "a run for no bytes");
        }
        mm_cpu_heap_destroy(&heap);
    }
}
END_TEST

/* Two holes in a heap of several words of the tree's middle level: the one nearer to the back if it is long enough, else the other. */
START_TEST(far_apart) {
    static const uint32_t places[] = {0, 61, 64, 4031, 4094, 4096, 4098, 8126, 8191, 8192, 8296};
    const uint32_t n = 8300, all = sizeof places / sizeof *places;
    unit_create(&heap, n);
    for (uint32_t s = 0; s < n; s++) unit_holds(mm_cpu_malloc(&heap, SEGMENT(1)) == run_at(s), "the heap is not filled with single segments from the front");
    unit_holds(mm_cpu_malloc(&heap, SEGMENT(1)) == NULL, "there is no segment any more");
    for (uint32_t i = 0; i < all; i++)
        for (uint32_t k = i + 2; k < all; k++)
            for (uint32_t count = 1; count <= 4; count++) {
                for (uint32_t s = 0; s < 3; s++) mm_cpu_free(&heap, run_at(places[i] + s));
                for (uint32_t s = 0; s < count; s++) mm_cpu_free(&heap, run_at(places[k] + s));
                void *want = count >= 3 ? run_at(places[k] + count - 3) : run_at(places[i]), *p = mm_cpu_malloc(&heap, SEGMENT(3));
                unit_holds(p == want, "%u at %u, 3 at %u: %p", count, places[k], places[i], p);
                mm_cpu_free(&heap, p);
                for (uint32_t s = 0; s < 3 + count; s++) mm_cpu_malloc(&heap, SEGMENT(1));
            }
    unit_sound(&heap, SEGMENT(n));
    unit_eq(unit_misuses(&heap), 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Only mapped memory is handed out. */
START_TEST(partly_mapped) {
    static const uint32_t mapped[] = {0, 1, 63, 64, 65, 130, 4095, 4096, 4097, 4160, 8199};
    const uint32_t n = mapped[_i];
    unit_eq(mm_cpu_heap_create(&heap, n < 200 ? 200 : 8300, n, MM_SEGMENT_BYTES), 0);
    unit_holds(mm_cpu_malloc(&heap, SEGMENT(n + 1)) == NULL, "more than is mapped");
    if (n > 0) {
        void *p = mm_cpu_malloc(&heap, SEGMENT(n));
        unit_holds(p == run_at(0), "not all that is mapped");
        unit_holds(mm_cpu_malloc(&heap, 1) == NULL, "not mapped");
        unit_free(&heap, p, 0, 0, "a run");
    }
    unit_free(&heap, run_at(n + 2), MM_MISUSE_NOT_ALLOCATED, 0, "not mapped");
    unit_fresh(&heap, n);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Slices and spans near the front, together; runs from the back: a run can take everything that no slice needs. */
START_TEST(runs_and_slices) {
    const uint32_t n = sizes[_i];
    unit_create(&heap, n);
    void *slice = mm_cpu_malloc(&heap, 100);
    const uint32_t at = (uint32_t)((uint64_t)((char *)slice - (char *)run_at(0)) / MM_SEGMENT_BYTES), rest = at > n - 1 - at ? at : n - 1 - at;
    unit_lt(at, MM_TREE_SPREAD * 64);
    void *span = mm_cpu_malloc(&heap, 3 * MM_PAGE_BYTES + MM_SLICE_BYTES_MAX);
    unit_eq((uint64_t)((char *)span - (char *)run_at(0)) / MM_SEGMENT_BYTES, at);
    mm_cpu_free(&heap, span);
    unit_holds(mm_cpu_malloc(&heap, SEGMENT(rest + 1)) == NULL, "a run over a slice");
    if (n > 1) {
        void *run = mm_cpu_malloc(&heap, SEGMENT(rest)), *other = mm_cpu_malloc(&heap, SEGMENT(n - 1 - rest ? n - 1 - rest : n));
        unit_holds(run == run_at(at == rest ? 0 : at + 1), "the rest is one run");
        unit_holds((other != NULL) == (n - 1 != rest), "and another one in front");
        unit_holds(mm_cpu_malloc(&heap, SEGMENT(1)) == NULL, "no segment is left");
        void *large = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES / 2 + 1);
        unit_holds(large != NULL, "half of a segment and a page is left behind, or before, one slice");
        mm_cpu_free(&heap, large);
        unit_free(&heap, run, 0, unit_taken(100) + SEGMENT(n - 1 - rest), "a run");
        large = mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX);
        unit_holds(large != NULL, "what was a run can be slices");
        mm_cpu_free(&heap, large);
        mm_cpu_free(&heap, other);
    }
    mm_cpu_free(&heap, slice);
    unit_fresh(&heap, n);
    void *all = mm_cpu_malloc(&heap, SEGMENT(n));
    unit_holds(all == run_at(0), "what was slices can be a run");
    unit_free(&heap, all, 0, 0, "a run");
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("run");
    TCase *tests = tcase_create("runs");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_length, 0, SIZES);
    tcase_add_loop_test(tests, fill_and_coalesce, 0, SIZES);
    tcase_add_loop_test(tests, every_hole, 0, SIZES);
    tcase_add_loop_test(tests, no_wrap_around, 0, SIZES);
    tcase_add_loop_test(tests, aligned_addresses, 0, SIZES);
    tcase_add_test(tests, aligned_no_bytes);
    tcase_add_test(tests, far_apart);
    tcase_add_loop_test(tests, partly_mapped, 0, 11);
    tcase_add_loop_test(tests, runs_and_slices, 0, SIZES);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
