/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Compares lists with the expected ones (graph.h): one CTA, of any size, per vertex. */
#ifndef MM_BENCH_LISTS_CHECK_H
#define MM_BENCH_LISTS_CHECK_H

#include "tools/mmbench/child/graph.h"

static __global__ void lists_check_kernel(const struct list *lists, const struct list_sum *expected, struct tally *t) {
    __shared__ unsigned long long sum;
    const struct list l = lists[blockIdx.x];
    const struct list_sum e = expected[blockIdx.x];
    const int bad = l.degree != e.degree || (l.edges == NULL) != (l.degree == 0) || ((size_t)l.edges & 15) != 0;
    unsigned long long mine = 0;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (!bad)
        for (unsigned i = threadIdx.x; i < l.degree; i += blockDim.x) mine += neighbour_hash(l.edges[i]);
    if (mine != 0) atomicAdd(&sum, mine);
    __syncthreads();
    if (threadIdx.x == 0 && (bad || sum != e.sum)) atomicAdd(&t->corrupt, 1ull);
}

#endif
