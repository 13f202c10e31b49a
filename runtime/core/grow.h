/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing: how a heap gets more segments while kernels run. The host's side is runtime/host/grower.c.
 *
 * Representation. A mailbox in memory of the host that the device can reach, and the device's view of it in the heap.
 *   wanted     (mailbox) number, alignment, segments (handles.h): a request; the device writes it
 *   need       (mailbox) a hint: segments that all who wait want together; what the host gives beyond `wanted` follows it
 *   answer     (mailbox) number, count, first (handles.h): so many segments from `first` on are there now, at least as many as
 *              were asked for, side by side; count 0: refused. Or MM_ANSWER_CLOSED. The host writes it
 * In the heap, struct mm_grow:
 *   lock       whoever holds it, for an access or two, may read and write the mailbox and what follows
 *   asked      the last request, as in wanted; taken: the number of the last one whose answer was taken
 *   late       the request that was waited for in vain
 *   refused    so many segments, and more, of that alignment or a larger one, were refused at refused_at; 0: none were
 *   looked_at  when somebody last looked at the mailbox
 *   need       pages that those who wait for spans and runs want together
 *   mapped     segments that are there at all
 *   reached    where the last segment that was ever there ends: so far words, indexes and table are mapped (layout.h)
 *   waits      how often somebody waited for the host, and how long all of them together: what statistics say
 * Invariants.
 *   I1  one request is under way at most: the next one is asked when `taken` is the last one's number.
 *   I2  segments that the host has answered belong to it no more, and to nobody until who has taken the answer puts them
 *       into the free tree, once.
 *   I3  a segment that is not there is in no tree of free ones (but for hints above the leaves).
 * Who waits. Who finds no segment asks, and tries again until there is one, or the answer is no, or grow_polls looks were in vain. What
 *   nobody got in that time is refused to all others at once, until the answer comes after all.
 * Refusals are kept for MM_GROW_REFUSAL_NS, for the program may have freed memory since; from the last look before the answer on, when it was
 *   not there yet: nobody need have taken the answer to what the last kernel asked.
 * Linearisation. The insertion into the leaves of the free tree (tree.h).
 * Ordering. The host maps, then writes the answer with release; who takes it acquires, at system scope, and inserts with
 *   release. Nothing else crosses that anybody depends on: a request is one word.
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

/* Whether who wants this wants no less than that, in segments and alignment: then what is refused to that is refused to this. */
MM_FN int mm_grow_is_covered(uint32_t wanted, uint32_t that) {
    return MM_WANTED_SEGMENTS(wanted) >= MM_WANTED_SEGMENTS(that) && MM_WANTED_ALIGN(wanted) >= MM_WANTED_ALIGN(that);
}

/* Whether what is wanted (segments, or as in wanted) was refused lately. */
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

/* Segments that the host has mapped are the heap's now. The caller has the lock. */
MM_FN_RARE void mm_grow_insert(const struct mm_heap_ref *ref, uint32_t first, uint32_t count) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_load_relaxed_u64(&h->grow.reached) < first + count) mm_store_relaxed_u64(&h->grow.reached, first + count);
    mm_store_relaxed_u64(&h->grow.refused, 0);
    mm_segments_put(mm_segment_free_tree(ref), first, first + count);
    mm_add_relaxed_u64(&h->free_count, count);
    mm_add_relaxed_u64(&h->grow.mapped, count); /* last: who sees it finds them */
}

enum mm_grown { MM_GROWN_NO, MM_GROWN_WAIT, MM_GROWN_MORE };

/* One look at the mailbox, if nobody else is at it: takes an answer, asks for so many segments (0: for none; in the low bits, with their
 * alignment above them, as in wanted) if nothing is under way.
 * is_late: the caller has waited long enough. Returns whether there is more now, or it is to be waited for, or there will be
 * none. */
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
        mm_grow_refuse(h, 1, mm_now_ns()); /* the heap may be opened again: its context was not destroyed after all */
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

/* Segments that are there: to be read before the search after which one waits. */
MM_FN uint64_t mm_grow_mapped(const struct mm_heap_ref *ref) { return mm_load_relaxed_u64(&mm_heap_of(ref)->grow.mapped); }

/* A caller's wait for the host. All 0: it does not wait. */
struct mm_growth {
    uint64_t since_ns, next_ns; /* when it began; when the caller is to look again */
    uint32_t polls;
};
MM_FN void mm_growth_begin(struct mm_growth *w) { w->since_ns = w->next_ns = 0, w->polls = 0; }
MM_FN int mm_growth_is_due(const struct mm_growth *w) { return w->polls == 0 || mm_is_due(w->next_ns); }

/* The caller found too few segments when there were `before`, and wants so many. Returns whether there are more by now, or will be none,
 * or it is to search again, and to call this again, when w is due. */
MM_FN_RARE enum mm_grown mm_grow_poll(const struct mm_heap_ref *ref, uint32_t segments, uint64_t before, struct mm_growth *w) {
    const uint32_t most = (uint32_t)ref->grow_polls;
    enum mm_grown grown = MM_GROWN_MORE;
    if (w->polls != 0 && w->polls < most && mm_now_ns() - w->since_ns >= (uint64_t)most * MM_GROW_LOOK_NS) w->polls = most; /* slow looks */
    if (mm_grow_mapped(ref) == before) grown = mm_grow_look(ref, segments, w->polls >= most);
    if (grown == MM_GROWN_WAIT && w->polls < most + MM_TREE_TRIES) { /* at the end others may be at the mailbox all the time */
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
