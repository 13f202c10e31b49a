/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments: blocks claimed and given back, segments that become nobody's, stale readers, exhaustion. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 3

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    h = mm_heap_of(ref);
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static struct mm_segment *at(uint32_t s) { return mm_segment_at(ref, s); }
static int in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }
static int is_free(uint32_t s) { return in_tree(mm_segment_free_tree(&h->ref), s); }
static int is_listed(uint32_t s, uint32_t c, uint32_t which) { return in_tree(mm_segment_class_tree(&h->ref, c, which), s); }
static void list(uint32_t s, uint32_t c, uint32_t which) { mm_tree_insert(mm_segment_class_tree(&h->ref, c, which), s); }
static uint32_t fresh(uint32_t c) {
    uint64_t bits = 0;
    const uint32_t s = mm_segment_claim_fresh(ref, c, (uint32_t)h->free_near, 0, 1, &bits);
    unit_eq(mm_popcount(bits), s != MM_TREE_NONE);
    return s == MM_TREE_NONE ? s : s + mm_ctz(bits);
}

/* Front segment first, all its blocks claimed; what comes back can be claimed again, and with the last block the segment
 * is nobody's. */
START_TEST(claim_all_and_give_back) {
    const uint32_t c = (uint32_t)_i, blocks = mm_class_blocks(c);
    const uint64_t all = mm_class_blocks_mask(c);
    uint64_t back[SEGMENTS] = {0};
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        unit_eq(fresh(c), s);
        unit_eq(at(s)->owner, c + 1);
        unit_eq(at(s)->whole, 0);
        unit_eq(at(s)->unissued, ~0ull);
        unit_eq(is_listed(s, c, MM_WHOLE) + is_listed(s, c, MM_AVAIL) + is_free(s), 0);
        unit_eq(mm_segment_claim(ref, s, ~0ull), 0);
    }
    unit_eq(fresh(c), MM_TREE_NONE);
    for (uint32_t i = 0; i < SEGMENTS * blocks; i++) {
        const uint32_t k = (i * 67 + 3) % (SEGMENTS * blocks), s = k / blocks, j = k % blocks;
        const uint64_t version = mm_version_read(h);
        if (blocks > 1 && i % 3 == 0 && back[s] != 0) { /* claimed again, and back */
            const uint64_t want = i % 2 ? ~0ull : 1ull << mm_bits_pick(back[s], i) | 1ull << i % blocks;
            const uint64_t got = mm_segment_claim(ref, s, want);
            unit_eq(got, back[s] & want);
            unit_eq(at(s)->whole, back[s] & ~want);
            unit_eq(mm_segment_keep(ref, s, c, got), 1);
            unit_eq(at(s)->whole, back[s] & ~want);
            mm_segment_give_back(ref, s, c, got);
        }
        mm_segment_give_back(ref, s, c, 1ull << j);
        back[s] |= 1ull << j;
        unit_lt(version, mm_version_read(h)); /* searches that found nothing are to look again */
        unit_eq(is_free(s), back[s] == all);
        unit_eq(at(s)->owner, back[s] == all ? MM_OWNER_NOBODY : c + 1);
        unit_eq(at(s)->whole, back[s] == all ? 0 : back[s]);
        unit_eq(is_listed(s, c, MM_WHOLE), back[s] != all);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* All blocks at once, as a reserve that is flushed does it. */
START_TEST(give_back_of_all) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_eq(fresh(c), 0);
        at(0)->avail = 1;
        list(0, c, MM_AVAIL); /* by one who came late */
        mm_segment_give_back(ref, 0, c, mm_class_blocks_mask(c));
        unit_eq(is_free(0), 1);
        unit_eq(at(0)->avail, 0);
        unit_eq(is_listed(0, c, MM_AVAIL) + is_listed(0, c, MM_WHOLE), 0);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

static uint32_t step, inject_at;
static void (*inject)(void);
static void inject_at_step(void) {
    if (step++ != inject_at) return;
    unit_each_step = NULL;
    inject();
    unit_each_step = inject_at_step;
}
/* From here on, `act` happens before step n of what follows. */
static void injecting(void (*act)(void), uint32_t n) {
    step = 0, inject_at = n, inject = act;
    unit_each_step = inject_at_step;
}
/* Returns whether it has happened. */
static int injected(void) {
    unit_each_step = NULL;
    return step > inject_at;
}

static uint64_t holes;
static void put_holes(void) { mm_segment_give_back(ref, 0, 0, holes); }

START_TEST(several_fresh_segments) {
    static const uint32_t classes[] = {0, 20, MM_CLASS_COUNT - 1};
    for (int k = 0; k < 3; k++)
        for (uint32_t want = 1; want <= 5; want++) {
            uint64_t bits = 0;
            mm_tree_erase(mm_segment_free_tree(&h->ref), 1); /* somebody's */
            unit_eq(mm_segment_claim_fresh(ref, classes[k], (uint32_t)h->free_near, 0, want, &bits), 0);
            unit_eq(bits, mm_bits_first(mm_bits_low(SEGMENTS) & ~2ull, want));
            mm_tree_insert(mm_segment_free_tree(&h->ref), 1);
            for (uint32_t s = 0; s < SEGMENTS; s++) {
                const int mine = (int)(bits >> s & 1);
                unit_eq(at(s)->owner, mine ? classes[k] + 1 : MM_OWNER_NOBODY);
                unit_eq(is_free(s), !mine);
                if (mine) unit_eq(at(s)->unissued, ~0ull);
            }
            unit_eq(h->free_count, SEGMENTS - mm_popcount(bits));
            unit_eq(h->classes[classes[k]].segments, mm_popcount(bits));
            for (; bits != 0; bits &= bits - 1) mm_segment_give_back(ref, mm_ctz(bits), classes[k], mm_class_blocks_mask(classes[k]));
            unit_fresh(&heap, SEGMENTS);
        }
}
END_TEST

/* A hint in the tree of a class that names a segment of another: what is claimed there goes back. */
START_TEST(stale_hint_of_another_class) {
    const uint32_t d = mm_class_of(64), blocks = mm_class_blocks(d);
    unit_lt(4, blocks);
    for (uint32_t held = 1; held < blocks; held++) {
        unit_eq(fresh(d), 0);
        const uint64_t back = mm_class_blocks_mask(d) & ~mm_bits_low(held);
        mm_segment_give_back(ref, 0, d, back);
        const uint64_t version = mm_version_read(h);
        const uint64_t got = mm_segment_claim(ref, 0, held % 2 ? ~0ull : 1ull << (blocks - 1));
        unit_holds(got != 0 && at(0)->whole == (back & ~got), "not claimed");
        unit_eq(mm_segment_keep(ref, 0, 5, got), 0);
        unit_eq(at(0)->whole, back);
        unit_eq(at(0)->owner, d + 1);
        unit_eq(is_listed(0, d, MM_WHOLE), 1);
        unit_lt(version, mm_version_read(h)); /* somebody may have missed the block meanwhile */
        list(0, 5, MM_WHOLE);
        mm_segment_unlist(ref, 0, 5, MM_WHOLE);
        unit_eq(is_listed(0, 5, MM_WHOLE), 0);
        mm_segment_give_back(ref, 0, d, mm_bits_low(held));
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* Segments that are nobody's, or a run's: a stale reader leaves them as they are. */
START_TEST(stale_hint_of_a_free_segment_and_of_a_run) {
    void *run = mm_run_malloc(ref, 2 * MM_SEGMENT_BYTES, MM_SEGMENT_BYTES, 1, mm_inside_enter(ref, 1));
    unit_holds(run != NULL, "no run");
    for (uint32_t s = 0; s < SEGMENTS; s++)
        for (uint32_t which = MM_WHOLE; which <= MM_AVAIL; which++) {
            const uint64_t owner = at(s)->owner;
            list(s, 3, which);
            if (which == MM_AVAIL) at(s)->avail = s == 1; /* by one who came late */
            unit_eq(mm_segment_claim(ref, s, ~0ull), 0);
            mm_segment_unlist(ref, s, 3, which);
            unit_eq(is_listed(s, 3, which), 0);
            unit_eq(at(s)->owner, owner);
            unit_eq(at(s)->whole, 0);
            unit_eq(is_free(s), s == 0);
        }
    unit_eq(mm_run_try_free(ref, (uint64_t)(uintptr_t)run - ref->user_base), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Who finds a segment empty takes it off the list; if it has something again by then, it stays on. */
START_TEST(unlist_looks_again) {
    unit_eq(fresh(0), 0);
    for (uint32_t which = MM_WHOLE; which <= MM_AVAIL; which++) {
        uint64_t *word = which == MM_WHOLE ? &at(0)->whole : &at(0)->avail;
        list(0, 0, which), list(0, 1, which), list(0, 0, 1 - which);
        mm_segment_unlist(ref, 0, 0, which);
        unit_eq(is_listed(0, 0, which), 0);
        list(0, 0, which);
        *word = 4;
        mm_segment_unlist(ref, 0, 0, which);
        unit_eq(is_listed(0, 0, which), 1);
        mm_segment_unlist(ref, 0, 0, 1 - which); /* of the other word */
        unit_eq(is_listed(0, 0, 1 - which), 0);
        mm_segment_unlist(ref, 0, 1, which); /* something, but not of class 1 */
        unit_eq(is_listed(0, 1, which), 0);
        *word = 0;
    }
    mm_segment_give_back(ref, 0, 0, ~0ull);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

static uint64_t found[2];
static void find_all(void) { /* one of class 0 claims all that there is */
    const uint64_t got = mm_segment_claim(ref, 0, ~0ull);
    if (got != 0 && mm_segment_keep(ref, 0, 0, got)) found[0] |= got;
}
static void change_hands(void) { /* and gives it back; another class takes the segment, and gives some back */
    find_all();
    if (found[0] == 0) return;
    mm_segment_give_back(ref, 0, 0, found[0]);
    found[0] = 0;
    if (!is_free(0)) return;
    const uint32_t d = mm_class_of(1024);
    unit_eq(fresh(d), 0);
    found[1] = mm_class_blocks_mask(d) & ~2ull;
    mm_segment_give_back(ref, 0, d, mm_class_blocks_mask(d) & 2ull);
}

static void (*second)(void);
static uint32_t second_at;
static void first_then_second(void) {
    put_holes();
    if (second_at == 0) second();
    else step = 0, inject_at = second_at - 1, inject = second;
}

/* While one gives its blocks back, the other gives back the rest, and then a third claims all of it, or the segment
 * changes hands, at any two steps: nothing is lost, nobody's blocks are taken, the segment is retired once. */
START_TEST(give_back_while_it_changes_hands) {
    const uint64_t mine[] = {1, 1ull << 63, 0xffff, ~0xf0full};
    for (int k = 0; k < 4; k++)
        for (int act = 0; act < 2; act++)
            for (uint32_t a = 0; a < 20; a++)
                for (second_at = 0; second_at < 24; second_at++) {
                    unit_eq(fresh(0), 0);
                    holes = ~mine[k];
                    found[0] = found[1] = 0;
                    second = act ? change_hands : find_all;
                    injecting(first_then_second, a);
                    mm_segment_give_back(ref, 0, 0, mine[k]);
                    const int happened = inject == first_then_second ? injected() : (injected(), 1);
                    if (!happened) put_holes();
                    if (found[0]) mm_segment_give_back(ref, 0, 0, found[0]);
                    if (found[1]) mm_segment_give_back(ref, 0, mm_class_of(1024), found[1]);
                    unit_eq(is_free(0), 1);
                    unit_eq(at(0)->owner, MM_OWNER_NOBODY);
                    unit_fresh(&heap, SEGMENTS);
                }
}
END_TEST

/* Its last block comes back while one lists the segment: it is nobody's, and no hint leads to it. */
START_TEST(no_hint_is_left_behind) {
    uint32_t n = 0;
    do {
        unit_eq(fresh(0), 0);
        holes = ~1ull;
        injecting(put_holes, n);
        mm_segment_give_back(ref, 0, 0, 1);
        if (!injected()) put_holes();
        unit_eq(is_free(0), 1);
        unit_holds(!is_listed(0, 0, MM_WHOLE), "listed, step %u", n);
        unit_fresh(&heap, SEGMENTS);
    } while (n++ < step);
    unit_lt(4, n);
}
END_TEST

static void list_again(void) { mm_segment_give_back(ref, 0, 0, 2); }
static void change_class(void) {
    mm_segment_give_back(ref, 0, 0, ~0ull);
    unit_eq(fresh(9), 0);
    mm_segment_give_back(ref, 0, 9, 1);
}

/* Blocks that come back at any step while the segment is taken off the list: it is on it afterwards. If it changes hands:
 * not on the one it was, but on the other. */
START_TEST(unlist_while_it_fills) {
    for (int act = 0; act < 2; act++)
        for (uint32_t n = 0; n < 16; n++) {
            unit_eq(fresh(0), 0);
            list(0, 0, MM_WHOLE);
            injecting(act ? change_class : list_again, n);
            mm_segment_unlist(ref, 0, 0, MM_WHOLE);
            if (injected() && act == 0) {
                unit_eq(is_listed(0, 0, MM_WHOLE), 1);
                mm_segment_give_back(ref, 0, 0, ~2ull);
            } else if (injected()) {
                unit_eq(is_listed(0, 9, MM_WHOLE), 1);
                mm_segment_give_back(ref, 0, 9, mm_class_blocks_mask(9) & ~1ull);
            } else {
                mm_segment_give_back(ref, 0, 0, ~0ull);
            }
            unit_fresh(&heap, SEGMENTS);
        }
}
END_TEST

/* A root that still has hints: the search is bounded, finds nothing, and leaves no trace. */
START_TEST(free_tree_exhausted) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX);
    for (int i = 0; i < SEGMENTS; i++) unit_eq(fresh(c), i);
    const struct mm_tree t = mm_segment_free_tree(&h->ref);
    t.node[0] |= 1, t.node[1] |= 1;
    unit_eq(fresh(0), MM_TREE_NONE);
    t.node[0] |= 1;
    unit_eq(fresh(0), MM_TREE_NONE);
    unit_eq(t.node[0], 0);
    for (uint32_t i = 0; i < SEGMENTS; i++) mm_segment_give_back(ref, i, c, mm_class_blocks_mask(c));
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("segment");
    TCase *tests = tcase_create("segments");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, claim_all_and_give_back, 0, MM_CLASS_COUNT);
    const TTest *const all[] = {give_back_of_all, several_fresh_segments,
                                stale_hint_of_another_class, stale_hint_of_a_free_segment_and_of_a_run, unlist_looks_again,
                                give_back_while_it_changes_hands, no_hint_is_left_behind, unlist_while_it_fills,
                                free_tree_exhausted};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
