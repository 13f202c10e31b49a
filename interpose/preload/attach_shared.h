/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by attach.c, watch.c and requests.c. */
#ifndef MM_PRELOAD_ATTACH_SHARED_H
#define MM_PRELOAD_ATTACH_SHARED_H

#include "runtime/host/heap.h"

/* This thread is making libmm's own driver calls. A driver that calls its exported functions would enter the hooks again. */
extern __thread bool mm_attach_is_inside;

/* Call before the heap ends or may end: writes its final report while its context still exists. */
void mm_attach_look_back(struct mm_host_heap *heap, bool is_certain);

/* Makes the heaps on the current context's device give back about what is missing for `bytes` to be free, plus MM_HOST_TRIM_MORE_BYTES. The
 * thread's capture mode is relaxed, and mm_contexts_lock is not held. Returns whether they gave any. */
bool mm_attach_take_back(const struct mm_driver *d, uint64_t bytes);

#endif
