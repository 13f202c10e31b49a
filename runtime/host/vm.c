/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/vm.h"

#include <string.h>

static CUmemAllocationProp device_memory(CUdevice device) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

bool mm_vm_try_page(const struct mm_driver *d, CUdevice device, uint64_t *page_bytes, struct mm_driver_error *error) {
    CUmemAllocationProp prop = device_memory(device);
    size_t granularity = 0;
    if (!MM_DRIVER_TRY(d, error, cuMemGetAllocationGranularity, &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)) return false;
    *page_bytes = granularity;
    return true;
}

bool mm_vm_try_reserve(const struct mm_driver *d, uint64_t bytes, uint64_t alignment_bytes, struct mm_vm_range *range, struct mm_driver_error *error) {
    CUdeviceptr base = 0;
    if (!MM_DRIVER_TRY(d, error, cuMemAddressReserve, &base, bytes, alignment_bytes, 0, 0)) return false;
    range->base = base;
    range->bytes = bytes;
    return true;
}

void mm_vm_unreserve(const struct mm_driver *d, struct mm_vm_range *range) {
    if (range->bytes) d->cuMemAddressFree(range->base, range->bytes);
    range->base = 0;
    range->bytes = 0;
}

static CUmemAccessDesc access_of(CUdevice device, bool is_allowed) {
    CUmemAccessDesc access;
    memset(&access, 0, sizeof access);
    access.location = device_memory(device).location;
    access.flags = is_allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return access;
}

bool mm_vm_try_map(const struct mm_driver *d, CUdevice device, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error) {
    CUmemAllocationProp prop = device_memory(device);
    CUmemGenericAllocationHandle handle = 0;
    if (!MM_DRIVER_TRY(d, error, cuMemCreate, &handle, bytes, &prop, 0)) return false;
    bool mapped = MM_DRIVER_TRY(d, error, cuMemMap, address, bytes, 0, handle, 0);
    d->cuMemRelease(handle);
    return mapped;
}

bool mm_vm_try_open(const struct mm_driver *d, const struct mm_vm_access *access, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error) {
    CUmemAccessDesc who[MM_VM_DEVICES_MAX];
    for (unsigned i = 0; i < access->count; i++) who[i] = access_of(access->devices[i], true);
    return MM_DRIVER_TRY(d, error, cuMemSetAccess, address, bytes, who, access->count);
}

bool mm_vm_try_unmap(const struct mm_driver *d, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error) {
    return bytes == 0 || MM_DRIVER_TRY(d, error, cuMemUnmap, address, bytes);
}

bool mm_vm_try_access(const struct mm_driver *d, CUdevice device, bool is_allowed, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error) {
    CUmemAccessDesc access = access_of(device, is_allowed);
    return MM_DRIVER_TRY(d, error, cuMemSetAccess, address, bytes, &access, 1);
}
