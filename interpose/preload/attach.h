/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Brings kernels and heaps together: which context a launch goes to, whether its kernel's module wants a
 * heap, one heap per context.
 */
#ifndef MM_INTERPOSE_ATTACH_H
#define MM_INTERPOSE_ATTACH_H

#include "include/mm.h"
#include "interpose/preload/handles.h"
#include "interpose/preload/kernel_cache.h"
#include "runtime/host/driver.h"
#include "runtime/host/grower.h"

/* What is rare in mm_attach_before_launch is cold, so that a launch of a known kernel runs through few lines of the cache. */
__attribute__((cold)) void mm_attach_first_launch(const struct mm_driver *d, CUfunction kernel, CUcontext context);

/* Says, once in a process, that a driver call failed and a kernel is launched without a look at it. */
__attribute__((cold)) void mm_attach_failed(const struct mm_driver *d, const char *call, CUresult code);

/* Code that allocates was loaded: the heap of the current context, if there is none, is prepared (mm_host_heap_try_prepare), as the first launch
 * may come next to a kernel that occupies the device. If no context is current, those in which some other kernel is launched first are
 * prepared before that. */
void mm_attach_prepare(const struct mm_driver *d);

/* To be called before anything that makes `kernel` (CUfunction or CUkernel) run. A stream that was created
 * decides the context, the default streams (NULL, legacy, per thread) mean the current one; `context`,
 * if not NULL, overrules both (graph nodes). */
static inline __attribute__((always_inline)) void mm_attach_before_launch(const struct mm_driver *d, CUfunction kernel, CUstream stream,
                                           CUcontext context) {
    if (!d) return;
    mm_grower_before_launch();
    if (!context) {
        bool created = (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD;
        if (!created || d->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) {
            CUresult r = d->cuCtxGetCurrent(&context);
            if (r != CUDA_SUCCESS) {
                mm_attach_failed(d, "cuCtxGetCurrent", r);
                return;
            }
        }
    }
    if (context && kernel && !mm_kernel_cache_has(kernel, context)) mm_attach_first_launch(d, kernel, context);
}

/* Checked runs, and pictures after each launch, look at every launch into a context with a heap. */
extern bool mm_attach_is_watching;
/* `kernel` is about to be launched in `stream`. Returns whether mm_attach_watched is to be called after that, until when no other launch is
 * watched; not so if the stream captures. */
__attribute__((cold)) bool mm_attach_try_watch(const struct mm_driver *d, CUfunction kernel, CUstream stream);
__attribute__((cold)) void mm_attach_watched(const struct mm_driver *d, CUstream stream, bool is_launched);

/* What the program was handed; context: see mm_handle_record. */
void mm_attach_record(const void *handle, enum mm_handle_kind kind, const void *owner, CUcontext context);
struct mm_handle mm_attach_find(const void *handle);

/* A module or library is about to be unloaded. */
void mm_attach_forget_owner(const void *owner);
/* A context may be about to end (NULL: none). Its pairs and handles are forgotten before the driver's call, since
 * afterwards another thread may be handed the same handle anew; its heap goes after the call, as kernels may be
 * running until then, and only if it did end. In between, first launches under this handle wait. is_certain: it ends if the call
 * succeeds, so that a kernel that waits for memory is told at once that there will be none. */
struct context;
struct context *mm_attach_ending(CUcontext context, bool is_certain);
/* To be called once with mm_attach_ending's answer. */
void mm_attach_ended(const struct mm_driver *d, struct context *context, bool has_ended);
/* A green context is about to end: nothing of ours does with it. */
void mm_attach_green_ends(CUcontext context);
/* cuCtxAttach, and cuCtxDetach, which ends the context unless this answers that it stays. */
void mm_attach_attached(CUcontext context);
bool mm_attach_detaches(CUcontext context);
/* Primary context of a device, if it is active and we know of any context; else NULL. */
CUcontext mm_attach_primary_of(const struct mm_driver *d, CUdevice device);

/* cudaLimitMallocHeapSize of a context, as the program set it; false if it did not. */
void mm_attach_set_limit(CUcontext context, uint64_t bytes);
bool mm_attach_get_limit(CUcontext context, uint64_t *bytes);
bool mm_attach_has_heap(CUcontext context);
/* Sees to it that the context's heap, if it has one, has at least so many bytes. Returns false if that cannot be had. */
bool mm_attach_try_ensure(const struct mm_driver *d, CUcontext context, uint64_t bytes);

/* The driver has no memory for `bytes` in the current context: has the heaps on its device give some back. Returns whether
 * they did, and it is to be tried again. */
bool mm_attach_give_back(const struct mm_driver *d, uint64_t bytes);

/* Does work(d, heap, argument, error) with the heap of the current context, which nobody else on the host changes meanwhile; the
 * thread's capture mode is relaxed. Returns MM_OK, or an error of mm.h. */
typedef bool mm_attach_work(const struct mm_driver *d, struct mm_host_heap *heap, void *argument, struct mm_driver_error *error);
enum mm_result mm_attach_with_heap(const struct mm_driver *d, mm_attach_work *work, void *argument);

/* Synchronises the context that has the heap of `context`, which is current. */
bool mm_attach_try_synchronize(const struct mm_driver *d, CUcontext context);

/* Kernels may have ended: what they told of misuse is printed. */
void mm_attach_report(void);

/* The program has synchronised a context (NULL: the current one): its heap does what would have to wait for kernels. */
void mm_attach_idle(const struct mm_driver *d, CUcontext context);

/* `device` may reach the memory of context `peer` from now on, or no more. */
void mm_attach_access(const struct mm_driver *d, CUcontext peer, CUdevice device, bool is_allowed);

#endif
