/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The scene of the case kdtree, and its tree on the CPU. The kernel compares every box with every plane; here a binary search finds the planes of
 * which a box is on the right or the left, and the sums over the planes count the boxes. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/kdtree.h"
#include "tools/mmbench/child/papers/memory.h"

/* ---- the scene -------------------------------------------------------------------------------- */

#define SPHERE_GRID 16u /* a sphere is a cube whose faces are grids of squares, each of two triangles, moved to a distance from the centre */
#define FACE_TRIANGLES (SPHERE_GRID * SPHERE_GRID * 2)
#define SPHERE_TRIANGLES (6 * FACE_TRIANGLES)
#define CLUSTER_SPHERES 16u
#define SLIVER_ONE_IN 16u /* one triangle in this many is a sliver */

struct scene {
    unsigned clusters;
    int room; /* side of the cube that a cluster has, if clusters divide the space evenly */
};

static int below(unsigned i, unsigned salt, int limit) { return (int)(mix(i * 0x9e3779b9u + salt) % (unsigned)limit); }

static int within(int x, int margin) { return x < margin ? margin : x > 65535 - margin ? 65535 - margin : x; }

static int square_root(int x) {
    int root = 0;
    for (int bit = 1 << 15; bit != 0; bit /= 2)
        if ((long long)(root + bit) * (root + bit) <= x) root += bit;
    return root;
}

/* The corner (u, v) of a face, relative to the sphere's centre. */
static void corner(int at[3], unsigned face, unsigned u, unsigned v, int radius) {
    const int half = (int)SPHERE_GRID, on[3] = {2 * (int)u - half, 2 * (int)v - half, face < 3 ? half : -half};
    const int distance = square_root((on[0] * on[0] + on[1] * on[1] + on[2] * on[2]) << 16); /* in units of 1/2^8 */
    for (unsigned k = 0; k < 3; k++) at[(face + k) % 3] = radius * on[k] * (1 << 8) / distance;
}

static void add_range(struct kdtree_box *box, unsigned axis, int min, int max) { box->range[axis] = kdtree_range((unsigned)min, (unsigned)max); }

static struct kdtree_box sphere_triangle(const struct scene *s, unsigned i) {
    const unsigned sphere = i / SPHERE_TRIANGLES, face = i % SPHERE_TRIANGLES / FACE_TRIANGLES, square = i % FACE_TRIANGLES / 2;
    const unsigned u = square % SPHERE_GRID, v = square / SPHERE_GRID, cluster = below(sphere, 1, (int)s->clusters);
    const int radius = s->room / 32 + below(sphere, 2, s->room / 16);
    struct kdtree_box box;
    int corners[3][3];
    corner(corners[0], face, u, v, radius);
    corner(corners[1], face, u + 1, v + 1, radius);
    if (i % 2 == 0) corner(corners[2], face, u + 1, v, radius);
    else corner(corners[2], face, u, v + 1, radius);
    for (unsigned axis = 0; axis < 3; axis++) {
        const int place = below(cluster, 3 + axis, 65536) + below(sphere, 6 + axis, s->room / 2), centre = within(place - s->room / 4, radius);
        int min = corners[0][axis], max = min;
        for (unsigned k = 1; k < 3; k++) {
            min = corners[k][axis] < min ? corners[k][axis] : min;
            max = corners[k][axis] > max ? corners[k][axis] : max;
        }
        add_range(&box, axis, centre + min, centre + max);
    }
    return box;
}

/* A long, thin box along an axis, anywhere in the space. */
static struct kdtree_box sliver(const struct scene *s, unsigned i) {
    struct kdtree_box box;
    for (unsigned axis = 0; axis < 3; axis++) {
        const int longest = axis == i % 3 ? s->room / 4 : s->room / 512, half = longest / 4 + below(i, 9 + axis, longest / 4 + 1);
        const int centre = within(below(i, 12 + axis, 65536), half);
        add_range(&box, axis, centre - half, centre + half);
    }
    return box;
}

void kdtree_scene(struct kdtree_box *boxes, unsigned count) {
    const unsigned spheres = count / SPHERE_TRIANGLES + 1;
    struct scene s = {(spheres + CLUSTER_SPHERES - 1) / CLUSTER_SPHERES, 0};
    unsigned side = 1;
    while (side * side * side < s.clusters) side++;
    s.room = (int)(65536 / side);
    for (unsigned i = 0; i < count; i++) boxes[i] = i % SLIVER_ONE_IN == 0 ? sliver(&s, i / SLIVER_ONE_IN) : sphere_triangle(&s, i - i / SLIVER_ONE_IN - 1);
}

/* ---- the expected tree ------------------------------------------------------------------------ */

static unsigned long long area(const struct kdtree_box *cell) {
    const unsigned long long x = kdtree_length(cell->range[0]), y = kdtree_length(cell->range[1]), z = kdtree_length(cell->range[2]);
    return x * y + y * z + z * x;
}

static struct kdtree_box cell_of(const struct kdtree_box *parent, unsigned axis, unsigned plane, unsigned side) {
    const unsigned range = parent->range[axis];
    struct kdtree_box cell = *parent;
    cell.range[axis] = side == 0 ? kdtree_range(kdtree_min(range), plane) : kdtree_range(plane, kdtree_max(range));
    return cell;
}

/* The number of planes that are less than x; the planes are in ascending order. */
static unsigned planes_below(const unsigned planes[KDTREE_PLANES], unsigned x) {
    unsigned n = 0;
    for (unsigned step = KDTREE_PLANES / 2; step != 0; step /= 2) n += planes[n + step - 1] < x ? step : 0;
    return n + (planes[n] < x);
}

/* All planes below the returned number have the box on their right only: those <= min, but < max. */
static unsigned right_only(const unsigned planes[KDTREE_PLANES], unsigned range) {
    const unsigned min = kdtree_min(range), max = kdtree_max(range);
    return planes_below(planes, min < max ? min + 1 : max);
}

int kdtree_divide_on_host(struct kdtree_split *s, const struct kdtree_box *boxes, const unsigned *indices, unsigned count, const struct kdtree_box *cell) {
    unsigned planes[KDTREE_PLANES], begin[KDTREE_PLANES + 1] = {0}, end[KDTREE_PLANES + 1] = {0}, left = 0, right = count, axis = 0;
    for (unsigned a = 1; a < 3; a++)
        if (kdtree_length(cell->range[a]) > kdtree_length(cell->range[axis])) axis = a;
    for (unsigned p = 0; p < KDTREE_PLANES; p++) planes[p] = kdtree_plane(cell->range[axis], p);
    for (unsigned i = 0; i < count; i++) {
        const unsigned range = boxes[indices[i]].range[axis];
        begin[right_only(planes, range)]++;
        end[planes_below(planes, kdtree_max(range))]++;
    }
    unsigned long long least = ~0ull;
    for (unsigned p = 0; p < KDTREE_PLANES; p++) {
        const struct kdtree_box cells[2] = {cell_of(cell, axis, planes[p], 0), cell_of(cell, axis, planes[p], 1)};
        left += begin[p];
        right -= end[p];
        const unsigned long long cost = left * area(&cells[0]) + right * area(&cells[1]);
        if (cost >= least) continue;
        const struct kdtree_split better = {axis, planes[p], left, right};
        *s = better;
        least = cost;
    }
    return least < (count - KDTREE_TRAVERSAL) * area(cell);
}

/* Adds the tree of a node, whose depth is at most KDTREE_DEPTH_MAX. Returns 0 if there is no memory. */
static int expect(struct kdtree_expected *e, const struct kdtree_box *boxes, const unsigned *indices, unsigned count, const struct kdtree_box *cell,
                  unsigned depth, unsigned long long path) {
    struct kdtree_split s;
    if (count <= KDTREE_LEAF_MAX || depth >= KDTREE_DEPTH_MAX || !kdtree_divide_on_host(&s, boxes, indices, count, cell)) {
        e->result.leaves++;
        e->result.sum += kdtree_hash(path);
        for (unsigned i = 0; i < count; i++) e->result.sum += kdtree_leaf_hash(path, indices[i]);
        return 1;
    }
    unsigned *children = (unsigned *)malloc(((size_t)s.left + s.right) * sizeof *children), *left = children;
    if (children == NULL) return 0;
    unsigned *right = children + s.left;
    for (unsigned i = 0; i < count; i++) {
        const unsigned range = boxes[indices[i]].range[s.axis], only_right = kdtree_min(range) >= s.plane && kdtree_max(range) > s.plane;
        if (!only_right) *left++ = indices[i];
        if (kdtree_max(range) > s.plane) *right++ = indices[i];
    }
    int made = 1;
    e->result.inner++;
    for (unsigned side = 0; side < 2 && made; side++) {
        const struct kdtree_box child = cell_of(cell, s.axis, s.plane, side);
        const unsigned n = side == 0 ? s.left : s.right;
        e->arrays += n != 0;
        e->bytes += (n * 4ull + BUMP_ALIGNMENT - 1) / BUMP_ALIGNMENT * BUMP_ALIGNMENT;
        made = expect(e, boxes, side == 0 ? children : children + s.left, n, &child, depth + 1, kdtree_path(path, side));
    }
    free(children);
    return made;
}

int kdtree_expect(struct kdtree_expected *e, const struct kdtree_box *boxes, unsigned count) {
    const struct kdtree_box space = {{KDTREE_SPACE, KDTREE_SPACE, KDTREE_SPACE}};
    unsigned *root = (unsigned *)malloc((count + 1u) * sizeof *root);
    memset(e, 0, sizeof *e);
    if (root == NULL) return 0;
    for (unsigned i = 0; i < count; i++) root[i] = i;
    const int made = expect(e, boxes, root, count, &space, 0, KDTREE_ROOT_PATH);
    free(root);
    return made;
}

void kdtree_start(struct kdtree_task *slot, struct kdtree_pool *pool, unsigned *root, unsigned count) {
    const struct kdtree_task task = {root, KDTREE_ROOT_PATH, {{KDTREE_SPACE, KDTREE_SPACE, KDTREE_SPACE}}, count, 0, 1};
    *slot = task;
    memset(pool, 0, sizeof *pool);
    pool->tail.n = pool->unfinished.n = 1;
}

int kdtree_wrong(const struct kdtree_result *got, const struct kdtree_result *expected, unsigned long long nulls) {
    if (got->held != expected->held) return 1;
    return nulls == 0 && (got->inner != expected->inner || got->leaves != expected->leaves || got->sum != expected->sum);
}
