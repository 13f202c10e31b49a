/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the host's cases. */
#include "tools/mmbench/child/papers/host.h"

#include "tools/mmbench/child/child.h"

/* ---- ends of a block: one CTA, a thread for each byte --------------------------------------------- */

#define END_THREADS (2 * HOST_STAMP_BYTES)

/* The byte of this thread; bytes or more if it has none. The ends of a short block overlap. */
static __device__ unsigned long long end_byte(unsigned long long bytes) {
    const unsigned long long i = threadIdx.x;
    return i < HOST_STAMP_BYTES ? i : bytes < HOST_STAMP_BYTES ? bytes : bytes - END_THREADS + i;
}

static __global__ void stamp_ends_kernel(unsigned char *p, unsigned long long bytes, unsigned long long key) {
    const unsigned long long byte = end_byte(bytes);
    if (byte < bytes) p[byte] = host_stamp_byte(key, byte);
}

static __global__ void check_ends_kernel(const unsigned char *p, unsigned long long bytes, unsigned long long key, unsigned long long *damaged) {
    const unsigned long long byte = end_byte(bytes);
    const int bad = __syncthreads_or(byte < bytes && p[byte] != host_stamp_byte(key, byte));
    if (bad && threadIdx.x == 0) atomicAdd(damaged, 1ull);
}

void host_stamp_ends(void *p, unsigned long long bytes, unsigned long long key, cudaStream_t stream) {
    stamp_ends_kernel<<<1, END_THREADS, 0, stream>>>((unsigned char *)p, bytes, key);
    child_must(cudaGetLastError());
}

void host_check_ends(const void *p, unsigned long long bytes, unsigned long long key, unsigned long long *damaged, cudaStream_t stream) {
    check_ends_kernel<<<1, END_THREADS, 0, stream>>>((const unsigned char *)p, bytes, key, damaged);
    child_must(cudaGetLastError());
}

/* ---- whole blocks -------------------------------------------------------------------------------- */

#define ALL_CTAS 16 /* the kernels of 64 streams fit a GPU of 128 multiprocessors at once */

static __device__ unsigned long long device_ns(void) {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void stamp_all_kernel(unsigned long long *p, unsigned long long words, unsigned long long key, unsigned spin_ns) {
    const unsigned long long begin = device_ns();
    for (unsigned long long word = thread_idx(); word < words; word += ALL_CTAS * CTA_THREADS) p[word] = host_stamp_word(key, word);
    while (device_ns() - begin < spin_ns) continue;
}

static __global__ void check_all_kernel(const unsigned long long *p, unsigned long long words, unsigned long long key, unsigned long long *intact) {
    __shared__ unsigned long long of_cta;
    unsigned long long mine = 0;
    if (threadIdx.x == 0) of_cta = 0;
    __syncthreads();
    for (unsigned long long word = thread_idx(); word < words; word += ALL_CTAS * CTA_THREADS) mine += p[word] == host_stamp_word(key, word);
    atomicAdd(&of_cta, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(intact, of_cta);
}

void host_stamp_all(void *p, unsigned long long words, unsigned long long key, unsigned spin_ns, cudaStream_t stream) {
    stamp_all_kernel<<<ALL_CTAS, CTA_THREADS, 0, stream>>>((unsigned long long *)p, words, key, spin_ns);
    child_must(cudaGetLastError());
}

void host_check_all(const void *p, unsigned long long words, unsigned long long key, unsigned long long *intact, cudaStream_t stream) {
    check_all_kernel<<<ALL_CTAS, CTA_THREADS, 0, stream>>>((const unsigned long long *)p, words, key, intact);
    child_must(cudaGetLastError());
}
