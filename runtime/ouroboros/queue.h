/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Queues of entries (Winter et al., ICS 2020): for each class, the masks or chunks with free pages; and the free chunks.
 *
 * Representation. front and back: positions drawn so far. Each position has a slot (array.h, ring.h, links.h): 0, an entry plus 1, or {1 : 1 | p : 31}:
 *   the caller that was to take at position p has gone.
 * Put. Draw a position; a compare-and-swap of its slot from 0; count the entry (semaphore.h). Take, with a right: draw a position, wait for its entry, and
 *   exchange it for 0. A caller that takes at position p and has waited MM_OURO_LOOKS looks, since the one that puts is suspended or in its own warp, marks the
 *   slot with p, and gives its right back. The one that puts at p finds that, clears the slot, and draws another position. If it has been there before, or
 *   never comes, since the array grew meanwhile (array.h), the slot is used for a later position: its putter puts over the mark, and its taker clears it and
 *   goes on waiting. If both come at once, the putter may see neither, and the taker waits in vain; so there is a mark for one lap more. (With marks that did
 *   not name a position, such a slot stayed unusable, and each lap of the array one caller more waited in vain.)
 * Lanes. Lanes of a warp that put into the same queue draw their positions by one addition, and count what they have put by another one; those that take pass
 *   by one, when they have their entries and before they put any back. Each lane is alone with its slot: one that finds it taken draws
 *   again, with the others that did. They meet before each addition, and every wait between has a bound, so a lane waits for others as long as they look.
 *   (Each lane by itself, 1 M frees of 8 KiB: two million additions to two words, 1,102 us of -s-p, H200.)
 * Invariants.
 *   I1  each entry is at a position that was not drawn for taking, or whose taker is about to find it. So there are no more rights than entries that can be
 *       reached, and a taker that has drawn a position which nobody has drawn to put has a right without an entry, if a stale one was lost: it drops it.
 *   I2  a position's putter and taker each pass once (storage.h): the taker for both if it has found the entry; and who has drawn one in a queue chunk without
 *       slots for those of the following ones that it draws, too (mm_queue_skip, ring.h), so that a queue chunk costs one of the tries, not each position.
 * Full. There are as many slots as masks or chunks (array.h, storage.h). But a mask may have several entries (chunk.h, I3), and a put may meet an entry in its
 *   slot, or find no slot: while an array is made larger, or if a thread that installs queue chunks is suspended and the caller has few looks (ring.h). Then it
 *   draws another position, MM_OURO_TRIES at most. It first looks whether the next position has a slot, and waits for it: a position without one helps nobody,
 *   and only who has a right takes it away from front. (Puts that did not look filled a queue with such positions, and there was no right any more.) If it gets
 *   no slot (refused counts that), the mask or chunk stays out of the queue, and free: a caller that finds the queue empty looks for it (mm_queue_recover), a
 *   sweep finds it, and, of chunk allocators, so does the next free in the chunk. No page is lost, and nobody traps. (With sweeps alone, which find one page
 *   each, 8 M requests of 8 KiB did not end in 20 s: 4 Mi entries were refused.)
 * Linearisation points. Of a put: the compare-and-swap of the slot. Of a take: the exchange.
 * Progress. All loops are bounded.
 * Stale. Array queue: a putter that is suspended while the queue goes round once may put its entry behind front, where it is found in the next round;
 *   until then the queue has one more entry than rights (dropped counts that), so one chunk or mask waits in it longer. An entry
 *   is a hint (chunk.h): one that names a chunk of another class, or a mask or chunk without free pages, is dropped. A mask is in the queue of its class
 *   only, since a chunk of page allocators keeps its class.
 */
#ifndef MM_OURO_QUEUE_H
#define MM_OURO_QUEUE_H

#define MM_OURO_S 0
#define MM_OURO_VA 1
#define MM_OURO_VL 2
#ifndef MM_OURO_QUEUE
#define MM_OURO_QUEUE MM_OURO_VA
#endif

#if MM_OURO_QUEUE == MM_OURO_S
#include "runtime/ouroboros/array.h"
#elif MM_OURO_QUEUE == MM_OURO_VA
#include "runtime/ouroboros/ring.h"
#else
#include "runtime/ouroboros/links.h"
#endif

#define MM_QUEUE_NONE ~0u
/* Whether entries of queue q are chunks, whose headers say that they are queued: who puts one in vain first takes that back, then counts it (mm_entries_put). */
#define MM_OURO_IS_MARKED(q) (MM_OURO_ENTRY == MM_OURO_CHUNKS || (q) == MM_OURO_FREE)

#define MM_SLOT_MARK (1u << 31)
MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX *MM_OURO_SEGMENT_CHUNKS *MM_OURO_MASKS < MM_SLOT_MARK, "no entry has the bit of marks");
MM_FN uint32_t mm_slot_mark(uint64_t p) { return MM_SLOT_MARK | (uint32_t)p; }
MM_FN int mm_slot_has_entry(uint32_t slot) { return slot != 0 && !(slot & MM_SLOT_MARK); }
/* Puts an entry into the slot of position p, if that is empty or has the mark of another position, and nobody changes it meanwhile. Clears the mark of p. Returns
 * whether the entry is there. */
MM_FN int mm_slot_put(uint32_t *slot, uint64_t p, uint32_t entry) {
    if (mm_cas_acq_rel_u32(slot, 0, entry + 1)) return 1;
    const uint32_t found = mm_load_relaxed_u32(slot), next = found != mm_slot_mark(p) ? entry + 1 : 0;
    return (found & MM_SLOT_MARK) != 0 && mm_cas_acq_rel_u32(slot, found, next) && next != 0;
}

/* Puts an entry at position p of queue q, which the caller has drawn; the caller counts it. Returns whether it did. Releases. view: what mm_queue_view said
 * before. looks: for a queue chunk that another thread installs. */
MM_FN int mm_queue_put_at(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view, uint32_t entry, uint32_t looks) {
    uint32_t *const slot = mm_queue_slot(ref, q, p, view, looks);
    if (slot != NULL && mm_slot_put(slot, p, entry)) return 1;
    mm_queue_pass(ref, q, p, slot != NULL ? 1 : 1 + mm_queue_skip(p, &mm_queue_of(ref, q)->back));
    return 0;
}
/* Puts `each` entries of each lane of `here`, from `entry` on, into queue q; all of them call, and MM_QUEUE_NONE is none. More than one: the lane calls alone.
 * Lanes with the same queue draw their positions by one addition, and count what they have put by another one; what finds no slot gets another position. All
 * wait about as long as one. Returns those that are not in the queue: bit i for entry + i. Releases. */
MM_FN uint32_t mm_queue_put_lanes(const struct mm_heap_ref *ref, uint32_t here, uint32_t q, uint32_t entry, uint32_t each, uint32_t looks) {
    const uint32_t group = mm_warp_match(here, entry != MM_QUEUE_NONE ? q : MM_OURO_QUEUES), lane = mm_warp_lane(), leader = mm_ctz(group);
    struct mm_queue *of = mm_queue_of(ref, q);
    uint32_t rest = (uint32_t)mm_bits_low(each), lanes = group, many = group >> leader == 1 ? each : mm_popcount(group);
    if (entry == MM_QUEUE_NONE) return 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_OURO_TRIES && many != 0 && !mm_queue_is_full(ref, q, group, looks); tries++) {
        const uint64_t view = mm_queue_view(ref, q);
        uint64_t p = lane == leader ? mm_add_relaxed_u64(&of->back, many) : 0;
        uint32_t wait = looks;
        const uint64_t first = mm_warp_shuffle_u64(group, p, leader);
        const uint32_t drawn = many;
        p = first + mm_popcount(lanes & mm_bits_low(lane));
        MM_ROLLED
        for (uint32_t left = rest; left != 0; left &= left - 1, p++)
            if (mm_queue_put_at(ref, q, p, view, entry + mm_ctz(left), wait)) rest ^= left & (0 - left);
            else wait = (wait + 1) / 2;
        mm_warp_sync(group);
        lanes = mm_warp_ballot(group, rest != 0);
        many = mm_popcount(group >> leader == 1 ? rest : lanes);
        if (lane == leader && many != drawn) mm_semaphore_put(ref, q, drawn - many);
        mm_queue_go_ahead(ref, q, group, first, drawn);
        looks = (looks + 1) / 2;
    }
    if (rest != 0 && !MM_OURO_IS_MARKED(q)) mm_add_relaxed_u64(&of->refused, mm_popcount(rest));
    return rest;
}
/* Takes the entry at position p, which the caller has drawn with a right. Returns it, or MM_QUEUE_NONE, and gives the right back. *passes: how often the caller
 * has to pass there (mm_queue_pass_lanes), before it puts anything: a put may wait for a queue chunk that comes back when all have passed. (With passes after
 * the puts, a kernel that allocates and frees all the time did not end in 20 s.) */
MM_FN uint32_t mm_queue_take(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view, uint32_t *passes) {
    uint32_t *const slot = mm_queue_slot(ref, q, p, view, MM_OURO_LONG_LOOKS);
    MM_ROLLED
    for (uint32_t looks = 0; slot != NULL; looks++) {
        const uint32_t entry = looks == 0 || mm_load_relaxed_u32(slot) != 0 ? mm_exchange_acquire_u32(slot, 0) : 0;
        if (mm_slot_has_entry(entry)) {
            *passes = 2;
            mm_queue_turn(ref, q, slot);
            return entry - 1;
        }
        if (looks >= MM_OURO_LOOKS && mm_cas_acq_rel_u32(slot, 0, mm_slot_mark(p))) break;
        mm_pause(ref, mm_at_most(looks + 1, MM_OURO_PAUSE));
        mm_wait();
    }
    const uint32_t skipped = slot != NULL ? 0 : mm_queue_skip(p, &mm_queue_of(ref, q)->front);
    if (mm_load_relaxed_u64(&mm_queue_of(ref, q)->back) > p) mm_semaphore_put(ref, q, 1);
    else mm_add_relaxed_u64(&mm_queue_of(ref, q)->dropped, 1);
    *passes = 1 + skipped;
    mm_queue_turn(ref, q, slot);
    return MM_QUEUE_NONE;
}
/* The lanes of `here`, all of which call, pass n times at position p each, the first lane at `first`: those in the same queue chunk as that by one addition. */
MM_FN void mm_queue_pass_lanes(const struct mm_heap_ref *ref, uint32_t here, uint32_t q, uint64_t first, uint64_t p, uint32_t n) {
    if (MM_OURO_QUEUE == MM_OURO_S) return;
    const int is_near = (p ^ first) >> MM_OURO_STORE_SHIFT == 0;
    const uint32_t sum = mm_warp_sum(here, is_near ? n : 0);
    if (is_near) n = mm_warp_lane() == mm_ctz(here) ? sum : 0;
    if (n != 0) mm_queue_pass(ref, q, p, n);
}

#endif
