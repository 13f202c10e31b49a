/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Turns: what one does at a time, for all who want it done.
 *
 * The word counts how often it was done, beside whether it found something the last time, whether somebody is at it, and has found some by now. Who wants it done
 * waits for one that begins after that, be it another's. Who does it, with the lanes that are here, waits for nobody else meanwhile.
 */
#ifndef MM_CORE_SINGLE_FLIGHT_H
#define MM_CORE_SINGLE_FLIGHT_H

#include "runtime/core/layout.h"

/* How far a lane is that may have to wait. Nothing waits in a loop of its own: a warp goes on with one of its parts until that comes to a
 * barrier or ends, so the lanes that are here together take steps in turns, in one loop, until all are done. Each wait has a bound. */
enum mm_step {
    MM_STEP_DONE,
    MM_STEP_WAIT,     /* to be called again: waits for another warp */
    MM_STEP_WAIT_HOST /* the same, for the host */
};
/* A pause of n accesses, one after the other, each somewhere else: thousands of warps that wait would fill the way to the word that they wait
 * for, on which who ends their wait has to come, too; or, with instructions, its multiprocessor. */
MM_FN void mm_pause(const struct mm_heap_ref *ref, uint32_t n) { mm_wait_elsewhere((uint64_t *)ref->made, MM_CLASS_COUNT * MM_MADE, n); }

#define MM_FLIGHT_WORD_BUSY 1ull
#define MM_FLIGHT_WORD_FOUND 2ull
#define MM_FLIGHT_WORD_SOME 4ull
#define MM_FLIGHT_WORD_ONE 8ull
enum mm_flight { MM_FLIGHT_NONE, MM_FLIGHT_MINE, MM_FLIGHT_WAIT, MM_FLIGHT_SOME, MM_FLIGHT_FOUND, MM_FLIGHT_NOTHING };

/* *awaited: which the caller waits for; 0, none yet. Returns whether the next is the caller's (who ends it) or is to be waited for, and if one that is
 * under way has found something by now; or what it found, which ends the wait. Acquires. */
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
/* The round that is under way, if there is one, has found something by now. Releases. */
MM_FN void mm_flight_found_some(uint64_t *word) { mm_or_release_u64(word, MM_FLIGHT_WORD_SOME); }
/* Releases. */
MM_FN enum mm_flight mm_flight_end(uint64_t *word, int found) {
    mm_store_release_u64(word, (mm_load_relaxed_u64(word) / MM_FLIGHT_WORD_ONE + 1) * MM_FLIGHT_WORD_ONE | (found ? MM_FLIGHT_WORD_FOUND : 0));
    return found ? MM_FLIGHT_FOUND : MM_FLIGHT_NOTHING;
}

#endif
