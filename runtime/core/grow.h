/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing: how a heap gets more segments while kernels run. The host's side is runtime/host/grower.c.
 *
 * Representation. A mailbox in host memory that the device can access, and the device's view of it in the heap.
 *   wanted     (mailbox, written by the device) a request: number, alignment, segments (handles.h)
 *   need       (mailbox, written by the device) a hint: segments that all waiters want together. The host gives beyond `wanted` according to it
 *   answer     (mailbox, written by the host) number, count, first (handles.h): `count` consecutive segments from `first` on are mapped now, at least as
 *              many as were requested; count 0: refused. Or MM_ANSWER_CLOSED
 * In the heap, struct mm_grow:
 *   lock       its holder, for an access or two, may access the mailbox and the fields below
 *   asked      the last request, as in wanted. taken: the number of the last request whose answer was taken
 *   late       the request that a waiter gave up waiting for
 *   refused    requests for so many segments or more, of that alignment or a larger one, were refused at refused_at; 0: none
 *   looked_at  time of the last look at the mailbox
 *   need       pages that waiters for spans and runs want together
 *   mapped     number of mapped segments
 *   reached    end of the last segment that was ever mapped: up to here all that belongs to segments is mapped, and zero where it must be (layout.h)
 *   waits      number of waits for the host, and their total time, for statistics
 * Invariants.
 *   I1  at most one request is under way: the next one is written only when `taken` is the number of the last one.
 *   I2  segments in an answer no longer belong to the host, and are unowned until the thread that took the answer inserts them into the free tree, once.
 *   I3  a segment that is not mapped is in no free tree, except as a hint above the leaves.
 * Waiting. A thread that finds no segment requests some and tries again until there is one, the answer is a refusal, or grow_polls looks found nothing.
 *   What no thread got in that time is refused to all others at once, until the answer comes after all.
 * Refusals are kept for MM_GROW_REFUSAL_NS, since the program may free memory. A refusal is as old as the last look before its answer was seen: the answer to a
 *   request of the last kernel may have waited in the mailbox.
 * Linearisation point. The insertion into the leaves of the free tree (tree.h).
 * Ordering. The host maps, then writes the answer with release. The thread that takes the answer acquires, at system scope, and inserts with release.
 *   No other data crosses between them: a request is one word.
 */
#ifndef MM_CORE_GROW_H
#define MM_CORE_GROW_H

#include "runtime/core/segment.h"

/* Puts segments [first, end) into the free tree. Releases. */
MM_FN_RARE void mm_segments_put(struct mm_tree t, uint32_t first, uint32_t end) {
    MM_ROLLED
    while (first < end) {
        const uint32_t leaf = first / 64, upto = end - leaf * 64;
        mm_tree_insert_bits(t, first, mm_bits_low(upto < 64 ? upto : 64) & ~mm_bits_low(first % 64));
        first = (leaf + 1) * 64;
    }
}

MM_FN struct mm_mailbox *mm_grow_mailbox(const struct mm_heap_ref *ref) { return (struct mm_mailbox *)ref->mailbox; }

/* Whether request `this` wants no less than request `that`, in segments and alignment. Then a refusal of `that` refuses `this`. */
MM_FN int mm_grow_is_covered(uint32_t wanted, uint32_t that) {
    return MM_WANTED_SEGMENTS(wanted) >= MM_WANTED_SEGMENTS(that) && MM_WANTED_ALIGN(wanted) >= MM_WANTED_ALIGN(that);
}

/* Whether a request (segments, or as in wanted) was refused recently. */
MM_FN int mm_grow_is_refused(const struct mm_heap_ref *ref, uint32_t segments) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint64_t refused = mm_load_relaxed_u64(&h->grow.refused);
    if (ref->mailbox == 0) return 1;
    if (refused == 0 || !mm_grow_is_covered(segments, (uint32_t)refused)) return 0;
    return (int64_t)(mm_now_ns() - mm_load_relaxed_u64(&h->grow.refused_at)) < (int64_t)MM_GROW_REFUSAL_NS;
}
MM_FN void mm_grow_refuse(struct mm_heap *h, uint64_t segments, uint64_t at_ns) {
    mm_store_relaxed_u64(&h->grow.refused_at, at_ns);
    mm_store_relaxed_u64(&h->grow.refused, segments);
}

/* Adds segments that the host has mapped to the heap. The caller holds the lock. What describes those that were never there, and those between, is new memory,
 * which holds anything. Owners below open_bytes are zero from the beginning, and free may read them at any time. A load of `reached` need not acquire: who frees what was
 * allocated there knows of it from the thread that took it from the free tree; and one that is too old is only too small. */
MM_FN_RARE void mm_grow_insert(const struct mm_heap_ref *ref, uint32_t first, uint32_t count) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint32_t reached = (uint32_t)mm_load_relaxed_u64(&h->grow.reached);
    MM_ROLLED
    for (uint32_t s = reached; s < first + count; s++) {
        mm_store_two(&mm_segment_at(ref, s)->pages, 0, MM_RUN_NONE);
        if (s < ref->open_bytes >> MM_SEGMENT_SHIFT) continue;
        MM_UNROLLED(4)
        for (uint32_t page = 0; page < MM_SEGMENT_PAGES; page += 16) mm_store_two((uint64_t *)mm_page_owner(ref, s * MM_SEGMENT_PAGES + page), 0, 0);
    }
    mm_publish_fence(); /* free reads owners up to `reached` */
    if (reached < first + count) mm_store_published_u64(&h->grow.reached, first + count);
    mm_store_relaxed_u64(&h->grow.refused, 0);
    mm_segments_put(mm_segment_free_tree(ref), first, first + count);
    mm_add_relaxed_u64(&h->free_count, count);
    mm_add_relaxed_u64(&h->grow.mapped, count); /* last: a thread that sees the count finds the segments */
}

enum mm_grown { MM_GROWN_NO, MM_GROWN_WAIT, MM_GROWN_MORE };

/* One look at the mailbox, unless another thread holds the lock: takes an answer, and writes a request if none is under way. segments: as in wanted, the number
 * in the low bits and the alignment above; 0: no request. is_late: the caller has waited long enough. Returns whether there is more memory now, the caller
 * must wait, or there will be none. */
MM_FN_RARE enum mm_grown mm_grow_look(const struct mm_heap_ref *ref, uint32_t segments, int is_late) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_grow_is_refused(ref, segments)) return MM_GROWN_NO;
    uint64_t asked = mm_load_relaxed_u64(&h->grow.asked);
    int is_under_way = mm_load_relaxed_u64(&h->grow.taken) != asked >> 32;
    const int is_given_up = segments != 0 && is_under_way && mm_load_relaxed_u64(&h->grow.late) == asked;
    enum mm_grown result = is_given_up ? MM_GROWN_NO : MM_GROWN_WAIT;
    if (mm_load_relaxed_u64(&h->grow.lock) != 0 || !mm_cas_acquire_u64(&h->grow.lock, 0, 1)) return result;
    asked = mm_load_relaxed_u64(&h->grow.asked);
    const uint64_t number = asked >> 32;
    const uint64_t looked_at = mm_load_relaxed_u64(&h->grow.looked_at);
    mm_store_relaxed_u64(&h->grow.looked_at, mm_now_ns());
    const uint64_t answer = mm_load_acquire_system_u64(&mm_grow_mailbox(ref)->answer);
    is_under_way = mm_load_relaxed_u64(&h->grow.taken) != number;
    if (!is_under_way) result = MM_GROWN_WAIT;
    if (answer == MM_ANSWER_CLOSED) {
        mm_grow_refuse(h, 1, mm_now_ns()); /* for a short time only: the heap is opened again if its context is not destroyed after all */
        result = MM_GROWN_NO;
    } else if (is_under_way && answer >> MM_ANSWER_NUMBER_SHIFT == number) {
        const uint32_t count = (uint32_t)(answer >> MM_ANSWER_COUNT_SHIFT) & (MM_ANSWER_SEGMENTS - 1);
        mm_store_relaxed_u64(&h->grow.taken, number);
        is_under_way = 0;
        result = MM_GROWN_WAIT;
        if (count != 0) {
            mm_grow_insert(ref, (uint32_t)answer & (MM_ANSWER_SEGMENTS - 1), count);
            result = MM_GROWN_MORE;
        } else {
            mm_grow_refuse(h, (uint32_t)asked, looked_at);
            if (mm_grow_is_refused(ref, segments)) result = MM_GROWN_NO;
        }
    } else if (is_under_way && is_late) {
        mm_store_relaxed_u64(&h->grow.late, asked);
        result = MM_GROWN_NO;
    }
    if (result == MM_GROWN_WAIT && !is_under_way && segments != 0) {
        asked = (number % MM_ANSWER_NUMBERS + 1) << 32 | segments;
        mm_store_relaxed_u64(&h->grow.asked, asked);
        mm_store_relaxed_u64(&mm_grow_mailbox(ref)->need, mm_load_relaxed_u64(&h->grow.need) >> MM_PAGES_SHIFT);
        mm_store_release_system_u64(&mm_grow_mailbox(ref)->wanted, asked);
    }
    mm_store_release_u64(&h->grow.lock, 0);
    return result;
}

/* The number of mapped segments. Read it before the search whose failure leads to a wait. */
MM_FN uint64_t mm_grow_mapped(const struct mm_heap_ref *ref) { return mm_load_relaxed_u64(&mm_heap_of(ref)->grow.mapped); }

/* A caller's wait for the host. All 0: it does not wait. */
struct mm_growth {
    uint64_t since_ns, next_ns; /* when the wait began; when the caller must look again */
    uint32_t polls;
};
MM_FN int mm_growth_is_due(const struct mm_growth *w) { return w->polls == 0 || mm_is_due(w->next_ns); }

/* The caller found too few segments when `before` were mapped, and wants so many. Returns whether there are more now, there will be none, or the caller must
 * search again and call this again when w is due. */
MM_FN_RARE enum mm_grown mm_grow_poll(const struct mm_heap_ref *ref, uint32_t segments, uint64_t before, struct mm_growth *w) {
    const uint32_t most = (uint32_t)ref->grow_polls;
    enum mm_grown grown = MM_GROWN_MORE;
    if (w->polls != 0 && w->polls < most && mm_now_ns() - w->since_ns >= (uint64_t)most * MM_GROW_LOOK_NS) w->polls = most; /* slow looks */
    if (mm_grow_mapped(ref) == before) grown = mm_grow_look(ref, segments, w->polls >= most);
    if (grown == MM_GROWN_WAIT && w->polls < most + MM_TREE_TRIES) { /* at the end other threads may hold the lock all the time */
        const uint64_t now_ns = mm_now_ns();
        if (w->polls++ == 0) w->since_ns = now_ns;
        w->next_ns = now_ns + MM_GROW_LOOK_NS;
        return MM_GROWN_WAIT;
    }
    if (w->polls != 0) {
        mm_add_relaxed_u64(&mm_heap_of(ref)->grow.waits, 1);
        mm_add_relaxed_u64(&mm_heap_of(ref)->grow.waited_ns, mm_now_ns() - w->since_ns);
    }
    w->polls = 0;
    return grown == MM_GROWN_MORE ? MM_GROWN_MORE : MM_GROWN_NO;
}

#endif
