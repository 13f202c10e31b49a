/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Addresses and physical memory through the driver's virtual memory management. */
#ifndef MM_HOST_VM_H
#define MM_HOST_VM_H

#include <stdint.h>

#include "runtime/host/driver.h"

/* A reserved range of device addresses; bytes == 0: none. */
struct mm_vm_range {
    CUdeviceptr base;
    uint64_t bytes;
};

/* Who may access memory: the device it is on, and others that the program has given access. */
#define MM_VM_DEVICES_MAX 32
struct mm_vm_access {
    unsigned count;
    CUdevice devices[MM_VM_DEVICES_MAX]; /* the first: where the memory is */
};

/* Smallest unit of mapping on a device, in bytes. */
bool mm_vm_try_page(const struct mm_driver *d, CUdevice device, uint64_t *page_bytes,
                    struct mm_driver_error *error);

/* Reserves addresses, nothing behind them. alignment_bytes: power of two. */
bool mm_vm_try_reserve(const struct mm_driver *d, uint64_t bytes, uint64_t alignment_bytes,
                       struct mm_vm_range *range, struct mm_driver_error *error);
void mm_vm_unreserve(const struct mm_driver *d, struct mm_vm_range *range);

/* Puts fresh memory of the device behind [address, address + bytes), all or nothing; nobody can reach it yet. The driver's handle is
 * given up at once: the mapping keeps the memory alive, unmapping returns it. */
bool mm_vm_try_map(const struct mm_driver *d, CUdevice device, CUdeviceptr address, uint64_t bytes,
                   struct mm_driver_error *error);
/* Lets devices reach a range, which one or several mm_vm_try_map have mapped. */
bool mm_vm_try_open(const struct mm_driver *d, const struct mm_vm_access *access, CUdeviceptr address, uint64_t bytes,
                    struct mm_driver_error *error);
/* Takes back what one mm_vm_try_map did; the same two numbers. Returns whether the driver did it. */
bool mm_vm_try_unmap(const struct mm_driver *d, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error);

/* Gives `device` access to what one mm_vm_try_map has mapped, or takes it away. */
bool mm_vm_try_access(const struct mm_driver *d, CUdevice device, bool is_allowed, CUdeviceptr address,
                      uint64_t bytes, struct mm_driver_error *error);

#endif
