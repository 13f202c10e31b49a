/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the scenarios of closed heaps (runtime/checked/closed.h): this process acts as kernels, of which it knows the names and numbers. */
#ifndef MM_CLIENT_CHECKED_H
#define MM_CLIENT_CHECKED_H

#include "client.h"
#include "include/mm.h"
#include "runtime/checked/closed.h"

static struct mm_heap_ref ref;
static CUmodule module;

static inline void launch(const char *name) {
    CUfunction f;
    if (!module) OK(cu.cuModuleLoadData(&module, "mm"));
    OK(cu.cuModuleGetFunction(&f, module, name));
    OK(client_launch(f, NULL));
    ref = standin->last_ref;
    CHECK(ref.guard == 0 || standin->last_asked == (strcmp(way, "v2-ptsz") == 0 ? (void *)CU_STREAM_PER_THREAD : NULL));
    mm_cpu_grid = standin->last_grid; /* the following calls belong to that kernel */
}

#endif
