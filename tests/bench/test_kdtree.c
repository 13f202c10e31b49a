/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's kdtree without a GPU: its scene, its tree on the CPU, and its kernel, with a CPU thread for each thread of a CTA. malloc and free are
 * those of the C library, counted; malloc returns NULL when a test wants it, and damages an array when a test wants it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/cta.h"
#include "tests/runner.h"

static unsigned long long live, calls, taken_bytes; /* arrays; calls of malloc; bytes, each array rounded up to 16 */
static unsigned long long null_every;               /* every null_every-th call returns NULL (0: none) */
static unsigned long long damage_at;                /* this call damages the array of two calls ago (0: none); for a kernel of one warp */
static unsigned damage;                             /* what the first index becomes */
static unsigned *recent[2];

static void *counted_malloc(size_t bytes) {
    const unsigned long long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (null_every && call % null_every == 0) return NULL;
    unsigned *p = (unsigned *)malloc(bytes);
    if (p == NULL) abort();
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&taken_bytes, (bytes + 15) / 16 * 16, __ATOMIC_RELAXED);
    if (damage_at) {
        if (call == damage_at) *recent[0] = damage;
        recent[0] = recent[1];
        recent[1] = p;
    }
    return p;
}
static void counted_free(void *p) {
    if (p == NULL) abort();
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    free(p);
}
#define malloc counted_malloc
#define free counted_free
#include "tools/mmbench/child/papers/kdtree_kernels.h"
#undef malloc
#undef free

/* ---- fixture ---------------------------------------------------------------------------------- */

struct fixture {
    struct kdtree_box *boxes;
    unsigned *root;
    struct kdtree_expected expected;
    struct kdtree_build b;
    struct kdtree_pool pool;
    struct kdtree_result result;
    struct tally t;
};

static void build_body(const void *of) { kdtree_kernel(*(const struct kdtree_build *)of); }

static void open_tree(struct fixture *f, unsigned count) {
    memset(f, 0, sizeof *f);
    live = calls = taken_bytes = null_every = damage_at = 0;
    f->boxes = (struct kdtree_box *)calloc(count, sizeof *f->boxes);
    f->root = (unsigned *)calloc(count, sizeof *f->root);
    ck_assert(f->boxes && f->root);
    for (unsigned i = 0; i < count; i++) f->root[i] = i;
    f->b.count = count;
}

/* After the boxes are set. */
static void expect_tree(struct fixture *f) {
    ck_assert(kdtree_expect(&f->expected, f->boxes, f->b.count));
    f->b.boxes = f->boxes;
    f->b.slot_count = (unsigned)f->expected.arrays + 1;
    f->b.slots = (struct kdtree_task *)calloc(f->b.slot_count, sizeof *f->b.slots);
    f->b.pool = &f->pool;
    f->b.result = &f->result;
    f->b.t = &f->t;
    ck_assert(f->b.slots != NULL);
}

static void open_scene(struct fixture *f, unsigned count) {
    open_tree(f, count);
    kdtree_scene(f->boxes, count);
    expect_tree(f);
}

static void build(struct fixture *f, unsigned ctas, unsigned threads) {
    calls = taken_bytes = 0;
    memset(f->b.slots, 0, f->b.slot_count * sizeof *f->b.slots);
    memset(&f->result, 0, sizeof f->result);
    memset(&f->t, 0, sizeof f->t);
    kdtree_start(f->b.slots, &f->pool, f->root, f->b.count);
    cta_launch(build_body, &f->b, ctas, threads);
    ck_assert_uint_eq(live, 0);
    ck_assert_uint_eq(f->result.held, 0);
    ck_assert_uint_eq(f->pool.unfinished.n, 0);
    ck_assert_uint_eq(f->result.leaves, f->result.inner + 1);
}

static int wrong(const struct fixture *f) { return kdtree_wrong(&f->result, &f->expected.result, f->t.nulls); }

/* Builds the tree, which must be as expected. */
static void build_right(struct fixture *f, unsigned ctas, unsigned threads) {
    build(f, ctas, threads);
    ck_assert_uint_eq(f->t.nulls, 0);
    ck_assert_uint_eq(f->t.corrupt, 0);
    ck_assert_uint_eq(f->result.inner, f->expected.result.inner);
    ck_assert_uint_eq(f->result.leaves, f->expected.result.leaves);
    ck_assert_uint_eq(f->result.sum, f->expected.result.sum);
    ck_assert(!wrong(f));
    ck_assert_uint_eq(calls, f->expected.arrays);
    ck_assert_uint_eq(taken_bytes, f->expected.bytes);
}

static void close_tree(struct fixture *f) {
    free(f->boxes);
    free(f->root);
    free(f->b.slots);
}

static unsigned random_below(unsigned limit) {
    static unsigned drawn;
    return mix(++drawn * 0x9e3779b9u) % limit;
}

/* Boxes in a cube of this side: many of a small cube coincide, touch a plane, or lie in it. */
static void random_boxes(struct kdtree_box *boxes, unsigned count, unsigned side) {
    for (unsigned i = 0; i < count; i++)
        for (unsigned axis = 0; axis < 3; axis++) {
            const unsigned min = random_below(side), room = random_below(4) == 0 ? side - min : (side - min) / 8 + 1;
            boxes[i].range[axis] = kdtree_range(min, min + random_below(room));
        }
}

/* ---- the CPU's tree --------------------------------------------------------------------------- */

/* The division of a node, by the words of the rule. */
static int brute_force(struct kdtree_split *s, const struct kdtree_box *boxes, const unsigned *indices, unsigned count, const struct kdtree_box *cell) {
    unsigned long long side[3], least = ~0ull;
    for (unsigned k = 0; k < 3; k++) side[k] = kdtree_max(cell->range[k]) - kdtree_min(cell->range[k]);
    const unsigned axis = side[0] >= side[1] && side[0] >= side[2] ? 0 : side[1] >= side[2] ? 1 : 2;
    const unsigned long long a = side[(axis + 1) % 3], b = side[(axis + 2) % 3], whole = side[axis] * (a + b) + a * b;
    for (unsigned p = 1; p <= 32; p++) {
        const unsigned plane = kdtree_min(cell->range[axis]) + (unsigned)(side[axis] * p / 33);
        const unsigned long long to = plane - kdtree_min(cell->range[axis]), from = side[axis] - to;
        struct kdtree_split now = {axis, plane, 0, 0};
        for (unsigned i = 0; i < count; i++) {
            const unsigned min = kdtree_min(boxes[indices[i]].range[axis]), max = kdtree_max(boxes[indices[i]].range[axis]);
            now.left += min < plane || (min == plane && max == plane);
            now.right += max > plane;
        }
        const unsigned long long cost = now.left * (to * (a + b) + a * b) + now.right * (from * (a + b) + a * b);
        if (cost < least) *s = now;
        least = cost < least ? cost : least;
    }
    return least < (count - KDTREE_TRAVERSAL) * whole;
}

START_TEST(divides_by_the_rule) {
    enum { BOXES = 100 };
    struct kdtree_box boxes[BOXES];
    unsigned indices[BOXES], divided = 0;
    for (unsigned round = 0; round < 2000; round++) {
        const unsigned side = round % 4 == 0 ? 65536 : 2 + random_below(2 << random_below(15)), count = KDTREE_LEAF_MAX + 1 + random_below(BOXES / 2);
        struct kdtree_box cell;
        struct kdtree_split got = {0, 0, 0, 0}, expected = got;
        random_boxes(boxes, BOXES, side);
        random_boxes(&cell, 1, side);
        if (round % 2 == 0) cell.range[0] = cell.range[1] = cell.range[2] = kdtree_range(0, side - 1);
        for (unsigned i = 0; i < count; i++) indices[i] = random_below(BOXES);
        const int good = brute_force(&expected, boxes, indices, count, &cell);
        ck_assert_int_eq(kdtree_divide_on_host(&got, boxes, indices, count, &cell), good);
        ck_assert(got.axis == expected.axis && got.plane == expected.plane && got.left == expected.left && got.right == expected.right);
        ck_assert_uint_ge(got.left + got.right, count); /* no box is lost */
        divided += good;
    }
    ck_assert(divided > 200 && divided < 1800);
}
END_TEST

/* Exchanging two triangles between leaves changes the sum, and so does the loss or the doubling of one. */
START_TEST(hashes_know_the_place) {
    const unsigned long long left = kdtree_path(KDTREE_ROOT_PATH, 0), right = kdtree_path(KDTREE_ROOT_PATH, 1);
    ck_assert_uint_ne(kdtree_leaf_hash(left, 1) + kdtree_leaf_hash(right, 2), kdtree_leaf_hash(left, 2) + kdtree_leaf_hash(right, 1));
    ck_assert_uint_ne(kdtree_leaf_hash(left, 1) + kdtree_leaf_hash(left, 1), kdtree_leaf_hash(left, 1));
    ck_assert_uint_ne(kdtree_path(left, 1), kdtree_path(right, 0));
    ck_assert_uint_ne(kdtree_hash(left) + kdtree_hash(right), kdtree_hash(KDTREE_ROOT_PATH));
}
END_TEST

/* ---- the scene -------------------------------------------------------------------------------- */

/* The scene and its tree are the same in every version, so that rows of two versions can be compared. */
START_TEST(scene_stays) {
    enum { TRIANGLES = 20000 };
    struct kdtree_box *boxes = (struct kdtree_box *)calloc(TRIANGLES, sizeof *boxes);
    struct kdtree_expected e;
    unsigned sum = 0;
    ck_assert(boxes != NULL);
    kdtree_scene(boxes, TRIANGLES);
    for (unsigned i = 0; i < TRIANGLES; i++)
        for (unsigned axis = 0; axis < 3; axis++) {
            ck_assert_uint_le(kdtree_min(boxes[i].range[axis]), kdtree_max(boxes[i].range[axis]));
            sum = mix(sum ^ boxes[i].range[axis]);
        }
    ck_assert(kdtree_expect(&e, boxes, TRIANGLES));
    free(boxes);
    ck_assert_uint_eq(sum, 3546143301u);
    ck_assert_uint_eq(e.result.inner, 28546);
    ck_assert_uint_eq(e.arrays, 52949);
    ck_assert_uint_eq(e.bytes, 3136976);
}
END_TEST

/* Any number of triangles makes a scene. */
START_TEST(scenes_of_any_size) {
    const unsigned counts[] = {1, 2, 16, 17, 3071, 3073, 60000, 100001};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct fixture f;
        open_scene(&f, counts[i]);
        ck_assert_uint_eq(f.expected.result.leaves, f.expected.result.inner + 1);
        ck_assert_uint_ge(f.expected.result.leaves * KDTREE_LEAF_MAX, counts[i] / 2);
        close_tree(&f);
    }
}
END_TEST

/* ---- the kernel ------------------------------------------------------------------------------- */

#define FEW (3 * WARP_THREADS) /* waiting warps take the time of the others, since there are few processors */

START_TEST(scenes) {
    const unsigned counts[] = {1, KDTREE_LEAF_MAX, KDTREE_LEAF_MAX + 1, 40, 400};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct fixture f;
        open_scene(&f, counts[i]);
        if (counts[i] == 400) ck_assert_uint_gt(f.expected.result.inner, 200); /* otherwise the test is too small */
        build_right(&f, 2, counts[i] == 40 ? CTA_THREADS : FEW);
        close_tree(&f);
    }
}
END_TEST

START_TEST(one_warp) {
    struct fixture f;
    open_scene(&f, 80);
    for (unsigned run = 0; run < 2; run++) build_right(&f, 1, WARP_THREADS);
    close_tree(&f);
}
END_TEST

/* Boxes that coincide, touch planes, or lie in them; children without triangles. */
START_TEST(crowds) {
    const unsigned sides[] = {1, 2, 3, 34, 500};
    unsigned long long empty = 0;
    for (unsigned i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct fixture f;
        open_tree(&f, 200);
        random_boxes(f.boxes, f.b.count, sides[i]);
        expect_tree(&f);
        build_right(&f, 1, FEW);
        empty += 2 * f.expected.result.inner - f.expected.arrays;
        close_tree(&f);
    }
    ck_assert_uint_gt(empty, 20);
}
END_TEST

/* If malloc returns NULL, the node is a leaf, the NULL is counted, and no array leaks. */
START_TEST(nulls) {
    for (unsigned every = 1; every <= 9; every += 4) {
        struct fixture f;
        open_scene(&f, 150);
        null_every = every;
        build(&f, 1, FEW);
        ck_assert_uint_eq(f.t.nulls, calls / every);
        ck_assert_uint_gt(f.t.nulls, 0);
        ck_assert_uint_eq(f.t.corrupt, 0);
        ck_assert(!wrong(&f));
        f.t.nulls = 0; /* the tree is another one */
        ck_assert(wrong(&f));
        null_every = 0;
        if (every == 1) build_right(&f, 1, FEW);
        close_tree(&f);
    }
}
END_TEST

/* If the slots run out, this is found; nothing is overrun, leaks or hangs. */
START_TEST(no_slots) {
    for (unsigned slots = 1; slots <= 67; slots += 33) {
        for (unsigned odd = 0; odd < 2; odd++) {
            struct fixture f;
            open_scene(&f, 300);
            f.b.slot_count = slots + odd;
            f.b.slots = (struct kdtree_task *)realloc(f.b.slots, f.b.slot_count * sizeof *f.b.slots);
            ck_assert(f.b.slots != NULL);
            build(&f, 1, 2 * WARP_THREADS);
            ck_assert_uint_gt(f.t.corrupt, 0);
            ck_assert(wrong(&f));
            close_tree(&f);
        }
    }
}
END_TEST

/* ---- planted faults --------------------------------------------------------------------------- */

/* An index that changes in the root's array, or in an array that the allocator damages, is found. */
START_TEST(damaged_arrays_are_found) {
    const unsigned indices[] = {0, ~0u};
    struct fixture f;
    open_scene(&f, 60);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned right = f.root[37];
        f.root[37] = indices[i];
        build(&f, 1, WARP_THREADS);
        ck_assert(wrong(&f));
        f.root[37] = right;
        damage = indices[i];
        damage_at = 31;
        build(&f, 1, WARP_THREADS);
        ck_assert(wrong(&f));
        damage_at = 0;
    }
    build_right(&f, 1, WARP_THREADS);
    close_tree(&f);
}
END_TEST

START_TEST(wrong_results_are_found) {
    const struct kdtree_result right = {10, 11, 12345, 0};
    struct kdtree_result got = right;
    ck_assert(!kdtree_wrong(&got, &right, 0));
    got.inner--;
    ck_assert(kdtree_wrong(&got, &right, 0));
    ck_assert(!kdtree_wrong(&got, &right, 1));
    got = right;
    got.leaves++;
    ck_assert(kdtree_wrong(&got, &right, 0));
    got = right;
    got.sum ^= 1;
    ck_assert(kdtree_wrong(&got, &right, 0));
    got = right;
    got.held++;
    ck_assert(kdtree_wrong(&got, &right, 0));
    ck_assert(kdtree_wrong(&got, &right, 1));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kdtree");
    TCase *host = tcase_create("host"), *kernel = tcase_create("kernel");
    tcase_add_test(host, divides_by_the_rule);
    tcase_add_test(host, hashes_know_the_place);
    tcase_add_test(host, scene_stays);
    tcase_add_test(host, scenes_of_any_size);
    tcase_add_test(kernel, scenes);
    tcase_add_test(kernel, one_warp);
    tcase_add_test(kernel, crowds);
    tcase_add_test(kernel, nulls);
    tcase_add_test(kernel, no_slots);
    tcase_add_test(kernel, damaged_arrays_are_found);
    tcase_add_test(kernel, wrong_results_are_found);
    tcase_set_timeout(host, 60);
    tcase_set_timeout(kernel, 120);
    suite_add_tcase(suite, host);
    suite_add_tcase(suite, kernel);
    return suite_run(suite);
}
