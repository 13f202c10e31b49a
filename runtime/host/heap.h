/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The host's side of the heap of one CUDA context.
 *
 * A heap is created once in a context, at the first launch of a kernel that needs it. Its kind depends on what the driver provided:
 *   MM_HOST_HEAP_MAPPED  addresses for the whole device are reserved, chunks of memory are mapped at some of them, and more on request
 *   MM_HOST_HEAP_FIXED   one allocation: virtual memory management is missing, or failed
 *   MM_HOST_HEAP_EMPTY   a valid heap without a segment: every malloc returns NULL
 *   MM_HOST_HEAP_ABSENT  no heap: kernels that allocate stop with their assertion
 * A MAPPED heap has a thread that makes it grow (grower.h). The lock of a heap protects its chunks; the functions here take it. Create, close, reopen
 * and drop must not run concurrently.
 */
#ifndef MM_HOST_HEAP_H
#define MM_HOST_HEAP_H

#include <pthread.h>

#include "runtime/host/chunks.h"

enum mm_host_heap_kind { MM_HOST_HEAP_ABSENT, MM_HOST_HEAP_EMPTY, MM_HOST_HEAP_FIXED, MM_HOST_HEAP_MAPPED };

/* Host memory that the device can access. */
struct mm_host_shared {
    struct mm_mailbox mailbox;
    struct mm_wanted_chunk wanted[MM_HOST_CHUNKS_MAX]; /* trim.c */
    uint64_t leaves[MM_TREE_BITS_MAX / 64];
    char zeros[MM_HOST_ZEROS_BYTES]; /* never written; source of copies (fresh.c) */
};

/* Results that are written when the heap ends (inspect.h). */
struct mm_host_seen {
    struct mm_host_stats *stats;
    bool has_stats;
    struct mm_leaks *leaks;
    bool has_leaks;
    char *map; /* NULL: none */
    size_t map_bytes;
    struct mm_driver_error error; /* why something is missing */
};

struct mm_host_heap {
    enum mm_host_heap_kind kind;
    CUdevice device;
    CUcontext context;
    struct mm_heap_ref ref;          /* see mm_host_heap_published; ref.heap is 0 if the heap is absent */
    CUdeviceptr guard;               /* struct mm_guard, with MM_CHECK=1; else 0 */
    struct mm_host_kernels *kernels; /* names of kernels (kernels.h); NULL: unknown */
    struct mm_layout layout;
    struct mm_vm_range user, metadata;
    bool is_prepared; /* by mm_host_heap_try_prepare */
    bool is_zeroed;   /* the fixed part of the metadata (layout.h) was zeroed, and not written since */

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

/* Prepares in *heap, which is zero, what the heap of the current context needs regardless of its size: addresses, metadata, and host memory that the
 * device can access. These take ten times as long while a kernel occupies the device and polls host memory: each change of the device's page tables
 * takes 8 to 30 ms then. Returns false, without a message, if a part of it is not available; *heap is zero then. */
bool mm_host_heap_try_prepare(const struct mm_driver *d, struct mm_host_heap *heap);

/* Creates the heap of the current context in *heap, which is zero or prepared. floor_bytes: the program's limit (cudaLimitMallocHeapSize). Never
 * fails: see the kinds. Prints one line if the heap has less than was requested. */
void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t floor_bytes);

/* The value for the heap variable of a module: heap->ref, closed (closed.h) in a checked run or with MM_FILL. */
struct mm_heap_ref mm_host_heap_published(const struct mm_host_heap *heap);

/* Reads or writes the heap variable of a module at `variable`, on a separate stream. */
bool mm_host_ref_try_read(const struct mm_driver *d, CUdeviceptr variable, struct mm_heap_ref *ref, struct mm_driver_error *error);
bool mm_host_ref_try_write(const struct mm_driver *d, CUdeviceptr variable, const struct mm_heap_ref *ref, struct mm_driver_error *error);

/* Grows the heap to at least `bytes` bytes, and keeps them mapped with MM_TRIM=SECONDS. Returns whether it has them. */
bool mm_host_heap_try_ensure(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

/* Gives about `bytes` bytes of free memory back to the driver, or what there is. Returns the bytes given back. The thread's capture mode is relaxed. */
uint64_t mm_host_heap_give_back(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

/* Whether there is work that must wait for kernels: loading our own kernels (mm_trim_load). mm_host_heap_idle does it. It is called when no kernel runs
 * in the heap's context, which is current. The thread's capture mode is relaxed. */
bool mm_host_heap_wants_idle(const struct mm_host_heap *heap);
void mm_host_heap_idle(const struct mm_driver *d, struct mm_host_heap *heap);

/* The program gave a device access to the memory of the heap's context, or revoked it. */
void mm_host_heap_access(const struct mm_driver *d, struct mm_host_heap *heap, CUdevice device, bool is_allowed);

/* A heap's memory, and counts of events. */
struct mm_host_counts {
    uint64_t heap_bytes, metadata_bytes, reserved_bytes;    /* mapped segments; mapped metadata; reserved addresses */
    uint64_t null_count, null_first_bytes, null_first_grid; /* null_first_grid: launch number + 1; 0: unknown */
    uint64_t misuse[MM_MISUSE_KINDS];
};
/* Waits for no kernel. The heap is not absent. */
bool mm_host_heap_try_count(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_host_counts *counts, struct mm_driver_error *error);

/* The heap is about to end: prints the reports of misuse (report.h), and the number of misuses if not all of them were reported. The context
 * exists, but may not be current. */
void mm_host_heap_sum_up(const struct mm_driver *d, struct mm_host_heap *heap);

/* Resets the heap to its state after creation, except that it keeps its memory, all of it free. The caller has synchronised the context and ensures
 * that no kernel is launched there before this returns. On failure malloc may return NULL until a later reset succeeds. */
bool mm_host_heap_try_reset(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);

/* Before the context ends: refuses all threads that wait for memory, and later ones. Reopen: the context did not end; it does nothing if the heap is
 * not closed. */
void mm_host_heap_close(struct mm_host_heap *heap);
void mm_host_heap_reopen(const struct mm_driver *d, struct mm_host_heap *heap);

/* Closes the heap and ends its thread, within MM_HOST_STOP_MS. Returns false if the thread did not end; then the heap must not be changed. */
bool mm_host_heap_try_stop(struct mm_host_heap *heap);

/* Gives addresses and memory back after the heap's context has ended. Ignores errors, since the driver may be gone. Returns whether *heap may be
 * freed. */
bool mm_host_heap_drop(const struct mm_driver *d, struct mm_host_heap *heap);

#endif
