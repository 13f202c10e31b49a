/* Slices: what a thread asks for and gives back. The lanes of a warp that are here together and want the same
 * (class, or word of slice bits) go as one: match, a leader does the atomic, the others get their share.
 *
 * A leader acts for its group, so the group's plain accesses must be ordered with the leader's atomics: the
 * warp synchronisation before a free's release and after a malloc's acquire does that (a shuffle does not).
 */
#ifndef MM_CORE_SLICE_H
#define MM_CORE_SLICE_H

#include "runtime/core/stripe.h"

/* Counts a misuse of free. Rare. */
MM_FN_RARE void mm_misuse_count(const struct mm_heap_ref *ref, enum mm_misuse kind, uint32_t times) {
    mm_add_relaxed_u64(&mm_heap_of(ref)->misuse[kind], times);
}

/* Counts a request that could not be served. */
MM_FN_RARE void mm_null_count(const struct mm_heap_ref *ref, uint64_t bytes) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u64(&h->null_count, 1) == 0) mm_store_relaxed_u64(&h->null_first_bytes, bytes + 1);
}

/* The address of slice i of `bytes` bytes, counted from the beginning of segment s on. */
MM_FN void *mm_slice_address(uint64_t user_base, uint32_t s, uint32_t i, uint32_t bytes) {
    return (void *)(user_base + ((uint64_t)s << MM_SEGMENT_SHIFT) + (uint64_t)i * bytes);
}

/* A slice of class c, or NULL, for each lane of `group`, whose leader's addition met stripe k at w. The group stays
 * together until its last lane is served: lanes that leave early and come back in a next call, while the others form
 * a new group, got lost here under nvcc 13.0 (docs/notes/lanes-that-leave.md). */
MM_FN_RARE void *mm_slice_malloc_slow(const struct mm_heap_ref *ref, uint32_t c, uint32_t group, uint32_t k, uint64_t w) {
    const uint32_t leader = mm_ctz(group), n = mm_popcount(group), lane = mm_warp_lane();
    const uint32_t rank = mm_popcount(group & mm_bits_low(lane)), slices = ref->classes[c].slices;
    uint32_t served = 0, count;
    void *p = NULL;
    do {
        mm_claim claim = 0;
        if (lane == leader) claim = mm_stripe_claim(ref, c, n - served, k, w);
        mm_warp_sync(group);
        claim = mm_warp_shuffle_u64(group, claim, leader);
        if (claim & MM_OPENING && !(claim & MM_SIEVE)) {
            claim = mm_stripe_put_in_use(ref, c, k, claim, n - served, group, rank);
            claim = mm_warp_shuffle_u64(group, claim, leader);
        }
        count = mm_claim_count(claim);
        if (rank - served < count) {
            const uint64_t at = mm_claim_slice(claim, rank - served);
            uint32_t s = (uint32_t)(at >> MM_LIMIT_BITS), i = (uint32_t)at & ((1u << MM_LIMIT_BITS) - 1);
            MM_ROLLED
            for (; i >= slices; i -= slices) s++;
            p = mm_slice_address(ref->user_base, s, i, ref->classes[c].bytes);
        }
        served += count;
        w = 0;
        if (count != 0 && served < n && (claim & MM_SIEVE || !(claim & MM_REFILL)))
            w = mm_stripe_draw(&mm_stripe_class(ref, c)->stripe[k].word, n - served, group);
    } while (count != 0 && served < n);
    if (p == NULL) mm_null_count(ref, ref->classes[c].bytes);
    return p;
}

/* A slice of class c, or NULL. The plain case: the tickets are all good, of one block, and not its last. */
MM_FN void *mm_slice_malloc(const struct mm_heap_ref *ref, uint32_t c) {
    const uint32_t group = mm_warp_match(mm_warp_here(), c);
    const uint32_t k = (mm_home() + (ref->classes[c].slices <= MM_LARGE_SLICES ? mm_home_warp() : 0)) & ref->classes[c].stripe_mask;
    const uint64_t w = mm_stripe_draw(&mm_stripe_class(ref, c)->stripe[k].word, mm_popcount(group), group);
    const struct mm_class class_ = ref->classes[mm_anew(c)];
    uint32_t s = mm_stripe_segment(w) - 1, i = mm_stripe_cursor(w);
    if (MM_LIKELY(i + mm_popcount(group) < mm_stripe_limit(w) && mm_stripe_segment(w) != 0)) {
        MM_ROLLED
        for (; i >= class_.slices; i -= class_.slices) s++;
        const uint32_t end = i + mm_popcount(group);
        if (MM_LIKELY(end < class_.slices && (i ^ end) >> class_.block_shift == 0))
            return mm_slice_address(ref->user_base, s, i + mm_popcount(group & mm_bits_low(mm_warp_lane())), class_.bytes);
    }
    return mm_slice_malloc_slow(ref, c, group, k, w);
}

/* What a free comes to that was not plain: the words of block j were `words` before `change` was added to them; `twice`
 * slices were free already. */
MM_FN_RARE void mm_slice_freed(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint64_t words,
                               uint32_t change, uint32_t twice) {
    if (twice != 0) mm_misuse_count(ref, MM_MISUSE_DOUBLE_FREE, twice);
    if (change != 0) mm_block_counted(ref, s, c, j, words, change);
}

/* Marks the slices of `mask`, for which n lanes stand, free in word `word` of segment s, class c. */
MM_FN_RARE void mm_slice_mark_free(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t word, uint64_t mask, uint32_t n) {
    const uint64_t old = mm_or_release_u64(mm_segment_bits(ref, s) + word, mask);
    const struct mm_class class_ = ref->classes[c];
    const uint32_t change = mm_block_change(class_, word, old, mask), j = word >> (class_.block_shift - MM_WORD_SHIFT);
    const uint32_t twice = n - mm_popcount(mask & ~old);
    const uint64_t words = change == 0 ? 1 : mm_add_relaxed_u64(&mm_segment_at(ref, s)->words[j], change);
    if (MM_LIKELY(twice == 0 && mm_words_some(words) != 0 && !mm_words_are_all(words + change, class_, j))) return;
    mm_slice_freed(ref, s, c, j, words, change, twice);
}

/* Frees slice i of segment s, class c, which has been handed out. All lanes as one if they want the same word, else each for
 * itself: an or over part of a warp takes as long as several atomics. */
MM_FN void mm_slice_free_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const uint32_t word = i >> MM_WORD_SHIFT, here = mm_warp_here(), group = mm_warp_match(here, s * MM_SEGMENT_WORDS + word);
    MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_WORDS <= 1ull << 32, "the number of a word fits");
    uint64_t mask = 1ull << (i % (1u << MM_WORD_SHIFT));
    uint32_t n = 1;
    if (MM_LIKELY(group == here)) {
        n = mm_popcount(group);
        mask = mm_warp_or(group, mask);
        mm_warp_sync(group);
        if (mm_warp_lane() != mm_ctz(group)) return;
    }
    mm_slice_mark_free(ref, s, c, word, mask, n);
}

/* Number of the slice at byte offset `off` of the heap, in a segment of the class; *rest: bytes from its beginning on. */
MM_FN uint32_t mm_slice_number(uint64_t off, struct mm_class class_, uint32_t *rest) {
    const uint32_t in = (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1);
    const uint32_t i = mm_mulhi(in >> class_.shift, class_.reciprocal);
    *rest = in - i * class_.bytes; /* the shift rounded down */
    return i;
}

/* Frees slice i of segment s, class c, in a block of unissued, if it has been handed out; else counts the misuse. */
MM_FN_RARE void mm_slice_free_checked(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const int misuse = mm_stripe_misuse(ref, s, c, i);
    if (misuse == 0) mm_slice_free_issued(ref, s, c, i);
    else mm_misuse_count(ref, (enum mm_misuse)misuse, 1);
}

/* Frees the slice at byte offset `off` of the heap, or counts the misuse. Returns whether its segment has slices; if not,
 * nothing has been done. */
MM_FN int mm_slice_free(const struct mm_heap_ref *ref, uint64_t off) {
    const uint32_t s = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    struct mm_segment *at = mm_segment_at(ref, s);
    const uint64_t owner = mm_load_relaxed_u64(&at->owner), unissued = mm_load_relaxed_u64(&at->unissued);
    const uint32_t c = MM_OWNER_KIND(owner) - 1;
    if (!MM_LIKELY(c < MM_CLASS_COUNT)) return 0;
    const struct mm_class class_ = ref->classes[c];
    uint32_t rest;
    const uint32_t i = mm_slice_number(off, class_, &rest);
    if (!MM_LIKELY(rest == 0 && i < class_.slices)) mm_misuse_count(ref, rest != 0 ? MM_MISUSE_INTERIOR : MM_MISUSE_NEVER, 1);
    else if (MM_LIKELY(!(unissued >> (i >> class_.block_shift) & 1))) mm_slice_free_issued(ref, s, c, i);
    else mm_slice_free_checked(ref, s, c, i);
    return 1;
}

#endif
