/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ouroboros as an allocator of small memory (gallatin/allocator.h says what one provides): Winter, Mlakar, Parger, Steinberger, "Ouroboros: virtualized queues
 * for dynamic memory management on GPUs", ICS 2020. Two choices make its six allocators: MM_OURO_QUEUE (queue.h) and MM_OURO_ENTRY (chunk.h).
 */
#ifndef MM_OURO_ALLOCATOR_H
#define MM_OURO_ALLOCATOR_H

#include "runtime/ouroboros/first.h"
#include "runtime/listed/free.h"
#include "runtime/listed/malloc.h"
#include "runtime/listed/retire.h"

#define MM_SMALL_BYTES_MAX ((uint64_t)MM_OURO_CHUNK_BYTES)
#define MM_SMALL_ALIGN_MAX MM_OURO_CHUNK_BYTES /* a page begins at a multiple of its size */

/* A heap with free pages needs nothing else. What is left of a call is inlined, as that of gallatin. */
#if MM_OURO_ENTRY == MM_OURO_CHUNKS
MM_FN uint64_t mm_small_draw(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_chunks_draw_soon(ref, (uint32_t)bytes); }
MM_FN uint64_t mm_small_settle(const struct mm_heap_ref *ref, uint32_t here, uint64_t token) {
    const uint64_t bytes = (uint32_t)token;
    if (token & MM_CHUNK_GAVE_BACK) mm_chunk_gave_back(ref, (uint32_t)(token >> 32) % (1u << MM_CHUNK_BITS), mm_listed_units(bytes) - 1);
    mm_warp_sync(here);
    return MM_TOKEN | bytes;
}
MM_FN uint64_t mm_small_bytes(uint64_t token) { return token & ~MM_TOKEN; }
#else
MM_FN uint64_t mm_small_draw(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_pages_draw_soon(ref, (uint32_t)bytes); }
/* What a lane has left (first.h). */
MM_FN uint64_t mm_small_settle(const struct mm_heap_ref *ref, uint32_t here, uint64_t token) {
    const uint32_t is_put = mm_page_kind(token) == MM_PAGE_GOT && !(token & MM_PAGE_LAST);
    if (!is_put && mm_page_kind(token) != MM_PAGE_NONE) token = mm_pages_settle(ref, token); /* all have passed after this: a put may wait for a queue chunk */
    mm_warp_sync(here);
    if (is_put) token = mm_pages_put_soon(ref, token);
    mm_warp_sync(here);
    return token;
}
MM_FN uint64_t mm_small_bytes(uint64_t token) { return mm_page_bytes(token); }
#endif
MM_FN void *mm_small_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63);
    token = mm_small_settle(ref, here, token);
    const int has_none = mm_warp_ballot(here, mm_list_count(ref) != 0) == 0;    /* there is nothing to draw */
    if (!has_none && (MM_OURO_ENTRY == MM_OURO_CHUNKS || (token & MM_TOKEN))) { /* of chunk allocators nothing else is left */
        const uint64_t got = mm_pages_draw(ref, mm_listed_units(mm_small_bytes(token)) - 1);
        if (got != 0) token = got;
    }
    mm_warp_sync(here);
    void *p = (void *)token;
    if (token & MM_TOKEN) p = mm_listed_malloc(ref, token);
    mm_warp_sync(here);
    return p;
}
MM_FN uint32_t mm_small_aligned(uint64_t bytes, uint64_t align) { return (uint32_t)(bytes > align ? bytes : align); }

/* What is left of a free (core/handles.h): MM_DEFERRED_SLICE or MM_DEFERRED_TWICE, and where in the heap the page begins, in bytes. */
MM_FN uint64_t mm_small_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    return mm_listed_locate(ref, p, bytes, 1u << MM_ALIGN_SHIFT, 0);
}
MM_FN uint64_t mm_small_address(const struct mm_heap_ref *ref, uint64_t left) { return ref->user_base + mm_deferred_offset(left); }
/* Out of line: the rest of free has it, too. */
MM_FN_RARE uint64_t mm_small_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_deferred_kind(left) == MM_DEFERRED_SLICE)) return left;
    const int misuse = mm_page_free(ref, mm_warp_group(left >> MM_DEFERRED_KIND_SHIFT), mm_deferred_offset(left));
    if (MM_LIKELY(misuse == 0)) return 0;
    return misuse == MM_MISUSE_DOUBLE_FREE ? MM_DEFERRED_TWICE | mm_deferred_offset(left) : mm_deferred_odd((uint32_t)misuse, mm_deferred_offset(left));
}
MM_FN void mm_small_twice(const struct mm_heap_ref *ref, uint64_t left) { mm_listed_twice(ref, mm_small_address(ref, left)); }
MM_FN uint64_t mm_small_size(const struct mm_heap_ref *ref, uint64_t left) { return mm_page_size(ref, mm_deferred_offset(left)); }
MM_FN uint64_t mm_small_owner_size(const struct mm_heap_ref *ref, uint32_t owner) { return (void)ref, (void)owner, 0; }

#endif
