/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* This process acts as the kernels of other allocators: client_walks.c, client_rings.c, client_bumps.c and client_chunks.c contain one kind each. */
#ifndef MM_CLIENT_SIBLING_H
#define MM_CLIENT_SIBLING_H

#ifdef MM_ALLOCATOR /* by that file; mmconfig.h would define it, too */
#define CLIENT_IS_SIBLING
#endif
#include "client.h"

/* Allocates a thousand objects of 64 bytes, ten of 200, one of 300,000 and one of 6 MB, and frees every tenth of the first ones. */
typedef void client_use(const struct mm_heap_ref *ref);
client_use client_use_walks, client_use_rings, client_use_bumps, client_use_chunks;

#ifdef CLIENT_IS_SIBLING
#include "runtime/heap.h"

static void client_use_sibling(const struct mm_heap_ref *ref) {
    void *small[1000];
    for (int i = 0; i < 1000; i++) CHECK((small[i] = mm_heap_malloc(ref, 64)));
    for (int i = 0; i < 10; i++) CHECK(mm_heap_malloc(ref, 200));
    CHECK(mm_heap_malloc(ref, 300000) && mm_heap_malloc(ref, 6 << 20));
    for (int i = 0; i < 1000; i += 10) mm_heap_free(ref, small[i]);
}
#endif

#endif
