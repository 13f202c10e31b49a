/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The benchmarks of published allocators. docs/reference/benchmarks.md says what each case does and which paper it comes from.
 *
 *   memory.h         memory for a kernel: from the allocator, or from a bump pointer, which is the floor
 *   NAME.h           the interface of a case: its input, its kernels, the expected result
 *   NAME_kernels.h   its kernels, by memory.h
 *   NAME_host.c      its input and the expected result, on the CPU; needs no GPU
 *   NAME_case.c      the case: run_NAME
 *   kernels.cu       all NAME_kernels.h, compiled once for each allocator; floors.cu the same, with the bump pointer
 *   probes_device.cu the kernels of the case probes, once for each face of random walk, with and without counters
 *   run.c            the runs of a case: warm-up, cold or warm, allocator and floor, rows
 *
 * The kernels of a case are a table of functions, of which there are two in a child: alloc_NAME and floor_NAME.
 */
#ifndef MM_BENCH_PAPERS_H
#define MM_BENCH_PAPERS_H

#include "tools/mmbench/child/papers/memory.h"

#define PAPER_STEPS_MAX 5u

/* What paper_run calls. `of` is the case's own. */
struct paper_program {
    const char *steps[PAPER_STEPS_MAX]; /* names of the timed steps, which are the row's operations */
    const char *checked;                /* what `run` checks */
    unsigned long long bump_bytes;      /* most that one run takes; 0: no floor */
    void *of;
    /* Takes device memory, copies the input there, and launches each kernel once without work, so that no run loads code: before the first run, and
     * after each restart of the device. */
    void (*open)(void *of);
    void (*close)(void *of); /* gives that memory back */
    /* Runs all steps once, by the kernels alloc_NAME, or floor_NAME if there is a bump pointer (in device memory, nothing used). Writes
     * the microseconds of each step. Adds what is wrong to *t: NULLs, and results that differ from the CPU's as corrupt. Everything is free
     * afterwards, unless a result was wrong. */
    void (*run)(void *of, struct bump *bump, double *us, struct tally *t);
};

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the program and answers with a row for each step, whose floor is the median of the same runs by the bump pointer. Returns what was wrong. */
struct tally paper_run(const struct request *q, const struct paper_program *p);

#ifdef __cplusplus
}
#endif
#endif
