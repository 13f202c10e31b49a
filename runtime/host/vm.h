/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Addresses and physical memory, through the driver's virtual memory management. */
#ifndef MM_HOST_VM_H
#define MM_HOST_VM_H

#include <stdint.h>

#include "runtime/host/driver.h"

/* A reserved range of device addresses; bytes == 0: none. */
struct mm_vm_range {
    CUdeviceptr base;
    uint64_t bytes;
};

/* The devices that may access memory: the one that has the memory, and others that the program gave access to. */
#define MM_VM_DEVICES_MAX 32
struct mm_vm_access {
    unsigned count;
    CUdevice devices[MM_VM_DEVICES_MAX]; /* the first one has the memory */
};

/* Smallest unit of mapping on a device, in bytes. */
bool mm_vm_try_page(const struct mm_driver *d, CUdevice device, uint64_t *page_bytes, struct mm_driver_error *error);

/* Reserves addresses without memory. alignment_bytes: a power of two. */
bool mm_vm_try_reserve(const struct mm_driver *d, uint64_t bytes, uint64_t alignment_bytes, struct mm_vm_range *range, struct mm_driver_error *error);
void mm_vm_unreserve(const struct mm_driver *d, struct mm_vm_range *range);

/* Maps new memory of the device at [address, address + bytes), all or nothing. No device can access it yet. The driver's handle is released at once: the
 * mapping keeps the memory alive, and unmapping frees it. */
bool mm_vm_try_map(const struct mm_driver *d, CUdevice device, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error);
/* Gives devices access to a range that one or several calls of mm_vm_try_map have mapped. */
bool mm_vm_try_open(const struct mm_driver *d, const struct mm_vm_access *access, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error);
/* Reverts one call of mm_vm_try_map, which had the same address and bytes. Returns whether the driver did it. */
bool mm_vm_try_unmap(const struct mm_driver *d, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error);

/* Gives `device` access to the memory of one call of mm_vm_try_map, or revokes it. */
bool mm_vm_try_access(const struct mm_driver *d, CUdevice device, bool is_allowed, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error);

#endif
