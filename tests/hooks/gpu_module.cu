/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A module with mm in it: it holds the heap variable, and its kernels look at the heap. */
#include "runtime/core/layout.h"

#include "gpu_look.h"

extern "C" {
__constant__ struct mm_heap_ref MM_HEAP_REF;

/* One thread: what the variable says, and whether all it points to can be reached. */
__global__ void mm_test_look(struct gpu_look *out) {
    const struct mm_heap_ref ref = MM_HEAP_REF;
    struct gpu_look seen = {};
    seen.heap = ref.heap;
    seen.user_base = ref.user_base;
    seen.user_bytes = ref.user_bytes;
    if (ref.heap) {
        const struct mm_heap *h = (const struct mm_heap *)ref.heap;
        const uint64_t *tree = (const uint64_t *)h->ref.free_tree;
        seen.abi = h->abi;
        for (uint64_t i = 0; i < h->tree_leaves; i++) seen.segments += __popcll(tree[h->ref.tree_roots + h->ref.tree_mids + i]);
        for (uint64_t s = 0; s < seen.segments; s++) { /* each segment, its words, what is said of it */
            volatile uint64_t *first = (volatile uint64_t *)(ref.user_base + s * MM_SEGMENT_BYTES);
            volatile uint64_t *last = (volatile uint64_t *)(ref.user_base + (s + 1) * MM_SEGMENT_BYTES - 8);
            volatile uint64_t *words = (volatile uint64_t *)ref.words + ((s * MM_SEGMENT_PAGES) << ref.word_shift);
            *first = s;
            *last = ~s;
            words[0] = words[(MM_SEGMENT_PAGES << ref.word_shift) - 1] = 0;
            if (*first != s || *last != ~s || words[0] != 0) seen.wrong++;
            const uint64_t *said = (const uint64_t *)((const struct mm_segment *)ref.segments - s);
            for (uint64_t i = 0; i < sizeof(struct mm_segment) / 8; i++)
                if (said[i]) seen.wrong++;
            for (uint64_t page = 0; page < MM_SEGMENT_PAGES; page++)
                if (((const uint8_t *)ref.owners)[s * MM_SEGMENT_PAGES + page] != MM_OWNER_NOBODY) seen.wrong++;
        }
    }
    *out = seen;
}

__global__ void mm_test_empty(void) {}
}
