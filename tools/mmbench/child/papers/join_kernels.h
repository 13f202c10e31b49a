/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the cases join (join.h): one CTA for each partition. */
#ifndef MM_BENCH_JOIN_KERNELS_H
#define MM_BENCH_JOIN_KERNELS_H

#include "tools/mmbench/child/papers/join_table.h"

/* ---- chains of pages ---------------------------------------------------------------------------- */

/* The last page of a chain, and the pairs in it; in registers. No page, or a full one: JOIN_PAGE_PAIRS. */
struct join_chain {
    struct join_page *page;
    unsigned used;
};

/* A page in front of that chain, or NULL. Its count is that of a full page: join_close corrects it for the last one. */
static __device__ struct join_page *join_take(struct join_page *before, struct bump *b, struct tally *t) {
    struct join_page *page = (struct join_page *)memory_take(b, sizeof *page);
    if (page == NULL) {
        atomicAdd(&t->nulls, 1ull);
        return NULL;
    }
    page->next = before;
    page->count = JOIN_PAGE_PAIRS;
    return page;
}

static __device__ void join_close(const struct join_chain *c, struct join_page **head) {
    if (c->page != NULL) c->page->count = c->used;
    *head = c->page;
}

static __device__ void join_add(struct join_chain *c, struct join_pair pair, struct bump *b, struct tally *t) {
    if (c->used == JOIN_PAGE_PAIRS) {
        struct join_page *page = join_take(c->page, b, t);
        if (page == NULL) return;
        c->page = page;
        c->used = 0;
    }
    c->page->pairs[c->used++] = pair;
}

/* Called by the whole warp, with the same chain; the lanes of `matching` have a pair. The pairs fill the last page, and one or two new ones. */
static __device__ void join_add_warp(struct join_chain *c, unsigned matching, struct join_pair pair, struct bump *b, struct tally *t) {
    const unsigned lane = threadIdx.x % WARP_THREADS, all = __popc(matching), rank = __popc(matching & ((1u << lane) - 1));
    for (unsigned done = 0; done < all;) {
        if (c->used == JOIN_PAGE_PAIRS) {
            struct join_page *page = NULL;
            if (lane == 0) page = join_take(c->page, b, t);
            page = (struct join_page *)(size_t)__shfl_sync(~0u, (unsigned long long)(size_t)page, 0);
            if (page == NULL) return;
            c->page = page;
            c->used = 0;
        }
        const unsigned room = JOIN_PAGE_PAIRS - c->used, now = all - done < room ? all - done : room;
        if ((matching >> lane & 1) != 0 && rank - done < now) c->page->pairs[c->used + rank - done] = pair; /* rank < done: more than `now` */
        c->used += now;
        done += now;
    }
}

/* ---- join into chains --------------------------------------------------------------------------- */

static __global__ void join_thread_kernel(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t) {
    __shared__ struct join_table table;
    if (blockIdx.x >= in.partitions) return;
    const struct join_part p = join_build(&table, &in);
    struct join_chain chain = {NULL, JOIN_PAGE_PAIRS};
    for (unsigned i = threadIdx.x; i < p.s_count; i += CTA_THREADS) {
        const struct join_tuple s = p.s[i];
        for (unsigned at = join_first(&table, s.key); at != JOIN_END; at = join_next(&table, s.key, at)) {
            const struct join_pair pair = {p.r[at].value, s.value};
            join_add(&chain, pair, b, t);
        }
    }
    join_close(&chain, &chains[thread_idx()]);
}

/* S's tuples are CTA_THREADS at a time, and all lanes stay together: the `at` of one without a tuple, or without a further match, is JOIN_END. */
static __global__ void join_warp_kernel(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t) {
    __shared__ struct join_table table;
    if (blockIdx.x >= in.partitions) return;
    const struct join_part p = join_build(&table, &in);
    struct join_chain chain = {NULL, JOIN_PAGE_PAIRS};
    for (unsigned first = 0; first < p.s_count; first += CTA_THREADS) {
        struct join_tuple s = {0, 0};
        unsigned at = JOIN_END, matching;
        if (first + threadIdx.x < p.s_count) {
            s = p.s[first + threadIdx.x];
            at = join_first(&table, s.key);
        }
        while ((matching = __ballot_sync(~0u, at != JOIN_END)) != 0) {
            const struct join_pair pair = {at != JOIN_END ? p.r[at].value : 0, s.value};
            join_add_warp(&chain, matching, pair, b, t);
            if (at != JOIN_END) at = join_next(&table, s.key, at);
        }
    }
    if (threadIdx.x % WARP_THREADS == 0) join_close(&chain, &chains[thread_idx() / WARP_THREADS]);
}

static __global__ void join_give_kernel(struct join_page **chains, unsigned count) {
    const unsigned i = thread_idx();
    if (i >= count) return;
    for (struct join_page *page = chains[i], *next; page != NULL; page = next) {
        next = page->next;
        memory_give(page);
    }
    chains[i] = NULL;
}

/* ---- join into one array ------------------------------------------------------------------------ */

static __global__ void join_counter_kernel(struct join_input in, struct join_array out) {
    __shared__ struct join_table table;
    if (blockIdx.x >= in.partitions) return;
    const struct join_part p = join_build(&table, &in);
    const unsigned lane = threadIdx.x % WARP_THREADS;
    for (unsigned first = 0; first < p.s_count; first += CTA_THREADS) {
        struct join_tuple s = {0, 0};
        unsigned at = JOIN_END, matching;
        if (first + threadIdx.x < p.s_count) {
            s = p.s[first + threadIdx.x];
            at = join_first(&table, s.key);
        }
        while ((matching = __ballot_sync(~0u, at != JOIN_END)) != 0) {
            unsigned to = 0;
            if (lane == 0) to = atomicAdd(out.count, (unsigned)__popc(matching));
            to = __shfl_sync(~0u, to, 0) + __popc(matching & ((1u << lane) - 1));
            if (at == JOIN_END) continue;
            const struct join_pair pair = {p.r[at].value, s.value};
            if (to < out.most) out.pairs[to] = pair;
            at = join_next(&table, s.key, at);
        }
    }
}

/* Called by the whole CTA. Returns the sum of `mine` of this thread and of those before; sums[CTA_THREADS - 1] is that of all. */
static __device__ unsigned join_sum_to(unsigned *sums, unsigned mine) {
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned distance = 1; distance < CTA_THREADS; distance *= 2) {
        const unsigned more = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] += more;
        __syncthreads();
    }
    return sums[threadIdx.x];
}

static __global__ void join_count_kernel(struct join_input in, struct join_array out) {
    __shared__ struct join_table table;
    __shared__ unsigned sums[CTA_THREADS];
    if (blockIdx.x >= in.partitions) return;
    const struct join_part p = join_build(&table, &in);
    unsigned matches = 0;
    for (unsigned i = threadIdx.x; i < p.s_count; i += CTA_THREADS) {
        const unsigned key = p.s[i].key;
        for (unsigned at = join_first(&table, key); at != JOIN_END; at = join_next(&table, key, at)) matches++;
    }
    out.thread_starts[thread_idx()] = join_sum_to(sums, matches) - matches;
    if (threadIdx.x == 0) out.partition_starts[blockIdx.x] = sums[CTA_THREADS - 1]; /* a count, which join_scan_kernel makes a start */
}

/* One CTA. */
static __global__ void join_scan_kernel(unsigned partitions, struct join_array out) {
    __shared__ unsigned sums[CTA_THREADS];
    unsigned before = 0;
    if (partitions == 0) return;
    for (unsigned first = 0; first < partitions; first += CTA_THREADS) {
        const unsigned p = first + threadIdx.x, mine = p < partitions ? out.partition_starts[p] : 0, to = before + join_sum_to(sums, mine);
        if (p < partitions) out.partition_starts[p] = to - mine;
        before += sums[CTA_THREADS - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out.count = before;
}

static __global__ void join_write_kernel(struct join_input in, struct join_array out) {
    __shared__ struct join_table table;
    if (blockIdx.x >= in.partitions) return;
    const struct join_part p = join_build(&table, &in);
    unsigned to = out.partition_starts[blockIdx.x] + out.thread_starts[thread_idx()];
    for (unsigned i = threadIdx.x; i < p.s_count; i += CTA_THREADS) {
        const struct join_tuple s = p.s[i];
        for (unsigned at = join_first(&table, s.key); at != JOIN_END; at = join_next(&table, s.key, at), to++) {
            const struct join_pair pair = {p.r[at].value, s.value};
            if (to < out.most) out.pairs[to] = pair;
        }
    }
}

/* ---- the check ---------------------------------------------------------------------------------- */

/* Called by the whole CTA. */
static __device__ void join_found(struct join_sum *found, unsigned long long pairs, unsigned long long sum) {
    __shared__ struct join_sum all;
    if (threadIdx.x == 0) all.pairs = all.sum = 0;
    __syncthreads();
    if (pairs != 0) atomicAdd(&all.pairs, pairs);
    if (sum != 0) atomicAdd(&all.sum, sum);
    __syncthreads();
    if (threadIdx.x != 0) return;
    atomicAdd(&found->pairs, all.pairs);
    atomicAdd(&found->sum, all.sum);
}

static __global__ void join_check_kernel(struct join_page *const *chains, unsigned count, unsigned pages_most, struct join_sum *found) {
    const unsigned i = thread_idx();
    unsigned long long pairs = 0, sum = 0;
    const struct join_page *page = i < count ? chains[i] : NULL;
    for (unsigned pages = 0; page != NULL && pages < pages_most && page->count <= JOIN_PAGE_PAIRS; pages++, page = page->next) {
        pairs += page->count;
        for (unsigned k = 0; k < page->count; k++) sum += join_hash_pair(page->pairs[k]);
    }
    join_found(found, pairs + (page != NULL), sum); /* a page that is left is one pair too many */
}

static __global__ void join_check_array_kernel(struct join_array out, struct join_sum *found) {
    const unsigned i = thread_idx(), count = out.most != 0 ? *out.count : 0;
    join_found(found, i == 0 ? count : 0, i < count && i < out.most ? join_hash_pair(out.pairs[i]) : 0);
}

/* ---- launches ----------------------------------------------------------------------------------- */

#ifdef __CUDACC__
static unsigned join_ctas(struct join_input in) { return in.partitions != 0 ? in.partitions : 1; }

static void join_thread(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t) {
    join_thread_kernel<<<join_ctas(in), CTA_THREADS>>>(in, chains, b, t);
}
static void join_warp(struct join_input in, struct join_page **chains, struct bump *b, struct tally *t) {
    join_warp_kernel<<<join_ctas(in), CTA_THREADS>>>(in, chains, b, t);
}
static void join_give(struct join_page **chains, unsigned count) { join_give_kernel<<<memory_ctas(count), CTA_THREADS>>>(chains, count); }
static void join_check(struct join_page *const *chains, unsigned count, unsigned pages_most, struct join_sum *found) {
    join_check_kernel<<<memory_ctas(count), CTA_THREADS>>>(chains, count, pages_most, found);
}
static void join_counter(struct join_input in, struct join_array out) { join_counter_kernel<<<join_ctas(in), CTA_THREADS>>>(in, out); }
static void join_scan(struct join_input in, struct join_array out) {
    join_count_kernel<<<join_ctas(in), CTA_THREADS>>>(in, out);
    join_scan_kernel<<<1, CTA_THREADS>>>(in.partitions, out);
    join_write_kernel<<<join_ctas(in), CTA_THREADS>>>(in, out);
}
static void join_check_array(struct join_array out, struct join_sum *found) { join_check_array_kernel<<<memory_ctas(out.most), CTA_THREADS>>>(out, found); }

extern "C" const struct join_kernels MEMORY_KERNELS(join) = {join_thread, join_warp, join_give, join_check, join_counter, join_scan, join_check_array};
#endif

#endif
