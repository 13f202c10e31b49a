/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The hash table of the cases join (join.h): R's tuples of one partition, in shared memory; device code. */
#ifndef MM_BENCH_JOIN_TABLE_H
#define MM_BENCH_JOIN_TABLE_H

#include "tools/mmbench/child/papers/join.h"

#define JOIN_END 0xffffu /* no tuple: the end of a bucket's chain */

/* Values stay in global memory. A head is a word, because atomicExch needs one. */
struct join_table {
    unsigned keys[JOIN_TABLE_TUPLES];
    unsigned heads[JOIN_BUCKETS];
    unsigned short links[JOIN_TABLE_TUPLES];
};

/* The CTA's partition. */
struct join_part {
    const struct join_tuple *r, *s;
    unsigned r_count, s_count;
};

/* Called by the whole CTA, each once. Puts the partition's R into the table. */
static __device__ struct join_part join_build(struct join_table *t, const struct join_input *in) {
    const unsigned *const r_offsets = in->r_offsets + blockIdx.x, *const s_offsets = in->s_offsets + blockIdx.x;
    const struct join_part p = {in->r + r_offsets[0], in->s + s_offsets[0], r_offsets[1] - r_offsets[0], s_offsets[1] - s_offsets[0]};
    for (unsigned b = threadIdx.x; b < JOIN_BUCKETS; b += CTA_THREADS) t->heads[b] = JOIN_END;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < p.r_count; i += CTA_THREADS) {
        const unsigned key = p.r[i].key;
        t->keys[i] = key;
        t->links[i] = (unsigned short)atomicExch(&t->heads[join_bucket(key)], i);
    }
    __syncthreads();
    return p;
}

/* The first tuple with that key, or JOIN_END. */
static __device__ unsigned join_first(const struct join_table *t, unsigned key) {
    unsigned at = t->heads[join_bucket(key)];
    while (at != JOIN_END && t->keys[at] != key) at = t->links[at];
    return at;
}

/* The next one after tuple `at`. */
static __device__ unsigned join_next(const struct join_table *t, unsigned key, unsigned at) {
    do at = t->links[at];
    while (at != JOIN_END && t->keys[at] != key);
    return at;
}

#endif
