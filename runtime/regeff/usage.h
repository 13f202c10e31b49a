/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk's part for the register-efficient allocators (runtime/usage.h). */
#ifndef MM_REGEFF_USAGE_H
#define MM_REGEFF_USAGE_H

#if MM_REGEFF_FACE >= MM_REGEFF_CIRCULAR
/* A chunk ends where the next one begins (chunks.h, I1), so the words suffice, without the headers in the chunks. An object has what its chunk has behind the
 * header: more than mm_usable_size says by what was left over, an eighth at most. */
MM_FN_RARE void mm_listed_usage(const struct mm_heap_ref *ref, uint32_t s, struct mm_usage *usage) {
    const uint64_t unit = (uint64_t)s * MM_RING_UNITS;
    uint32_t first = 0; /* of the last chunk that was seen */
    int is_live = 0;
    MM_ROLLED
    for (uint32_t w = 0; w <= MM_RING_WORDS; w++) { /* at the end: as if another one began */
        uint32_t begins = w < MM_RING_WORDS ? mm_ring_begins(mm_load_relaxed_u64(mm_ring_word(ref, unit + w * 32))) : 1;
        MM_ROLLED
        for (; begins != 0; begins &= begins - 1) {
            const uint32_t in = w * 32 + mm_ctz(begins);
            if (is_live) mm_usage_add(usage, ((uint64_t)(in - first) << MM_RING_UNIT_SHIFT) - MM_RING_HEADER_BYTES, 1);
            first = in, is_live = in < MM_RING_UNITS && mm_ring_is_live(ref, unit + in);
        }
    }
}
#else
/* What was added up so far. Segments that were used before are used as a whole: what was left over at their end is not known. AW: since it began anew last. */
MM_FN_RARE void mm_listed_usage(const struct mm_heap_ref *ref, uint32_t s, struct mm_usage *usage) {
    const uint64_t word = mm_load_relaxed_u64(mm_bump_word(ref)), used = mm_bump_used(word);
    const uint32_t at = mm_load_relaxed_u32(mm_list_index(ref, s)), place = mm_bump_place(word), n = mm_bump_segments(word);
    const uint64_t before = (uint64_t)(at - place) * MM_SEGMENT_BYTES, here = used > before ? used - before : 0;
    usage->uncounted_pages += MM_SEGMENT_PAGES;
    if (at < place) usage->small_bytes += MM_SEGMENT_BYTES;
    else if (at < place + n) usage->small_bytes += here < MM_SEGMENT_BYTES ? here : MM_SEGMENT_BYTES;
}
#endif
#include "runtime/listed/usage.h"

#endif
