/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The states that an exploration has seen: a hash table of 2^16 to 2^26 places, enlarged when it is half full. */
#ifndef MM_MODEL_EXPLORE_SEEN_H
#define MM_MODEL_EXPLORE_SEEN_H

#include <stdint.h>

extern uint64_t seen_count;

void seen_start(void);
void seen_end(void);
/* Adds the state h, reached after `preempted` preemptions by a step of t. Returns whether it is new: with a bound, not
 * seen after as few preemptions and a step of the same thread. */
int seen_add(uint64_t h, uint32_t preempted, uint32_t t, uint32_t bound);

#endif
