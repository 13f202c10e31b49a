/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Failures on demand (MM_FAIL): the host's part of runtime/checked/fail.h. */
#ifndef MM_HOST_FAIL_H
#define MM_HOST_FAIL_H

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"

struct mm_host_heap;

/* Writes what MM_FAIL says into the image of a heap. */
void mm_fail_image(struct mm_heap *image);

/* Copies the heap's counters, and the choice of requests with them. Waits for no kernel. */
bool mm_fail_try_take(const struct mm_driver *d, const struct mm_host_heap *heap, struct mm_fail *fail, struct mm_driver_error *error);

/* Whether MM_FAIL=kernel:NAME means the kernel with this mangled name: NAME is the same, or the function's name in the source, without namespaces, arguments
 * of templates, and parameters. name: NULL is no kernel's. */
bool mm_fail_is_meant(const char *name);
/* From now on all requests of kernels of this heap fail, or none does. No kernel runs in its context, which is current. */
bool mm_fail_try_set(const struct mm_driver *d, const struct mm_host_heap *heap, bool is_on, struct mm_driver_error *error);

/* Prints how many requests failed, as mm_inspect_take saw it. */
void mm_fail_say(const struct mm_host_heap *heap);

#endif
