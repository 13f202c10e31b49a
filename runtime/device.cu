/* The entry points of device code. Compiled to PTX under names of our own; the splicer renames them to
 * malloc, free and __cuda_syscall_aligned_malloc (F8). */
#include "runtime/core/layout.h"

extern "C" {
__device__ struct mm_heap_ref MM_HEAP_REF;
__device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);

/* STUB: a counter that never goes back, until runtime/core is here. */
__device__ void *mm_device_malloc(size_t bytes) {
    if (!MM_HEAP_REF.heap) __assertfail("mm: no heap; run this program by mmrun", "mm", 0, "malloc", 1);
    uint64_t n = (bytes + 15) / 16 * 16 + 16;
    uint64_t at = __nv_atomic_fetch_add(&((struct mm_heap *)MM_HEAP_REF.heap)->supply, n, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    return at + n <= MM_HEAP_REF.user_bytes ? (void *)(MM_HEAP_REF.user_base + at) : 0;
}
__device__ void mm_device_free(void *p) { (void)p; }
__device__ void *mm_device_aligned_malloc(size_t bytes, size_t align) {
    return (void *)(((uint64_t)mm_device_malloc(bytes + align) + align - 1) / align * align);
}
}
