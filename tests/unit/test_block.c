/* Blocks: tickets, refills, stale additions, retiring, and when the answer is NULL. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 3
#define ALL_BLOCKS (SEGMENTS * MM_SEGMENT_GRANULES)

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    h = mm_heap_of(ref);
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static uint32_t block_of(mm_claim claim) { return (uint32_t)(claim >> 32); }
static uint32_t first_of(mm_claim claim) { return mm_claim_first((uint32_t)claim); }
static uint32_t count_of(mm_claim claim) { return mm_claim_count((uint32_t)claim); }
/* The block of the group that stripe i is in, MM_BLOCK_NONE if it has none. */
static uint32_t open_at(uint32_t c, uint32_t i) {
    const uint64_t is = h->classes[c].stripe[i];
    return mm_stripe_state(is) == MM_STRIPE_BLOCK ? mm_stripe_block(is) : MM_BLOCK_NONE;
}
static uint32_t group_at(uint32_t c, uint32_t i) { return mm_stripe_group(h->classes[c].stripe[i]); }
static void free_claim(mm_claim claim, uint32_t c) {
    mm_block_free_range(ref, block_of(claim), c, first_of(claim), count_of(claim));
}
static uint32_t kind(uint32_t b) { return mm_ctrl_kind(*mm_block_ctrl(ref, b)); }

/* One after the other, each once; the block is replaced by who takes the last; full ones retire when freed. */
START_TEST(positions_in_order) {
    const uint32_t c = (uint32_t)_i, capacity = mm_class_capacity(c);
    const mm_claim first = mm_block_claim(ref, c, 1);
    const uint32_t b = block_of(first);
    unit_eq(first_of(first), 0);
    for (uint32_t at = 1; at < capacity; at++) {
        unit_eq(open_at(c, (uint32_t)at % MM_STRIPES), b);
        const mm_claim claim = mm_block_claim(ref, c, 1);
        unit_eq(block_of(claim), b);
        unit_eq(first_of(claim), at);
        unit_eq(count_of(claim), 1);
    }
    unit_holds(open_at(c, 0) != MM_BLOCK_NONE && open_at(c, 0) != b, "not replaced with the last ticket");
    unit_eq(h->classes[c].opened, 2);
    unit_sound(&heap, (uint64_t)capacity * mm_class_bytes(c));
    for (uint32_t g = 1; g < mm_class_block_granules(c); g++) unit_eq(kind(b + g), MM_KIND_BODY + c);
    const uint64_t supply = h->supply;
    for (uint32_t at = 0; at < capacity; at++) {
        unit_eq(kind(b), c + 1);
        unit_eq(h->supply, supply);
        unit_eq(mm_block_free_bits(ref, b, c, (at * 13 % capacity) / 64, 0), 0); /* of none: nothing happens */
        unit_eq(mm_block_free_bits(ref, b, c, at / 64, 1ull << (at % 64)), 0);
    }
    unit_eq(kind(b), MM_KIND_CLOSED);
    unit_lt(supply, h->supply); /* and callers told */
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Several at once: a group that the rest of a block does not reach gets that rest. */
START_TEST(groups) {
    const uint32_t c = (uint32_t)_i, capacity = mm_class_capacity(c);
    for (uint32_t n = 2; n <= 32; n += 5) {
        uint32_t next = 0, b = MM_BLOCK_NONE;
        for (uint32_t got = 0; got < capacity;) {
            const mm_claim claim = mm_block_claim(ref, c, n);
            unit_holds(claim != 0, "no tickets");
            if (next == 0) b = block_of(claim);
            unit_eq(block_of(claim), b);
            unit_eq(first_of(claim), next);
            unit_eq(count_of(claim), n < capacity - next ? n : capacity - next);
            unit_holds((open_at(c, 0) != b) == (next + count_of(claim) == capacity),
                       "the stripe's block changes with the last ticket, not at %u of %u", next, capacity);
            next += count_of(claim), got += count_of(claim);
            unit_sound(&heap, UNIT_ANY);
        }
        mm_block_free_range(ref, b, c, 0, capacity);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* Words of control that are not open give no tickets, whatever their count. */
START_TEST(what_is_not_open_gives_nothing) {
    const uint32_t c = mm_class_of(256);
    unit_lt(1, mm_class_block_granules(c));
    const mm_claim live = mm_block_claim(ref, c, 1);
    const uint32_t b = block_of(live), last = ALL_BLOCKS - MM_SEGMENT_GRANULES;
    void *run = mm_run_malloc(ref, MM_SEGMENT_BYTES, MM_SEGMENT_BYTES);
    unit_eq((uint64_t)(uintptr_t)run, ref->user_base + (SEGMENTS - 1) * MM_SEGMENT_BYTES);
    const uint32_t at[] = {b + mm_class_block_granules(c), b + 1, last}; /* closed, body, run */
    const uint64_t opened = h->classes[c].opened;
    for (int i = 0; i < 3; i++) {
        const uint32_t was = kind(at[i]);
        for (uint32_t n = 1; n <= 32; n++) {
            unit_eq(mm_block_settle(ref, at[i], c, n, mm_block_draw(ref, at[i], n)), 0);
            unit_eq(kind(at[i]), was);
        }
    }
    unit_eq(h->classes[c].opened, opened);
    unit_eq(mm_run_try_free(ref, (SEGMENTS - 1) * MM_SEGMENT_BYTES), 0); /* the run is still one */
    free_claim(live, c);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A block that has run out: additions claim nothing, refill nothing, and 2^20 of them do not reach the kind. */
START_TEST(overshoot) {
    const uint32_t c = 0, capacity = mm_class_capacity(c);
    uint32_t b = MM_BLOCK_NONE;
    for (uint32_t at = 0; at < capacity; at += 32) b = block_of(mm_block_claim(ref, c, 32));
    const uint64_t opened = h->classes[c].opened, was = *mm_block_ctrl(ref, b);
    unit_eq(mm_ctrl_count(was), capacity);
    for (int i = 0; i <= 1 << 20; i++) unit_eq(mm_block_settle(ref, b, c, 32, mm_block_draw(ref, b, 32)), 0);
    unit_eq(mm_ctrl_kind(*mm_block_ctrl(ref, b)), mm_ctrl_kind(was));
    unit_eq(mm_ctrl_group(*mm_block_ctrl(ref, b)), mm_ctrl_group(was));
    unit_eq(h->classes[c].opened, opened);
    unit_sound(&heap, (uint64_t)capacity * 16);
    mm_block_free_range(ref, b, c, 0, capacity);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Retries look before they add: a caller that finds nothing does not drive the count of a block up. */
START_TEST(retries_do_not_add) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX);
    while (mm_block_claim(ref, c, 1) != 0) continue;
    for (int i = 0; i < 100; i++) unit_eq(mm_block_claim(ref, c, 1), 0);
    for (uint32_t b = 0; b < ALL_BLOCKS; b += MM_SEGMENT_GRANULES)
        unit_le(mm_ctrl_count(*mm_block_ctrl(ref, b)), mm_class_capacity(c));
}
END_TEST

/* Takes the whole of a block of class c and frees it, so that whoever knows its name is a stale reader. */
static uint32_t use_up(uint32_t c) {
    const mm_claim first = mm_block_claim(ref, c, 1);
    unit_eq(first_of(first), 0);
    while (mm_ctrl_count(*mm_block_ctrl(ref, block_of(first))) < mm_class_capacity(c)) mm_block_claim(ref, c, 1);
    mm_block_free_range(ref, block_of(first), c, 0, mm_class_capacity(c));
    return block_of(first);
}

/* The reader of a stripe adds to a block that has become one of another class: those slices go back, and a
 * stripe of that class gets refilled if it took the last. n and what is left decide which. */
START_TEST(stale_addition_to_another_class) {
    const uint32_t a = mm_class_of(256), d = mm_class_of(2048), capacity = mm_class_capacity(d);
    const uint32_t b = use_up(a);
    mm_cpu_heap_drain_quiescent(&heap);
    unit_fresh(&heap, SEGMENTS);
    unit_home = 2;
    const uint32_t keep[] = {0, 1, capacity - 40, capacity - 32, capacity - 31, capacity - 1, capacity};
    mm_claim held = mm_block_claim(ref, d, 1);
    unit_eq(block_of(held), b); /* the same place, another class */
    while (mm_ctrl_count(*mm_block_ctrl(ref, b)) < keep[_i]) mm_block_claim(ref, d, 1);
    const uint64_t before = mm_ctrl_count(*mm_block_ctrl(ref, b)), opened = h->classes[d].opened;
    unit_home = 0;
    unit_eq(mm_block_settle(ref, b, a, 32, mm_block_draw(ref, b, 32)), 0);
    const int took_last = before < capacity && before + 32 >= capacity;
    unit_eq(h->classes[d].opened, opened + (uint64_t)took_last);
    unit_eq(open_at(d, 2) != b, took_last || before >= capacity);
    unit_sound(&heap, before * mm_class_bytes(d)); /* what it got is free again, what was live is */
    mm_block_free_range(ref, b, d, 0, (uint32_t)before);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* The slow path gets the same addition handed over: it settles it and then serves its own class. */
START_TEST(stale_addition_then_ones_own) {
    const uint32_t a = mm_class_of(256), d = mm_class_of(2048);
    const uint32_t b = use_up(a);
    mm_cpu_heap_drain_quiescent(&heap);
    const mm_claim held = mm_block_claim(ref, d, 1);
    unit_eq(block_of(held), b);
    const mm_claim claim = mm_block_claim_slow(ref, a, 5, b, mm_block_draw(ref, b, 5));
    unit_eq(count_of(claim), 5);
    unit_eq(kind(block_of(claim)), a + 1);
    unit_sound(&heap, mm_class_bytes(d) + 5ull * mm_class_bytes(a));
    free_claim(held, d), free_claim(claim, a);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Takes what is left of the block of stripe i, while `late` more tickets of it are wanted in vain: who took the
 * last refills, and splits the group by that. */
static void run_out(uint32_t c, uint32_t i, uint64_t late) {
    const uint32_t b = open_at(c, i), capacity = mm_class_capacity(c);
    const uint32_t left = capacity - (uint32_t)mm_ctrl_count(*mm_block_ctrl(ref, b));
    const uint64_t last = mm_block_draw(ref, b, left);
    mm_block_draw(ref, b, (uint32_t)late);
    unit_eq(count_of(mm_block_settle(ref, b, c, left, last)), left);
}

/* A group splits by the tickets wanted in vain, down to single stripes. */
START_TEST(groups_split_with_demand) {
    const uint32_t c = 0, capacity = mm_class_capacity(c);
    static const struct {
        uint32_t late_halves, parts;
    } want[] = {{0, 1}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {200, 4}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        unit_eq(block_of(mm_block_claim(ref, c, 1)), open_at(c, 0));
        const uint64_t opened = h->classes[c].opened;
        run_out(c, 0, want[i].late_halves * capacity / 2);
        unit_eq(h->classes[c].opened, opened + want[i].parts);
        uint32_t size = MM_STRIPES / want[i].parts;
        for (uint32_t s = 0; s < MM_STRIPES; s++) {
            unit_eq(mm_group_first(group_at(c, s)), s / size * size);
            unit_eq(mm_group_size(group_at(c, s)), size);
            unit_holds(open_at(c, s) != MM_BLOCK_NONE && (s % size == 0 ? s == 0 || open_at(c, s) != open_at(c, s - 1) : open_at(c, s) == open_at(c, s - 1)),
                       "stripe %u does not have its group's block", s);
        }
        unit_sound(&heap, UNIT_ANY);
        mm_block_free_range(ref, (uint32_t)0, c, 0, capacity);
        mm_cpu_heap_drain_quiescent(&heap);
        unit_fresh(&heap, SEGMENTS);
    }
    mm_block_claim(ref, c, 1);
    for (uint32_t level = 1, parts = 1; level <= MM_STRIPES_SHIFT + 2; level++) {
        run_out(c, MM_STRIPES - 1, 2 * capacity);
        parts = parts * 2 < MM_STRIPES ? parts * 2 : MM_STRIPES;
        unit_eq(mm_group_size(group_at(c, MM_STRIPES - 1)), MM_STRIPES / parts);
        unit_eq(mm_group_first(group_at(c, MM_STRIPES - 1)), MM_STRIPES - MM_STRIPES / parts);
        unit_sound(&heap, UNIT_ANY);
    }
}
END_TEST

/* A stale addition to a block of the same class, but of another group: fine, and it refills that group. */
START_TEST(stale_addition_to_another_group) {
    const uint32_t c = mm_class_of(16), capacity = mm_class_capacity(c);
    mm_block_claim(ref, c, 1);
    run_out(c, 0, 2 * capacity);
    const uint32_t here = open_at(c, 0), there = open_at(c, MM_STRIPES - 1);
    unit_holds(here != there, "no second group");
    const mm_claim rest = mm_block_claim_slow(ref, c, capacity, there, mm_block_draw(ref, there, capacity));
    unit_eq(block_of(rest), there);
    unit_eq(count_of(rest), capacity);
    unit_eq(open_at(c, 0), here);
    unit_holds(open_at(c, MM_STRIPES - 1) != there && open_at(c, MM_STRIPES - 1) != MM_BLOCK_NONE, "the other group is not refilled");
    unit_sound(&heap, 2ull * capacity * mm_class_bytes(c));
    free_claim(rest, c);
    unit_sound(&heap, 1ull * capacity * mm_class_bytes(c));
}
END_TEST

/* With nothing left to fetch, a class uses up the blocks of all its groups before it says NULL. */
START_TEST(other_groups_before_null) {
    const uint32_t c = (uint32_t)_i, capacity = mm_class_capacity(c);
    const uint32_t blocks = ALL_BLOCKS / mm_class_block_granules(c);
    unit_home = 1;
    uint64_t got = mm_block_claim(ref, c, 1) != 0;
    for (int split = 0; split < 4 && h->classes[c].opened + 2 <= blocks; split++) {
        const uint32_t b = open_at(c, split % 2 ? MM_STRIPES / 2 : 0);
        got += capacity - mm_ctrl_count(*mm_block_ctrl(ref, b));
        run_out(c, split % 2 ? MM_STRIPES / 2 : 0, 2 * capacity);
    }
    for (mm_claim claim; (claim = mm_block_claim(ref, c, 1)) != 0;) got += count_of(claim);
    unit_eq(got, (uint64_t)blocks * capacity);
    for (uint32_t i = 0; i < MM_STRIPES; i++) unit_eq(open_at(c, i), MM_BLOCK_NONE);
    unit_eq(h->classes[c].opened, blocks);
    unit_sound(&heap, got * mm_class_bytes(c));
    unit_eq(h->classes[c].dry % 4, MM_DRY_NULL(0));
    for (uint32_t i = 0; i < MM_STRIPES; i++) {
        unit_home = i;
        unit_eq(mm_block_claim(ref, c, 32), 0);
    }
    /* memory comes back: not dry any more, from every stripe */
    for (uint32_t b = 0; b < ALL_BLOCKS; b += mm_class_block_granules(c)) {
        unit_home = b + 3;
        mm_block_free_range(ref, b, c, 0, capacity);
        unit_eq(count_of(mm_block_claim(ref, c, 1)), 1);
    }
}
END_TEST

static uint32_t steps;
static void count_steps(void) { steps++; }

/* Later callers of a class that is dry answer at once, and a dry class does not stop another. */
START_TEST(dry_is_remembered) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX), d = mm_class_of(16);
    const mm_claim other = mm_block_claim(ref, d, 1);
    while (mm_block_claim(ref, c, 1) != 0) continue;
    unit_each_step = count_steps;
    steps = 0;
    unit_eq(mm_block_claim(ref, c, 1), 0);
    unit_each_step = NULL;
    unit_holds(steps < 20, "%u steps to say NULL again", steps);
    const mm_claim again = mm_block_claim(ref, d, 1);
    unit_holds(again != 0, "another class is dry as well");
    free_claim(other, d), free_claim(again, d);
}
END_TEST

/* A group that somebody is refilling: the others' blocks are used meanwhile; if it never ends, NULL after a
 * bound, which does not count as dry. */
START_TEST(waiting_is_bounded) {
    const uint32_t c = 0, capacity = mm_class_capacity(c);
    mm_block_claim(ref, c, 1);
    run_out(c, 0, 2 * capacity);
    const uint32_t busy = group_at(c, 0), there = open_at(c, MM_STRIPES - 1);
    h->classes[c].stripe[0] = busy << 2 | MM_STRIPE_BUSY;
    for (uint32_t i = 1; i < mm_group_size(busy); i++) h->classes[c].stripe[i] = busy << 2 | MM_STRIPE_NONE;
    for (uint32_t home = 0; home < 2; home++) {
        unit_home = home;
        unit_eq(block_of(mm_block_claim(ref, c, 1)), there);
    }
    run_out(c, MM_STRIPES - 1, 0);
    while (mm_block_claim(ref, mm_class_of(MM_SLICE_BYTES_MAX), 1) != 0) continue; /* the other segments */
    unit_home = MM_STRIPES - 1;
    for (uint32_t i = 0; i < capacity * (MM_SEGMENT_GRANULES - 3); i++) unit_holds(mm_block_claim(ref, c, 1) != 0, "NULL too early");
    unit_home = 0;
    unit_eq(mm_block_claim(ref, c, 1), 0);
    unit_holds(h->classes[c].dry % 4 != MM_DRY_NULL(0), "dry while a refill is in flight");
    unit_home = MM_STRIPES - 1; /* the same for who can refill, but finds nothing */
    unit_eq(mm_block_claim(ref, c, 1), 0);
    unit_holds(h->classes[c].dry % 4 != MM_DRY_NULL(0), "dry while a refill is in flight");
}
END_TEST

static uint32_t give_at;
static int given;
static uint32_t give_block, give_class;
static void give_at_step(void) {
    if (steps++ != give_at) return;
    unit_each_step = count_steps;
    given = 1;
    const uint32_t before = steps;
    mm_block_free_range(ref, give_block, give_class, 0, mm_class_capacity(give_class));
    steps = before; /* only those of the search count */
}

/* Memory that comes back at any step of a search that is about to find nothing: either the search gets it, or
 * it came with the very last steps; the next search gets it. */
START_TEST(supply_in_the_middle_of_a_search) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX / 2);
    give_class = c;
    for (uint32_t i = 0; i < MM_STRIPES; i++) /* each stripe a group: going round takes a while */
        h->classes[c].stripe[i] = (MM_STRIPES_SHIFT << MM_STRIPES_SHIFT | i) << 2;
    for (give_at = 0;; give_at++) {
        while (mm_block_claim(ref, c, 1) != 0) continue;
        h->classes[c].dry = 0; /* so that it searches */
        give_block = 0, steps = 0, given = 0;
        unit_each_step = give_at_step;
        const mm_claim claim = mm_block_claim(ref, c, 1);
        unit_each_step = NULL;
        if (!given) break;
        unit_holds(claim != 0 || steps - give_at < 12, "came back at step %u, NULL after %u more", give_at, steps - give_at);
        unit_holds(claim != 0 || mm_block_claim(ref, c, 1) != 0, "came back at step %u, still NULL", give_at);
    }
    unit_lt(20, give_at);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("block");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, positions_in_order, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, groups, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, what_is_not_open_gives_nothing);
    tcase_add_test(tests, overshoot);
    tcase_add_test(tests, retries_do_not_add);
    tcase_add_loop_test(tests, stale_addition_to_another_class, 0, 7);
    tcase_add_test(tests, stale_addition_then_ones_own);
    tcase_add_test(tests, stale_addition_to_another_group);
    tcase_add_test(tests, groups_split_with_demand);
    tcase_add_loop_test(tests, other_groups_before_null, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, dry_is_remembered);
    tcase_add_test(tests, waiting_is_bounded);
    tcase_add_test(tests, supply_in_the_middle_of_a_search);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
