/* What programs call: the host's part of mm.h. mmhook.o leads here, or the program's own dlsym. */
#include <stddef.h>
#include <string.h>

#include "interpose/runtime/attach.h"
#include "interpose/runtime/resolve.h"

#define EXPORT __attribute__((visibility("default")))

static bool try_count(const struct mm_driver *d, struct mm_host_heap *heap, void *counts, struct mm_driver_error *error) {
    return mm_host_heap_try_count(d, heap, (struct mm_host_counts *)counts, error);
}

EXPORT int mm_get_statistics(struct mm_statistics *s) {
    struct mm_host_counts n;
    if (!s || s->struct_bytes < sizeof *s) return MM_ERROR_ARGUMENT; /* the first version is the shortest */
    const enum mm_result result = mm_attach_with_heap(mm_driver_get(), try_count, &n);
    if (result != MM_OK) return result;
    const struct mm_statistics found = {
        s->struct_bytes,
        n.heap_bytes,
        n.metadata_bytes,
        n.reserved_bytes,
        n.null_count,
        n.null_first_bytes,
        n.misuse[MM_MISUSE_FOREIGN],
        n.misuse[MM_MISUSE_NOT_ALLOCATED],
        n.misuse[MM_MISUSE_INTERIOR],
        n.misuse[MM_MISUSE_NEVER],
        n.misuse[MM_MISUSE_DOUBLE_FREE],
    };
    memset(s, 0, s->struct_bytes); /* what a later version asks for and we do not know */
    *s = found;
    return MM_OK;
}

static bool try_reset(const struct mm_driver *d, struct mm_host_heap *heap, void *nothing, struct mm_driver_error *error) {
    (void)nothing;
    return mm_host_heap_try_reset(d, heap, error);
}

EXPORT int mm_reset(void) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext context = NULL;
    if (!d || d->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return d ? MM_ERROR_CUDA : MM_ERROR_NO_HEAP;
    if (!mm_attach_has_heap(context)) return MM_ERROR_NO_HEAP;
    if (d->cuCtxSynchronize() != CUDA_SUCCESS) return MM_ERROR_CUDA; /* not under the lock: kernels may wait for memory */
    return mm_attach_with_heap(d, try_reset, NULL);
}
