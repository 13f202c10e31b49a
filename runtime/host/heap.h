/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The host's side of a heap of a CUDA context.
 *
 * A heap is created once in a context, at the first launch of a kernel that needs one with its allocator (its kinds: state.h). A MAPPED heap has a
 * thread that makes it grow (grower.h). The lock of a heap protects its chunks; the functions here take it. Create, close, reopen and drop must not
 * run concurrently.
 */
#ifndef MM_HOST_HEAP_H
#define MM_HOST_HEAP_H

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"

struct mm_host_heap;

/* A heap that is absent, to be prepared or created; NULL: no memory. free() frees it. */
struct mm_host_heap *mm_host_heap_new(void);

/* Whether there is none: it was not created, or that failed. Kernels that allocate stop then. */
bool mm_host_heap_is_absent(const struct mm_host_heap *heap);
CUdevice mm_host_heap_device(const struct mm_host_heap *heap);
/* The names of its kernels; NULL: unknown. */
struct mm_host_kernels *mm_host_heap_kernels(const struct mm_host_heap *heap);

/* Prepares in *heap, which is zero, what the heap of the current context needs regardless of its size: addresses, metadata, and host memory that the
 * device can access. These take ten times as long while a kernel occupies the device and polls host memory: each change of the device's page tables
 * takes 8 to 30 ms then. Returns false, without a message, if a part of it is not available; *heap is zero then. */
bool mm_host_heap_try_prepare(const struct mm_driver *d, struct mm_host_heap *heap);

/* Creates the heap of the current context in *heap, which is zero or, for the default allocator, prepared. floor_bytes: the program's limit
 * (cudaLimitMallocHeapSize). sibling: the name of its allocator; NULL: the default. Never fails: see the kinds. Prints one line if the heap has less than was
 * requested. */
void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t floor_bytes, const char *sibling);
/* The name of its allocator; NULL: the default. */
const char *mm_host_heap_sibling(const struct mm_host_heap *heap);

/* The value for the heap variable of a module: heap->ref, closed (closed.h) in a checked run, with MM_FILL, MM_FAIL or MM_TRACE, and if the heap is empty. */
struct mm_heap_ref mm_host_heap_published(const struct mm_host_heap *heap);

/* Grows the heap to at least `bytes` bytes. Returns whether it has them; if not, what it got is spare. */
bool mm_host_heap_try_ensure(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);
/* The heap has `bytes` bytes by the program's limit: MM_TRIM=SECONDS leaves them mapped. */
void mm_host_heap_promise(struct mm_host_heap *heap, uint64_t bytes);

/* Gives about `bytes` bytes of free memory back to the driver, or what there is. Returns the bytes given back. The thread's capture mode is relaxed. */
uint64_t mm_host_heap_give_back(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

/* Whether there is work that must wait for kernels: loading our own kernels (mm_trim_load). mm_host_heap_idle does it. It is called when no kernel runs
 * in the heap's context, which is current. The thread's capture mode is relaxed. */
bool mm_host_heap_wants_idle(const struct mm_host_heap *heap);
void mm_host_heap_idle(const struct mm_driver *d, struct mm_host_heap *heap);

/* The program gave a device access to the memory of the heap's context, or revoked it. */
void mm_host_heap_access(const struct mm_driver *d, struct mm_host_heap *heap, CUdevice device, bool is_allowed);

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
