/* Slices: what a thread asks for and gives back. The lanes of a warp that are here together and want the same
 * (class, or word of slice bits) go as one: match, a leader does the atomic, the others get their share.
 *
 * A leader acts for its group, so the group's plain accesses must be ordered with the leader's atomics: the
 * warp synchronisation before a free's release and after a malloc's acquire does that (a shuffle does not).
 */
#ifndef MM_CORE_SLICE_H
#define MM_CORE_SLICE_H

#include "runtime/core/block.h"

/* Counts a misuse of free. Rare. */
MM_FN_RARE void mm_misuse_count(const struct mm_heap_ref *ref, enum mm_misuse kind, uint32_t times) {
    mm_add_relaxed_u64(&mm_heap_of(ref)->misuse[kind], times);
}

/* What a pointer is that lies in the heap, at byte offset `off`, but in no block that is handed out. */
MM_FN_RARE enum mm_misuse mm_misuse_outside(const struct mm_heap_ref *ref, uint64_t off) {
    const uint64_t owner = mm_load_relaxed_u64(mm_segment_owner(mm_heap_of(ref), (uint32_t)(off >> MM_SEGMENT_SHIFT)));
    const int run = MM_OWNER_KIND(owner) == MM_OWNER_RUN || MM_OWNER_KIND(owner) == MM_OWNER_RUN_BODY;
    return run ? MM_MISUSE_INTERIOR : MM_MISUSE_NOT_ALLOCATED;
}

/* A slice of class c, or NULL. The group is formed once and stays together until its last lane is served: lanes that
 * leave early and come back in a next call, while the others form a new group, got lost here under nvcc 13.0
 * (docs/notes/lanes-that-leave.md). */
MM_FN void *mm_slice_malloc(const struct mm_heap_ref *ref, uint32_t c) {
    const uint32_t group = mm_warp_match(c), leader = mm_ctz(group), n = mm_popcount(group), lane = mm_warp_lane();
    const uint32_t rank = mm_popcount(group & mm_bits_low(lane));
    uint32_t served = 0, count;
    void *p = NULL;
    do { /* once more where a block ran out; all lanes of the group stay until the last is served */
        mm_claim claim = 0;
        if (lane == leader) claim = mm_block_claim(ref, c, n - served);
        mm_warp_sync(group);
        const uint32_t low = mm_warp_shuffle(group, (uint32_t)claim, leader);
        const uint32_t block = mm_warp_shuffle(group, (uint32_t)(claim >> 32), leader);
        count = mm_claim_count(low);
        if (rank - served < count)
            p = (void *)(ref->user_base + ((uint64_t)block << MM_GRANULE_SHIFT) +
                         (uint64_t)(mm_claim_first(low) + rank - served) * mm_class_bytes(c));
        served += count;
    } while (count != 0 && served < n);
    return p;
}

/* Frees the slice at byte offset `off` of the heap, in a granule whose control word is `ctrl`. */
MM_FN void mm_slice_free(const struct mm_heap_ref *ref, uint64_t off, uint64_t ctrl) {
    uint32_t b = (uint32_t)(off >> MM_GRANULE_SHIFT);
    uint32_t c = mm_ctrl_kind(ctrl) - 1;
    int misuse = 0;
    if (mm_ctrl_kind(ctrl) >= MM_KIND_BODY) {
        c = mm_ctrl_kind(ctrl) - MM_KIND_BODY;
        b = mm_block_of_granule(b, c);
        ctrl = mm_load_relaxed_u64(mm_block_ctrl(ref, b));
        if (mm_ctrl_kind(ctrl) != c + 1) misuse = (int)mm_misuse_outside(ref, off); /* a body of long ago */
    }
    /* Position of the slice; rounds down where `in` is no multiple, which the product then shows. */
    const uint32_t in = (uint32_t)off & ((1u << mm_class_block_shift(c)) - 1);
    const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c));
    if (misuse == 0 && at * mm_class_bytes(c) != in) misuse = MM_MISUSE_INTERIOR;
    if (misuse == 0 && at >= mm_ctrl_count(ctrl)) misuse = MM_MISUSE_NEVER;
    if (misuse != 0) {
        mm_misuse_count(ref, (enum mm_misuse)misuse, 1);
        return;
    }
    const uint32_t word = b * MM_GRANULE_WORDS + at / 64;
    MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_GRANULES * MM_GRANULE_WORDS <= 1ull << 32, "fits");
    const uint32_t group = mm_warp_match(word);
    const uint64_t mask = mm_warp_or(group, 1ull << (at % 64));
    mm_warp_sync(group);
    if (mm_warp_lane() == mm_ctz(group)) {
        const uint64_t twice = mm_block_free_bits(ref, b, c, at / 64, mask);
        const uint32_t times = mm_popcount(twice) + mm_popcount(group) - mm_popcount(mask);
        if (times) mm_misuse_count(ref, MM_MISUSE_DOUBLE_FREE, times);
    }
}

#endif
