/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the host knows of one heap of a CUDA context. heap.h creates and ends it; the other files of this folder do one thing with it each. */
#ifndef MM_HOST_STATE_H
#define MM_HOST_STATE_H

#include <pthread.h>

#include "runtime/host/chunks.h"
#include "runtime/host/map_frames.h"
#include "runtime/host/trace_write.h"

/* A heap's kind depends on what the driver provided:
 *   MM_HOST_HEAP_MAPPED  addresses for the whole device are reserved, chunks of memory are mapped at some of them, and more on request
 *   MM_HOST_HEAP_FIXED   one allocation: virtual memory management is missing, or failed
 *   MM_HOST_HEAP_EMPTY   a valid heap without a segment: every malloc returns NULL
 *   MM_HOST_HEAP_ABSENT  no heap: kernels that allocate stop
 */
enum mm_host_heap_kind { MM_HOST_HEAP_ABSENT, MM_HOST_HEAP_EMPTY, MM_HOST_HEAP_FIXED, MM_HOST_HEAP_MAPPED };

/* Host memory that the device can access. */
struct mm_host_shared {
    struct mm_mailbox mailbox;
    struct mm_wanted_chunk wanted[MM_HOST_CHUNKS_MAX]; /* trim.c */
    uint64_t leaves[MM_TREE_BITS_MAX / 64];
    char zeros[MM_HOST_ZEROS_BYTES]; /* never written; source of copies (fresh.c) */
};

/* The segments that hold so many bytes. */
static inline uint64_t mm_host_segments_of(uint64_t bytes) { return bytes / MM_SEGMENT_BYTES + (bytes % MM_SEGMENT_BYTES != 0); }

/* The contents of a file. */
struct mm_host_text {
    char *text; /* NULL: none */
    size_t bytes;
};

/* Results that are written when the heap ends (inspect.h). */
struct mm_host_seen {
    struct mm_host_stats *stats;
    bool has_stats;
    struct mm_leaks *leaks;
    bool has_leaks;
    bool has_fail;
    struct mm_fail fail;
    struct mm_host_text trace, profile;
    struct mm_trace_sum trace_sum;
    char *map; /* NULL: none */
    size_t map_bytes;
    struct mm_map_series series;
    struct mm_driver_error error; /* why something is missing */
};

struct mm_host_heap {
    enum mm_host_heap_kind kind;
    const char *sibling; /* the name of its allocator, if that is not the default: the host then has no kernels for it */
    CUdevice device;
    CUcontext context;
    struct mm_heap_ref ref;          /* see mm_host_heap_published; ref.heap is 0 if the heap is absent */
    CUdeviceptr guard;               /* struct mm_guard, with MM_CHECK=1; else 0 */
    CUdeviceptr trace;               /* struct mm_trace, with MM_TRACE or MM_PROFILE; else 0 */
    struct mm_host_kernels *kernels; /* names of kernels (kernels.h); NULL: unknown */
    struct mm_layout layout;
    struct mm_vm_range user, metadata;
    bool is_prepared; /* by mm_host_heap_try_prepare */

    pthread_mutex_t lock; /* protects the members below, except reports_said (report.c) and those that only the grower uses */
    struct mm_host_chunks chunks;
    uint64_t ceiling_segments;        /* the most it may have */
    uint64_t promised_segments;       /* by MM_HEAP_SIZE or the program's limit: MM_TRIM=SECONDS leaves this many mapped */
    uint64_t reserve_bytes;           /* device memory that it leaves free */
    char refusal[160];                /* why it last failed to grow */
    uint64_t steps, given_back_bytes; /* how often it grew; memory given back to the driver */
    unsigned reports_said;            /* number of the mailbox's reports that were printed (report.h) */
    bool is_summed_up;
    struct mm_host_seen seen;

    struct mm_host_shared *shared; /* NULL: the heap does not grow */
    struct mm_host_grower {
        const struct mm_driver *driver;
        pthread_t thread;
        bool is_running;
        int is_closed;                             /* atomic; tells the thread to end */
        uint64_t null_bytes_at_end, answer_at_end; /* contents of the mailbox before it was closed */
        uint64_t reported; /* null_bytes as the last thread left it. The next thread begins with this value, so a NULL between the two is reported */
    } grower;
    struct mm_host_trim {         /* trim.c */
        CUfunction retire, claim; /* NULL: not loaded; then only spare chunks can be given back */
        bool is_refused;          /* they cannot be loaded */
        CUstream stream;
        unsigned pending;  /* chunks of shared->wanted that the device may still claim */
        bool is_idle_done; /* no launch or request since the heap was trimmed */
        bool has_looked;   /* MM_TRIM=SECONDS: look_hash is the hash of the metadata at the last look, and nothing was launched since */
        uint64_t look_hash;
    } trim;
};

#endif
