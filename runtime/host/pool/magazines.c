/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP */
#include "runtime/host/pool/magazines.h"

#include <stdlib.h>

#include "runtime/host/pool/mode.h"

struct block {
    uint64_t address, epoch;
};
struct set {
    struct mm_pool *pool; /* NULL: not used yet */
    uint64_t rounded;
    unsigned first, count;
    struct block ring[MM_POOL_SET_PLACES];
};
struct magazine {
    _Alignas(64) pthread_mutex_t lock;
    struct magazine *next; /* magazines stay, for threads to come */
    bool has_thread;
    struct set sets[MM_POOL_SETS];
};

static struct magazine *magazines; /* this list and has_thread: under the pools' lock */
static pthread_key_t key;
static bool has_key;
static __thread struct magazine *mine;

/* ---- a thread's magazine ------------------------------------------------------------------------ */

/* The caller holds the pools' lock and the magazine's. */
static void empty_set(struct set *s) {
    for (; s->count != 0; s->count--, s->first = (s->first + 1) % MM_POOL_SET_PLACES) {
        struct mm_allocation *const a = mm_pool_allocation_at(s->ring[s->first].address);
        if (s->ring[s->first].epoch == 0) mm_pool_release(a);
        else mm_pool_queue(a);
    }
    s->pool = NULL;
}

static void empty(struct magazine *m, const struct mm_pool *p) {
    pthread_mutex_lock(&m->lock);
    for (unsigned i = 0; i < MM_POOL_SETS; i++)
        if (m->sets[i].pool && (!p || m->sets[i].pool == p)) empty_set(&m->sets[i]);
    pthread_mutex_unlock(&m->lock);
}

static void at_thread_exit(void *magazine) {
    struct magazine *const m = (struct magazine *)magazine;
    if (!mm_pool_is_on()) return; /* the child of a fork */
    pthread_mutex_lock(&mm_pool_lock);
    empty(m, NULL);
    m->has_thread = false;
    mine = NULL;
    pthread_mutex_unlock(&mm_pool_lock);
}

/* Gives this thread a magazine. The caller holds the pools' lock. */
static struct magazine *get_magazine(void) {
    struct magazine *m = magazines;
    if (!has_key && pthread_key_create(&key, at_thread_exit) != 0) return NULL;
    has_key = true;
    while (m && m->has_thread) m = m->next;
    if (!m) {
        m = (struct magazine *)aligned_alloc(_Alignof(struct magazine), sizeof *m);
        if (!m) return NULL;
        *m = (struct magazine){.lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .next = magazines};
        magazines = m;
    }
    if (pthread_setspecific(key, m) != 0) return NULL;
    m->has_thread = true;
    return mine = m;
}

static struct set *set_of(struct magazine *m, uint64_t rounded) {
    return &m->sets[(rounded >> MM_POOL_GRAIN_SHIFT) * 0x9e3779b97f4a7c15ull >> (64 - MM_POOL_SETS_SHIFT)];
}

/* ---- take and put ------------------------------------------------------------------------------- */

/* Whether memory may come and go without the pools' lock. */
static bool are_in_use(void) { return mine && __atomic_load_n(&mm_pool_capture_count, __ATOMIC_ACQUIRE) == 0; }

CUdeviceptr mm_magazine_take(CUcontext context, uint64_t rounded, uint64_t bytes, uint64_t *waiting) {
    CUdeviceptr address = 0;
    if (waiting) *waiting = 0;
    if (rounded > MM_POOL_SET_BYTES_MAX || !are_in_use()) return 0;
    pthread_mutex_lock(&mine->lock);
    struct set *const s = set_of(mine, rounded);
    struct mm_pool *const p = s->count != 0 && s->rounded == rounded ? s->pool : NULL;
    if (p && __atomic_load_n(&p->context, __ATOMIC_RELAXED) == context && __atomic_load_n(&p->endings, __ATOMIC_ACQUIRE) == 0) {
        const struct block oldest = s->ring[s->first];
        if (mm_fences_ended(&p->fences, oldest.epoch)) {
            struct mm_pool_shard *const shard = mm_pool_shard_of(oldest.address);
            address = oldest.address;
            s->first = (s->first + 1) % MM_POOL_SET_PLACES, s->count--;
            mm_pool_count_live(p, bytes);
            __atomic_fetch_add(&p->hits, 1, __ATOMIC_RELAXED);
            pthread_mutex_lock(&shard->lock);
            struct mm_allocation *const a = mm_allocations_find(&shard->table, address);
            __atomic_store_n(&a->asked_bytes, bytes, __ATOMIC_RELAXED);
            mm_allocation_becomes(a, MM_ALLOCATION_LIVE);
            pthread_mutex_unlock(&shard->lock);
        } else if (waiting && s->count >= MM_POOL_SET_PLACES / 2) {
            *waiting = oldest.epoch;
        }
    }
    pthread_mutex_unlock(&mine->lock);
    return address;
}

/* This thread's set that has room for the allocation, or NULL. The caller holds this thread's magazine's lock and the table's. */
static struct set *room_for(const struct mm_allocation *a) {
    if (!a || a->is_whole || a->bytes > MM_POOL_SET_BYTES_MAX || __atomic_load_n(&a->pool->endings, __ATOMIC_ACQUIRE) != 0) return NULL;
    struct set *const s = set_of(mine, a->bytes);
    return s->pool == a->pool && s->rounded == a->bytes && s->count < MM_POOL_SET_PLACES ? s : NULL;
}

static void put_last(struct set *s, uint64_t address, uint64_t epoch) {
    s->ring[(s->first + s->count++) % MM_POOL_SET_PLACES] = (struct block){address, epoch};
}

/* Locks what concerns an address, and finds the allocation that begins there. */
static struct mm_allocation *lock_at(struct mm_pool_shard *shard, CUdeviceptr address) {
    pthread_mutex_lock(&mine->lock);
    pthread_mutex_lock(&shard->lock);
    return mm_allocations_find(&shard->table, address);
}
static void unlock(struct mm_pool_shard *shard) {
    pthread_mutex_unlock(&shard->lock);
    pthread_mutex_unlock(&mine->lock);
}

bool mm_magazine_put(CUdeviceptr address) {
    bool is_put = false;
    if (!are_in_use()) return false;
    struct mm_pool_shard *const shard = mm_pool_shard_of(address);
    struct mm_allocation *const a = lock_at(shard, address);
    struct set *const s = room_for(a);
    const uint64_t asked = s ? __atomic_load_n(&a->asked_bytes, __ATOMIC_RELAXED) : 0;
    if (s && mm_allocation_try_end(a, MM_ALLOCATION_CACHED)) {
        put_last(s, address, mm_fences_open(&a->pool->fences));
        mm_pool_count_free(a->pool, asked);
        is_put = true;
    }
    unlock(shard);
    return is_put;
}

struct mm_pool *mm_magazine_try_end(CUdeviceptr address) {
    struct mm_pool *p = NULL;
    bool is_ending = false;
    if (!are_in_use()) return NULL;
    struct mm_pool_shard *const shard = mm_pool_shard_of(address);
    struct mm_allocation *const a = lock_at(shard, address);
    if (room_for(a)) {
        p = a->pool;
        mm_pool_come(p);
        is_ending = __atomic_load_n(&p->endings, __ATOMIC_SEQ_CST) == 0 && __atomic_load_n(&mm_pool_capture_count, __ATOMIC_SEQ_CST) == 0 &&
                    mm_allocation_try_end(a, MM_ALLOCATION_ENDING);
        if (is_ending) mm_pool_count_free(p, __atomic_load_n(&a->asked_bytes, __ATOMIC_RELAXED));
    }
    unlock(shard);
    if (p && !is_ending) mm_pool_go(p);
    return is_ending ? p : NULL;
}

bool mm_magazine_put_ended(CUdeviceptr address) {
    struct mm_pool_shard *const shard = mm_pool_shard_of(address);
    struct mm_allocation *const a = lock_at(shard, address);
    struct set *const s = room_for(a);
    if (s) {
        put_last(s, address, 0);
        mm_allocation_becomes(a, MM_ALLOCATION_CACHED);
    }
    unlock(shard);
    return s != NULL;
}

/* ---- with the pools' lock ------------------------------------------------------------------------ */

void mm_magazine_prepare(const struct mm_allocation *a) {
    struct mm_pool *const p = a->pool;
    const uint64_t bytes = a->bytes;
    if (mm_pool_needs_lock || p->endings != 0 || a->is_whole || bytes > MM_POOL_SET_BYTES_MAX || (!mine && !get_magazine())) return;
    pthread_mutex_lock(&mine->lock);
    struct set *const s = set_of(mine, bytes);
    if (s->pool != p || s->rounded != bytes) {
        empty_set(s);
        s->pool = p, s->rounded = bytes;
    }
    pthread_mutex_unlock(&mine->lock);
}

void mm_magazines_empty(const struct mm_pool *p) {
    for (struct magazine *m = magazines; m; m = m->next) empty(m, p);
}

struct mm_magazines_sum mm_magazines_sum(const struct mm_pool *p) {
    struct mm_magazines_sum sum = {0};
    for (struct magazine *m = magazines; m; m = m->next) {
        pthread_mutex_lock(&m->lock);
        for (unsigned i = 0; i < MM_POOL_SETS; i++)
            if (m->sets[i].pool && (!p || m->sets[i].pool == p)) sum.blocks += m->sets[i].count, sum.bytes += m->sets[i].count * m->sets[i].rounded;
        pthread_mutex_unlock(&m->lock);
    }
    return sum;
}
