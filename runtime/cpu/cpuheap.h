/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CPU build of the allocator: the same core over a heap in the process's own memory, for tests and for
 * machines without a GPU.
 */
#ifndef MM_CPU_CPUHEAP_H
#define MM_CPU_CPUHEAP_H

#include "runtime/core/image.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mm_cpu_heap {
    struct mm_heap_ref ref;
    struct mm_layout layout;
    void *user_map, *metadata;
    uint64_t user_map_bytes;
};

/* Creates a heap of `segments` reserved segments, of which the first `mapped` can be used. User memory begins at a multiple of align_bytes (a power of two, at
 * least the size of a segment). Returns 0, or -1 with errno set. */
int mm_cpu_heap_create(struct mm_cpu_heap *heap, uint64_t segments, uint64_t mapped, uint64_t align_bytes);
void mm_cpu_heap_destroy(struct mm_cpu_heap *heap);

/* Makes *heap a view of a copy of another heap's metadata (for example of a GPU's), in which h is the header, and replaces the addresses in it by addresses in
 * the copy. The view may be checked, drained and counted, but not used to allocate. The caller still owns the copy, and must not destroy *heap. Returns 0,
 * or -1 if these are not metadata of this version. */
int mm_cpu_heap_adopt(struct mm_cpu_heap *heap, struct mm_heap *h);

/* The entry points of device code (runtime/device.cu), for a CPU heap. Thread-safe. */
void *mm_cpu_malloc(struct mm_cpu_heap *heap, size_t bytes);
void *mm_cpu_aligned_malloc(struct mm_cpu_heap *heap, size_t bytes, size_t align);
void mm_cpu_free(struct mm_cpu_heap *heap, void *p);
uint64_t mm_cpu_usable_size(struct mm_cpu_heap *heap, const void *p);

/* The number of misuses of a kind; the number of requests that got NULL. */
uint64_t mm_cpu_misuse_count(const struct mm_cpu_heap *heap, enum mm_misuse kind);
uint64_t mm_cpu_null_count(const struct mm_cpu_heap *heap);

/* No other thread may be in the allocator. Retires all blocks whose slices are all free, so that in a heap without live memory all segments are unowned. */
void mm_cpu_heap_drain_quiescent(struct mm_cpu_heap *heap);

/* No other thread may be in the allocator. Runs mm_heap_check_quiescent (runtime/check.h). Returns NULL if the invariants hold, else a description of
 * the fault in `why` (bytes: its size). live_bytes: if not NULL, receives the bytes of live slices, spans and runs. */
const char *mm_cpu_heap_check_quiescent(const struct mm_cpu_heap *heap, char *why, size_t why_bytes, uint64_t *live_bytes);

/* Describes a fault in `why` (bytes: its size). Returns it, or NULL if there is none. */
struct mm_check;
const char *mm_cpu_check_text(const struct mm_check *check, char *why, size_t why_bytes);

/* The number of unowned segments. */
uint64_t mm_cpu_heap_free_segments(const struct mm_cpu_heap *heap);

#ifdef __cplusplus
}
#endif

#endif
