/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs of segments: found wherever there are enough neighbours, aligned, coalesced at once. Spans: four lengths to a doubling, or a power of two of pages if
 * aligned. */
#include "tests/unit/support.h"

static const uint32_t sizes[] = {1, 2, 63, 64, 65, 200};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))
#define SEGMENT(n) ((uint64_t)(n)*MM_SEGMENT_BYTES)

static struct mm_cpu_heap heap;

static void *run_at(uint32_t s) { return (void *)(uintptr_t)(heap.ref.user_base + SEGMENT(s)); }

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

static char is_free[5000];
static uint64_t seed;

/* The backmost place that fits, by trying all of them; for single segments the first one. */
static uint32_t search(uint32_t n, uint32_t count, uint32_t align, uint32_t skew) {
    const char *one = count == 1 && align == 1 ? (const char *)memchr(is_free, 1, n) : NULL;
    if (count == 1 && align == 1) return one == NULL ? MM_TREE_NONE : (uint32_t)(one - is_free);
    for (uint32_t first = n; first-- > 0;) {
        uint32_t s = first;
        while (s < n && s < first + count && is_free[s]) s++;
        if (s == first + count && (first - skew) % align == 0) return first;
    }
    return MM_TREE_NONE;
}

static uint32_t take(uint32_t count, uint32_t align, uint32_t skew, uint32_t most, uint32_t *runs) {
    const struct mm_run want = {count, align, skew, most};
    return unit_run_take(&heap.ref, want, runs);
}

/* A heap of n segments with random stretches of free ones, different after each change; is_free follows. */
static void make_rows(uint32_t n) {
    seed = n;
    unit_create(&heap, n);
    memset(is_free, 1, sizeof is_free);
}
static void change_rows(uint32_t n) {
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    const uint32_t s = (uint32_t)(unit_random(&seed) % n), length = (uint32_t)(unit_random(&seed) % 40);
    const int now = unit_random(&seed) % 3 != 0; /* mostly free */
    for (uint32_t i = s; i < s + length && i < n; i++) {
        if (is_free[i] && !now) unit_eq(mm_tree_erase(t, i), 1);
        if (!is_free[i] && now) mm_tree_insert(t, i);
        is_free[i] = (char)now;
    }
}

START_TEST(aligned_against_a_plain_search) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        const uint32_t count = 1 + (uint32_t)(unit_random(&seed) % (round % 2 ? n : 6));
        const uint32_t align = 1u << unit_random(&seed) % 8, skew = (uint32_t)unit_random(&seed) & (align - 1);
        uint32_t runs;
        const uint32_t want = search(n, count, align, skew), got = take(count, align, skew, 1, &runs);
        unit_holds(got == want, "%u of %u segments, %u modulo %u: %d, not %d", count, n, skew, align, (int)got, (int)want);
        if (got != MM_TREE_NONE) mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + count);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Nobody is on the way: a leaf has its bit above if it has segments, and only then; a mid, too. */
static void bits_above_are_exact(uint32_t n) {
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    for (uint32_t s = 0; s < n; s += 64) unit_eq(*mm_tree_mid(t, s) >> s / 64 % 64 & 1, *mm_tree_leaf(t, s) != 0);
    for (uint32_t s = 0; s < n; s += MM_TREE_MID_SEGMENTS) unit_eq((*mm_tree_root(t, s) & mm_tree_root_bit(s)) != 0, *mm_tree_mid(t, s) != 0);
}
/* Runs of many leaves between a few holes: the search reads several leaves at once. */
START_TEST(long_ones_against_a_plain_search) {
    const uint32_t n = sizeof is_free;
    uint32_t found = 0, none = 0;
    make_rows(n);
    for (uint32_t round = 0; round < 200; round++) {
        const uint32_t hole = (uint32_t)(unit_random(&seed) % n), is_new = is_free[hole] && round % 8 < 3;
        const struct mm_tree t = mm_segment_free_tree(&heap.ref);
        if (is_new) mm_tree_erase(t, hole), is_free[hole] = 0;
        for (uint32_t i = 0; i < n && round % 8 == 7; i++) /* at times all are filled */
            if (!is_free[i]) mm_tree_insert(t, i), is_free[i] = 1;
        const uint32_t most = round % 2 ? 1 : 1 + round % 5, align = most == 1 ? 1u << unit_random(&seed) % 8 : 1,
                       skew = (uint32_t)unit_random(&seed) & (align - 1), count = 64 + (uint32_t)(unit_random(&seed) % (n / most - 64));
        uint32_t runs;
        const uint32_t want = search(n, count, align, skew), got = take(count, align, skew, most, &runs),
                       last = got == MM_TREE_NONE ? got : got + (runs - 1) * count;
        unit_holds(last == want, "%u times %u segments, %u modulo %u: %u, the last one at %d, not %d", most, count, skew, align, runs, (int)last, (int)want);
        bits_above_are_exact(n);
        found += got != MM_TREE_NONE, none += got == MM_TREE_NONE;
        if (got != MM_TREE_NONE) mm_segments_put(t, got, got + runs * count);
    }
    unit_lt(50, found);
    unit_lt(5, none);
    mm_cpu_heap_destroy(&heap);
}
END_TEST
/* Requests by the lanes of a warp: as many adjacent runs as wanted, or as fit where the first one does. */
START_TEST(several_against_a_plain_search) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        const uint32_t count = 2 + (uint32_t)(unit_random(&seed) % (round % 4 ? 6 : n)), most = 1 + (uint32_t)(unit_random(&seed) % 32);
        uint32_t first = search(n, count, 1, 0), runs, want = first != MM_TREE_NONE;
        while (want > 0 && want < most && first >= count && search(first, count, 1, 0) == first - count) want++, first -= count;
        const uint32_t got = take(count, 1, 0, most, &runs);
        unit_holds(got == first && runs == want, "%u times %u of %u segments: %u at %d, not %u at %d", most, count, n, runs, (int)got, want, (int)first);
        if (got != MM_TREE_NONE) mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + runs * count);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Single segments: the first free ones of one leaf, as many as wanted, adjacent or not. */
START_TEST(single_segments) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
        const struct mm_run want = {1, 1, 0, 1 + (uint32_t)(unit_random(&seed) % 32)};
        const uint32_t first = search(n, 1, 1, 0);
        uint32_t at = 0, runs = 0;
        uint64_t bits = 0, expected = 0;
        for (uint32_t i = first; i < n && i / 64 == first / 64 && mm_popcount(expected) < want.most; i++) expected |= (uint64_t)is_free[i] << i % 64;
        if (first == MM_TREE_NONE) continue;
        unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_DONE);
        unit_eq(at, first / 64 * 64);
        unit_eq(bits, expected);
        unit_eq(runs, mm_popcount(expected));
        mm_tree_insert_bits(mm_segment_free_tree(&heap.ref), at, bits);
    }
    unit_eq(mm_heap_of(&heap.ref)->run_searches, 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* For runs no scattered blocks are retired: first the host is asked, then all blocks are retired. For single segments scattered ones are. */
START_TEST(some_are_retired_for_single_segments) {
    unit_create(&heap, 4);
    uint32_t at, runs;
    uint64_t bits;
    struct mm_run want = {4, 1, 0, 1};
    struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_DONE);
    unit_eq(mm_heap_of(&heap.ref)->retired++, 0); /* as if others gave pages back */
    for (want.count = 1; want.count <= 2; want.count++) {
        mm_shortage_end(&s.shortage);
        unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_WAIT);
        unit_eq(s.is, want.count == 1 ? MM_SHORT_SOME : MM_SHORT_ALL);
        if (want.count == 2) mm_flight_end((uint64_t *)heap.ref.giving_up, 0);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Concurrent searches: each skips as many places as there are searches before it, but finds the last place. */
START_TEST(searches_beside_others) {
    const uint32_t n = 200;
    unit_create(&heap, n);
    for (uint32_t others = 0; others < 40; others++) {
        uint32_t runs;
        mm_heap_of(&heap.ref)->run_searches = others;
        const uint32_t got = take(3, 1, 0, 1, &runs);
        unit_eq(got, n - 3 * (others % (1u << MM_RUN_SPREAD_SHIFT) + 1));
        unit_eq(mm_heap_of(&heap.ref)->run_searches, others);
        mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + 3);
    }
    mm_heap_of(&heap.ref)->run_searches = 7; /* there are fewer places */
    uint32_t runs;
    unit_eq(take(64, 1, 0, 1, &runs), n - 64);
    unit_eq(runs, 1);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Lanes of a warp that do not find room in one place: the search goes on below the last place, and comes back to what was freed above when it has come to the front. */
START_TEST(goes_on_below) {
    const uint32_t n = 200, count = 3, apart = 5;
    const struct mm_run want = {count, 1, 0, 32};
    struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    uint32_t runs, at = n - apart;
    unit_create(&heap, n);
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    for (uint32_t i = 0; i < n; i++)
        if (i % apart >= count) unit_eq(mm_tree_erase(t, i), 1);
    mm_heap_of(&heap.ref)->run_searches = 1; /* the first search skips a place; those that go on do not */
    for (uint32_t i = 0; i < 6; i++) {
        at -= apart;
        unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), at);
        unit_eq(runs, 1);
    }
    mm_heap_of(&heap.ref)->run_searches = 0;
    const uint32_t back[] = {n - apart, at + apart, at}; /* skipped; and freed: above the last place, and the last place */
    mm_segments_put(t, back[1], back[1] + count);
    mm_segments_put(t, back[2], back[2] + count);
    while (at > 0) {
        at -= apart;
        unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), at);
    }
    for (uint32_t i = 0; i < 3; i++) unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), back[i]);
    mm_segments_put(t, back[0], back[0] + count);
    unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), back[0]); /* nothing is free below */
    unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), MM_TREE_NONE);
    unit_eq(s.tries, 0);
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

/* Spans of every length, at every alignment: exactly as many pages, or up to a quarter more, or the next power of two, in one segment; and again at once in a
 * segment that is full of them. */
START_TEST(spans) {
    unit_create(&heap, 2);
    for (uint32_t n = 1; n <= 56; n++)
        for (uint64_t align = MM_PAGE_BYTES; align < MM_SEGMENT_BYTES; align *= 2) {
            const uint64_t bytes = n * MM_PAGE_BYTES;
            uint64_t taken = align; /* the next power of two, at that alignment */
            while (taken < bytes) taken *= 2;
            if (align == MM_PAGE_BYTES) taken = unit_span_pages(n) * MM_PAGE_BYTES;
            if (bytes <= MM_SLICE_BYTES_MAX && align <= MM_SLICE_BYTES_MAX) continue;
            char *p = (char *)mm_cpu_aligned_malloc(&heap, bytes - n % 3, align), *q = (char *)mm_cpu_aligned_malloc(&heap, bytes, align);
            unit_holds(p != NULL && q != NULL && (uint64_t)p % align == 0 && (uint64_t)q % align == 0, "%u pages aligned to %llu: %p, %p", n,
                       (unsigned long long)align, (void *)p, (void *)q);
            unit_holds(p + taken <= q || q + taken <= p, "%u pages overlap", n);
            for (int k = 0; k < 2; k++) {
                const uint64_t off = (uint64_t)((k ? q : p) - (char *)run_at(0));
                unit_eq(off / MM_SEGMENT_BYTES, (off + taken - 1) / MM_SEGMENT_BYTES);
                unit_eq(mm_cpu_usable_size(&heap, k ? q : p), taken);
            }
            unit_sound(&heap, 2 * taken);
            unit_free(&heap, p, 0, taken, "a span");
            unit_free(&heap, q, 0, 0, "a span");
            unit_eq(mm_cpu_heap_free_segments(&heap), 2);
            void *held[2 * MM_SEGMENT_PAGES];
            uint32_t count = 0;
            while ((held[count] = mm_cpu_aligned_malloc(&heap, bytes, align)) != NULL) count++;
            unit_eq(count, 2 * (MM_SEGMENT_BYTES / taken));
            for (uint32_t i = 0; i < count; i += 2) mm_cpu_free(&heap, held[i]);
            for (uint32_t i = 0; i < count; i += 2)
                unit_holds((held[i] = mm_cpu_aligned_malloc(&heap, bytes, align)) != NULL, "%u pages came back, and NULL", n);
            for (uint32_t i = 0; i < count; i++) mm_cpu_free(&heap, held[i]);
        }
    unit_fresh(&heap, 2);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* A segment is filled with spans to its last page; freed pages are handed out again. */
START_TEST(spans_fill_a_segment) {
    static const uint32_t lengths[] = {5, 7, 8, 16, 21, 31, 32};
    unit_create(&heap, 1);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        const uint32_t n = lengths[k];
        const uint32_t taken = unit_span_pages(n);
        uint32_t got = 0;
        void *held[MM_SEGMENT_PAGES];
        while ((held[got] = mm_cpu_malloc(&heap, n * MM_PAGE_BYTES)) != NULL) got++;
        unit_eq(got, MM_SEGMENT_PAGES / taken);
        unit_sound(&heap, (uint64_t)got * taken * MM_PAGE_BYTES);
        uint32_t left = MM_SEGMENT_PAGES - got * taken, more = 0;
        void *page[MM_SEGMENT_PAGES]; /* the rest, page by page, by the class that has such blocks */
        while ((page[more] = mm_cpu_malloc(&heap, 512)) != NULL && ++more < MM_SEGMENT_PAGES) continue;
        if (left < 2) unit_eq(more, left * 32);
        else unit_le(32, more);
        for (uint32_t i = 0; i < more; i++) mm_cpu_free(&heap, page[i]);
        for (uint32_t i = 0; i < got; i++) {
            mm_cpu_free(&heap, held[i]);
            void *p = mm_cpu_malloc(&heap, n * MM_PAGE_BYTES);
            unit_holds(p != NULL, "%u pages came back, and NULL", n);
            mm_cpu_free(&heap, p);
        }
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, 1);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Misuse of spans: each counted as its kind, and nothing changes. */
START_TEST(misuse_of_spans) {
    const uint64_t bytes = 24 * MM_PAGE_BYTES;
    unit_create(&heap, 2);
    char *p = (char *)mm_cpu_malloc(&heap, bytes), *other = (char *)mm_cpu_malloc(&heap, bytes);
    unit_free(&heap, p + 16, MM_MISUSE_INTERIOR, 2 * bytes, "the first page's middle");
    unit_free(&heap, p + MM_PAGE_BYTES, MM_MISUSE_INTERIOR, 2 * bytes, "the second page");
    unit_free(&heap, p + bytes - 1, MM_MISUSE_INTERIOR, 2 * bytes, "the last byte");
    unit_free(&heap, p, 0, bytes, "the span");
    unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, bytes, "the span again");
    unit_eq(mm_cpu_usable_size(&heap, p), 0);
    uint64_t *word = mm_page_words(&heap.ref, (uint32_t)((uint64_t)(other - (char *)run_at(0)) / MM_PAGE_BYTES));
    const uint64_t was = *word;
    *word = mm_word_make(mm_generation_end(mm_word_generation(was)), 0); /* as if another free were under way */
    mm_cpu_free(&heap, other);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_DOUBLE_FREE), 1);
    *word = was;
    unit_free(&heap, other, 0, 0, "the other one");
    unit_fresh(&heap, 2);
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
    tcase_add_loop_test(tests, aligned_against_a_plain_search, 0, SIZES);
    tcase_add_loop_test(tests, several_against_a_plain_search, 0, SIZES);
    tcase_add_loop_test(tests, single_segments, 0, SIZES);
    tcase_add_test(tests, some_are_retired_for_single_segments);
    tcase_add_test(tests, searches_beside_others);
    tcase_add_test(tests, long_ones_against_a_plain_search);
    tcase_add_test(tests, goes_on_below);
    tcase_add_loop_test(tests, aligned_addresses, 0, SIZES);
    tcase_add_test(tests, aligned_no_bytes);
    tcase_add_test(tests, far_apart);
    tcase_add_loop_test(tests, partly_mapped, 0, 11);
    tcase_add_loop_test(tests, runs_and_slices, 0, SIZES);
    tcase_add_test(tests, spans);
    tcase_add_test(tests, spans_fill_a_segment);
    tcase_add_test(tests, misuse_of_spans);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
