/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of write and workgen: words.h. */
#ifndef MM_BENCH_WORDS_KERNELS_H
#define MM_BENCH_WORDS_KERNELS_H

#include "tools/mmbench/child/papers/words.h"

static __device__ unsigned *words_take(const struct words_input *in, unsigned i, struct bump *b, struct tally *t) {
    unsigned *list = (unsigned *)memory_take(b, words_of(in, i) * sizeof *list);
    if (list == NULL) atomicAdd(&t->nulls, 1ull);
    return list;
}

static __device__ void words_write(const struct words_input *in, unsigned i, unsigned *list) {
    const unsigned words = words_of(in, i);
    for (unsigned w = 0; w < words; w++) list[w] = word_at(i, w);
}

static __global__ void words_take_kernel(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    const unsigned i = thread_idx();
    if (i < in.lists) lists[i] = words_take(&in, i, b, t);
}

static __global__ void words_write_kernel(struct words_input in, unsigned **lists) {
    const unsigned i = thread_idx();
    if (i < in.lists && lists[i] != NULL) words_write(&in, i, lists[i]);
}

static __global__ void words_give_kernel(struct words_input in, unsigned **lists) {
    const unsigned i = thread_idx();
    if (i < in.lists) memory_give(lists[i]);
}

static __global__ void words_take_and_write_kernel(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= in.lists) return;
    unsigned *list = words_take(&in, i, b, t);
    if (list != NULL) words_write(&in, i, list);
    lists[i] = list;
}

#ifdef __CUDACC__
static unsigned words_ctas(const struct words_input *in) { return memory_ctas(in->lists); }

static void words_launch_take(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    words_take_kernel<<<words_ctas(&in), CTA_THREADS>>>(in, lists, b, t);
}
static void words_launch_write(struct words_input in, unsigned **lists) { words_write_kernel<<<words_ctas(&in), CTA_THREADS>>>(in, lists); }
static void words_launch_give(struct words_input in, unsigned **lists) { words_give_kernel<<<words_ctas(&in), CTA_THREADS>>>(in, lists); }
static void words_launch_take_and_write(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    words_take_and_write_kernel<<<words_ctas(&in), CTA_THREADS>>>(in, lists, b, t);
}

extern "C" const struct words_kernels MEMORY_KERNELS(words) = {words_launch_take, words_launch_write, words_launch_give, words_launch_take_and_write};
#endif

#endif
