/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_FILL: malloc writes zeros or junk to all memory that it returns, so that a program that reads memory before it writes there behaves differently under the
 * two. A checked run (guarded.h) fills with junk by default. The fast path has no instruction for it (closed.h).
 *
 * All usable bytes (mm_heap_usable_size) are filled, not only the requested ones, since mm_realloc grows in place and copies up to there. In a checked run the
 * two are the same. The calling thread writes before any other thread knows the address, so program order suffices.
 */
#ifndef MM_CHECKED_FILL_H
#define MM_CHECKED_FILL_H

#include "runtime/heap.h"

/* The value of every word. */
MM_FN uint64_t mm_fill_word(const struct mm_heap_ref *ref) { return ref->fill == MM_FILL_JUNK ? MM_FILL_JUNK_WORD : 0; }

/* Fills the 16-byte units of [p, p + bytes), if MM_FILL is set. p is a multiple of 16. The caller fills a rest of less than 16 bytes. */
MM_FN void mm_fill(const struct mm_heap_ref *ref, uint64_t *p, uint64_t bytes) {
    const uint64_t word = mm_fill_word(ref);
    if (ref->fill == MM_FILL_NONE) return;
    MM_ROLLED
    for (; bytes >= 64; bytes -= 64, p += 8)
        mm_store_two(p, word, word), mm_store_two(p + 2, word, word), mm_store_two(p + 4, word, word), mm_store_two(p + 6, word, word);
    MM_ROLLED
    for (; bytes >= 16; bytes -= 16, p += 2) mm_store_two(p, word, word);
}

/* Fills all of an allocation; returns p. NULL has no bytes. */
MM_FN_RARE void *mm_fill_granted(const struct mm_heap_ref *ref, void *p) {
    mm_fill(ref, (uint64_t *)p, mm_heap_usable_size(ref, p));
    return p;
}

/* See mm_heap_malloc, mm_heap_aligned_malloc. */
MM_FN_RARE void *mm_fill_malloc(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_fill_granted(ref, mm_heap_malloc(ref, bytes)); }
MM_FN_RARE void *mm_fill_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    return mm_fill_granted(ref, mm_heap_aligned_malloc(ref, bytes, align));
}

/* See mm_heap_free, whose fast path would find nothing, since open_bytes is 0. */
MM_FN_RARE void mm_fill_free(const struct mm_heap_ref *ref, void *p) {
    const uint64_t left = mm_heap_release_any(ref, p);
    if (!MM_LIKELY(left == 0)) mm_heap_free_other(ref, left);
}

#endif
