/* What malloc and free nearly always do, as LTO IR: with -dlto it becomes part of the program's kernels. The rest stays in the device
 * library, as machine code: in the kernels it would cost them all their registers, and malloc twice its time
 * (docs/notes/inlining.md).
 */
#include "runtime/core/heap.h"

/* As the splicer names what device.cu exports. */
#define MM_EXPORTED(name) MM_CAT(MM_CAT(mm$v, MM_ABI_VERSION), MM_CAT(_, name))

extern "C" {
extern __constant__ struct mm_heap_ref MM_HEAP_REF;
__device__ void *MM_EXPORTED(mm_device_malloc_rest)(uint64_t token);
__device__ void MM_EXPORTED(mm_device_free_rest)(uint64_t left);

/* See mm_heap_malloc. */
__device__ void *malloc(size_t bytes) noexcept {
    const uint64_t at = MM_LIKELY(MM_HEAP_REF.open_bytes) ? mm_heap_draw(&MM_HEAP_REF, bytes) : mm_token_run(bytes);
    return MM_LIKELY(!(at & MM_TOKEN)) ? (void *)at : MM_EXPORTED(mm_device_malloc_rest)(at);
}

/* See mm_heap_free. */
__device__ void free(void *p) noexcept {
    const uint64_t left = mm_heap_release(&MM_HEAP_REF, p);
    if (!MM_LIKELY(left == 0)) MM_EXPORTED(mm_device_free_rest)(left);
}
}
