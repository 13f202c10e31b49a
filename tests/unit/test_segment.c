/* Segments: claim, give back, retire, stale readers, who may fetch, exhaustion. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 3

static struct mm_cpu_heap heap;
static struct mm_heap *h;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    h = mm_heap_of(&heap.ref);
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static int in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }
static int is_free(uint32_t s) { return in_tree(mm_segment_free_tree(h), s); }
static int is_listed(uint32_t s, uint32_t c) { return in_tree(mm_segment_class_tree(h, c), s); }
static void give_back(uint32_t b, uint32_t c) {
    mm_segment_give_back(h, b / MM_SEGMENT_GRANULES, c, 1ull << (b % MM_SEGMENT_GRANULES));
}

/* Front segment first, every block once, then NONE; what comes back retires the segment with its last block. */
START_TEST(claim_all_and_give_back) {
    const uint32_t c = (uint32_t)_i, granules = mm_class_block_granules(c), per = MM_SEGMENT_GRANULES / granules;
    uint32_t claimed[SEGMENTS * MM_SEGMENT_GRANULES];
    uint64_t taken[SEGMENTS] = {0};
    for (uint32_t i = 0; i < SEGMENTS * per; i++) {
        const uint32_t b = claimed[i] = mm_segment_claim_block(h, c, i * 5), s = b / MM_SEGMENT_GRANULES;
        unit_holds(b != MM_BLOCK_NONE, "class %u: none after %u blocks", c, i);
        unit_eq(b % granules, 0);
        unit_eq(s, i / per);
        unit_holds(!(taken[s] >> (b % MM_SEGMENT_GRANULES) & 1), "block %u twice", b);
        taken[s] |= 1ull << (b % MM_SEGMENT_GRANULES);
        unit_eq(*mm_segment_owner(h, s), c + 1);
        unit_eq(*mm_segment_word(h, s), mm_class_segment_mask(c) & ~taken[s]);
        unit_eq(is_listed(s, c), *mm_segment_word(h, s) != 0);
        unit_eq(is_free(s), 0);
        unit_eq(h->classes[c].fetching, 0);
    }
    unit_eq(mm_segment_claim_block(h, c, 0), MM_BLOCK_NONE);
    unit_eq(mm_segment_claim_block(h, (c + 1) % MM_CLASS_COUNT, 0), MM_BLOCK_NONE);
    uint64_t supply = h->supply;
    for (uint32_t i = 0; i < SEGMENTS * per; i++) {
        const uint32_t b = claimed[(i * 7 + 3) % (SEGMENTS * per)], s = b / MM_SEGMENT_GRANULES;
        give_back(b, c);
        taken[s] &= ~(1ull << (b % MM_SEGMENT_GRANULES));
        unit_lt(supply, h->supply); /* searches that found nothing are to look again */
        supply = h->supply;
        unit_eq(is_free(s), taken[s] == 0);
        unit_eq(*mm_segment_owner(h, s), taken[s] ? c + 1 : MM_OWNER_NOBODY);
        unit_eq(*mm_segment_word(h, s), taken[s] ? mm_class_segment_mask(c) & ~taken[s] : 0);
        unit_eq(is_listed(s, c), taken[s] != 0);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(blocks_of_ones_own_before_a_fresh_segment) {
    const uint32_t c = mm_class_of(16);
    const uint32_t a = mm_segment_claim_block(h, c, 0), b = mm_segment_claim_block(h, c, 9);
    unit_eq(b / MM_SEGMENT_GRANULES, a / MM_SEGMENT_GRANULES);
    unit_eq(mm_segment_claim_block(h, c + 1, 0) / MM_SEGMENT_GRANULES, 1);
    give_back(a, c);
    unit_eq(mm_segment_claim_block(h, c, 0), a); /* the front one, as its salt says */
    unit_eq(is_free(2), 1);
}
END_TEST

/* A hint in the tree of class 0 that names a segment of another class: what is claimed there goes back. */
START_TEST(stale_hint_of_another_class) {
    const uint32_t d = mm_class_of(128);
    const uint32_t held = mm_segment_claim_block(h, d, 0);
    const uint64_t word = *mm_segment_word(h, 0), supply = h->supply;
    mm_tree_insert(mm_segment_class_tree(h, 0), 0);
    unit_eq(mm_segment_claim_from(h, 0, 0, 5), MM_BLOCK_NONE);
    unit_eq(*mm_segment_word(h, 0), word);
    unit_eq(*mm_segment_owner(h, 0), d + 1);
    unit_eq(is_listed(0, 0), 0);
    unit_eq(is_listed(0, d), 1);
    unit_lt(supply, h->supply); /* somebody may have missed the block meanwhile */
    mm_tree_insert(mm_segment_class_tree(h, 0), 0);
    unit_eq(mm_segment_claim_block(h, 0, 0) / MM_SEGMENT_GRANULES, 1); /* past the stale hint to a fresh one */
    unit_eq(is_listed(0, 0), 0);
    give_back(held, d);
    unit_eq(is_free(0), 1);
}
END_TEST

/* The same when it is the last free block: the segment leaves no tree of its class for good. */
START_TEST(stale_hint_takes_the_last_block) {
    const uint32_t d = mm_class_of(16);
    for (uint32_t i = 0; i + 1 < MM_SEGMENT_GRANULES; i++) mm_segment_claim_block(h, d, 0);
    const uint64_t word = *mm_segment_word(h, 0);
    unit_eq(mm_popcount(word), 1);
    unit_eq(mm_segment_claim_from(h, 0, 40, 0), MM_BLOCK_NONE);
    unit_eq(*mm_segment_word(h, 0), word);
    unit_eq(is_listed(0, d), 1);
    unit_eq(mm_segment_claim_block(h, d, 0), mm_ctz(word));
    unit_eq(is_listed(0, d), 0);
}
END_TEST

/* Segments that are nobody's, or a run's: a stale reader leaves them as they are. */
START_TEST(stale_hint_of_a_free_segment_and_of_a_run) {
    void *run = mm_run_malloc(&heap.ref, 2 * MM_SEGMENT_BYTES, MM_SEGMENT_BYTES);
    unit_holds(run != NULL, "no run");
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        const uint64_t owner = *mm_segment_owner(h, s);
        mm_tree_insert(mm_segment_class_tree(h, 3), s);
        unit_eq(mm_segment_claim_from(h, s, 3, 0), MM_BLOCK_NONE);
        unit_eq(is_listed(s, 3), 0);
        unit_eq(*mm_segment_owner(h, s), owner);
        unit_eq(*mm_segment_word(h, s), 0);
        unit_eq(is_free(s), s == 0);
    }
    unit_eq(mm_run_try_free(&heap.ref, (uint64_t)(uintptr_t)run - heap.ref.user_base), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Who finds a segment without blocks takes it off the list; if it has blocks again by then, it stays on. */
START_TEST(unlist_looks_again) {
    const uint32_t b = mm_segment_claim_block(h, 0, 0), other = mm_segment_claim_block(h, 0, 0);
    mm_segment_unlist(h, 0, 0);
    unit_eq(is_listed(0, 0), 1);
    mm_tree_insert(mm_segment_class_tree(h, 1), 0);
    mm_segment_unlist(h, 0, 1); /* blocks, but not of class 1 */
    unit_eq(is_listed(0, 1), 0);
    give_back(b, 0), give_back(other, 0);
}
END_TEST

static uint32_t steps, at_step, other_block;
static void fetch_at_step(void) {
    if (steps++ != at_step) return;
    unit_each_step = NULL;
    other_block = mm_segment_claim_fresh(h, 1, 0);
}

/* While as many others fetch as the class may have, the rest look again; they take from what the others bring. */
START_TEST(fetching_is_left_to_the_elected) {
    const uint32_t most = mm_class_fetchers(1);
    h->classes[1].fetching = most;
    steps = 0, at_step = (uint32_t)_i, other_block = MM_BLOCK_NONE;
    unit_each_step = fetch_at_step;
    const uint32_t b = mm_segment_claim_block(h, 1, 0);
    unit_each_step = NULL;
    unit_holds(b != MM_BLOCK_NONE, "nothing claimed");
    unit_eq(h->classes[1].fetching, most);
    if (other_block == MM_BLOCK_NONE) return; /* done before the other came */
    unit_eq(other_block / MM_SEGMENT_GRANULES, 0);
    unit_eq(b / MM_SEGMENT_GRANULES, 0);
    unit_eq(is_free(1), 1);
}
END_TEST

static void count_steps(void) { steps++; }

/* Nobody waits for ever: after MM_FETCH_POLLS looks a refill fetches all the same. */
START_TEST(fetch_election_is_bounded) {
    const uint32_t c = _i ? mm_class_of(MM_SLICE_BYTES_MAX) : 0;
    const uint64_t most = mm_class_fetchers(c) - 1;
    unit_each_step = count_steps;
    for (int late = 0; late < 2; late++) {
        h->classes[c].fetching = most + (uint64_t)late;
        steps = 0;
        unit_holds(mm_segment_claim_block(h, c, 0) != MM_BLOCK_NONE, "nothing claimed");
        unit_eq(h->classes[c].fetching, most + (uint64_t)late);
        unit_holds(late ? steps > 2 * MM_FETCH_POLLS && steps < 40 * MM_FETCH_POLLS : steps < 40,
                   "%u steps with %u others fetching", steps, (uint32_t)most + (uint32_t)late);
        if (c == 0) /* the next has to fetch again */
            while (*mm_segment_word(h, (uint32_t)late) != 0) mm_segment_claim_from(h, (uint32_t)late, c, 0);
    }
    unit_each_step = NULL;
}
END_TEST

/* A root that still has hints: the search is bounded, finds nothing, and leaves no trace. */
START_TEST(free_tree_exhausted) {
    uint32_t b[SEGMENTS];
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX);
    for (int i = 0; i < SEGMENTS; i++) b[i] = mm_segment_claim_block(h, c, 0);
    const struct mm_tree t = mm_segment_free_tree(h);
    t.node[0] |= 1, t.node[1] |= 1;
    unit_eq(mm_segment_claim_fresh(h, 0, 0), MM_BLOCK_NONE);
    t.node[0] |= 1;
    unit_eq(mm_segment_claim_block(h, 0, 0), MM_BLOCK_NONE);
    unit_eq(h->classes[0].fetching, 0);
    unit_eq(t.node[0], 0);
    for (int i = 0; i < SEGMENTS; i++) give_back(b[i], c);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("segment");
    TCase *tests = tcase_create("segments");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, claim_all_and_give_back, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, blocks_of_ones_own_before_a_fresh_segment);
    tcase_add_test(tests, stale_hint_of_another_class);
    tcase_add_test(tests, stale_hint_takes_the_last_block);
    tcase_add_test(tests, stale_hint_of_a_free_segment_and_of_a_run);
    tcase_add_test(tests, unlist_looks_again);
    tcase_add_loop_test(tests, fetching_is_left_to_the_elected, 2, 24);
    tcase_add_loop_test(tests, fetch_election_is_bounded, 0, 2);
    tcase_add_test(tests, free_tree_exhausted);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
