/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Single-flight: one warp does a piece of work (retiring all blocks, a sweep), and all that wait for it share the result.
 *
 * Representation. A word: the number of rounds done, and three bits: the last round found something; a round is running; the running round has found
 *   something already.
 * Rule. A waiter needs a round that began after it started to wait; any warp may run it. The warp that runs a round does so with all of its present lanes, and
 *   waits for no other thread meanwhile.
 */
#ifndef MM_CORE_SINGLE_FLIGHT_H
#define MM_CORE_SINGLE_FLIGHT_H

#include "runtime/core/layout.h"

/* The result of one step of a lane that may have to wait. No wait has a separate loop: the hardware runs one part of a diverged warp until it reaches a
 * barrier or ends. So all present lanes take steps in one common loop until the last one is done. Each wait has a bound. */
enum mm_step {
    MM_STEP_DONE,
    MM_STEP_WAIT,     /* call again: waits for another warp */
    MM_STEP_WAIT_HOST /* call again: waits for the host */
};
/* A pause: n dependent loads from scattered words. Thousands of waiting warps would otherwise saturate the path to the word that they poll, which the
 * warp that ends the wait needs, too; and a pause of arithmetic would take that warp's multiprocessor. */
MM_FN void mm_pause(const struct mm_heap_ref *ref, uint32_t n) { mm_wait_elsewhere((uint64_t *)ref->made, MM_MADE_WORDS, n); }

#define MM_FLIGHT_WORD_BUSY 1ull
#define MM_FLIGHT_WORD_FOUND 2ull
#define MM_FLIGHT_WORD_SOME 4ull
#define MM_FLIGHT_WORD_ONE 8ull
enum mm_flight { MM_FLIGHT_NONE, MM_FLIGHT_MINE, MM_FLIGHT_WAIT, MM_FLIGHT_SOME, MM_FLIGHT_FOUND, MM_FLIGHT_NOTHING };

/* Asks for a round. *awaited: the number of the round that the caller waits for; 0: it just arrived. Returns MM_FLIGHT_MINE: the caller runs the next round and
 * ends it; MM_FLIGHT_WAIT: call again; MM_FLIGHT_SOME: call again, the running round has found something already; MM_FLIGHT_FOUND or MM_FLIGHT_NOTHING: the
 * awaited round is done, and the wait is over. Acquires. */
MM_FN_RARE enum mm_flight mm_flight_begin(uint64_t *word, uint64_t *awaited) {
    const uint64_t now = mm_load_acquire_u64(word), done = now / MM_FLIGHT_WORD_ONE;
    const int is_busy = (now & MM_FLIGHT_WORD_BUSY) != 0;
    if (*awaited == 0) *awaited = done + 1 + (uint64_t)is_busy;
    if (done < *awaited && is_busy && now & MM_FLIGHT_WORD_SOME) return MM_FLIGHT_SOME;
    if (done < *awaited && (is_busy || !mm_cas_acquire_u64(word, now, (now & ~MM_FLIGHT_WORD_SOME) | MM_FLIGHT_WORD_BUSY))) return MM_FLIGHT_WAIT;
    const enum mm_flight flight = done < *awaited ? MM_FLIGHT_MINE : now & MM_FLIGHT_WORD_FOUND ? MM_FLIGHT_FOUND : MM_FLIGHT_NOTHING;
    *awaited = 0;
    return flight;
}
/* The running round has found something. Releases. */
MM_FN void mm_flight_found_some(uint64_t *word) { mm_or_release_u64(word, MM_FLIGHT_WORD_SOME); }
/* Ends the caller's round. Returns its result. Releases. */
MM_FN enum mm_flight mm_flight_end(uint64_t *word, int found) {
    mm_store_release_u64(word, (mm_load_relaxed_u64(word) / MM_FLIGHT_WORD_ONE + 1) * MM_FLIGHT_WORD_ONE | (found ? MM_FLIGHT_WORD_FOUND : 0));
    return found ? MM_FLIGHT_FOUND : MM_FLIGHT_NOTHING;
}

#endif
