/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The MM_* environment variables (read by secure_getenv: a set-user-ID program ignores them). */
#ifndef MM_HOST_ENV_H
#define MM_HOST_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/host/fit/fit.h"

/* A size, in bytes or in % of the device's memory; both 0: not set. */
struct mm_host_env_size {
    uint64_t bytes;
    unsigned percent;
};

enum mm_stats_form { MM_STATS_NONE, MM_STATS_TEXT, MM_STATS_JSON, MM_STATS_CSV }; /* how statistics are written (stats.h) */

enum mm_pool_modes { MM_POOL_OFF, MM_POOL_SMALL, MM_POOL_KEEP, MM_POOL_ASYNC }; /* MM_POOL (pool/pool.h) */

struct mm_host_env {
    bool verbose;
    bool gives_back;        /* not MM_TRIM=off */
    unsigned trim_after_ms; /* time without use after which memory goes back; 0: only when a call of the program fails for lack of memory */
    bool is_off;            /* MM_OFF=1: code that is loaded at run time keeps its allocator */
    bool is_cudas;          /* MM_RUN_ALLOCATOR=cuda: as is_off, and code that mmnvcc compiled gets CUDA's allocator */
    bool asks;              /* MM_RUN_ALLOCATOR names an allocator of mm */
    const char *sibling;    /* the one that it names, if that is not the default: code without mm gets it */
    bool allows_unsafe;     /* MM_ALLOW_UNSAFE=1: images may have the allocator MM_ALLOCATOR_UNSAFE */
    enum mm_pool_modes pool;
    enum mm_fit_kind pool_fit; /* MM_POOL_FIT */
    uint64_t pool_carve_bytes; /* MM_POOL_CARVE; 0: not set */
    struct mm_host_env_size heap_size, heap_max;
    unsigned grow_wait_ms;
    unsigned spacing;                /* bytes, a power of two */
    unsigned on_misuse;              /* enum mm_on_misuse */
    unsigned fill;                   /* enum mm_fill; by default junk in a checked run, else none */
    unsigned fail;                   /* enum mm_fail_kind */
    const char *fail_text;           /* MM_FAIL, if it is understood; else NULL */
    const char *fail_kernel;         /* the name in it */
    uint64_t fail_number, fail_seed; /* struct mm_fail */
    bool is_checked;                 /* MM_CHECK=1 */
    unsigned check_exitcode;         /* exit status of a process in which a checked run found something; 0: unchanged */
    enum mm_stats_form stats;
    const char *stats_file; /* patterns (inspect.h); NULL: standard error */
    const char *trace;      /* pattern of a file name; NULL: not traced */
    const char *profile;    /* likewise */
    const char *heap_map;   /* pattern of a file name (inspect.h); NULL: no picture */
    const char *map_series; /* likewise */
};

/* Reads and checks all MM_* variables, once per process, and reports the wrong ones. */
const struct mm_host_env *mm_host_env_get(void);

/* Parses "<digits>[KMGT]" with a value above 0 (the largest value if it does not fit into 64 bits), or "<1..100>%". Returns false, and writes
 * nothing, if `text` is neither. */
bool mm_host_env_try_size(const char *text, struct mm_host_env_size *size);
/* Parses "<digits>" with a value of at most `most`. Returns false, and writes nothing, if `text` is something else. */
bool mm_host_env_try_number(const char *text, unsigned most, unsigned *number);

#endif
