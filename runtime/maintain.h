/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Maintenance: the device's part when the host wants memory back (runtime/host/trim.c). Kernels with one warp per CTA do it, while other kernels run. Each warp
 * takes memory by the same atomics as malloc, so no thread can still claim what the host gets, and no other protocol is needed between them.
 *
 * mm_maintain_retire retires all blocks whose slices are all free, which would keep segments, and takes an answer of the host that no thread came for. Then
 * mm_maintain_claim takes the segments of a chunk out of the free tree, all or none. From then on they belong to the host, until a later answer (grow.h). A
 * stale reader may access their metadata, which stays mapped; only misuse leads to their memory.
 */
#ifndef MM_MAINTAIN_H
#define MM_MAINTAIN_H

#include "runtime/heap.h"

/* Does part `part` of `parts`: segments part, part + parts and so on. Other parts may run concurrently. All lanes of `here` call. */
MM_FN_RARE void mm_maintain_retire(const struct mm_heap_ref *ref, uint32_t here, uint32_t part, uint32_t parts) {
    if (part == 0 && mm_warp_lane() == mm_ctz(here)) mm_grow_look(ref, 0, 0); /* takes an answer that no thread came for */
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
