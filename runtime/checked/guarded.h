/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Checked runs (MM_CHECK=1): malloc and free that find writes past the end, writes after free, double frees, and memory that was never freed with the kernel
 * that allocated it. They work on top of the allocator. Without MM_CHECK none of this runs, and the fast path has no instruction for it: in a checked run the
 * variable of a module has open_bytes 0, so every call takes the slow path, which leads here (closed.h). guard.h describes tag and redzone.
 *
 * Representation. free puts an allocation into quarantine: a ring of slots. The holder of a ticket exchanges the allocation, as a deferred free
 *   (core/handles.h), for the slot's previous contents, which is then really freed. For the allocator an allocation in quarantine is live. Allocations of more
 *   than MM_GUARD_KEPT_BYTES are freed at once.
 * Invariants.
 *   I1  malloc writes the seal "live" before the program gets p. It becomes "freed" once, by compare-and-swap: of several frees one continues, the others are
 *       double frees.
 *   I2  an allocation is in at most one slot: its only free puts it there, and the exchange takes it out.
 *   I3  poison is checked once, before the memory can be allocated again: when the allocation leaves quarantine, or, for one that does not go there, when its
 *       memory is handed out. A seal "freed" that is found then was left by the last allocation at p, and the page has had no other owner since, or the era
 *       would differ.
 *   I4  memory that is free for the allocator has no seal "live": the thread that freed it changed the seal.
 *   I5  while an allocation is live, only a write past the end makes its seal fit neither state. Of two concurrent frees, the later one may find other data in
 *       place of the tag, after the first one has freed the memory and its pages have another owner. So it reads size and era first, then the tag; if the tag
 *       is lost it reads all three again (malloc may have been writing the tag). If they have changed it reports a double free, and changes nothing.
 * Ordering. The exchange of the slot acquires and releases, and the marking of the slice after it releases (gallatin/free.h). All other accesses are relaxed,
 *   to words that have one owner at a time; the program orders its malloc before its free.
 * NULL. malloc returns NULL only after it emptied the quarantine, again each time that something was put in since (at most MM_GUARD_TRIES times).
 * Stale. A write past the end may have hit the tag, so that the seal fits neither state. It is reported without the lost data, and the allocation is freed.
 *
 * malloc and free pass through stages, as those of slices do, but more strictly: a stage passes one or two words to the next, and nothing else stays live. A
 * value that a lane keeps across a call is stored to local memory: these stores were 40 % of what the L2 cache wrote for a free
 * (docs/explanation/checked-runs.md).
 */
#ifndef MM_CHECKED_GUARDED_H
#define MM_CHECKED_GUARDED_H

#include "runtime/checked/guard.h"
#include "runtime/checked/fill.h"

MM_FN uint32_t mm_guard_era(const struct mm_heap_ref *ref, struct mm_guarded g) {
    const uint64_t page = (g.p - ref->user_base) >> MM_PAGE_SHIFT;
    if (mm_guard_is_small(g.granted)) return 0;
    return mm_guard_era_of(&mm_guard_of(ref)->eras[page / MM_SEGMENT_PAGES], page % MM_SEGMENT_PAGES);
}

/* Reports a misuse of g with the tag's present contents. If the tag is not that of a freed allocation, it belongs to another allocation or is lost, and is left
 * out. */
MM_FN_RARE void mm_guard_report(const struct mm_heap_ref *ref, struct mm_guarded g, enum mm_misuse kind) {
    const struct mm_guard_said said = mm_guard_ask(g, mm_guard_era(ref, g));
    struct mm_misused what = {kind, g.p, mm_guard_room(g), 0, 0, 0};
    if (said.state == MM_GUARD_FREED) {
        what.bytes = mm_guard_asked(said.made), what.made_by = mm_guard_grid(said.made) + 1u;
        what.freed_by = kind == MM_MISUSE_OVERRUN ? 0 : mm_guard_freed_by(said.seal) + 1u;
    }
    mm_misuse_count(ref, kind, 1);
    mm_misuse_report(ref, what);
}

/* A slice of the small class c at p. A heap begins at a multiple of the segment size. */
MM_FN struct mm_guarded mm_guard_of_class(const struct mm_heap_ref *ref, uint64_t p, uint32_t c) {
    const uint64_t block_bytes = MM_PAGE_BYTES << ref->classes[c].page_shift, in = p & (block_bytes - 1);
    return mm_guard_small(p, (char *)p, mm_class_bytes(c), (char *)(p - in + block_bytes), mm_class_number(ref->classes[c], (uint32_t)in));
}
/* A slice, as a deferred free. */
MM_FN struct mm_guarded mm_guard_of_deferred(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t number = mm_deferred_word(left), page = number >> (uint32_t)ref->word_shift;
    const uint32_t i = (number - (page << (uint32_t)ref->word_shift)) << MM_WORD_SHIFT | mm_deferred_bit(left);
    const uint64_t block = mm_page_address(ref, page);
    return mm_guard_slice(ref->classes[mm_deferred_shape(left)], block, (char *)block, i);
}

/* ---- free ------------------------------------------------------------------------------------------- */

/* What the stages found about a slice, in unused bits of MM_DEFERRED_SLICE above the class. */
#define MM_GUARD_FLAGS_SHIFT (MM_DEFERRED_SHAPE_SHIFT + 6)
#define MM_GUARD_IS_TWICE (1ull << MM_GUARD_FLAGS_SHIFT)
#define MM_GUARD_IS_LOST (2ull << MM_GUARD_FLAGS_SHIFT)
#define MM_GUARD_IS_OVERRUN (4ull << MM_GUARD_FLAGS_SHIFT)
#define MM_GUARD_IS_WRITTEN (8ull << MM_GUARD_FLAGS_SHIFT)
#define MM_GUARD_FLAGS (15ull << MM_GUARD_FLAGS_SHIFT)

/* Reports it. Returns the slice without these bits. */
MM_FN_RARE uint64_t mm_guard_report_slice(const struct mm_heap_ref *ref, uint64_t left, enum mm_misuse kind) {
    mm_guard_report(ref, mm_guard_of_deferred(ref, left), kind);
    return left & ~MM_GUARD_FLAGS;
}

/* The allocator frees what leaves quarantine or never goes there, and handles every other misuse. */
MM_FN_RARE void mm_guard_due(const struct mm_heap_ref *ref, uint64_t left) { mm_heap_free_other(ref, left); }
MM_FN void mm_guard_mark(const struct mm_heap_ref *ref, uint64_t left) {
    left = mm_small_mark(ref, left);
    if (!MM_LIKELY(left == 0)) mm_guard_due(ref, left);
}

/* First stage: finds the allocation of p. */
MM_FN_RARE uint64_t mm_guard_locate(const struct mm_heap_ref *ref, void *p) { return mm_small_locate(ref, p, mm_heap_reached(ref)); }
/* Whether it is a slice that goes into quarantine. */
MM_FN int mm_guard_is_kept(uint64_t left) { return mm_deferred_kind(left) == MM_DEFERRED_SLICE && mm_deferred_shape(left) <= mm_class_of(MM_GUARD_KEPT_BYTES); }
/* An allocation that does not go into quarantine. */
MM_FN struct mm_guarded mm_guard_large(const struct mm_heap_ref *ref, uint64_t p) { return mm_guard_run(p, (char *)p, mm_heap_usable_size(ref, (void *)p)); }
/* The tag of g fitted neither state. Returns whether the cause is a write past the end; otherwise another thread freed g after its size and era were
 * read (I5). */
MM_FN int mm_guard_is_lost(const struct mm_heap_ref *ref, struct mm_guarded g, uint32_t era) {
    return mm_guard_ask(g, era).state == MM_GUARD_LOST && mm_heap_usable_size(ref, (void *)g.p) == g.granted && mm_guard_era(ref, g) == era;
}
/* The end of free for a large slice, a span, a run, or a pointer that is not of this heap. */
MM_FN_RARE void mm_guard_free_odd(const struct mm_heap_ref *ref, uint64_t left) {
    const int is_odd = mm_deferred_kind(left) == MM_DEFERRED_ODD && mm_deferred_misuse(left) == 0;
    uint64_t p = 0, granted = 0;
    if (mm_deferred_kind(left) == MM_DEFERRED_SLICE) p = mm_small_address(ref, left), granted = ref->classes[mm_deferred_shape(left)].bytes;
    if (is_odd)
        p = ref->user_base + mm_deferred_offset(left),
        granted = mm_heap_odd_bytes(ref, mm_deferred_offset(left)); /* 0 if the pages are a block of slices by now */
    if (granted != 0) {
        const struct mm_guarded g = mm_guard_run(p, (char *)p, granted);
        const uint32_t era = mm_guard_era(ref, g);
        struct mm_guard_said said = mm_guard_end(g, era);
        if (said.state == MM_GUARD_LOST && !mm_guard_is_lost(ref, g, era)) said.state = MM_GUARD_FREED;
        if (said.state == MM_GUARD_FREED) {
            mm_guard_report(ref, g, MM_MISUSE_DOUBLE_FREE);
            return;
        }
        if (said.state == MM_GUARD_LOST || mm_guard_is_overrun(g, mm_guard_asked(said.made))) mm_guard_report(ref, g, MM_MISUSE_OVERRUN);
        if (said.state == MM_GUARD_LIVE) mm_guard_poison(g);
    }
    mm_guard_mark(ref, left);
}

/* Second stage, of a slice for quarantine: changes the seal. Returns the slice; if that failed, with the reason and the allocating kernel. */
struct mm_guard_sealed {
    uint64_t left, made;
};
MM_FN_LEAF struct mm_guard_sealed mm_guard_end_slice(const struct mm_heap_ref *ref, uint64_t left) {
    const struct mm_guard_said said = mm_guard_end(mm_guard_of_deferred(ref, left), 0);
    if (said.state != MM_GUARD_LIVE) left |= said.state == MM_GUARD_FREED ? MM_GUARD_IS_TWICE : MM_GUARD_IS_LOST;
    const struct mm_guard_sealed sealed = {left, said.made};
    return sealed;
}
/* The end of free if the second stage failed: reports it. */
MM_FN_RARE void mm_guard_free_wrong(const struct mm_heap_ref *ref, uint64_t left) {
    if (left & MM_GUARD_IS_LOST && mm_guard_is_lost(ref, mm_guard_of_deferred(ref, left), 0))
        mm_guard_mark(ref, mm_guard_report_slice(ref, left, MM_MISUSE_OVERRUN));
    else mm_guard_report_slice(ref, left, MM_MISUSE_DOUBLE_FREE);
}

/* Third stage: checks the redzone. Returns the slice, with what must be reported. */
MM_FN_LEAF uint64_t mm_guard_zone_slice(const struct mm_heap_ref *ref, struct mm_guard_sealed sealed) {
    const int is_overrun = mm_guard_is_overrun(mm_guard_of_deferred(ref, sealed.left), mm_guard_asked(sealed.made));
    return is_overrun ? sealed.left | MM_GUARD_IS_OVERRUN : sealed.left;
}
/* Fourth stage: poison. */
MM_FN_LEAF uint64_t mm_guard_poison_slice(const struct mm_heap_ref *ref, uint64_t left) {
    mm_guard_poison(mm_guard_of_deferred(ref, left));
    return left;
}

/* Fifth stage: puts the slice into quarantine. Returns the slice that leaves it, or 0. Acquires and releases. */
MM_FN_LEAF uint64_t mm_guard_keep(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t group = mm_warp_group(left >> 63), leader = mm_ctz(group);
    struct mm_guard *guard = mm_guard_of(ref);
    uint32_t ticket = 0;
    if (mm_warp_lane() == leader) ticket = (uint32_t)mm_add_relaxed_u64(&guard->tickets, mm_popcount(group));
    mm_warp_sync(group);
    ticket = mm_warp_shuffle(group, ticket, leader) + mm_popcount(group & mm_bits_low(mm_warp_lane()));
    return mm_exchange_acq_rel_u64(&guard->slots[ticket % MM_GUARD_SLOTS], left);
}

/* Sixth stage: checks the poison of the slice that leaves quarantine. Returns it, with what must be reported. */
MM_FN_LEAF uint64_t mm_guard_leave(const struct mm_heap_ref *ref, uint64_t left) {
    return left != 0 && mm_guard_is_unpoisoned(mm_guard_of_deferred(ref, left)) ? left | MM_GUARD_IS_WRITTEN : left;
}
/* The end of free: reports that. */
MM_FN_RARE void mm_guard_leave_wrong(const struct mm_heap_ref *ref, uint64_t left) {
    mm_guard_mark(ref, mm_guard_report_slice(ref, left, MM_MISUSE_AFTER_FREE));
}
MM_FN void mm_guard_let_go(const struct mm_heap_ref *ref, uint64_t left) {
    left = mm_guard_leave(ref, left);
    if (MM_LIKELY(!(left & MM_GUARD_IS_WRITTEN))) mm_guard_mark(ref, left);
    else mm_guard_leave_wrong(ref, left);
}

/* The end of free if the redzone was written to. */
MM_FN_RARE void mm_guard_free_overrun(const struct mm_heap_ref *ref, uint64_t left) {
    left = mm_guard_report_slice(ref, left, MM_MISUSE_OVERRUN);
    mm_guard_let_go(ref, mm_guard_keep(ref, mm_guard_poison_slice(ref, left)));
}

/* See mm_heap_free. All rare work is in tail calls: a point where paths join again would have to be kept across calls. */
MM_FN void mm_guard_free(const struct mm_heap_ref *ref, void *p) {
    uint64_t left = mm_guard_locate(ref, p);
    if (MM_LIKELY(mm_guard_is_kept(left))) {
        const struct mm_guard_sealed sealed = mm_guard_end_slice(ref, left);
        if (MM_LIKELY((sealed.left & MM_GUARD_FLAGS) == 0)) {
            left = mm_guard_zone_slice(ref, sealed);
            if (MM_LIKELY((left & MM_GUARD_FLAGS) == 0)) mm_guard_let_go(ref, mm_guard_keep(ref, mm_guard_poison_slice(ref, left)));
            else mm_guard_free_overrun(ref, left);
        } else mm_guard_free_wrong(ref, sealed.left);
    } else mm_guard_free_odd(ref, left);
}

/* Empties the quarantine. Returns whether anything was in it, or was put in since it was last emptied. */
MM_FN_RARE int mm_guard_empty(const struct mm_heap_ref *ref) {
    struct mm_guard *guard = mm_guard_of(ref);
    const uint64_t tickets = mm_load_relaxed_u64(&guard->tickets);
    if (mm_load_relaxed_u64(&guard->emptied) == tickets) return 0;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_GUARD_SLOTS; i++) {
        if (mm_load_relaxed_u64(&guard->slots[i]) == 0) continue;
        mm_guard_let_go(ref, mm_exchange_acq_rel_u64(&guard->slots[i], 0));
    }
    mm_store_relaxed_u64(&guard->emptied, tickets);
    return 1;
}

/* ---- malloc ----------------------------------------------------------------------------------------- */

/* Allocates `more` bytes for a request of `bytes`. If there is no memory, empties the quarantine and tries again; once more even if the quarantine is empty,
 * since another thread may have just emptied it. is_again: a first try has failed already. */
MM_FN_RARE void *mm_guard_malloc_memory(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t more, uint64_t align, int is_again) {
    void *p = NULL;
    int is_more = 1;
    MM_ROLLED
    for (int tries = is_again; p == NULL && is_more && tries <= MM_GUARD_TRIES; tries++) {
        if (tries != 0) is_more = mm_guard_empty(ref);
        p = mm_heap_aligned_malloc(ref, more, align);
    }
    if (p == NULL) mm_null_report(ref, bytes);
    return p;
}

/* Writes tag and redzone of g, and fills the program's bytes. */
MM_FN void mm_guard_begin(const struct mm_heap_ref *ref, struct mm_guarded g, uint32_t era, uint64_t bytes) {
    mm_guard_write(g, era, bytes, mm_fill_word(ref));
    mm_fill(ref, (uint64_t *)g.at, bytes);
}

/* The slice size for `more` bytes if the slice is small; else 0. */
MM_FN uint32_t mm_guard_small_bytes(uint64_t more, uint64_t align) {
    if (more > MM_GUARD_KEPT_BYTES || align > MM_GUARD_KEPT_BYTES) return 0;
    const uint32_t bytes = mm_small_aligned(more, align);
    return mm_guard_is_small(bytes) ? bytes : 0;
}
/* The bytes to request from mm_heap_aligned_malloc for `bytes`. */
MM_FN uint64_t mm_guard_more(uint64_t bytes) { return bytes < ~0ull - MM_GUARD_MORE ? bytes + MM_GUARD_MORE : bytes; }
/* Writes the tag of p, which mm_guard_malloc_memory returned. Memory that was in quarantine was checked when it left; other memory is checked now. */
MM_FN_RARE void *mm_guard_begin_any(const struct mm_heap_ref *ref, void *p, uint64_t bytes, uint64_t align) {
    const uint32_t small = mm_guard_small_bytes(mm_guard_more(bytes), align);
    if (small != 0) {
        mm_guard_begin(ref, mm_guard_of_class(ref, (uint64_t)p, mm_class_spaced(small, (uint32_t)ref->spacing_mask)), 0, bytes);
        return p;
    }
    const struct mm_guarded g = mm_guard_large(ref, (uint64_t)p);
    const uint32_t era = mm_guard_era(ref, g);
    if (mm_guard_ask(g, era).state == MM_GUARD_FREED && mm_guard_is_unpoisoned(g)) mm_guard_report(ref, g, MM_MISUSE_AFTER_FREE);
    mm_guard_begin(ref, g, era, bytes);
    return p;
}
/* See mm_heap_aligned_malloc. */
MM_FN void *mm_guard_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    if (align == 0 || (align & (align - 1)) != 0) return NULL;
    bytes += bytes == 0;
    void *p = mm_guard_malloc_memory(ref, bytes, mm_guard_more(bytes), align, 0);
    return p != NULL ? mm_guard_begin_any(ref, p, bytes, align) : NULL;
}

/* First stage of malloc of a small slice; more: with the bytes for the redzone. See mm_heap_draw. */
MM_FN_RARE uint64_t mm_guard_draw(const struct mm_heap_ref *ref, uint32_t more) { return mm_small_draw(ref, more); }
/* Second stage: writes the tag. The memory was in quarantine, so it need not be checked. Returns p. */
MM_FN_LEAF void *mm_guard_begin_small(const struct mm_heap_ref *ref, uint64_t p, uint32_t more) {
    mm_guard_begin(ref, mm_guard_of_class(ref, p, mm_class_spaced(more, (uint32_t)ref->spacing_mask)), 0, more - MM_GUARD_MORE_SMALL);
    return (void *)p;
}
/* Both stages, after the first one gave a token. */
MM_FN_RARE void *mm_guard_malloc_other(const struct mm_heap_ref *ref, uint64_t token, uint32_t more) {
    void *p = mm_heap_malloc_other(ref, token);
    if (p == NULL) p = mm_guard_malloc_memory(ref, more - MM_GUARD_MORE_SMALL, more, 1, 1);
    return p ? mm_guard_begin_small(ref, (uint64_t)p, more) : NULL;
}

/* See mm_heap_malloc. */
MM_FN void *mm_guard_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    bytes += bytes == 0;
    if (!MM_LIKELY(bytes <= MM_GUARD_KEPT_BYTES - MM_GUARD_MORE_SMALL)) return mm_guard_aligned_malloc(ref, bytes, 1);
    const uint32_t more = (uint32_t)bytes + MM_GUARD_MORE_SMALL;
    const uint64_t at = mm_guard_draw(ref, more);
    return MM_LIKELY(!(at & MM_TOKEN)) ? mm_guard_begin_small(ref, at, more) : mm_guard_malloc_other(ref, at, more);
}

/* See mm_heap_usable_size; in a checked run exactly the requested size. */
MM_FN_RARE uint64_t mm_guard_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const uint64_t left = mm_guard_locate(ref, (void *)p);
    const uint64_t granted = mm_heap_usable_size(ref, p);
    if (granted == 0) return 0;
    const struct mm_guarded g = mm_deferred_kind(left) == MM_DEFERRED_SLICE ? mm_guard_of_deferred(ref, left) : mm_guard_run((uint64_t)p, (char *)p, granted);
    const struct mm_guard_said said = mm_guard_ask(g, mm_guard_era(ref, g));
    if (said.state == MM_GUARD_LOST) return mm_guard_room(g);
    return said.state == MM_GUARD_LIVE ? mm_guard_asked(said.made) : 0;
}

#endif
