/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernel cache: the kernels whose modules know their heap, or have no heap variable, as pairs (kernel, context). Their launches need no further action.
 *
 * Representation: open addressing, linear probing; a slot is {kernel, context, owner}; a slot with kernel 0
 *   is free, one with kernel 1 was removed.
 * I1. A reader that finds (k, c) is right: the pair was inserted. If it was removed meanwhile, the program unloads a kernel that it is launching.
 * I2. A reader that does not find a pair may be wrong. It then searches again under the lock.
 * Ordering: a writer (one at a time, under mm_contexts_lock) writes context and owner, and then stores the
 *   kernel with release, which pairs with the reader's acquire of the kernel. It raises the table's version
 *   before it writes a slot that held another pair. The reader loads the version first and last: if it reads
 *   a context that was written after it saw the kernel, release and acquire make it see the raised version,
 *   and it finds nothing. (Loading the kernel again instead is not enough: the same kernel may be back.)
 * Progress: readers never wait. A table that is too small is replaced but kept, since a reader may still use it; all old tables together are no larger
 *   than the last one.
 */
#ifndef MM_INTERPOSE_KERNEL_CACHE_H
#define MM_INTERPOSE_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mm_kernel_cache_slot {
    uintptr_t kernel, context, owner;
};

struct mm_kernel_cache_table {
    size_t mask, used; /* used: slots in use or removed */
    uint64_t version;
    struct mm_kernel_cache_slot slots[];
};

extern struct mm_kernel_cache_table *mm_kernel_cache_current;

static inline size_t mm_kernel_cache_hash(uintptr_t kernel, uintptr_t context) {
    uint64_t x = ((uint64_t)kernel >> 4) * 0x9e3779b97f4a7c15u ^ ((uint64_t)context >> 6);
    return (size_t)((x * 0xff51afd7ed558ccdu) >> 32);
}

static inline bool mm_kernel_cache_has(const void *kernel, const void *context) {
    const uintptr_t k = (uintptr_t)kernel, c = (uintptr_t)context;
    struct mm_kernel_cache_table *t = __atomic_load_n(&mm_kernel_cache_current, __ATOMIC_ACQUIRE);
    if (!t) return false;
    const uint64_t version = __atomic_load_n(&t->version, __ATOMIC_ACQUIRE);
    for (size_t i = mm_kernel_cache_hash(k, c), left = t->mask + 1; left; i++, left--) {
        struct mm_kernel_cache_slot *s = &t->slots[i & t->mask];
        uintptr_t seen = __atomic_load_n(&s->kernel, __ATOMIC_ACQUIRE);
        if (seen == 0) return false;
        if (seen == k && __atomic_load_n(&s->context, __ATOMIC_ACQUIRE) == c && __atomic_load_n(&t->version, __ATOMIC_RELAXED) == version) return true;
    }
    return false;
}

/* One writer at a time. owner: the kernel's library or module; NULL: unknown, so the kernel is removed with any owner. If there is no memory, the kernel is
 * not inserted, and is examined again at its next launch. */
void mm_kernel_cache_insert(const void *kernel, const void *context, const void *owner);
void mm_kernel_cache_forget_owner(const void *owner);
void mm_kernel_cache_forget_context(const void *context);

#endif
