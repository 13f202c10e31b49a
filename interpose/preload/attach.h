/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Connects kernels and heaps: finds a launch's context, whether the kernel's module has a heap variable, and the context's heap with the
 * module's allocator (contexts.h). attach.c: first launches. watch.c: watched launches. requests.c: the hooks' other requests.
 */
#ifndef MM_INTERPOSE_ATTACH_H
#define MM_INTERPOSE_ATTACH_H

#include "include/mm.h"
#include "interpose/preload/handles.h"
#include "interpose/preload/kernel_cache.h"
#include "runtime/host/driver.h"
#include "runtime/host/grower.h"

/* The rare paths of mm_attach_before_launch are cold functions, so that a launch of a kernel that is in the kernel cache touches few cache lines. */
__attribute__((cold)) void mm_attach_first_launch(const struct mm_driver *d, CUfunction kernel, CUcontext context);

/* Reports, once per process, that a driver call failed and that a kernel is launched without a heap. */
__attribute__((cold)) void mm_attach_failed(const struct mm_driver *d, const char *call, CUresult code);

/* Call after code that allocates was loaded. Prepares a heap of the default allocator for the current context if it has none (mm_host_heap_try_prepare), since
 * the first launch may come while another kernel occupies the device. If no context is current, a context in which some other kernel is launched first is
 * prepared before that launch. */
void mm_attach_prepare(const struct mm_driver *d);

/* Must be called before anything that runs `kernel` (a CUfunction or CUkernel). A stream that was created determines the context; the default
 * streams (NULL, legacy, per thread) mean the current context. `context`, if not NULL, overrules both (graph nodes). */
static inline __attribute__((always_inline)) void mm_attach_before_launch(const struct mm_driver *d, CUfunction kernel, CUstream stream, CUcontext context) {
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

/* Checked runs, and pictures after each launch, watch every launch into a context with a heap. */
extern bool mm_attach_is_watching;
/* Call before `kernel` is launched in `stream`. If it returns true, call mm_attach_watched after the launch; no other launch is watched until then.
 * Returns false if the stream captures. */
__attribute__((cold)) bool mm_attach_try_watch(const struct mm_driver *d, CUfunction kernel, CUstream stream);
__attribute__((cold)) void mm_attach_watched(const struct mm_driver *d, CUstream stream, bool is_launched);

/* Records a handle that the program got from the driver; for `context` see mm_handle_record. */
void mm_attach_record(const void *handle, enum mm_handle_kind kind, const void *owner, CUcontext context);
struct mm_handle mm_attach_find(const void *handle);

/* A module or library is about to be unloaded. */
void mm_attach_forget_owner(const void *owner);
/* Call before the driver's call that may end a context (NULL: no context). Forgets the context's kernels and handles, since another thread may get
 * the same handle for a new context as soon as the driver's call returns. The heap is dropped only after the call, by mm_attach_ended, since kernels
 * may run until then. In between, first launches under this handle wait. is_certain: the context ends if the call succeeds; then a kernel that
 * waits for memory is refused at once. Returns what mm_attach_ended takes. */
struct context;
struct context *mm_attach_ending(CUcontext context, bool is_certain);
/* Call once after the driver's call, with the result of mm_attach_ending. */
void mm_attach_ended(const struct mm_driver *d, struct context *context, bool has_ended);
/* A green context is about to end. Its home, with the heap, does not. */
void mm_attach_green_ends(CUcontext context);
/* For cuCtxAttach, and for cuCtxDetach, which ends the context unless mm_attach_detaches returns true. */
void mm_attach_attached(CUcontext context);
bool mm_attach_detaches(CUcontext context);
/* The primary context of a device, or NULL if it is inactive or libmm has seen no context yet. */
CUcontext mm_attach_primary_of(const struct mm_driver *d, CUdevice device);

/* cudaLimitMallocHeapSize of a context, as the program set it. mm_attach_get_limit returns false if the program did not set it. */
void mm_attach_set_limit(CUcontext context, uint64_t bytes);
bool mm_attach_get_limit(CUcontext context, uint64_t *bytes);
bool mm_attach_has_heap(CUcontext context);
/* Grows each heap of the context to at least `bytes`, and keeps that. Returns false if the memory is not available for one; the others keep theirs as spare
 * memory. */
bool mm_attach_try_ensure(const struct mm_driver *d, CUcontext context, uint64_t bytes);

/* The driver has no memory for `bytes` in the current context: makes the heaps on its device give memory back. Returns whether they gave
 * any, so that the driver's call should be repeated. */
bool mm_attach_give_back(const struct mm_driver *d, uint64_t bytes);

/* Calls work(d, heap, argument, error) with each heap of the current context, in the order in which they were created, also after a failure. No other
 * host thread changes them meanwhile, and the thread's capture mode is relaxed. Returns MM_OK, or an error of mm.h. */
typedef bool mm_attach_work(const struct mm_driver *d, struct mm_host_heap *heap, void *argument, struct mm_driver_error *error);
enum mm_result mm_attach_with_heaps(const struct mm_driver *d, mm_attach_work *work, void *argument);

/* Synchronises the home of `context`, which is current: the context whose heap it uses. */
bool mm_attach_try_synchronize(const struct mm_driver *d, CUcontext context);

/* Kernels may have ended: prints the misuse that they reported. */
void mm_attach_report(void);

/* The program has synchronised a context (NULL: the current one): its heap does work that must wait for kernels. */
void mm_attach_idle(const struct mm_driver *d, CUcontext context);

/* `device` gets access to the memory of context `peer`, or loses it. */
void mm_attach_access(const struct mm_driver *d, CUcontext peer, CUdevice device, bool is_allowed);

#endif
