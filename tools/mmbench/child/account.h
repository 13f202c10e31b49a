/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a heap takes of the device. Of mm: its own account, what is mapped for objects and for metadata, compared with what the device has
 * lost since account_begin. Of CUDA's allocator: what the device has lost.
 */
#ifndef MM_BENCH_ACCOUNT_H
#define MM_BENCH_ACCOUNT_H

#ifdef __cplusplus
extern "C" {
#endif

/* By how much the heap's account and the device may differ: modules, the host part's kernels, the driver's tables of mapped memory. */
#define ACCOUNT_SLACK_BYTES (64ull << 20)

/* Bytes. */
struct account {
    unsigned long long now, most; /* taken by the heap; most: at any look */
    unsigned long long beyond;    /* lost by the device at any look, at most */
};

/* From now on. All that is not the heap's is allocated, and all kernels that do not allocate have run. */
void account_begin(struct account *a);
/* Between kernels. Ends the process with one line if the heap's account and the device disagree. */
void account_look(struct account *a);
/* Now `most` is what was taken at any time, during kernels, too, if the heap has an account. Takes up to a second. */
void account_peak(struct account *a);
/* How often the heap has grown; 0 if it has no account. */
unsigned long long account_growths(void);

#ifdef __cplusplus
}
#endif
#endif
