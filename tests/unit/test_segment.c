/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments and their pages: groups, taking and giving back, which trees a segment is in, and interference at each step. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 4

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static int is_listed(uint32_t s, uint32_t k) { return mm_check_in_tree(mm_segment_room_tree(ref, k), s); }
static int is_free(uint32_t s) { return mm_check_in_tree(mm_segment_free_tree(ref), s); }
/* I3 of all segments, and that none is lost; held pages have no owner here, so the checker would report them lost. */
static void listed(void) {
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        const uint64_t pages = mm_segment_at(ref, s)->pages;
        unit_holds(pages != ~0ull, "segment %u is all free, and nobody's to give", s);
        unit_holds(!is_free(s) || pages == 0, "segment %u is free, and has pages", s);
        for (uint32_t k = 0; k < MM_ROOMS; k++)
            if (mm_cut_starts(mm_room_cut(k), pages) != 0)
                unit_holds(is_listed(s, k), "segment %u has room %u (%#llx), and is not listed", s, k, (unsigned long long)pages);
    }
}

/* Rooms computed all at once equal those computed one by one, and no cut has overlapping groups. */
START_TEST(rooms) {
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        uint64_t pages = unit_random(&seed);
        for (int k = i % 5; k > 0; k--) pages |= unit_random(&seed) << k;
        if (i % 7 == 0) pages = ~pages >> i % 64;
        for (uint32_t r = 0; r < MM_ROOMS; r++) {
            const struct mm_cut cut = mm_room_cut(r);
            const uint64_t groups = mm_cut_first(cut, pages, 1 + (uint32_t)i % 64), all = mm_cut_pages(cut, groups);
            unit_eq(mm_pages_rooms(pages) >> r & 1, mm_cut_starts(cut, pages) != 0);
            unit_eq(groups != 0, mm_cut_starts(cut, pages) != 0);
            unit_eq(all & ~pages, 0);
            unit_eq((uint64_t)__builtin_popcountll(all), (uint64_t)__builtin_popcountll(groups) * cut.pages);
        }
    }
    for (uint32_t r = 0; r < MM_ROOMS; r++) /* that many in a row, and one fewer, at every position */
        for (uint32_t at = 0; at + mm_room_cut(r).pages <= 64; at++) {
            const uint32_t n = mm_room_cut(r).pages;
            if (at % (1u << mm_room_cut(r).align) == 0) unit_eq(mm_pages_rooms(mm_bits_low(n) << at) >> r & 1, 1);
            unit_eq(mm_pages_rooms(mm_bits_low(n - 1) << at) >> r & 1, 0);
        }
}
END_TEST

static uint32_t trees_with(uint32_t s) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < MM_ROOMS; r++) n += (uint32_t)is_listed(s, r);
    return n;
}
static void all_empty(void) {
    for (uint32_t r = 0; r < MM_ROOMS; r++) {
        const struct mm_tree t = mm_segment_room_tree(ref, r);
        unit_eq(*mm_tree_leaf(t, 0) | *mm_tree_mid(t, 0) | *mm_tree_root(t, 0), 0);
    }
}
/* A segment leaves all trees with the last group that it has room for, and with the last page that comes back. So a search does not pass segments that have
 * no room: a heap of 7 GB of freed spans made one malloc take 75 ms. */
START_TEST(leaves_trees) {
    for (uint32_t k = 0; k < MM_ROOMS_EVEN; k++) {
        const uint32_t n = MM_SEGMENT_PAGES >> k;
        uint64_t has[MM_SEGMENT_PAGES];
        for (uint32_t i = 0; i < n; i++) {
            unit_eq(mm_pages_take(ref, k, 1, &has[i]), 0);
            unit_holds(trees_with(0) != 0 || i == n - 1, "groups of %u pages: in no tree after %u of %u", 1u << k, i + 1, n);
        }
        all_empty();
        for (uint32_t i = 0; i < n; i++) mm_pages_put(ref, 0, mm_cut_pages(mm_cut_evenly(k), has[i])), listed();
        unit_eq(is_free(0), 1);
        all_empty();
    }
}
END_TEST
/* A search that meets a segment without room takes it out of the tree that it searched. */
START_TEST(stale) {
    uint64_t has;
    for (uint32_t r = 0; r < MM_ROOMS; r++) mm_tree_insert(mm_segment_room_tree(ref, r), 2);
    unit_eq(mm_pages_take(ref, 3, 1, &has), 0);
    unit_eq(is_listed(2, 3), 0);
    unit_eq(trees_with(2), MM_ROOMS - 1);
    mm_pages_put(ref, 0, mm_cut_pages(mm_cut_evenly(3), has));
}
END_TEST

/* Compared with a plain check of each multiple. */
START_TEST(groups) {
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t pages = unit_random(&seed) | unit_random(&seed);
        if (i % 3) pages |= unit_random(&seed) | unit_random(&seed) << i % 64;
        if (i == 0) pages = 0;
        if (i == 1) pages = ~0ull;
        for (uint32_t k = 0; k <= MM_ROOMS_EVEN; k++) {
            uint64_t want = 0, all = 0;
            for (uint32_t at = 0; at < 64; at += 1u << k)
                if ((pages >> at & mm_bits_low(1u << k)) == mm_bits_low(1u << k)) want |= 1ull << at, all |= mm_bits_low(1u << k) << at;
            unit_eq(mm_cut_starts(mm_cut_evenly(k), pages), want);
            unit_eq(mm_cut_pages(mm_cut_evenly(k), want), all);
        }
    }
}
END_TEST

/* Pages, and no others, get an owner, whether eight at a time or one. */
START_TEST(owners) {
    for (uint32_t page = 0; page < MM_SEGMENT_PAGES; page++)
        for (uint32_t n = 1; page + n <= MM_SEGMENT_PAGES; n++) {
            mm_pages_own(ref, page, n, 200);
            for (uint32_t i = 0; i < 2 * MM_SEGMENT_PAGES; i++) unit_eq(mm_load_relaxed_u8(mm_page_owner(ref, i)), i >= page && i < page + n ? 200 : 0);
            mm_pages_own(ref, page, n, MM_OWNER_NOBODY);
        }
}
END_TEST

/* As many groups as wanted of one segment; the rest of it serves the next request; with all given back, it is unowned. */
START_TEST(takes_groups_of_one_segment) {
    for (uint32_t k = 0; k <= MM_ROOMS_EVEN; k++)
        for (uint32_t want = 1; want <= MM_SEGMENT_PAGES >> k; want++) {
            uint64_t groups = 0, more = 0;
            const uint32_t s = mm_pages_take(ref, k, want, &groups);
            unit_holds(s < SEGMENTS, "segment %u", s);
            unit_eq(mm_popcount(groups), want);
            unit_eq(mm_cut_starts(mm_cut_evenly(k), ~0ull) & groups, groups);
            unit_eq(mm_segment_at(ref, s)->pages, ~mm_cut_pages(mm_cut_evenly(k), groups));
            unit_eq(mm_heap_of(ref)->free_count, SEGMENTS - 1);
            unit_eq(is_free(s), 0);
            listed();
            const uint32_t left = (MM_SEGMENT_PAGES >> k) - want;
            if (left > 0 && left < MM_SEGMENT_PAGES >> k) { /* a segment that is in use comes first */
                unit_eq(mm_pages_take(ref, k, 1, &more), s);
                unit_eq(mm_popcount(more), 1);
                unit_eq(more & groups, 0);
                mm_pages_put(ref, s, mm_cut_pages(mm_cut_evenly(k), more));
                listed();
            }
            mm_pages_put(ref, s, mm_cut_pages(mm_cut_evenly(k), groups));
            unit_eq(is_free(s), 1);
            unit_eq(mm_heap_of(ref)->free_count, SEGMENTS);
            unit_fresh(&heap, SEGMENTS);
        }
}
END_TEST

/* Groups of all sizes taken and given back at random, against a plain map of owners. */
START_TEST(random_takes) {
    enum { MOST = 64 };
    struct {
        uint32_t s, k;
        uint64_t groups;
    } held[MOST];
    uint64_t seed = 9, has[SEGMENTS] = {0};
    uint32_t n = 0, nothing = 0;
    for (int step = 0; step < 200000; step++) {
        const uint64_t r = unit_random(&seed);
        if (n < MOST && r % 8 < (step / 5000 % 2 ? 5 : 3)) {
            const uint32_t k = (uint32_t)(r >> 8) % (MM_ROOMS_EVEN + 1), want = 1 + (uint32_t)(r >> 16) % (MM_SEGMENT_PAGES >> k);
            held[n].s = mm_pages_take(ref, k, want, &held[n].groups), held[n].k = k;
            if (held[n].s == MM_TREE_NONE) {
                nothing++;
                for (uint32_t s = 0; s < SEGMENTS; s++) unit_eq(mm_cut_starts(mm_cut_evenly(k), ~has[s]), 0);
                continue;
            }
            unit_holds(held[n].groups != 0 && mm_popcount(held[n].groups) <= want, "%u of %u groups", mm_popcount(held[n].groups), want);
            unit_eq(has[held[n].s] & mm_cut_pages(mm_cut_evenly(k), held[n].groups), 0);
            has[held[n].s] |= mm_cut_pages(mm_cut_evenly(k), held[n].groups);
            n++;
        } else if (n > 0) {
            const uint32_t i = (uint32_t)(r >> 8) % n;
            has[held[i].s] &= ~mm_cut_pages(mm_cut_evenly(held[i].k), held[i].groups);
            mm_pages_put(ref, held[i].s, mm_cut_pages(mm_cut_evenly(held[i].k), held[i].groups));
            held[i] = held[--n];
        }
        for (uint32_t s = 0; s < SEGMENTS; s++) unit_holds(has[s] ? mm_segment_at(ref, s)->pages == ~has[s] : is_free(s), "segment %u", s);
        if (step % 16 == 0) listed();
    }
    unit_lt(100, nothing);
    while (n > 0) n--, mm_pages_put(ref, held[n].s, mm_cut_pages(mm_cut_evenly(held[n].k), held[n].groups));
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- Interference at each step ---- */

static uint32_t k_, got_s, other_s;
static uint64_t got, others;

static void new_heap(void) {
    static int is_there;
    if (is_there) tear_down();
    is_there = 1;
    set_up();
    got = others = 0;
    got_s = other_s = MM_TREE_NONE;
}
static void take_1(void) { got_s = mm_pages_take(ref, k_, 1, &got); }
static void take_all(void) { other_s = mm_pages_take(ref, 0, 64, &others); }
static void no_page_twice(void) {
    unit_holds(got_s != MM_TREE_NONE, "no pages while there are some");
    unit_holds(got_s != other_s || (mm_cut_pages(mm_cut_evenly(k_), got) & others) == 0, "a page was given twice");
    listed();
    mm_pages_put(ref, got_s, mm_cut_pages(mm_cut_evenly(k_), got));
    if (other_s != MM_TREE_NONE) mm_pages_put(ref, other_s, others);
    unit_fresh(&heap, SEGMENTS);
}

/* A segment of which half is in use. */
static uint64_t half;
static void half_used(void) {
    new_heap();
    const uint32_t s = mm_pages_take(ref, 5, 1, &half);
    unit_eq(s, 0);
}
static void put_half(void) { mm_pages_put(ref, 0, mm_cut_pages(mm_cut_evenly(5), half)); }
static void end_half(void) {
    put_half();
    no_page_twice();
}
static void end_put(void) { no_page_twice(); }

START_TEST(two_take) {
    for (k_ = 0; k_ <= MM_ROOMS_EVEN; k_++) {
        unit_lt(3, unit_at_each_step(new_heap, take_1, take_all, no_page_twice));
        unit_lt(3, unit_at_each_step(half_used, take_1, take_all, end_half));
        unit_lt(3, unit_at_each_step(half_used, take_all, take_1, end_half));
    }
}
END_TEST

/* The last pages come back while some are taken: the segment is unowned, or its pages are available. */
START_TEST(take_and_put) {
    for (k_ = 0; k_ <= MM_ROOMS_EVEN; k_++) {
        unit_lt(3, unit_at_each_step(half_used, take_1, put_half, end_put));
        unit_lt(1, unit_at_each_step(half_used, put_half, take_1, end_put));
        unit_lt(1, unit_at_each_step(half_used, put_half, take_all, listed));
    }
}
END_TEST

/* A fully used segment; room comes back while another caller records that there is none. */
static void full(void) {
    new_heap();
    (void)mm_pages_take(ref, 0, 64, &others);
    for (uint32_t k = 0; k < MM_ROOMS; k++) mm_tree_insert(mm_segment_room_tree(ref, k), 0); /* as it was before */
}
static void unlist(void) { mm_rooms_unlist(ref, 0, MM_ROOMS_ALL); }
static void put_some(void) { mm_pages_put(ref, 0, mm_bits_low(1u << k_)); }
static void end_full(void) {
    listed();
    unit_eq(is_listed(0, k_), 1);
    mm_pages_put(ref, 0, ~mm_bits_low(1u << k_));
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(unlisted_while_room_comes) {
    for (k_ = 0; k_ < MM_ROOMS_EVEN; k_++) {
        unit_lt(1, unit_at_each_step(full, unlist, put_some, end_full));
        unit_lt(1, unit_at_each_step(full, put_some, unlist, end_full));
    }
}
END_TEST

/* Two give the two halves back. */
static void both_halves(void) {
    new_heap();
    (void)mm_pages_take(ref, 0, 64, &others);
}
static void put_low(void) { mm_pages_put(ref, 0, mm_bits_low(32)); }
static void put_high(void) { mm_pages_put(ref, 0, ~mm_bits_low(32)); }
static void is_fresh(void) {
    listed();
    unit_eq(mm_heap_of(ref)->free_count, SEGMENTS);
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(two_put) { unit_lt(1, unit_at_each_step(both_halves, put_low, put_high, is_fresh)); }
END_TEST

/* Two want more segments than there are: who finds some of them taken goes on with those that are left. */
static uint64_t segments[2];
static uint32_t leaf[2];
static void take_three(void) { segments[0] = mm_segments_take(ref, 3, &leaf[0]); }
static void take_two(void) { segments[1] = mm_segments_take(ref, 2, &leaf[1]); }
static void none_is_left(void) {
    unit_eq(segments[0] & segments[1], 0);
    unit_eq(segments[0] | segments[1], mm_bits_low(SEGMENTS));
    unit_eq(mm_heap_of(ref)->free_count, 0);
    mm_segments_put(mm_segment_free_tree(ref), 0, SEGMENTS);
    mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, SEGMENTS);
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(two_take_segments) {
    unit_lt(3, unit_at_each_step(new_heap, take_three, take_two, none_is_left));
    unit_lt(3, unit_at_each_step(new_heap, take_two, take_three, none_is_left));
}
END_TEST

/* A run takes the last segments of a leaf while one comes back: it can be found. */
static void all_but_one(void) {
    new_heap();
    unit_eq(mm_tree_erase(mm_segment_free_tree(ref), SEGMENTS - 1), 1);
}
static void take_run(void) { unit_eq(mm_run_try_take(mm_segment_free_tree(ref), 0, SEGMENTS - 1), 1); }
static void put_one(void) { mm_segments_put(mm_segment_free_tree(ref), SEGMENTS - 1, SEGMENTS); }
static void one_is_found(void) {
    unit_eq(mm_tree_find(mm_segment_free_tree(ref), 0), SEGMENTS - 1);
    mm_segments_put(mm_segment_free_tree(ref), 0, SEGMENTS - 1);
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(one_comes_back) {
    unit_lt(2, unit_at_each_step(all_but_one, take_run, put_one, one_is_found));
    unit_lt(0, unit_at_each_step(all_but_one, put_one, take_run, one_is_found));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("segment");
    TCase *tests = tcase_create("segment"), *meet = tcase_create("meetings");
    tcase_set_timeout(tests, 120), tcase_set_timeout(meet, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {groups, rooms, owners, leaves_trees, stale, takes_groups_of_one_segment, random_takes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    const TTest *const some[] = {two_take, take_and_put, unlisted_while_room_comes, two_put, two_take_segments, one_comes_back};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) tcase_add_test(meet, some[i]);
    suite_add_tcase(suite, tests), suite_add_tcase(suite, meet);
    return suite_run(suite);
}
