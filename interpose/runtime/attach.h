/* Brings kernels and heaps together: which context a launch goes to, whether its kernel's module wants a
 * heap, one heap per context.
 */
#ifndef MM_INTERPOSE_ATTACH_H
#define MM_INTERPOSE_ATTACH_H

#include "interpose/runtime/handles.h"
#include "interpose/runtime/known.h"
#include "runtime/host/driver.h"

/* The rare path of mm_attach_before_launch. */
void mm_attach_first_launch(const struct mm_driver *d, CUfunction kernel, CUcontext context);

/* Says, once in a process, that a driver call failed and a kernel is launched without a look at it. */
void mm_attach_failed(const struct mm_driver *d, const char *call, CUresult code);

/* To be called before anything that makes `kernel` (CUfunction or CUkernel) run. A stream that was created
 * decides the context, the default streams (NULL, legacy, per thread) mean the current one; `context`,
 * if not NULL, overrules both (graph nodes). */
static inline void mm_attach_before_launch(const struct mm_driver *d, CUfunction kernel, CUstream stream,
                                           CUcontext context) {
    if (!d) return;
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
    if (context && kernel && !mm_known_has(kernel, context)) mm_attach_first_launch(d, kernel, context);
}

/* What the program was handed; context: see mm_handle_record. */
void mm_attach_record(const void *handle, enum mm_handle_kind kind, const void *owner, CUcontext context);
struct mm_handle mm_attach_find(const void *handle);

/* A module or library is about to be unloaded. */
void mm_attach_forget_owner(const void *owner);
/* A context may be about to end (NULL: none). Its pairs and handles are forgotten before the driver's call, since
 * afterwards another thread may be handed the same handle anew; its heap goes after the call, as kernels may be
 * running until then, and only if it did end. In between, first launches under this handle wait. */
struct context;
struct context *mm_attach_ending(CUcontext context);
/* To be called once with mm_attach_ending's answer. */
void mm_attach_ended(const struct mm_driver *d, struct context *context, bool has_ended);
/* Primary context of a device, if it is active and we know of any context; else NULL. */
CUcontext mm_attach_primary_of(const struct mm_driver *d, CUdevice device);

/* cudaLimitMallocHeapSize of a context, as the program set it; false if it did not. */
void mm_attach_set_limit(CUcontext context, uint64_t bytes);
bool mm_attach_get_limit(CUcontext context, uint64_t *bytes);
/* Bytes of the context's heap; false if none was made yet. */
bool mm_attach_heap_bytes(CUcontext context, uint64_t *bytes);

#endif
