/* Bitmap trees (tree.h) with two mids under the explorer: nothing in the set is lost from sight. */
#include "explore.h"
#include "runtime/core/tree.h"

#include <stdio.h>
#include <string.h>

#define LEAF 64u /* segments of a leaf */
#define MID MM_TREE_MID_SEGMENTS
#define MIDS 2u
static uint64_t nodes[1 + MIDS + MIDS * 64];
static struct mm_heap heap;
static const struct mm_tree tree = {nodes, &heap, MIDS};
static uint64_t in[4]; /* who is in the set, by thread: segment + 1 */

static void with(const uint32_t *segments, uint32_t n) {
    memset(nodes, 0, sizeof nodes);
    memset(&heap, 0, sizeof heap);
    memset(in, 0, sizeof in);
    for (uint32_t i = 0; i < n; i++) mm_tree_insert(tree, segments[i]);
}
static void empty(void) { with(NULL, 0); }
static void first_of_leaf(void) { with((const uint32_t[]){0}, 1); }
static void first_of_mids(void) { with((const uint32_t[]){0, MID}, 2); }
static void two_of_a_leaf(void) { with((const uint32_t[]){0, 1}, 2); }
static void stale(void) {
    empty();
    nodes[0] = 3;
    nodes[1] = nodes[2] = 1;
}

/* A search that counts (tree.h, moves) finds something, since segment `there` is in the set and stays. */
static void must_find(uint32_t there) {
    int still;
    const uint64_t supply = mm_move_read(&heap, &still);
    const uint32_t found = mm_tree_find(tree, 0);
    const int counts = mm_move_read_again(&heap) == supply && still;
    model_require(found != MM_TREE_NONE || !counts, "nothing found and nothing on the move, but %u is in the set", there);
    model_progress();
}
static void put(uint32_t s) {
    mm_move_begin(&heap);
    mm_tree_insert(tree, s);
    mm_move_end(&heap);
    model_progress();
}
static void put_and_find(uint32_t s) {
    put(s);
    must_find(s);
}
static void take(uint32_t salt) {
    const uint32_t s = mm_tree_take(tree, salt);
    if (s == MM_TREE_NONE) return;
    const int who = (int)model_self();
    for (int i = 0; i < 4; i++) model_require(in[i] != s + 1, "segment %u is taken by two", s);
    model_set(&in[who], s + 1);
    model_progress();
}
static void erase_0(void) { mm_tree_erase(tree, 0); }
static void erase_mid(void) { mm_tree_erase(tree, MID); }
static void find(void) { mm_tree_find(tree, 0); }
static void find_1(void) { put_and_find(1); }
static void find_leaf(void) { put_and_find(LEAF); }
static void find_mid(void) { put_and_find(MID); }
static void find_mid_2(void) { put_and_find(MID + LEAF); }
static void put_0_erase(void) { put(0), mm_tree_erase(tree, 0); }
static void put_2(void) { put(2); }
static void take_0(void) { take(0); }
static void take_1(void) { take(1); }

static void check(void) {
    for (uint32_t leaf = 0; leaf < MIDS * 64; leaf++) {
        if (nodes[1 + MIDS + leaf] == 0) continue;
        model_require(nodes[1 + leaf / 64] >> (leaf % 64) & 1, "leaf %u is not announced", leaf);
        model_require(nodes[0] >> (leaf / 64) & 1, "mid %u is not announced", leaf / 64);
    }
    model_require(heap.supply == heap.settled, "a move does not end");
}

static const struct model_scenario scenarios[] = {
    {"tree-erase-against-insert", first_of_leaf, {erase_0, find_1}, check, 0},
    {"tree-three-in-a-leaf", first_of_leaf, {erase_0, find_1, put_2}, check, 0},
    {"tree-three-in-a-mid", first_of_leaf, {erase_0, find_1, find_leaf}, check, 0},
    {"tree-two-mids", first_of_mids, {erase_0, erase_mid, find_mid_2}, check, 0},
    {"tree-back-and-forth", empty, {put_0_erase, find_1, find_mid}, check, 0},
    {"tree-stale-hints", stale, {find, find_1, find_mid}, check, 0},
    {"tree-takes-in-a-leaf", two_of_a_leaf, {take_0, take_1}, check, 0},
    {"tree-takes", first_of_mids, {take_0, take_1, find_leaf}, check, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }

int model_is_private(const void *p, int stores) { (void)p, (void)stores; return 0; }
void model_name_address(const void *p, char *out, uint32_t n) {
    const int i = (int)((const uint64_t *)p - nodes);
    if (p == &heap.supply) snprintf(out, n, "supply");
    else if (p == &heap.settled) snprintf(out, n, "settled");
    else if (i == 0) snprintf(out, n, "root");
    else snprintf(out, n, "%s %d", i <= (int)MIDS ? "mid" : "leaf", i <= (int)MIDS ? i - 1 : i - 1 - (int)MIDS);
}
