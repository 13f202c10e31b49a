/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device memory that a heap takes. For mm: its own account (bytes mapped for objects and for metadata), which is compared with the memory that the
 * device has lost since account_begin. For CUDA's allocator: the memory that the device has lost.
 */
#ifndef MM_BENCH_ACCOUNT_H
#define MM_BENCH_ACCOUNT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Allowed difference between the heap's account and the device, after account_warmed: kernels that libmm.so.1 loads later, the driver's tables of mapped
 * memory.
 *
 * It does not include local memory (the stacks of threads). When a kernel with a larger stack than any before runs first, the driver takes that stack for every
 * thread that the device can hold: on an H200 71 MB for one allocator's kernels. So they run once without a request, and account_warmed notes it. */
#define ACCOUNT_SLACK_BYTES (64ull << 20)

/* Bytes. */
struct account {
    unsigned long long now, most; /* taken by the heap: at the last look; the most at any look */
    unsigned long long beyond;    /* the most that the device had lost at any look */
};

/* Starts the account. Before it, allocate all memory that is not the heap's, and run all kernels that do not allocate. */
void account_begin(struct account *a);
/* The kernels that allocate have run since account_begin, without a request: what the device lost then and the heap did not take is the driver's, and is
 * allowed from now on. It is bounded: local memory for all threads, and ACCOUNT_SLACK_BYTES. Ends the process as account_look does. */
void account_warmed(void);
/* Call it between kernels. Ends the process with one line if the heap's account and the device disagree. */
void account_look(struct account *a);
/* If the heap has an account, sets `most` to the peak, including the time during kernels. Takes up to a second. */
void account_peak(struct account *a);
/* Whether the heap has an account of its own. */
int account_is_heaps(void);
/* Whether it is mm's, with the default allocator. The heap exists. */
int account_is_default(void);
/* How often the heap grew; 0 if it has no account. */
unsigned long long account_growths(void);

#ifdef __cplusplus
}
#endif
#endif
