/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases join: a hash join of two relations, whose size is not known before it ends, so that its output grows by pages.
 * Pham et al., random-walk allocation for parallel threads on GPUs, ACM Transactions on Parallel Computing 12(1), 2025, doi 10.1145/3701623.
 *
 *   join          S's keys are drawn from R's evenly
 *   join_zipf     S's keys are drawn from R's by a Zipf distribution: few keys are frequent, and so a few CTAs have most of the work
 *   join_counter  as join, but without an allocator: the output is one array, and a warp reserves room in it by an atomic on one counter
 *   join_scan     as join, but without an allocator: a kernel counts the matches of each thread, their prefix sum is the place of each
 *                 thread's output in one array, and another kernel joins again and writes
 *
 * R and S have the same number of tuples, and R's keys are unique, so each tuple of S has one match. The kernels do not depend on that. The host
 * groups both relations by a hash of the key. One CTA joins one partition: it puts R's tuples into a chained hash table in shared memory, and
 * looks S's tuples up in it. In the first two cases the output is chains of pages:
 *
 *   thread        each thread has a chain
 *   warp          the lanes of a warp share a chain; lane 0 takes the pages
 *   thread_free   the kernel that gives the pages back after each, with one thread for a chain
 *   warp_free
 *
 * Representation of a chain: its head points to the last page, and each page to the previous one. All pages but the last are full, and no
 * page is empty. Only the owner, a thread or a warp, changes a chain, so there are no locks. A match is dropped if memory_take returns NULL.
 *
 * Timed: hash table, probes, output. Not timed: making and grouping the relations, and the check. The check is a kernel that counts the
 * pairs of the output and adds up join_hash_pair over them; the CPU's expected numbers come from the relations before they are grouped.
 */
#ifndef MM_BENCH_JOIN_H
#define MM_BENCH_JOIN_H

#include "tools/mmbench/child/papers/papers.h"

struct __attribute__((aligned(8))) join_tuple { /* aligned, so that it is loaded at once */
    unsigned key, value;
};

/* A match: the values of R's and S's tuple. */
struct __attribute__((aligned(8))) join_pair {
    unsigned r, s;
};

#define JOIN_PAGE_BYTES 256u /* the page of the paper */
#define JOIN_PAGE_PAIRS ((JOIN_PAGE_BYTES - 16u) / sizeof(struct join_pair))

struct join_page {
    struct join_page *next;
    unsigned count, unused;
    struct join_pair pairs[JOIN_PAGE_PAIRS];
};

#define JOIN_TABLE_TUPLES 4096u /* most of a partition of R: keys and links then take 24 KiB of shared memory */
#define JOIN_BUCKETS 2048u      /* about as many as a partition has tuples; their heads take 8 KiB */
#define JOIN_WARPS (CTA_THREADS / WARP_THREADS)

/* The relations, grouped by partition; on the host, or a copy on the device. Partition p of R is r[r_offsets[p]] to r[r_offsets[p + 1] - 1]. */
struct join_input {
    unsigned tuples; /* of each relation */
    unsigned partitions;
    unsigned s_most; /* tuples of the largest partition of S */
    struct join_tuple *r, *s;
    unsigned *r_offsets, *s_offsets; /* partitions + 1 of them */
};

/* The output of join_counter and join_scan. */
struct join_array {
    struct join_pair *pairs;
    unsigned most;              /* room of `pairs` */
    unsigned *count;            /* matches; join_counter needs 0 here at the beginning */
    unsigned *thread_starts;    /* join_scan: where each thread's output begins in that of its partition */
    unsigned *partition_starts; /* join_scan: where each partition's output begins */
};

struct join_sum {
    unsigned long long pairs, sum;
};

/* The partition of a key follows from the upper bits of its hash, and the bucket in the partition from the lower bits. partitions: a power of two. */
TOOLS_BOTH unsigned join_partition(unsigned key, unsigned partitions) { return (unsigned)((unsigned long long)mix(key) * partitions >> 32); }
TOOLS_BOTH unsigned join_bucket(unsigned key) { return mix(key) % JOIN_BUCKETS; }

TOOLS_BOTH unsigned long long join_hash(unsigned high, unsigned low) { /* a step of SplitMix64 */
    unsigned long long x = ((unsigned long long)high << 32 | low) + 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
TOOLS_BOTH unsigned long long join_hash_pair(struct join_pair p) { return join_hash(p.r, p.s); }

/* Launches on the default stream. An input of no partitions, or an output of no chains, only loads the kernels. */
struct join_kernels {
    void (*thread)(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t); /* CTA_THREADS chains for each partition */
    void (*warp)(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t);   /* JOIN_WARPS chains for each partition */
    void (*give)(struct join_page **chains, unsigned count);
    /* Adds to *found. Does not go beyond pages_most pages of a chain, which may be broken. */
    void (*check)(struct join_page *const *chains, unsigned count, unsigned pages_most, struct join_sum *found);
    void (*counter)(struct join_input in, struct join_array out);
    void (*scan)(struct join_input in, struct join_array out);
    void (*check_array)(struct join_array out, struct join_sum *found); /* adds to *found */
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct join_kernels alloc_join, floor_join;

/* ---- join_host.c -------------------------------------------------------------------------------- */

/* Makes the relations and the expected result. partitions: a power of two, as join_partitions says; it is doubled until each partition of R
 * fits the hash table. Returns 0 if there is no memory. */
int join_make(struct join_input *in, struct join_sum *expected, unsigned tuples, int is_zipf, unsigned partitions);
void join_drop(struct join_input *in);
unsigned join_partitions(unsigned tuples);
/* The key of R's tuple i. In a Zipf distribution, R's first tuples have the most matches. */
unsigned join_key(unsigned i, unsigned tuples);
/* The pages of the output, if each group of `lanes` threads shares a chain: 1, or WARP_THREADS. */
unsigned long long join_pages(const struct join_input *in, unsigned lanes);
/* The most that one chain can have, whatever the owner's share of a partition is. */
unsigned join_pages_most(const struct join_input *in);

/* ---- join_case.c -------------------------------------------------------------------------------- */

void run_join(const struct request *q); /* join, join_zipf, join_counter, join_scan */
#ifdef __cplusplus
}
#endif
#endif
