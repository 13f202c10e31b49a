/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernel that builds the k-d tree (kdtree.h has the rule, and the protocol of the pool). Only lane 0 takes and gives back arrays.
 *
 * An allocator that is broken must end in a wrong result and not in a broken pool: an index that no triangle has is not followed, and no more
 * indices are written than an array has room for.
 */
#ifndef MM_BENCH_KDTREE_KERNELS_H
#define MM_BENCH_KDTREE_KERNELS_H

#include "tools/mmbench/child/papers/kdtree.h"
#include "tools/mmbench/child/papers/memory.h"

#define KDTREE_NO_SLOT (~0u)
#define KDTREE_ALL_LANES (~0u)
#define KDTREE_CTA_WARPS (CTA_THREADS / WARP_THREADS)
#define KDTREE_STEPS 8u /* loads that a lane has in flight: the first nodes are large, and few warps share them */
#define KDTREE_STAGE (KDTREE_STEPS * WARP_THREADS)

/* ---- memory order ----------------------------------------------------------------------------- */

#ifdef __CUDACC__
static __device__ inline unsigned kdtree_load_relaxed(const unsigned *p) { return *(const volatile unsigned *)p; }
static __device__ inline unsigned kdtree_load_acquire(const unsigned *p) {
    const unsigned value = *(const volatile unsigned *)p;
    __threadfence();
    return value;
}
static __device__ inline void kdtree_store_release(unsigned *p, unsigned value) {
    __threadfence();
    *(volatile unsigned *)p = value;
}
static __device__ inline void kdtree_pause(void) { __nanosleep(200); } /* a task takes some microseconds */
#else
#include <sched.h>
static inline unsigned kdtree_load_relaxed(const unsigned *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline unsigned kdtree_load_acquire(const unsigned *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void kdtree_store_release(unsigned *p, unsigned value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }
static inline void kdtree_pause(void) { sched_yield(); }
#endif

/* ---- arrays: lane 0 --------------------------------------------------------------------------- */

static __device__ unsigned *kdtree_take(const struct kdtree_build *b, unsigned count, struct kdtree_result *r) {
    if (count == 0) return NULL;
    unsigned *array = (unsigned *)memory_take(b->bump, count * 4ull);
    if (array == NULL) atomicAdd(&b->t->nulls, 1ull);
    else r->held++;
    return array;
}

static __device__ void kdtree_give(unsigned *array, struct kdtree_result *r) {
    if (array == NULL) return;
    memory_give(array);
    r->held--;
}

/* ---- tasks: lane 0, except kdtree_claim ---------------------------------------------------------- */

/* Called by the whole warp. Returns the slot of the next task, or KDTREE_NO_SLOT if the tree is complete. */
static __device__ unsigned kdtree_claim(const struct kdtree_build *b) {
    unsigned slot = KDTREE_NO_SLOT;
    if (threadIdx.x % WARP_THREADS == 0) {
        const unsigned mine = atomicAdd(&b->pool->head.n, 1u);
        if (mine < b->slot_count) {
            const unsigned *ready = &b->slots[mine].ready;
            while (!kdtree_load_relaxed(ready) && kdtree_load_relaxed(&b->pool->unfinished.n) != 0) kdtree_pause();
            if (kdtree_load_acquire(ready)) slot = mine;
        }
    }
    slot = __shfl_sync(KDTREE_ALL_LANES, slot, 0);
    __syncwarp(); /* lane 0 acquired the task for all lanes */
    return slot;
}

static __device__ void kdtree_publish(struct kdtree_task *slot, const struct kdtree_task *parent, const struct kdtree_split *s, unsigned side,
                                      unsigned *indices) {
    const unsigned range = parent->cell.range[s->axis];
    const unsigned cut = side == 0 ? kdtree_range(kdtree_min(range), s->plane) : kdtree_range(s->plane, kdtree_max(range));
    slot->indices = indices;
    slot->path = kdtree_path(parent->path, side);
    for (unsigned axis = 0; axis < 3; axis++) slot->cell.range[axis] = axis == s->axis ? cut : parent->cell.range[axis];
    slot->count = side == 0 ? s->left : s->right;
    slot->depth = parent->depth + 1;
    kdtree_store_release(&slot->ready, 1);
}

/* Pushes the children, and gives the parent's array back. A child without triangles is a leaf at once. Returns 0, and pushes none, if there are not
 * enough slots. */
static __device__ int kdtree_push(const struct kdtree_build *b, const struct kdtree_task *task, const struct kdtree_split *s, unsigned *const arrays[2],
                                  struct kdtree_result *r) {
    const unsigned children = (s->left != 0) + (s->right != 0);
    unsigned slot = atomicAdd(&b->pool->tail.n, children);
    if (slot + children > b->slot_count) {
        atomicAdd(&b->t->corrupt, 1ull);
        return 0;
    }
    if (task->depth > 0) kdtree_give(task->indices, r);
    atomicAdd(&b->pool->unfinished.n, children - 1);
    for (unsigned side = 0; side < 2; side++) {
        if (arrays[side] != NULL) {
            kdtree_publish(&b->slots[slot++], task, s, side, arrays[side]);
        } else {
            r->leaves++;
            r->sum += kdtree_hash(kdtree_path(task->path, side));
        }
    }
    r->inner++;
    return 1;
}

/* ---- nodes: the whole warp ---------------------------------------------------------------------- */

static __device__ inline unsigned kdtree_range_of(const struct kdtree_build *b, unsigned triangle, unsigned axis) {
    return triangle < b->count ? b->boxes[triangle].range[axis] : 0;
}

/* Chooses the plane. Lane i counts for plane i. stage: shared memory of the warp, KDTREE_STAGE of them. Returns 0 if no plane is good. */
static __device__ int kdtree_choose(const struct kdtree_build *b, const struct kdtree_task *task, unsigned *stage, struct kdtree_split *s) {
    const unsigned lane = threadIdx.x % WARP_THREADS, count = task->count;
    const unsigned x = kdtree_length(task->cell.range[0]), y = kdtree_length(task->cell.range[1]), z = kdtree_length(task->cell.range[2]);
    const unsigned axis = x >= y && x >= z ? 0 : y >= z ? 1 : 2, range = task->cell.range[axis], plane = kdtree_plane(range, lane);
    unsigned left = 0, right = 0;
    for (unsigned first = 0; first < count; first += KDTREE_STAGE) {
        const unsigned staged = count - first < KDTREE_STAGE ? count - first : KDTREE_STAGE;
        unsigned mine[KDTREE_STEPS];
        for (unsigned k = 0; k < KDTREE_STEPS; k++) {
            const unsigned i = k * WARP_THREADS + lane;
            mine[k] = i < staged ? kdtree_range_of(b, task->indices[first + i], axis) : 0;
        }
        for (unsigned k = 0; k < KDTREE_STEPS; k++) stage[k * WARP_THREADS + lane] = mine[k];
        __syncwarp();
        for (unsigned i = 0; i < staged; i++) {
            const unsigned box = stage[i];
            left += kdtree_min(box) < plane || kdtree_max(box) <= plane;
            right += kdtree_max(box) > plane;
        }
        __syncwarp(); /* the next step overwrites the stage */
    }
    /* Half the area of a cell that has this length on the axis: length * around + end. */
    const unsigned long long u = axis == 0 ? y : x, v = axis == 2 ? y : z, around = u + v, end = u * v;
    const unsigned long long area_left = (plane - kdtree_min(range)) * around + end, area_right = (kdtree_max(range) - plane) * around + end;
    unsigned long long best = (left * area_left + right * area_right) * KDTREE_PLANES + lane;
    for (unsigned bits = WARP_THREADS / 2; bits != 0; bits /= 2) {
        const unsigned long long other = __shfl_xor_sync(KDTREE_ALL_LANES, best, bits);
        best = other < best ? other : best;
    }
    const unsigned chosen = (unsigned)(best % KDTREE_PLANES);
    s->axis = axis;
    s->plane = kdtree_plane(range, chosen);
    s->left = __shfl_sync(KDTREE_ALL_LANES, left, chosen);
    s->right = __shfl_sync(KDTREE_ALL_LANES, right, chosen);
    return best / KDTREE_PLANES < (count - KDTREE_TRAVERSAL) * (kdtree_length(range) * around + end);
}

/* Writes the triangles of one step of all lanes to an array, in order, after the `filled` ones that it has. Returns how many it has then. */
static __device__ inline unsigned kdtree_append(unsigned *array, unsigned room, unsigned filled, int wanted, unsigned triangle) {
    const unsigned lane = threadIdx.x % WARP_THREADS, votes = __ballot_sync(KDTREE_ALL_LANES, wanted);
    const unsigned to = filled + __popc(votes & ((1u << lane) - 1));
    if (wanted && to < room) array[to] = triangle;
    return filled + __popc(votes);
}

static __device__ void kdtree_fill(const struct kdtree_build *b, const struct kdtree_task *task, const struct kdtree_split *s, unsigned *left,
                                   unsigned *right) {
    const unsigned lane = threadIdx.x % WARP_THREADS, count = task->count, axis = s->axis;
    unsigned lefts = 0, rights = 0;
    for (unsigned first = 0; first < count; first += KDTREE_STAGE) {
        unsigned triangle[KDTREE_STEPS], box[KDTREE_STEPS];
        for (unsigned k = 0; k < KDTREE_STEPS; k++) {
            const unsigned i = first + k * WARP_THREADS + lane;
            triangle[k] = i < count ? task->indices[i] : 0;
            box[k] = kdtree_range_of(b, triangle[k], axis);
        }
        for (unsigned k = 0; k < KDTREE_STEPS && first + k * WARP_THREADS < count; k++) {
            const int here = first + k * WARP_THREADS + lane < count;
            lefts = kdtree_append(left, s->left, lefts, here && (kdtree_min(box[k]) < s->plane || kdtree_max(box[k]) <= s->plane), triangle[k]);
            rights = kdtree_append(right, s->right, rights, here && kdtree_max(box[k]) > s->plane, triangle[k]);
        }
    }
}

/* Returns 0 if memory or slots ran out; then the task is as it was. */
static __device__ int kdtree_divide(const struct kdtree_build *b, const struct kdtree_task *task, const struct kdtree_split *s, struct kdtree_result *r) {
    const unsigned lane = threadIdx.x % WARP_THREADS;
    unsigned *arrays[2] = {NULL, NULL};
    int divided = 0;
    if (lane == 0) {
        arrays[0] = kdtree_take(b, s->left, r);
        arrays[1] = kdtree_take(b, s->right, r);
        divided = (arrays[0] != NULL) == (s->left != 0) && (arrays[1] != NULL) == (s->right != 0);
    }
    divided = __shfl_sync(KDTREE_ALL_LANES, divided, 0);
    if (divided) {
        unsigned *const left = (unsigned *)(uintptr_t)__shfl_sync(KDTREE_ALL_LANES, (unsigned long long)(uintptr_t)arrays[0], 0);
        unsigned *const right = (unsigned *)(uintptr_t)__shfl_sync(KDTREE_ALL_LANES, (unsigned long long)(uintptr_t)arrays[1], 0);
        kdtree_fill(b, task, s, left, right);
        __syncwarp(); /* all lanes have read the array of the task, and have written those of the children */
        if (lane == 0) divided = kdtree_push(b, task, s, arrays, r);
        divided = __shfl_sync(KDTREE_ALL_LANES, divided, 0);
    }
    if (lane == 0 && !divided) {
        kdtree_give(arrays[0], r);
        kdtree_give(arrays[1], r);
    }
    return divided;
}

static __device__ void kdtree_leaf(const struct kdtree_build *b, const struct kdtree_task *task, struct kdtree_result *r) {
    const unsigned lane = threadIdx.x % WARP_THREADS;
    for (unsigned i = lane; i < task->count; i += WARP_THREADS) r->sum += kdtree_leaf_hash(task->path, task->indices[i]);
    __syncwarp(); /* all lanes have read the array */
    if (lane == 0) {
        r->leaves++;
        r->sum += kdtree_hash(task->path);
        if (task->depth > 0) kdtree_give(task->indices, r);
        atomicSub(&b->pool->unfinished.n, 1u);
    }
}

static __global__ void kdtree_kernel(struct kdtree_build b) {
    __shared__ unsigned stages[KDTREE_CTA_WARPS][KDTREE_STAGE];
    struct kdtree_result r = {0, 0, 0, 0}; /* of this lane */
    for (unsigned slot = kdtree_claim(&b); slot != KDTREE_NO_SLOT; slot = kdtree_claim(&b)) {
        const struct kdtree_task *task = &b.slots[slot];
        struct kdtree_split s;
        const int divided = task->count > KDTREE_LEAF_MAX && task->depth < KDTREE_DEPTH_MAX &&
                            kdtree_choose(&b, task, stages[threadIdx.x / WARP_THREADS], &s) && kdtree_divide(&b, task, &s, &r);
        if (!divided) kdtree_leaf(&b, task, &r);
    }
    atomicAdd(&b.result->sum, r.sum);
    if (threadIdx.x % WARP_THREADS != 0) return;
    atomicAdd(&b.result->inner, r.inner);
    atomicAdd(&b.result->leaves, r.leaves);
    atomicAdd(&b.result->held, r.held);
}

/* ---- launch ----------------------------------------------------------------------------------- */

#ifdef __CUDACC__
static unsigned kdtree_ctas(void) {
    int device, processors, each;
    child_must(cudaGetDevice(&device));
    child_must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    child_must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kdtree_kernel, CTA_THREADS, 0));
    return (unsigned)(processors * each);
}
static void kdtree_launch(const struct kdtree_build *b, unsigned ctas) { kdtree_kernel<<<ctas, CTA_THREADS>>>(*b); }

extern "C" const struct kdtree_kernels MEMORY_KERNELS(kdtree) = {kdtree_ctas, kdtree_launch};
#endif

#endif
