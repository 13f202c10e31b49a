/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case "kdtree": one persistent kernel builds a k-d tree over the bounding boxes of triangles, after the benchmark of M. Vinkler, V. Havran,
 * "Register efficient dynamic memory allocator for GPUs", Computer Graphics Forum 34(8), 2015. A warp is a worker. Tasks are in a pool in
 * device memory.
 *
 *   kdtree_kernels.h  the kernel
 *   kdtree_host.c     the scene, and the expected result by another algorithm
 *   kdtree_case.c     the case
 *
 * Coordinates are 16-bit integers, so that CPU and GPU agree in every bit.
 *
 * Rule. A node has a cell (a box of the space), and the indices of the triangles whose boxes reach into the cell. It is a leaf if it has at most
 * KDTREE_LEAF_MAX triangles, or has depth KDTREE_DEPTH_MAX. Otherwise KDTREE_PLANES planes, at equal distances, divide the longest side of its
 * cell (of equal sides, the first). A plane leaves `left` triangles on its left and `right` ones on its right:
 *     right: the boxes whose max > plane;    left: the boxes whose min < plane, and those that lie in the plane (min = max = plane).
 * So each box is on at least one side. The plane costs left * area(left cell) + right * area(right cell). The cheapest plane (of equal ones, the
 * first) divides the node if it costs less than (triangles - KDTREE_TRAVERSAL) * area(cell); otherwise the node is a leaf. This is the surface
 * area heuristic, with half areas.
 *
 * Memory: each child with triangles has an index array of 4 bytes for each. The array of a node is given back when the arrays of its children
 * are filled; the array of a leaf when it is read. The root's array is a part of the input.
 */
#ifndef MM_BENCH_KDTREE_H
#define MM_BENCH_KDTREE_H

#include "tools/mmbench/child/child.h"

#define KDTREE_PLANES 32u           /* one for each lane of a warp */
#define KDTREE_LEAF_MAX 4u          /* a scene then takes about as many arrays as those of the paper: 65 K for 20 K triangles, 25 M for 7.2 M */
#define KDTREE_TRAVERSAL 1u         /* cost of visiting an inner node, in units of the cost of testing a triangle */
#define KDTREE_DEPTH_MAX 48u        /* bounds the recursion on the CPU; the scenes get to 37 */
#define KDTREE_COUNT_MAX (1u << 23) /* triangles */

/* A cost times KDTREE_PLANES fits in 64 bits, so that a plane's number can stand below the cost: a half area is below 3 * 2^32, and a cost, which
 * adds two products of at most 2^23 triangles and a half area, is below 2^58. */

/* The bounding box of a triangle, or a cell. For each axis: max << 16 | min. */
struct kdtree_box {
    unsigned range[3];
};

TOOLS_BOTH unsigned kdtree_range(unsigned min, unsigned max) { return max << 16 | min; }
TOOLS_BOTH unsigned kdtree_min(unsigned range) { return range & 0xffff; }
TOOLS_BOTH unsigned kdtree_max(unsigned range) { return range >> 16; }
TOOLS_BOTH unsigned kdtree_length(unsigned range) { return kdtree_max(range) - kdtree_min(range); }

#define KDTREE_SPACE 0xffff0000u /* the range of the root's cell */

/* Plane i of a cell with this range on the axis. */
TOOLS_BOTH unsigned kdtree_plane(unsigned range, unsigned i) { return kdtree_min(range) + kdtree_length(range) * (i + 1) / (KDTREE_PLANES + 1); }

TOOLS_BOTH unsigned long long kdtree_hash(unsigned long long x) { /* SplitMix64 */
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* The path of a node identifies its place in the tree: side 0 is left, side 1 right. */
#define KDTREE_ROOT_PATH 0ull
TOOLS_BOTH unsigned long long kdtree_path(unsigned long long parent, unsigned side) { return kdtree_hash(parent + 1 + side); }
/* Hash of a leaf: the sum of kdtree_hash(its path), and of this for each of its triangles. */
TOOLS_BOTH unsigned long long kdtree_leaf_hash(unsigned long long path, unsigned triangle) { return kdtree_hash(path ^ kdtree_hash(triangle)); }

/* How a node is divided. */
struct kdtree_split {
    unsigned axis, plane, left, right;
};

struct kdtree_result {
    unsigned long long inner, leaves; /* nodes */
    unsigned long long sum;           /* of the leaves' hashes: equal if each leaf has the same set of triangles */
    unsigned long long held;          /* arrays taken, less those given back */
};

/* ---- the pool of tasks -------------------------------------------------------------------------
 * Representation: a task is a node with triangles. Slots are used once, in order: [0, head) are claimed by warps, [0, tail) are reserved for tasks.
 * `unfinished` counts the tasks that are not finished, from just before they are published.
 * Invariants: I1, the warp that reserves a slot waits for no task before it publishes this slot. I2, a task counts until its array is
 * given back; when it is divided, it passes its own count to a child before the children are published. So `unfinished` is 0 only when the tree is
 * complete.
 * Ordering: the release of `ready` pairs with the acquire in kdtree_claim. The __syncwarp before the release orders the arrays that all lanes
 * filled, and the one after the acquire makes them visible to all lanes.
 * Progress: a warp waits only for the slot that it claimed. If all warps wait, all tasks that were published are claimed and finished, so `unfinished`
 * is 0, which ends the wait. Lanes wait for lanes of their own warp only at convergence points. If the allocator hangs, the kernel does; mmbench
 * kills the child after its time limit.
 * There are as many slots as the expected tree needs. If they run out, the node becomes a leaf, and is counted as corrupt; one reserved slot may then
 * stay empty, at the end. */

struct kdtree_task {
    unsigned *indices;
    unsigned long long path;
    struct kdtree_box cell;
    unsigned count, depth;
    unsigned ready; /* 1 when the task is published */
};

/* Its own cache line, because all warps use it. */
struct kdtree_counter {
    unsigned n, unused[31];
};

struct kdtree_pool {
    struct kdtree_counter head, tail, unfinished;
};

/* The arguments of the kernel; the pointers are to device memory. */
struct bump;
struct kdtree_build {
    const struct kdtree_box *boxes;
    unsigned count; /* triangles */
    unsigned slot_count;
    struct kdtree_task *slots;
    struct kdtree_pool *pool;
    struct kdtree_result *result; /* the kernel adds to it */
    struct bump *bump;
    struct tally *t; /* NULLs; as corrupt, nodes that found no slot */
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kdtree_kernels.h ------------------------------------------------------------------------- */

struct kdtree_kernels {
    unsigned (*ctas)(void); /* as many as are resident at once */
    void (*build)(const struct kdtree_build *b, unsigned ctas);
};
extern const struct kdtree_kernels alloc_kdtree, floor_kdtree;

/* ---- kdtree_host.c ---------------------------------------------------------------------------- */

/* Makes slot 0 and the counters those of a pool that holds only the root. root: the indices of all triangles. */
void kdtree_start(struct kdtree_task *slot, struct kdtree_pool *pool, unsigned *root, unsigned count);

/* The boxes of a scene: spheres in clusters, and slivers along the axes. Depends on `count` only. */
void kdtree_scene(struct kdtree_box *boxes, unsigned count);

struct kdtree_expected {
    struct kdtree_result result;
    unsigned long long arrays; /* taken during the build */
    unsigned long long bytes;  /* of all these, each rounded up to BUMP_ALIGNMENT */
};
/* Computes the tree. Returns 0 if there is no memory. */
int kdtree_expect(struct kdtree_expected *e, const struct kdtree_box *boxes, unsigned count);
/* How the node is divided. Returns 0 if it is not: then no plane is good. */
int kdtree_divide_on_host(struct kdtree_split *s, const struct kdtree_box *boxes, const unsigned *indices, unsigned count, const struct kdtree_box *cell);
/* Whether a run's result is wrong. After a NULL the tree may be another one, but all arrays must have been given back. */
int kdtree_wrong(const struct kdtree_result *got, const struct kdtree_result *expected, unsigned long long nulls);

/* ---- kdtree_case.c ---------------------------------------------------------------------------- */

void run_kdtree(const struct request *q);

#ifdef __cplusplus
}
#endif
#endif
