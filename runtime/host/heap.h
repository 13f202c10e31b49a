/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap of one CUDA context, as the host sees it.
 *
 * A heap is made once, at the first launch of a kernel that needs it, and is never made anew in the same
 * context. What could be had decides its kind:
 *   MM_HOST_HEAP_MAPPED  addresses for the whole device, chunks of memory behind some of them, more on request
 *   MM_HOST_HEAP_FIXED   one allocation, where the driver has no virtual memory management
 *   MM_HOST_HEAP_EMPTY   a valid heap without a segment: every malloc answers NULL
 *   MM_HOST_HEAP_ABSENT  nothing to publish: kernels that allocate stop by their assertion
 * A MAPPED heap has a thread that makes it grow (grower.h), and a lock, which whoever changes its chunks holds. Functions here
 * take it themselves; create, close, reopen and drop are for one caller at a time.
 */
#ifndef MM_HOST_HEAP_H
#define MM_HOST_HEAP_H

#include <pthread.h>

#include "runtime/host/chunks.h"

enum mm_host_heap_kind { MM_HOST_HEAP_ABSENT, MM_HOST_HEAP_EMPTY, MM_HOST_HEAP_FIXED, MM_HOST_HEAP_MAPPED };

/* Memory of the host that the device reaches too. */
struct mm_host_shared {
    struct mm_mailbox mailbox;
    struct mm_wanted_chunk wanted[MM_HOST_CHUNKS_MAX];  /* trim.c */
    uint64_t leaves[MM_TREE_BITS_MAX / 64];
    char zeros[MM_HOST_ZEROS_BYTES]; /* nobody writes them (fresh.c) */
};

/* What is to be written when the heap ends (inspect.h). */
struct mm_host_seen {
    struct mm_host_stats *stats;
    bool has_stats;
    struct mm_leaks *leaks;
    bool has_leaks;
    char *map; /* NULL: none */
    size_t map_bytes;
    struct mm_driver_error error; /* why there is less */
};

struct mm_host_heap {
    enum mm_host_heap_kind kind;
    CUdevice device;
    CUcontext context;
    struct mm_heap_ref ref; /* see mm_host_heap_published; ref.heap == 0 if absent */
    CUdeviceptr guard;      /* struct mm_guard, with MM_CHECK=1 */
    struct mm_host_kernels *kernels; /* kernels.h; NULL: not known which kernel is which */
    struct mm_layout layout;
    struct mm_vm_range user, metadata;
    bool is_prepared;      /* mm_host_heap_try_prepare */
    bool is_zeroed;        /* the fixed part of the metadata (layout.h), and nobody has written there since */

    pthread_mutex_t lock; /* guards what follows */
    struct mm_host_chunks chunks;
    uint64_t ceiling_segments; /* it may have so many */
    uint64_t promised_segments; /* MM_HEAP_SIZE or the program's own limit: MM_TRIM=SECONDS leaves so many mapped */
    uint64_t reserve_bytes;    /* to be left free on the device */
    char refusal[160];         /* why it did not grow the last time that it did not */
    uint64_t steps, given_back_bytes;
    unsigned reports_said; /* of the mailbox's (report.h) */
    bool is_summed_up;
    struct mm_host_seen seen;

    struct mm_host_shared *shared; /* NULL: it does not grow */
    struct mm_host_grower {
        const struct mm_driver *driver;
        pthread_t thread;
        bool is_running;
        int is_closed; /* atomic: the end is near, nobody gets anything any more */
        uint64_t null_bytes_at_end, answer_at_end; /* the mailbox's, before that */
        uint64_t reported; /* of the mailbox's null_bytes, by a thread that has ended: one that is quick comes before the next begins */
    } grower;
    struct mm_host_trim { /* trim.c */
        CUfunction retire, claim; /* NULL: not loaded; nothing can be given back but what is spare */
        bool is_refused;         /* and they cannot be */
        CUstream stream;
        unsigned pending; /* chunks of shared->wanted that the device may still claim */
        bool is_idle_done; /* nothing has happened since it was trimmed */
        bool has_looked;   /* MM_TRIM=SECONDS: look_hash is that of the metadata at the last look, since when nothing was launched */
        uint64_t look_hash;
    } trim;
};

/* Makes ready in *heap, which is zero, what the heap of the current context needs whatever its size: addresses, metadata, and memory of the host
 * that the device reaches. These take ten times as long next to a kernel that occupies the device and polls the host's memory: each change
 * of the device's page tables takes 8 to 30 ms there. Returns false, without a message, if not all of it can be had; *heap is zero then. */
bool mm_host_heap_try_prepare(const struct mm_driver *d, struct mm_host_heap *heap);

/* Makes the heap of the current context in *heap, which is zero, or prepared there. floor_bytes: the program's own limit
 * (cudaLimitMallocHeapSize). Never fails: see the kinds. Says one line if it is less than was asked for. */
void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t floor_bytes);

/* What the variable of a module gets. */
struct mm_heap_ref mm_host_heap_published(const struct mm_host_heap *heap);

/* Reads or writes the heap variable of a module at `variable`, on a stream of its own. */
bool mm_host_ref_try_read(const struct mm_driver *d, CUdeviceptr variable, struct mm_heap_ref *ref,
                          struct mm_driver_error *error);
bool mm_host_ref_try_write(const struct mm_driver *d, CUdeviceptr variable, const struct mm_heap_ref *ref,
                           struct mm_driver_error *error);

/* Sees to it that the heap has at least so many bytes. Returns whether it has. */
bool mm_host_heap_try_ensure(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

/* Gives memory that is free back to the driver, about so many bytes if there are. Returns how many. The thread's capture mode
 * is relaxed. */
uint64_t mm_host_heap_give_back(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

/* While no kernel runs in the heap's context, which is current, what would wait for one is done, if there is anything. The thread's
 * capture mode is relaxed. */
bool mm_host_heap_wants_idle(const struct mm_host_heap *heap);
void mm_host_heap_idle(const struct mm_driver *d, struct mm_host_heap *heap);

/* The program gave a device access to the memory of the heap's context, or took it away. */
void mm_host_heap_access(const struct mm_driver *d, struct mm_host_heap *heap, CUdevice device, bool is_allowed);

/* What a heap has, and what happened in it. */
struct mm_host_counts {
    uint64_t heap_bytes, metadata_bytes, reserved_bytes; /* mapped: segments, and what is ours; addresses */
    uint64_t null_count, null_first_bytes, null_first_grid; /* the latter + 1; 0: not known */
    uint64_t misuse[MM_MISUSE_KINDS];
};
/* Beside whatever runs: no kernel is waited for. The heap is not absent. */
bool mm_host_heap_try_count(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_host_counts *counts,
                            struct mm_driver_error *error);

/* The heap is about to end: prints what kernels have told of misuse (report.h), and how many there were in all if that is more. The
 * context is there, perhaps not current. */
void mm_host_heap_sum_up(const struct mm_driver *d, struct mm_host_heap *heap);

/* Makes the heap what it was when it was made, but for the memory that it has got meanwhile, which is free in it. The caller has
 * synchronised the context and sees to it that no kernel is launched there before this returns. If it fails, every malloc may
 * answer NULL until it is done again. */
bool mm_host_heap_try_reset(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);

/* Before the context ends: who waits for memory is told that there will be none. And if it did not end, closed or not. */
void mm_host_heap_close(struct mm_host_heap *heap);
void mm_host_heap_reopen(const struct mm_driver *d, struct mm_host_heap *heap);

/* Ends the heap's thread, within MM_HOST_STOP_MS. Returns false if it would not, and then the heap must stay as it is. */
bool mm_host_heap_try_stop(struct mm_host_heap *heap);

/* Gives addresses and memory back after the heap's context has ended. Quiet: the driver may be gone. Returns whether
 * *heap may be freed. */
bool mm_host_heap_drop(const struct mm_driver *d, struct mm_host_heap *heap);

#endif
