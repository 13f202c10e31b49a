/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bitmap trees (tree.h) with two mids under the explorer: nothing in the set becomes unreachable. */
#include "explore.h"
#include "runtime/core/tree.h"

#include <stdio.h>
#include <string.h>

#define LEAF 64u /* segments of a leaf */
#define MID MM_TREE_MID_SEGMENTS
#define MIDS 2u
static uint64_t nodes[1 + MIDS + MIDS * 64];
static const struct mm_tree tree = {nodes, 1, MIDS};
static uint64_t in[4]; /* segments taken: of the first leaf, of the others, of the second mid */

static void with(const uint32_t *segments, uint32_t n) {
    memset(nodes, 0, sizeof nodes);
    memset(in, 0, sizeof in);
    for (uint32_t i = 0; i < n; i++) mm_tree_insert(tree, segments[i]);
}
static void empty(void) { with(NULL, 0); }
static void first_of_leaf(void) { with((const uint32_t[]){0}, 1); }
static void first_of_mids(void) { with((const uint32_t[]){0, MID}, 2); }
static void two_of_a_leaf(void) { with((const uint32_t[]){0, 1}, 2); }
static void four_of_a_leaf(void) { with((const uint32_t[]){0, 1, 2, 3}, 4); }
static void stale(void) {
    empty();
    nodes[0] = 3;
    nodes[1] = nodes[2] = 1;
}

/* A find in a set with segments that stay. It may miss them while a bit above is being cleared and set again, but, with a
 * wait between, not twice: those two steps are done by then. */
static void must_find(void) {
    uint32_t found = mm_tree_find(tree, 0);
    if (found == MM_TREE_NONE) {
        mm_wait();
        found = mm_tree_find(tree, 1);
    }
    model_require(found != MM_TREE_NONE, "nothing found, though something is in the set and nobody is about to change it");
    model_progress();
}
static void put(uint32_t s) {
    mm_tree_insert(tree, s);
    model_progress();
}
/* After it has mended the tree, a thread finds what it has inserted, however long another insert is suspended. */
static void put_mend_find(uint32_t s) {
    put(s);
    mm_tree_mend(tree, MIDS * 64);
    model_require(mm_tree_find(tree, 0) != MM_TREE_NONE, "nothing found, though segment %u is in the set", s);
    model_progress();
}
static void put_and_find(uint32_t s) {
    put(s);
    must_find();
}
static void take(uint32_t random) {
    const uint32_t s = mm_tree_take(tree, random, 0);
    model_note("taken", s);
    if (s != MM_TREE_NONE) {
        uint64_t *has = &in[s < LEAF ? 0 : s < MID ? 1 : 2];
        model_require(!(*has >> (s % 64) & 1), "segment %u is taken by two", s);
        model_set(has, *has | 1ull << (s % 64));
    }
    model_progress();
}
static void erase(uint32_t s) {
    mm_tree_erase(tree, s);
    model_progress();
}
/* Takes segment 1, from among those that others take. */
static void take_out_1(void) {
    if (mm_tree_erase(tree, 1)) model_set(&in[0], in[0] | 2);
    model_progress();
}
static void erase_0(void) { erase(0); }
static void erase_mid(void) { erase(MID); }
static void find(void) { mm_tree_find(tree, 0); }
static void find_1(void) { put_and_find(1); }
static void find_leaf(void) { put_and_find(LEAF); }
static void find_mid(void) { put_and_find(MID); }
static void find_mid_2(void) { put_and_find(MID + LEAF); }
static void mend_0(void) { put_mend_find(0); }
static void mend_mid(void) { put_mend_find(MID); }
static void mend_against(void) {
    mm_tree_mend(tree, MIDS * 64);
    model_progress();
}
static void put_1(void) { put(1); }
static void put_leaf(void) { put(LEAF); }
static void put_mid_2(void) { put(MID + LEAF); }
static void put_0_erase(void) { put(0), erase(0); }
static void put_2(void) { put(2); }
static void take_0(void) { take(0); }
static void take_1(void) { take(MM_TREE_SPREAD); }
static void take_two(void) { take(0), take(0); }

static void check(void) {
    for (uint32_t leaf = 0; leaf < MIDS * 64; leaf++) {
        if (nodes[1 + MIDS + leaf] == 0) continue;
        model_require(nodes[1 + leaf / 64] >> (leaf % 64) & 1, "leaf %u is not announced", leaf);
        model_require(nodes[0] >> (leaf / 64) & 1, "mid %u is not announced", leaf / 64);
    }
}
/* There were four: each taken or still in the set. */
static void check_four(void) {
    check();
    model_require((nodes[1 + MIDS] ^ in[0]) == 15, "in the set %#llx, taken %#llx", (unsigned long long)nodes[1 + MIDS], (unsigned long long)in[0]);
}

static const struct model_scenario scenarios[] = {
    {"tree-erase-against-insert", first_of_leaf, {erase_0, find_1}, check, 0, 1},
    {"tree-three-in-a-leaf", first_of_leaf, {erase_0, find_1, put_2}, check, 0, 1},
    {"tree-three-in-a-mid", first_of_leaf, {erase_0, find_1, find_leaf}, check, 0, 1},
    {"tree-two-mids", first_of_mids, {erase_0, erase_mid, find_mid_2}, check, 0, 1},
    {"tree-back-and-forth", empty, {put_0_erase, find_1, find_mid}, check, 0, 1},
    {"tree-stale-hints", stale, {find, find_1, find_mid}, check, 0, 1},
    {"tree-mend-leaf", empty, {mend_0, put_1, put_2}, check, 0, 0},
    {"tree-mend-mid", empty, {mend_0, put_leaf}, check, 0, 0},
    {"tree-mend-mids", empty, {mend_mid, put_mid_2, put_1}, check, 0, 0},
    {"tree-mend-against-erase", two_of_a_leaf, {mend_against, erase_0, find_1}, check, 0, 1},
    {"tree-takes-in-a-leaf", two_of_a_leaf, {take_0, take_1}, check, 0, 0},
    {"tree-takes-four", four_of_a_leaf, {take_two, take_two}, check_four, 0, 0},
    {"tree-takes-three", four_of_a_leaf, {take_two, take_1, take_1}, check_four, 0, 0},
    {"tree-takes-out", four_of_a_leaf, {take_two, take_out_1, take_1}, check_four, 0, 0},
    {"tree-takes", first_of_mids, {take_0, take_1, find_leaf}, check, 0, 1},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }

int model_is_private(const void *p, enum model_op op) {
    (void)p, (void)op;
    return 0;
}
void model_name_address(const void *p, char *out, uint32_t n) {
    const int i = (int)((const uint64_t *)p - nodes);
    if (i == 0) snprintf(out, n, "root");
    else snprintf(out, n, "%s %d", i <= (int)MIDS ? "mid" : "leaf", i <= (int)MIDS ? i - 1 : i - 1 - (int)MIDS);
}
