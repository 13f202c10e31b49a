/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the environment says (secure_getenv; a set-user-ID program hears nothing). */
#ifndef MM_HOST_ENV_H
#define MM_HOST_ENV_H

#include <stdbool.h>
#include <stdint.h>

/* A size, in bytes or in % of the device's memory; both 0: not given. */
struct mm_host_env_size {
    uint64_t bytes;
    unsigned percent;
};

struct mm_host_env {
    bool verbose;
    bool gives_back;        /* not MM_TRIM=off */
    unsigned trim_after_ms; /* memory goes back after so long without use; 0: only when an allocation of the program needs it */
    bool is_off;     /* MM_OFF=1: code that comes at run time stays what it is */
    bool is_cudas;   /* MM_RUN_ALLOCATOR=cuda: and what has mm in it gets CUDA's allocator */
    struct mm_host_env_size heap_size, heap_max;
    unsigned grow_wait_ms;
    unsigned spacing; /* bytes, a power of two */
    unsigned on_misuse; /* enum mm_on_misuse */
    unsigned fill;          /* enum mm_fill; of a checked run that was not told, junk */
    bool is_checked;        /* MM_CHECK=1 */
    unsigned check_exitcode; /* of a process in which something was found; 0: its own */
    unsigned stats;         /* enum mm_stats_form */
    const char *stats_file; /* patterns (inspect.h); NULL: standard error */
    const char *heap_map;   /* NULL: none wanted */
};

/* Reads and checks all MM_* variables, once per process; what is wrong with them is said then. */
const struct mm_host_env *mm_host_env_get(void);

/* "<digits>[KMGT]" with a value above 0 (too large for 64 bits: the largest), or "<1..100>%". Returns false, and writes
 * nothing, if `text` is neither. */
bool mm_host_env_try_size(const char *text, struct mm_host_env_size *size);
/* "<digits>", at most `most`. */
bool mm_host_env_try_number(const char *text, unsigned most, unsigned *number);

#endif
