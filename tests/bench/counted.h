/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc and free for kernels that run without a GPU (tests/bench/cta.h): counted, and NULL when a test wants it. */
#ifndef MM_BENCH_COUNTED_H
#define MM_BENCH_COUNTED_H

#include <stdlib.h>

static unsigned long long live, calls, null_every; /* live bytes; calls of malloc; every null_every-th call returns NULL (0: none) */

#define COUNTED_HEAD 16 /* bytes in front of each allocation, which hold its size */

static inline void *counted_malloc(size_t bytes) {
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % (null_every ? null_every : ~0ull) == 0) return NULL;
    char *p = (char *)malloc(COUNTED_HEAD + bytes);
    if (p == NULL) abort();
    *(size_t *)p = bytes;
    __atomic_add_fetch(&live, bytes, __ATOMIC_RELAXED);
    return p + COUNTED_HEAD;
}

/* free(NULL) does nothing. */
static inline void counted_free(void *of) {
    if (of == NULL) return;
    char *p = (char *)of - COUNTED_HEAD;
    __atomic_sub_fetch(&live, *(size_t *)p, __ATOMIC_RELAXED);
    free(p);
}

#endif
