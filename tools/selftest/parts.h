/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the parts of `mmdoctor --selftest`. They are one program, compiled by mmnvcc; its argument selects a part. A part prints
 * one line for each check, which begins with "ok" or "FAILED".
 *
 *   core.cu       each promise of malloc, free and mm.h once
 *   stress.cu     many threads, mixed sizes, patterns
 *   conv.cu       whether warps are converged after malloc and free
 *   footprint.cu  the device memory that the heap takes
 *   all.cu        these four as one source; so their names must not clash
 *   main.c        runs a part by name, and prints results
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

/* Prints one line. The figures are formatted as by printf. */
void check(int holds, const char *what, const char *figures, ...) __attribute__((format(printf, 3, 4)));
/* Prints one line that is no check. */
void figure(const char *what, const char *figures, ...) __attribute__((format(printf, 2, 3)));
/* Ends the part unless `error` is cudaSuccess. */
void must(cudaError_t error, const char *call);
#define MUST(call) must((call), #call)
/* Ends the part if a kernel did not start or did not end successfully. */
void must_end(const char *what);
double now_s(void);
/* Statistics of this context's heap; ends the part if there is none. */
struct mm_statistics statistics(void);
unsigned long long misuses(const struct mm_statistics *s);
/* Checks the number of live objects in the heap. No kernel may be running. */
void check_live(unsigned long long objects, const char *what);
size_t device_bytes(void);      /* memory of the device */
size_t device_free_bytes(void); /* free memory of the device */

/* ---- parts: each returns at its end; its checks determine the exit status ------------------------- */

void part_core(void);
void part_stress(void);
void part_conv(void);
/* footprint.cu; main.c runs each workload in its own process. */
extern const unsigned footprint_count;
void footprint_head(void);
void footprint_run(unsigned workload);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
static inline unsigned ctas(unsigned threads) { return (threads + CTA_THREADS - 1) / CTA_THREADS; }

/* A random size from least to most: uniform, or log-uniform. */
static __device__ inline unsigned draw_bytes(unsigned random, int logarithmic, unsigned least, unsigned most) {
    if (!logarithmic) return least + random % (most - least + 1);
    return (unsigned)((float)least * exp2f((float)(random >> 8) / 16777216.0f * log2f((float)most / (float)least)));
}
#endif

#endif
