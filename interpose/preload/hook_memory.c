/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hooks of calls that may fail for lack of memory. */
#include "interpose/preload/contexts.h"
#include "interpose/preload/hooks.h"
#include "runtime/host/pool/pool.h"

bool mm_hook_has_more(CUresult r, uint64_t bytes, int *times) {
    const struct mm_driver *d = mm_driver_get();
    if (*times == 0) __atomic_add_fetch(&mm_grower_holds, 1, __ATOMIC_ACQ_REL);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && *times == 0 && ++*times && mm_pool_give_back(d)) return true;
    if (r == CUDA_ERROR_OUT_OF_MEMORY && ++*times <= 3 && mm_attach_give_back(d, *times == 2 ? bytes : UINT64_MAX)) return true;
    __atomic_sub_fetch(&mm_grower_holds, 1, __ATOMIC_ACQ_REL);
    return false;
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* If the device has no memory left, its heaps give back what they do not need, and the call is repeated. */
static CUresult from_driver(CUdeviceptr *address, size_t bytes);
static __attribute__((noinline)) CUresult from_pool(CUdeviceptr *address, size_t bytes) {
    const struct mm_driver *d = mm_driver_get();
    if (!d || mm_contexts_have_green()) return from_driver(address, bytes);
    if (mm_pool_is_on()) return mm_pool_allocate(d, address, bytes, from_driver);
    mm_pool_anchor(d);
    return from_driver(address, bytes);
}
HOOK(cuMemAlloc_v2)(CUdeviceptr *address, size_t bytes) { return mm_pool_mode() == MM_POOL_OFF ? from_driver(address, bytes) : from_pool(address, bytes); }
static CUresult from_driver(CUdeviceptr *address, size_t bytes) { return WITH_MEMORY(bytes, REAL(cuMemAlloc_v2, address, bytes)); }
HOOK(cuMemAllocPitch_v2)(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    return WITH_MEMORY(UINT64_MAX, REAL(cuMemAllocPitch_v2, address, pitch, width, height, element));
}
HOOK(cuMemAllocManaged)(CUdeviceptr *address, size_t bytes, unsigned flags) { return WITH_MEMORY(bytes, REAL(cuMemAllocManaged, address, bytes, flags)); }
#define POOL_HOOKS(suffix)                                                                              \
    HOOK(cuMemAllocAsync##suffix)(CUdeviceptr * address, size_t bytes, CUstream stream) {               \
        return WITH_MEMORY(bytes, REAL(cuMemAllocAsync##suffix, address, bytes, stream));               \
    }                                                                                                   \
    HOOK(cuMemAllocFromPoolAsync##suffix)                                                               \
    (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream) {                         \
        return WITH_MEMORY(bytes, REAL(cuMemAllocFromPoolAsync##suffix, address, bytes, pool, stream)); \
    }
POOL_HOOKS()
POOL_HOOKS(_ptsz)
HOOK(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    return WITH_MEMORY(bytes, REAL(cuMemCreate, handle, bytes, prop, flags));
}
HOOK(cuArrayCreate_v2)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor) { return WITH_MEMORY(UINT64_MAX, REAL(cuArrayCreate_v2, array, descriptor)); }
HOOK(cuArray3DCreate_v2)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    return WITH_MEMORY(UINT64_MAX, REAL(cuArray3DCreate_v2, array, descriptor));
}
HOOK(cuMipmappedArrayCreate)(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels) {
    return WITH_MEMORY(UINT64_MAX, REAL(cuMipmappedArrayCreate, array, descriptor, levels));
}
