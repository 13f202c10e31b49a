/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A closed heap (open_bytes is 0): a checked run (guarded.h), one with MM_FILL (fill.h), MM_FAIL (fail.h) or MM_TRACE (trace.h), or one without addresses. The fast paths
 * of malloc and free find no memory in it and take the slow path, which leads here. So they have no instruction for any of these.
 */
#ifndef MM_CHECKED_CLOSED_H
#define MM_CHECKED_CLOSED_H

#include "runtime/checked/fail.h"
#include "runtime/checked/guarded.h"
#include "runtime/checked/trace.h"

/* malloc (align 1) and aligned malloc of a traced run, which is not checked: with the frames of both a thread's stack of 1,024 bytes is too small. A separate function, so
 * that the others keep nothing across a call. */
MM_FN_RARE void *mm_traced_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    void *p = NULL;
    if (!ref->fail || !mm_fail_takes(ref)) p = align == 1 ? mm_fill_malloc(ref, bytes) : mm_fill_aligned_malloc(ref, bytes, align);
    return (void *)mm_trace_note(ref, (uint64_t)p, bytes, MM_TRACE_MALLOC | (align ? mm_ctz(align) : 0) << MM_TRACE_ALIGN_SHIFT);
}

/* See mm_heap_malloc and so on. */
MM_FN void *mm_closed_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (mm_is_traced(ref)) return mm_traced_malloc(ref, bytes, 1);
    if (ref->fail && mm_fail_takes(ref)) return NULL;
    return mm_is_checked(ref) ? mm_guard_malloc(ref, bytes) : mm_fill_malloc(ref, bytes);
}
MM_FN void *mm_closed_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    if (mm_is_traced(ref)) return mm_traced_malloc(ref, bytes, align);
    if (ref->fail && mm_fail_takes(ref)) return NULL;
    return mm_is_checked(ref) ? mm_guard_aligned_malloc(ref, bytes, align) : mm_fill_aligned_malloc(ref, bytes, align);
}
MM_FN void mm_closed_free(const struct mm_heap_ref *ref, void *p) {
    if (mm_is_traced(ref) && p) p = (void *)mm_trace_note(ref, (uint64_t)p, 0, MM_TRACE_FREE);
    if (mm_is_checked(ref)) mm_guard_free(ref, p);
    else mm_fill_free(ref, p);
}
MM_FN uint64_t mm_closed_usable_size(const struct mm_heap_ref *ref, const void *p) {
    return mm_is_checked(ref) ? mm_guard_usable_size(ref, p) : mm_heap_usable_size(ref, p);
}

#endif
