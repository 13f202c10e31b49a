/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ring chunks: pieces of a segment, one behind the other, each free or handed out (Vinkler & Havran, "Register efficient dynamic memory allocator for GPUs",
 * Computer Graphics Forum 2015). A chunk consists of units of 32 bytes; its first 16 bytes are its header, behind which the memory of the caller begins.
 *
 * Representation. A word for 32 units: {begins : 32 | locked : 32}. begins: a chunk begins at the unit. locked: somebody has the chunk, or tries to get it.
 *   live, in words of its own: the chunk is handed out. The header: where in the segment the chunk ends, and the units that were asked for. The words follow
 *   that of the page's span (core/span.h); in the paper the lock is in the header itself, where a late compare-and-swap may hit what is the user's memory by
 *   then.
 * Invariants.
 *   I1  the first unit of a segment of the list begins a chunk. Each chunk ends where another one begins, or at the segment's end.
 *   I2  only the holder of a chunk's lock changes its header, splits it, or merges it with the next one, of which it must have the lock, too.
 *   I3  a live chunk is locked. Only the first unit of a chunk is live.
 *   I4  all units of segments that have left the list are locked (listed/retire.h): nobody gets a chunk there.
 * Linearisation points. Claim: the atomic or of the lock, if the unit began a chunk; else the lock is given back, and nobody else could have it meanwhile.
 *   Free: the atomic and of live. A new chunk: the atomic or of its begin, when its header is written. A merged one: the atomic and of begin and lock.
 * Ordering. Locking acquires, unlocking and a new begin release. live is set with release and cleared with acquire: the thread that frees sees the header,
 *   however the program handed the pointer over. If it saw an older end, it would merge with a chunk further behind.
 * Stale. A thread without the lock may read the header of a chunk that is no more, which is the user's memory then (mm_ring_end_hint). Such a value is used as
 *   a hint only, and only if it is in the segment. The segment may have left the list by then. So the memory of a ring is not unmapped while kernels run
 *   (docs/reference/allocators.md: it does not go back to the device).
 * Held. A chunk that is locked and not live is somebody's for a moment: of a caller that claims it or finds it too small, of a thread that frees or merges it,
 *   or that wants its segment. A search that meets one proves nothing (mm_listed_find).
 * Progress. Nobody waits for a lock.
 * Misuse. A free of what is not live changes nothing: it is a double free if a chunk begins there, else that of an interior pointer; so is a double free of a
 *   chunk that was merged with the one before it.
 */
#ifndef MM_REGEFF_CHUNKS_H
#define MM_REGEFF_CHUNKS_H

#include "runtime/core/segment.h"

#define MM_RING_UNIT_BYTES (1u << MM_RING_UNIT_SHIFT)
#define MM_RING_HEADER_BYTES 16u
#define MM_RING_UNITS (1u << (MM_SEGMENT_SHIFT - MM_RING_UNIT_SHIFT)) /* of a segment */
#define MM_RING_WORDS (MM_RING_UNITS / 32)                            /* of a segment */
#define MM_RING_PAGE_WORDS (MM_RING_WORDS / MM_SEGMENT_PAGES)         /* of a page; live: half as many */
MM_STATIC_ASSERT(1 + MM_RING_PAGE_WORDS + MM_RING_PAGE_WORDS / 2 <= MM_BLOCK_WORDS_MAX, "a page's words have room for its chunks");
MM_STATIC_ASSERT(MM_RING_HEADER_BYTES % (1u << MM_ALIGN_SHIFT) == 0, "what follows the header is aligned");

struct mm_ring_header {
    uint32_t end; /* a unit of the segment */
    uint32_t units;
};

/* A unit's number counts all units of the heap. */
MM_FN uint64_t mm_ring_address(const struct mm_heap_ref *ref, uint64_t unit) { return ref->user_base + (unit << MM_RING_UNIT_SHIFT); }
MM_FN struct mm_ring_header *mm_ring_header(const struct mm_heap_ref *ref, uint64_t unit) { return (struct mm_ring_header *)mm_ring_address(ref, unit); }
MM_FN uint64_t *mm_ring_word(const struct mm_heap_ref *ref, uint64_t unit) {
    const uint32_t w = (uint32_t)(unit / 32);
    return mm_page_words(ref, w / MM_RING_PAGE_WORDS) + 1 + w % MM_RING_PAGE_WORDS;
}
/* The word of live for 64 units. */
MM_FN uint64_t *mm_ring_live(const struct mm_heap_ref *ref, uint64_t unit) {
    const uint32_t w = (uint32_t)(unit / 64);
    return mm_page_words(ref, w / (MM_RING_PAGE_WORDS / 2)) + 1 + MM_RING_PAGE_WORDS + w % (MM_RING_PAGE_WORDS / 2);
}
MM_FN uint32_t mm_ring_begins(uint64_t word) { return (uint32_t)(word >> 32); }
MM_FN uint32_t mm_ring_locked(uint64_t word) { return (uint32_t)word; }
MM_FN uint64_t mm_ring_begin_bit(uint64_t unit) { return 1ull << (32 + unit % 32); }
MM_FN uint64_t mm_ring_lock_bit(uint64_t unit) { return 1ull << unit % 32; }
MM_FN int mm_ring_is_live(const struct mm_heap_ref *ref, uint64_t unit) { return (int)(mm_load_relaxed_u64(mm_ring_live(ref, unit)) >> unit % 64 & 1); }
/* Whether a chunk that nobody has begins at a unit. A hint. */
MM_FN int mm_ring_is_free(const struct mm_heap_ref *ref, uint64_t unit) {
    const uint64_t word = mm_load_relaxed_u64(mm_ring_word(ref, unit));
    return (word & mm_ring_begin_bit(unit)) != 0 && !(word & mm_ring_lock_bit(unit));
}

/* Locks the chunk that begins at a unit. Returns whether one does, and nobody had it. Acquires. */
MM_FN int mm_ring_lock(const struct mm_heap_ref *ref, uint64_t unit) {
    const uint64_t lock = mm_ring_lock_bit(unit);
    if (!mm_ring_is_free(ref, unit)) return 0;
    const uint64_t old = mm_or_acquire_u64(mm_ring_word(ref, unit), lock);
    if (old & lock) return 0;
    if (old & mm_ring_begin_bit(unit)) return 1;
    mm_and_release_u64(mm_ring_word(ref, unit), ~lock);
    return 0;
}
MM_FN void mm_ring_unlock(const struct mm_heap_ref *ref, uint64_t unit) { mm_and_release_u64(mm_ring_word(ref, unit), ~mm_ring_lock_bit(unit)); }

MM_FN uint32_t mm_ring_end_checked(uint64_t unit, uint32_t end) {
    const uint32_t in = (uint32_t)unit % MM_RING_UNITS;
    return end > in && end <= MM_RING_UNITS ? end : in + 1;
}
/* Where in its segment the chunk at a unit ends, for the holder of its lock. */
MM_FN uint32_t mm_ring_end(const struct mm_heap_ref *ref, uint64_t unit) {
    return mm_ring_end_checked(unit, mm_load_relaxed_u32(&mm_ring_header(ref, unit)->end));
}
/* The same for others: a hint, which is behind the unit and in the segment. */
MM_FN uint32_t mm_ring_end_hint(const struct mm_heap_ref *ref, uint64_t unit) {
    return mm_ring_end_checked(unit, mm_load_hint_u32(&mm_ring_header(ref, unit)->end));
}

/* The chunk's holder merges it with the next one, if that is free. *end: its end. Returns whether it did. */
MM_FN int mm_ring_merge(const struct mm_heap_ref *ref, uint64_t unit, uint32_t *end) {
    const uint64_t next = unit - unit % MM_RING_UNITS + *end;
    if (*end == MM_RING_UNITS || !mm_ring_lock(ref, next)) return 0;
    *end = mm_ring_end(ref, next);
    mm_store_relaxed_u32(&mm_ring_header(ref, unit)->end, *end);
    mm_and_release_u64(mm_ring_word(ref, next), ~(mm_ring_begin_bit(next) | mm_ring_lock_bit(next)));
    return 1;
}

/* Claims the chunk at a unit for n units: merges it with those behind it while it is too small, and splits it if more than 1/8 would be left over; in the
 * paper, if it is twice as large. Returns the address of the caller's memory, or 0. *next: where the chunk ends. Acquires. */
MM_FN uint64_t mm_ring_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n, uint64_t *next) {
    const uint32_t in = (uint32_t)unit % MM_RING_UNITS;
    if (!mm_ring_lock(ref, unit)) return 0;
    struct mm_ring_header *header = mm_ring_header(ref, unit);
    uint32_t end = mm_ring_end(ref, unit);
    MM_ROLLED
    for (uint32_t merges = 0; end - in < n && merges < MM_RING_HOPS && mm_ring_merge(ref, unit, &end);) merges++;
    *next = unit - in + end;
    if (end - in < n) {
        mm_ring_unlock(ref, unit);
        return 0;
    }
    const int is_split = end - in - n > n >> MM_RING_SPARE_SHIFT;
    if (is_split) {
        *next = unit + n;
        mm_store_relaxed_u32(&mm_ring_header(ref, *next)->end, end);
        mm_store_relaxed_u32(&header->end, in + n);
    }
    mm_store_relaxed_u32(&header->units, n);
    mm_publish_fence(); /* for the next chunk, and for the thread that frees this one */
    if (is_split) mm_or_published_u64(mm_ring_word(ref, *next), mm_ring_begin_bit(*next));
    mm_or_published_u64(mm_ring_live(ref, unit), 1ull << unit % 64);
    return mm_ring_address(ref, unit) + MM_RING_HEADER_BYTES;
}

/* Frees the chunk at a unit, and merges it with the next one. Returns whether it was live. Releases. */
MM_FN int mm_ring_free(const struct mm_heap_ref *ref, uint64_t unit) {
    const uint64_t live = 1ull << unit % 64;
    if (!(mm_and_acquire_u64(mm_ring_live(ref, unit), ~live) & live)) return 0;
    uint32_t end = mm_ring_end(ref, unit);
    mm_ring_merge(ref, unit, &end);
    mm_ring_unlock(ref, unit);
    return 1;
}

/* The list's part (listed/list.h). A new segment is split into chunks of R units, R/2 and so on down to 32, as many units of each, and the rest: chunk i of the
 * paper, from 1 on, has R / 2^floor(log2 i) units, and R is the largest power of two with which all fit. In the paper the smallest chunk has the least that can
 * be allocated; but if that is one unit, large requests do not find enough in a row. */
#define MM_LISTED_WORDS MM_RING_WORDS
MM_FN uint64_t *mm_listed_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_ring_word(ref, (uint64_t)w * 32); }
#define MM_RING_FITS(k) (((k)-4u) << (k) <= MM_RING_UNITS) /* levels of 1 << k, ..., 1 << 5 units */
#define MM_RING_LOG                                                                                                                       \
    (5 + MM_RING_FITS(6) + MM_RING_FITS(7) + MM_RING_FITS(8) + MM_RING_FITS(9) + MM_RING_FITS(10) + MM_RING_FITS(11) + MM_RING_FITS(12) + \
     MM_RING_FITS(13)) /* of R */
#define MM_RING_LEVELS_END ((MM_RING_LOG - 4u) << MM_RING_LOG)
/* Units of the chunk that begins at unit `in`, a multiple of 32, of a new segment; 0: none does. */
MM_FN uint32_t mm_ring_first_units(uint32_t in) {
    const uint32_t units = (1u << MM_RING_LOG) >> (in >> MM_RING_LOG);
    if (in >= MM_RING_LEVELS_END) return in == MM_RING_LEVELS_END ? MM_RING_UNITS - in : 0;
    return in % units == 0 ? units : 0;
}
MM_FN void mm_listed_prepare(const struct mm_heap_ref *ref, uint32_t w, int is_new) {
    (void)is_new;
    const uint32_t in = w % MM_RING_WORDS * 32, units = mm_ring_first_units(in);
    if (units != 0) mm_store_relaxed_u32(&mm_ring_header(ref, (uint64_t)w * 32)->end, in + units);
    if (w % 2 == 0) mm_store_relaxed_u64(mm_ring_live(ref, (uint64_t)w * 32), 0);
}
MM_FN int mm_listed_fill(const struct mm_heap_ref *ref, uint32_t w, int is_patient) {
    const uint64_t begins = mm_ring_first_units(w % MM_RING_WORDS * 32) != 0;
    mm_store_published_u64(mm_listed_word(ref, w), begins << 32);
    return is_patient;
}

#endif
