/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the kernels of mmbench and of mmdoctor --selftest. */
#ifndef MM_TOOLS_KERNELS_H
#define MM_TOOLS_KERNELS_H

#ifdef __CUDACC__
#define TOOLS_BOTH static __host__ __device__ inline
#else
#define TOOLS_BOTH static inline
#endif

#define CTA_THREADS 256
#define WARP_THREADS 32

TOOLS_BOTH unsigned mix(unsigned x) { /* MurmurHash3's finalizer */
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

#ifdef __CUDACC__
static __device__ inline unsigned thread_idx(void) { return blockIdx.x * blockDim.x + threadIdx.x; }
#endif

#endif
