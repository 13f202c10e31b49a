/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases write and workgen: each thread allocates memory for a list of words, and writes it.
 * M. Winter, M. Parger, D. Mlakar, M. Steinberger, "Are dynamic memory managers on GPUs slow? A survey and benchmarks", PPoPP 2021.
 *
 *   write     malloc, the writing, and free are timed apart; the floor of each is the same kernel with memory from a bump pointer
 *   workgen   malloc and writing in one kernel; the floor is what a program without an allocator does: sizes by a kernel, their prefix sum,
 *             one cudaMalloc, the writing. Both are timed on the host.
 *
 * A kernel reads all lists and adds up their words. The sum and the number of words are compared with the CPU's.
 */
#ifndef MM_BENCH_WORD_LISTS_H
#define MM_BENCH_WORD_LISTS_H

#include "tools/mmbench/child/papers/papers.h"

struct words_input {
    unsigned lists;
    unsigned most_words; /* of a list; the least is one */
    int is_fixed;        /* all have the most */
};

struct words_result {
    unsigned long long words, sum;
};

TOOLS_BOTH unsigned words_of(const struct words_input *in, unsigned list) {
    return in->is_fixed ? in->most_words : 1 + mix(list * 0x9e3779b9u + 0x3c6ef372u) % in->most_words;
}
TOOLS_BOTH unsigned word_at(unsigned list, unsigned word) { return mix(list + 0x165667b1u) + word * 0x9e3779b1u; }

struct words_kernels {
    void (*take)(struct words_input in, unsigned **lists, struct bump *b, struct tally *t);
    void (*write)(struct words_input in, unsigned **lists);
    void (*give)(struct words_input in, unsigned **lists);
    void (*take_and_write)(struct words_input in, unsigned **lists, struct bump *b, struct tally *t);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct words_kernels alloc_words, floor_words;

/* ---- words.cu: kernels that allocate nothing, launched on the default stream -------------------- */

/* The offset of each list in one array of all words, in words; offsets has one element more than there are lists. scratch: words_scratch(in) bytes. */
void words_offsets(struct words_input in, unsigned long long *offsets, void *scratch, size_t scratch_bytes);
size_t words_scratch(struct words_input in);
/* Writes all lists at their offsets in `all`, and their addresses. */
void words_write_at(struct words_input in, const unsigned long long *offsets, unsigned *all, unsigned **lists);
/* Adds up the words of all lists. */
void words_sum(struct words_input in, unsigned *const *lists, struct words_result *r);

/* ---- words_case.c ------------------------------------------------------------------------------- */

struct words_result words_expected(const struct words_input *in);
/* Bytes that all lists take from a bump pointer. */
unsigned long long words_bump_bytes(const struct words_input *in);

void run_write(const struct request *q);
void run_workgen(const struct request *q);
#ifdef __cplusplus
}
#endif
#endif
