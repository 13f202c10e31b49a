/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the host has done on the device when it wants memory back (runtime/host/trim.c): by kernels of one warp to a CTA, beside
 * whatever runs there. Each warp is an ordinary participant: it takes what it takes by the atomics by which malloc does, so what the
 * host gets nobody can still claim, and no other protocol is needed between them.
 *
 * First all blocks that are free are retired, which would keep segments, and what the host has answered and nobody came for
 * is taken (mm_maintain_retire). Then the segments of a chunk are taken out of the free tree, all or none (mm_maintain_claim): they belong to
 * the host from then on, until it answers them anew (grow.h). A stale reader may come to their metadata, which stays; to their memory nobody
 * comes but by misuse.
 */
#ifndef MM_MAINTAIN_H
#define MM_MAINTAIN_H

#include "runtime/heap.h"

/* Does part `part` of so many: segments part, part + parts and so on. Other parts may be done at the same time. All lanes of `here` call. */
MM_FN_RARE void mm_maintain_retire(const struct mm_heap_ref *ref, uint32_t here, uint32_t part, uint32_t parts) {
    if (part == 0 && mm_warp_lane() == mm_ctz(here)) mm_grow_look(ref, 0, 0); /* an answer that nobody came for */
    mm_warp_sync(here);
    const uint32_t reached = mm_warp_shuffle(here, (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached), mm_ctz(here));
    MM_ROLLED
    for (uint32_t s = part; s < reached; s += parts) mm_segment_retire(ref, here, s);
}

/* Takes the chunk's segments from the heap, if they are all free. */
MM_FN_RARE void mm_maintain_claim(const struct mm_heap_ref *ref, struct mm_wanted_chunk *chunk) {
    struct mm_heap *h = mm_heap_of(ref);
    if (!mm_run_try_take(mm_segment_free_tree(ref), chunk->first, chunk->first + chunk->count)) return;
    mm_add_relaxed_u64(&h->free_count, 0 - (uint64_t)chunk->count);
    mm_add_relaxed_u64(&h->grow.mapped, 0 - (uint64_t)chunk->count);
    chunk->is_claimed = 1;
}

#endif
