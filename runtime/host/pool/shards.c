/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/shards.h"

#include "mmconfig.h"

#define SHARDS 64
static struct mm_pool_shard shards[SHARDS] = {[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* The hash that places an allocation in its table (allocations.c) has these bits as its last ones. */
struct mm_pool_shard *mm_pool_shard_of(uint64_t address) {
    return &shards[(address >> MM_POOL_GRAIN_SHIFT) * 0x9e3779b97f4a7c15ull >> 58];
}

struct mm_allocation *mm_pool_allocation_at(uint64_t address) {
    return mm_allocations_find(&mm_pool_shard_of(address)->table, address);
}

bool mm_pool_allocation_add(const struct mm_allocation *a) {
    struct mm_pool_shard *const s = mm_pool_shard_of(a->address);
    pthread_mutex_lock(&s->lock);
    const bool is_added = mm_allocations_add(&s->table, a) != NULL;
    pthread_mutex_unlock(&s->lock);
    return is_added;
}

void mm_pool_allocation_remove(struct mm_allocation *at) {
    struct mm_pool_shard *const s = mm_pool_shard_of(at->address);
    pthread_mutex_lock(&s->lock);
    mm_allocations_remove(&s->table, at);
    pthread_mutex_unlock(&s->lock);
}

void mm_pool_allocations_forget(const struct mm_pool *pool) {
    for (unsigned i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&shards[i].lock);
        mm_allocations_forget(&shards[i].table, pool);
        pthread_mutex_unlock(&shards[i].lock);
    }
}
