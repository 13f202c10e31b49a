/* The heap of one CUDA context, as the host sees it.
 *
 * A heap is made once, at the first launch of a kernel that needs it, and is never made anew in the same
 * context. What could be had decides its kind:
 *   MM_HOST_HEAP_MAPPED  addresses for the whole device, mapped_segments of them with memory behind
 *   MM_HOST_HEAP_EMPTY   a valid heap without a segment: every malloc answers NULL
 *   MM_HOST_HEAP_ABSENT  nothing to publish: kernels that allocate stop by their assertion
 * All functions want the heap's context to be current but mm_host_heap_drop, which comes after its end.
 * None of them is thread-safe: one caller at a time for one heap.
 */
#ifndef MM_HOST_HEAP_H
#define MM_HOST_HEAP_H

#include "runtime/core/layout.h"
#include "runtime/host/vm.h"

enum mm_host_heap_kind { MM_HOST_HEAP_ABSENT, MM_HOST_HEAP_EMPTY, MM_HOST_HEAP_MAPPED };

/* One driver allocation of user memory, and the slice bits that had to be mapped for it (maybe none). */
struct mm_host_chunk {
    uint64_t first_segment, segment_count;
    CUdeviceptr bits;
    uint64_t bits_bytes;
};

struct mm_host_heap {
    enum mm_host_heap_kind kind;
    CUdevice device;
    struct mm_heap_ref ref; /* what modules get; ref.heap == 0 if absent */
    struct mm_layout layout;
    struct mm_vm_range user, metadata;
    uint64_t fixed_mapped_bytes; /* of the metadata, one mapping */
    uint64_t bits_mapped_bytes;  /* behind it */
    uint64_t mapped_segments;
    unsigned chunk_count;
    struct mm_host_chunk chunks[MM_HOST_CHUNKS_MAX];
};

/* Makes the heap of the current context in *heap. floor_bytes: the program's own limit
 * (cudaLimitMallocHeapSize). Never fails: see the kinds. Says one line if it is less than was asked for. */
void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t floor_bytes);

/* Reads or writes the heap variable of a module at `variable`, on a stream of its own. */
bool mm_host_ref_try_read(const struct mm_driver *d, CUdeviceptr variable, struct mm_heap_ref *ref,
                          struct mm_driver_error *error);
bool mm_host_ref_try_write(const struct mm_driver *d, CUdeviceptr variable, const struct mm_heap_ref *ref,
                           struct mm_driver_error *error);

/* Gives addresses and memory back after the heap's context has ended. Quiet: the driver may be gone. */
void mm_host_heap_drop(const struct mm_driver *d, struct mm_host_heap *heap);

#endif
