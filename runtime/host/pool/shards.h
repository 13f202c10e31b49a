/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocations of all pools, in tables by hash of the address, each with a lock, so that calls that use magazines seldom meet.
 *
 * Who adds or removes holds the pools' lock and the table's; so an allocation's place stays while either is held. What changes in place (allocations.h) is
 * atomic. The tables' locks come after all others.
 */
#ifndef MM_HOST_POOL_SHARDS_H
#define MM_HOST_POOL_SHARDS_H

#include <pthread.h>

#include "runtime/host/pool/allocations.h"

struct mm_pool_shard {
    _Alignas(64) pthread_mutex_t lock;
    struct mm_allocations table;
};

/* The table that an address belongs to. */
struct mm_pool_shard *mm_pool_shard_of(uint64_t address);

/* As the functions of allocations.h. The caller holds the pools' lock. */
struct mm_allocation *mm_pool_allocation_at(uint64_t address);
bool mm_pool_allocation_add(const struct mm_allocation *allocation);
void mm_pool_allocation_remove(struct mm_allocation *at);
void mm_pool_allocations_forget(const struct mm_pool *pool);

#endif
