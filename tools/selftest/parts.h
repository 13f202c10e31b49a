/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the parts of `mmdoctor --selftest` share. One program, compiled by mmnvcc; its argument is a part. A part prints a line
 * for each check, "ok" or "FAILED" first.
 *
 *   core.cu       each promise of malloc, free and mm.h once
 *   stress.cu     many threads, mixed sizes, patterns
 *   conv.cu       whether warps are whole after malloc and free
 *   footprint.cu  what the heap takes of the device
 *   all.cu        these four, as one source; their names must not meet
 *   main.c        the parts by name, and what they say
 */
#ifndef MM_SELFTEST_PARTS_H
#define MM_SELFTEST_PARTS_H

#include <cuda_runtime_api.h>
#include <mm.h>
#include <stddef.h>

#include "tools/kernels.h"

#define MB 1e6

#ifdef __cplusplus
extern "C" {
#endif

/* ---- main.c ----------------------------------------------------------------------------------- */

/* One line. The figures are as for printf. */
void check(int holds, const char *what, const char *figures, ...) __attribute__((format(printf, 3, 4)));
/* One line that is no check. */
void figure(const char *what, const char *figures, ...) __attribute__((format(printf, 2, 3)));
/* Ends the part if `error` is one. */
void must(cudaError_t error, const char *call);
#define MUST(call) must((call), #call)
/* Ends the part if a kernel did not start, or did not end well. */
void must_end(const char *what);
double now_s(void);
/* Of the heap of this context; the part ends if there is none. */
struct mm_statistics statistics(void);
unsigned long long misuses(const struct mm_statistics *s);
/* Checks that the heap has so many live objects. No kernel is running. */
void check_live(unsigned long long objects, const char *what);
size_t device_bytes(void);      /* memory of the device */
size_t device_free_bytes(void); /* of that, what is free */

/* ---- parts: each returns when it is through, and the status follows from its checks ---------------- */

void part_core(void);
void part_stress(void);
void part_conv(void);
/* footprint.cu; main.c runs each workload in a process. */
extern const unsigned footprint_count;
void footprint_head(void);
void footprint_run(unsigned workload);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
static inline unsigned ctas(unsigned threads) { return (threads + CTA_THREADS - 1) / CTA_THREADS; }

/* A size from least to most: uniform, or log-uniform. */
static __device__ inline unsigned draw_bytes(unsigned random, int logarithmic, unsigned least, unsigned most) {
    if (!logarithmic) return least + random % (most - least + 1);
    return (unsigned)((float)least * exp2f((float)(random >> 8) / 16777216.0f * log2f((float)most / (float)least)));
}
#endif

#endif
