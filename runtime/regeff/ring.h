/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* CMalloc and its variants: malloc goes along a ring of chunks until one is free and large enough (Vinkler & Havran, "Register efficient dynamic memory
 * allocator for GPUs", Computer Graphics Forum 2015). The ring goes through the segments of the list, one after the other.
 *
 *   MM_REGEFF_CIRCULAR      all callers begin at one place, which each that succeeds sets to the end of its chunk
 *   MM_REGEFF_FUSED         the locks and begins of a word are seen at once. So its locked chunks are passed in one hop, and lanes of a warp take different
 *                           free ones. In the paper lock and next chunk are one word of the header
 *   MM_REGEFF_MULTI         each multiprocessor has a place of its own
 *   MM_REGEFF_MULTI_FUSED   both
 *
 * Termination, which the paper leaves open: after MM_RING_HOPS hops a caller goes on at a random place; for the rest, and NULL: listed/malloc.h.
 * Not in the paper: a caller merges free chunks that are too small with those behind them. In the paper only free merges, and if memory is freed in the order
 * of its addresses, it never does.
 */
#ifndef MM_REGEFF_RING_H
#define MM_REGEFF_RING_H

#include "runtime/regeff/chunks.h"

#include "runtime/listed/list.h"

#define MM_RING_IS_FUSED (MM_REGEFF_FACE == MM_REGEFF_FUSED || MM_REGEFF_FACE == MM_REGEFF_MULTI_FUSED)
#define MM_RING_IS_MULTI (MM_REGEFF_FACE == MM_REGEFF_MULTI || MM_REGEFF_FACE == MM_REGEFF_MULTI_FUSED)

#define MM_LISTED_UNITS_MAX MM_RING_UNITS_MAX
/* Units for `bytes` and the header. */
MM_FN uint32_t mm_listed_units(uint64_t bytes) { return (uint32_t)((bytes + MM_RING_HEADER_BYTES + MM_RING_UNIT_BYTES - 1) >> MM_RING_UNIT_SHIFT); }
MM_FN uint32_t mm_listed_bytes(uint32_t n) { return n << MM_RING_UNIT_SHIFT; }
MM_FN uint32_t mm_listed_patience(uint32_t n, int is_full) { return (void)n, (void)is_full, MM_RING_PATIENCE; }

/* Where the caller begins: the number of a unit, plus 1; 0: nowhere yet. */
MM_FN uint64_t *mm_ring_place(const struct mm_heap_ref *ref) {
    return (uint64_t *)ref->made + (MM_RING_IS_MULTI ? mm_home() % MM_RING_PLACES * 16 : 0); /* each has a cache line */
}
MM_STATIC_ASSERT(MM_RING_PLACES * 16 <= MM_MADE_WORDS, "places");

/* The first unit of the segment behind segment s in the ring. */
MM_FN uint64_t mm_ring_behind(const struct mm_heap_ref *ref, uint32_t s) {
    const uint32_t k = mm_load_relaxed_u32(mm_list_index(ref, s)) + 1, next = mm_list_segment(ref, k < mm_list_count(ref) ? k : 0);
    return (uint64_t)(next < ref->user_bytes >> MM_SEGMENT_SHIFT ? next : s) * MM_RING_UNITS;
}

/* The end of a walk. */
struct mm_ring_walked {
    uint64_t got, unit; /* the address of the caller's memory, or 0; where to go on */
};
/* Goes along the ring from a unit on for n units, in at most `most` hops. With one hop it claims the chunk at the unit, and no other one of its word. Out of
 * line: a copy in each caller would add 4 KiB to a library. */
MM_FN_RARE struct mm_ring_walked mm_ring_walk(const struct mm_heap_ref *ref, uint32_t n, uint64_t unit, uint32_t most) {
    uint64_t got = 0;
    MM_ROLLED
    for (uint32_t hops = 0; got == 0 && hops < most; hops++) {
        const uint64_t word = mm_load_relaxed_u64(mm_ring_word(ref, unit));
        const uint32_t bit = (uint32_t)unit % 32, s = (uint32_t)(unit / MM_RING_UNITS), begins = mm_ring_begins(word) >> bit;
        const uint32_t free = begins & ~(mm_ring_locked(word) >> bit);
        uint64_t next = unit - bit + 32; /* nothing begins in the rest of the word */
        if (begins != 0) {
            uint32_t which = mm_ctz(begins);
            if (MM_RING_IS_FUSED && most > 1) which = free != 0 ? mm_bits_select(free, mm_warp_lane() % mm_popcount(free)) : 31 - mm_clz_u32(begins);
            unit += which;
            next = unit - unit % MM_RING_UNITS + mm_ring_end_hint(ref, unit);
            const int is_end = next % MM_RING_UNITS == 0;
            if (free >> which & 1 && (next - unit >= n || (!is_end && mm_ring_is_free(ref, next)))) got = mm_ring_claim(ref, unit, n, &next);
        }
        unit = next % MM_RING_UNITS == 0 ? mm_ring_behind(ref, s) : next;
    }
    const struct mm_ring_walked walked = {got, unit};
    return walked;
}

/* Goes along the ring from the caller's place on. Returns the address of the caller's memory, or 0. */
MM_FN uint64_t mm_small_draw_units(const struct mm_heap_ref *ref, uint32_t n) {
    uint64_t at = mm_load_relaxed_u64(mm_ring_place(ref));
    if (at-- == 0 || !mm_list_sees(ref, (uint32_t)(at / MM_RING_UNITS))) return 0;
    if (MM_RING_IS_MULTI) at = at / MM_RING_UNITS * MM_RING_UNITS + (at + mm_warp_number() % 64 * 32) % MM_RING_UNITS;
    const struct mm_ring_walked walked = mm_ring_walk(ref, n, at, MM_RING_HOPS);
    if (walked.got != 0) mm_store_relaxed_u64(mm_ring_place(ref), walked.unit + 1);
    return walked.got;
}

/* See listed/malloc.h: along the ring from a random place on, half of the time in one of the segments that the list got last. */
MM_FN uint64_t mm_listed_draw(const struct mm_heap_ref *ref, uint32_t here, int is_drawing, uint32_t n, uint32_t count, uint32_t random) {
    uint64_t got = 0;
    if (is_drawing) {
        const uint32_t few = count / MM_LISTED_SHARE + 1, of = random & 1 ? few : count, next = mm_random_next(random);
        const uint64_t at = (uint64_t)mm_list_segment(ref, count - 1 - mm_mulhi(random, of)) * MM_RING_UNITS + (next >> 8) % MM_RING_UNITS;
        const struct mm_ring_walked walked = mm_ring_walk(ref, n, at, MM_RING_HOPS);
        got = walked.got;
        if (got != 0) mm_store_relaxed_u64(mm_ring_place(ref), walked.unit + 1);
    }
    mm_warp_sync(here);
    return got;
}

/* Looks in segment s for a free chunk, or several in a row, of n units; is_any: also for those that somebody holds. A chunk ends where the next one begins, so
 * headers are not read. Returns the first unit; or MM_LISTED_NONE, plus the most consecutive units of such chunks, plus MM_RING_HELD if somebody holds one. A
 * hint. */
#define MM_RING_HELD (1ull << 62)
MM_FN_RARE uint64_t mm_ring_find(const struct mm_heap_ref *ref, uint32_t s, uint32_t n, int is_any) {
    const uint64_t from = (uint64_t)s * MM_RING_UNITS;
    uint64_t held = 0;
    uint32_t first = 0, has_first = 0, longest = 0; /* of the chunks in a row up to here */
    MM_ROLLED
    for (uint32_t in = 0; in < MM_RING_UNITS;) {
        uint64_t good[MM_RING_AT_ONCE], bad[MM_RING_AT_ONCE], words[3 * MM_RING_AT_ONCE]; /* of the units from `in` on, read at once */
        for (uint32_t i = 0; i < MM_RING_AT_ONCE; i++) {
            words[3 * i] = mm_load_relaxed_u64(mm_ring_word(ref, from + in + i * 64));
            words[3 * i + 1] = mm_load_relaxed_u64(mm_ring_word(ref, from + in + i * 64 + 32));
            words[3 * i + 2] = mm_load_relaxed_u64(mm_ring_live(ref, from + in + i * 64));
        }
        for (uint32_t i = 0; i < MM_RING_AT_ONCE; i++) {
            const uint64_t low = words[3 * i], high = words[3 * i + 1], live = words[3 * i + 2];
            const uint64_t begins = (uint64_t)mm_ring_begins(high) << 32 | mm_ring_begins(low),
                           locked = (uint64_t)mm_ring_locked(high) << 32 | mm_ring_locked(low);
            good[i] = begins & ~(is_any ? locked & live : locked), bad[i] = begins & ~good[i];
            held |= begins & locked & ~live;
        }
        MM_ROLLED
        for (uint32_t i = 0; i < MM_RING_AT_ONCE; i++, in += 64) {
            MM_ROLLED
            for (uint64_t rest = ~0ull, next; (next = rest & (has_first ? bad[0] : good[0])) != 0;) {
                const uint32_t at = in + mm_ctz(next);
                rest = ~0ull << at % 64;
                if (has_first && at - first > longest) longest = at - first;
                if (longest >= n) return from + first;
                has_first = !has_first;
                if (has_first) first = at;
            }
            if (has_first && in + 64 - first > longest) longest = in + 64 - first;
            if (longest >= n) return from + first;
            for (uint32_t k = 1; k < MM_RING_AT_ONCE; k++) good[k - 1] = good[k], bad[k - 1] = bad[k];
        }
    }
    return MM_LISTED_NONE + longest + (held != 0 ? MM_RING_HELD : 0);
}
MM_FN_RARE uint64_t mm_listed_find(const struct mm_heap_ref *ref, uint32_t s, uint32_t n) {
    uint64_t found = mm_ring_find(ref, s, n, 0);
    if (found >= MM_LISTED_NONE + MM_RING_HELD) found = mm_ring_find(ref, s, MM_LISTED_NEVER, 1);
    return found & ~MM_RING_HELD;
}
MM_FN uint64_t mm_listed_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n) { return mm_ring_walk(ref, n, unit, 1).got; }

/* For allocator.h. */
#define MM_SMALL_UNIT_BYTES MM_RING_UNIT_BYTES
#define MM_SMALL_HEADER_BYTES MM_RING_HEADER_BYTES
/* Frees what begins at byte `off` of the heap. Returns 0, or the misuse. Releases. */
MM_FN int mm_small_free_at(const struct mm_heap_ref *ref, uint64_t off) {
    const uint64_t unit = (off - MM_RING_HEADER_BYTES) >> MM_RING_UNIT_SHIFT;
    if (MM_LIKELY(mm_ring_free(ref, unit))) return 0;
    return mm_load_relaxed_u64(mm_ring_word(ref, unit)) & mm_ring_begin_bit(unit) ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_INTERIOR;
}
/* Bytes that may be used of what begins there; 0: nothing live does. */
MM_FN uint64_t mm_small_size_at(const struct mm_heap_ref *ref, uint64_t off) {
    const uint64_t unit = (off - MM_RING_HEADER_BYTES) >> MM_RING_UNIT_SHIFT;
    if (!(mm_load_acquire_u64(mm_ring_live(ref, unit)) >> unit % 64 & 1)) return 0;
    return ((uint64_t)mm_load_relaxed_u32(&mm_ring_header(ref, unit)->units) << MM_RING_UNIT_SHIFT) - MM_RING_HEADER_BYTES;
}

#endif
