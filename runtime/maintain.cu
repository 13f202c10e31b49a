/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of maintenance (runtime/maintain.h). They are a part of libmm.so.1, which loads them into the context of a heap. */
#include "runtime/maintain.h"

extern "C" {

/* Written by the host, as in any other image. */
__constant__ struct mm_heap_ref MM_HEAP_REF;

/* Writes its own launch number plus 1: the number of the next launch (runtime/host/kernels.h). */
__global__ void mm_kernel_note(uint64_t *at) {
    uint64_t grid;
    asm("mov.u64 %0, %%gridid;" : "=l"(grid));
    mm_store_release_system_u64(at, grid + 1);
}

/* One warp, the CTA, for each part. */
__global__ void mm_kernel_retire(uint32_t parts) { mm_maintain_retire(&MM_HEAP_REF, mm_warp_group(parts), blockIdx.x, parts); }

/* One thread for each of n chunks. */
__global__ void mm_kernel_claim(struct mm_wanted_chunk *chunks, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) mm_maintain_claim(&MM_HEAP_REF, &chunks[i]);
}
}
