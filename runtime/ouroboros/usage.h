/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk's part for chunks (runtime/usage.h): pages of chunks that are cut, less the free ones. */
#ifndef MM_OURO_USAGE_H
#define MM_OURO_USAGE_H

MM_FN_RARE void mm_listed_usage(const struct mm_heap_ref *ref, uint32_t s, struct mm_usage *usage) {
    MM_ROLLED
    for (uint32_t chunk = s * MM_OURO_SEGMENT_CHUNKS; chunk < (s + 1) * MM_OURO_SEGMENT_CHUNKS; chunk++) {
        const uint64_t header = mm_load_relaxed_u64(mm_chunk_header(ref, chunk));
        const uint32_t q = mm_chunk_class(header);
        if (!mm_chunk_is_cut(header) || q >= MM_OURO_CLASSES) continue;
        const uint32_t pages = mm_chunk_pages(q), free = mm_at_most(mm_chunk_free_pages(ref, chunk, q), pages);
        mm_usage_add(usage, 1ull << (MM_ALIGN_SHIFT + q), pages - free);
    }
}
#include "runtime/listed/usage.h"

#endif
