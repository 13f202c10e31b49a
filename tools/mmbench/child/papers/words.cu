/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of write and workgen that allocate nothing: words.h. The prefix sum is CUB's, of the CUDA toolkit. */
#include <cub/device/device_scan.cuh>

#include "tools/mmbench/child/papers/words.h"

/* Element `lists` is 0, so that the last sum is the number of all words. */
static __global__ void sizes_kernel(struct words_input in, unsigned long long *sizes) {
    const unsigned i = thread_idx();
    if (i <= in.lists) sizes[i] = i < in.lists ? words_of(&in, i) : 0;
}

static __global__ void write_at_kernel(struct words_input in, const unsigned long long *offsets, unsigned *all, unsigned **lists) {
    const unsigned i = thread_idx();
    if (i >= in.lists) return;
    unsigned *list = all + offsets[i];
    const unsigned words = words_of(&in, i);
    for (unsigned w = 0; w < words; w++) list[w] = word_at(i, w);
    lists[i] = list;
}

/* One warp for each list. */
static __global__ void sum_kernel(struct words_input in, unsigned *const *lists, struct words_result *r) {
    const unsigned i = thread_idx() / WARP_THREADS, lane = threadIdx.x % WARP_THREADS;
    if (i >= in.lists || lists[i] == NULL) return;
    const unsigned words = words_of(&in, i);
    unsigned long long sum = 0;
    for (unsigned w = lane; w < words; w += WARP_THREADS) sum += lists[i][w];
    for (unsigned step = WARP_THREADS / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane != 0) return;
    atomicAdd(&r->words, (unsigned long long)words);
    atomicAdd(&r->sum, sum);
}

size_t words_scratch(struct words_input in) {
    size_t bytes = 0;
    unsigned long long *none = NULL;
    child_must(cub::DeviceScan::ExclusiveSum(NULL, bytes, none, none, (int)in.lists + 1));
    return bytes;
}

void words_offsets(struct words_input in, unsigned long long *offsets, void *scratch, size_t scratch_bytes) {
    sizes_kernel<<<memory_ctas(in.lists + 1), CTA_THREADS>>>(in, offsets);
    child_must(cub::DeviceScan::ExclusiveSum(scratch, scratch_bytes, offsets, offsets, (int)in.lists + 1));
}

void words_write_at(struct words_input in, const unsigned long long *offsets, unsigned *all, unsigned **lists) {
    write_at_kernel<<<memory_ctas(in.lists), CTA_THREADS>>>(in, offsets, all, lists);
}

void words_sum(struct words_input in, unsigned *const *lists, struct words_result *r) {
    sum_kernel<<<memory_ctas((unsigned long long)in.lists * WARP_THREADS), CTA_THREADS>>>(in, lists, r);
}
