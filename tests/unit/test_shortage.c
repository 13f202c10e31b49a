/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Lanes of a warp retire all of a segment, all of a heap or some of it, and help those of them that are short of memory (shortage.h), as in test_lanes.c. */
#define UNIT_WARPS 3
#include "tests/unit/warps.h"

#undef MM_LOCK_POLLS /* each poll takes two lane changes here */
#define MM_LOCK_POLLS 512u

#include "tests/unit/blocks.h"
#include "tests/unit/together.h"
#include "runtime/usage.h"

static uint32_t got_of[UNIT_LANES];
static long looks_;
static void count_looks(void) { looks_++; }

static uint32_t segment_;
static int any_of[UNIT_LANES], busy_of[UNIT_LANES];
static void retire_segment(uint32_t lane) { any_of[lane] = mm_segment_retire(ref, here_, segment_); }
static void retire_all(uint32_t lane) { any_of[lane] = mm_slices_retire_all(ref, here_); }
static void retire_some(uint32_t lane) { got_of[lane] = mm_slices_retire_some(ref, here_, &busy_of[lane]); }
static int same_any(uint32_t here) {
    const int any = any_of[mm_ctz(here)];
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (here >> i & 1) unit_eq(any_of[i], any);
    return any;
}
static uint32_t free_blocks_of(uint32_t s) {
    struct mm_usage usage;
    uint32_t blocks = 0;
    memset(&usage, 0, sizeof usage);
    mm_usage_walk(ref, s, s + 1, &usage);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) blocks += (uint32_t)usage.classes[c].free_blocks;
    return blocks;
}
static uint32_t owned_pages(void) {
    uint32_t pages = 0;
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) pages += *mm_page_owner(ref, page) != MM_OWNER_NOBODY;
    return pages;
}
/* A heap of several classes, mostly free. Returns the live bytes; their allocations go to held. */
static uint64_t mostly_free(void **held, uint32_t *holds) {
    static void *all[2000];
    uint64_t live = 0;
    uint32_t n = 0;
    new_heap();
    for (; n < 2000; n++)
        if ((all[n] = mm_cpu_malloc(&heap, 16u << random_below(7))) == NULL) break;
    *holds = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (random_below(300) == 0 && *holds < 16) live += mm_cpu_usable_size(&heap, all[i]), held[(*holds)++] = all[i];
        else mm_cpu_free(&heap, all[i]);
    }
    return live;
}
START_TEST(all_that_is_free) {
    void *held[16];
    uint32_t holds;
    for (int round = 0; round < 60; round++) {
        const uint64_t live = mostly_free(held, &holds);
        for (segment_ = 0; segment_ < SEGMENTS; segment_++) {
            const uint32_t here = random_here(1);
            const int are_there = free_blocks_of(segment_) != 0;
            together(retire_segment, here, 1u << random_below(8));
            unit_eq(same_any(here), are_there);
            unit_eq(free_blocks_of(segment_), 0);
            unit_sound(&heap, live);
        }
        for (uint32_t i = 0; i < holds; i++) mm_cpu_free(&heap, held[i]);
        uint32_t blocks = 0;
        for (uint32_t s = 0; s < SEGMENTS; s++) blocks += free_blocks_of(s);
        const uint32_t here = random_here(1);
        together(retire_all, here, 1u << random_below(8));
        unit_eq(same_any(here), blocks != 0);
        together(retire_all, here, 1u << random_below(8));
        unit_eq(same_any(here), 0);
        unit_eq(owned_pages(), 0);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST
/* Some: every lane gets the number of pages that came back. */
START_TEST(some_that_is_free) {
    void *held[16];
    uint32_t holds, sum = 0, busy = 0;
    for (int round = 0; round < 60; round++) {
        const uint64_t live = mostly_free(held, &holds);
        const uint32_t owned = owned_pages(); /* locked tables are left alone: no lane waits, and all lanes learn of it */
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) of(c)->lock = 1;
        looks_ = 0;
        unit_warps_each_step = count_looks;
        together(retire_some, MM_WARP_ALL, TOGETHER);
        unit_warps_each_step = NULL;
        unit_le(looks_, UNIT_LANES * 4 * MM_SEGMENT_PAGES);
        for (uint32_t i = 1; i < UNIT_LANES; i++) unit_eq(busy_of[i], busy_of[0]);
        busy += (uint32_t)busy_of[0];
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) of(c)->lock = 0;
        unit_eq(owned_pages(), owned);
        for (int again = 0; again < 8; again++) {
            const uint32_t here = random_here(1), before = owned_pages();
            const uint64_t retired = mm_heap_of(ref)->retired;
            memset(got_of, 0, sizeof got_of);
            together(retire_some, here, 1u << random_below(8));
            for (uint32_t i = 0; i < UNIT_LANES; i++) {
                if (!(here >> i & 1)) continue;
                unit_eq(got_of[i], before - owned_pages());
                unit_eq(busy_of[i], 0);
            }
            unit_eq(mm_heap_of(ref)->retired - retired, before - owned_pages());
            sum += before - owned_pages();
            unit_sound(&heap, live);
        }
        for (uint32_t i = 0; i < holds; i++) mm_cpu_free(&heap, held[i]);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_lt(60, sum);
    unit_lt(30, busy);
}
END_TEST

/* Takes, or frees, the first slice of each block, but for the blocks of segment `rich` and the first `least` blocks of the others. */
static void first_slices(uint32_t rich, uint32_t least, int is_taken) {
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) {
        if (page / MM_SEGMENT_PAGES == rich || page % MM_SEGMENT_PAGES < least) continue;
        if (is_taken) mm_and_acquire_u64(mm_page_words(ref, page), ~1ull);
        else mm_or_release_u64(mm_page_words(ref, page), 1);
    }
}
/* Of the segments that the lanes of a warp, or a single lane, examine, the one with the most free pages is retired. */
START_TEST(most_of_some) {
    const uint32_t c = mm_class_of(MM_PAGE_BYTES >> MM_BLOCK_SLICES_SHIFT), here = _i ? MM_WARP_ALL : 1;
    uint32_t whole[2] = {0, 0};
    for (int round = 0; round < 200; round++) {
        new_heap();
        while (of(c)->count < SEGMENTS * MM_SEGMENT_PAGES) make(c);
        const uint32_t rich = random_below(SEGMENTS), least = round % 2;
        first_slices(rich, least, 1);
        together(retire_some, here, TOGETHER);
        whole[least] += got_of[mm_ctz(here)] == MM_SEGMENT_PAGES;
        first_slices(rich, least, 0);
        mm_slices_retire_all(ref, 1);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_lt(_i ? 75 : 45, whole[0]); /* of 100; a lane that is alone examines 8 segments */
    unit_lt(_i ? 75 : 45, whole[1]);
}
END_TEST

/* Lanes help those of their warp that are short: all lanes retire, whichever are short; and only the lane whose flight it is ends it. */
static enum mm_short is_of[UNIT_LANES];
static struct mm_shortage shortage_of[UNIT_LANES];
static int some_told_; /* set by the retiring lanes, before the flight ends */
static void look_whether_told(void) {
    const uint64_t told = MM_FLIGHT_WORD_BUSY | MM_FLIGHT_WORD_SOME;
    if ((*(uint64_t *)ref->giving_up & told) == told) some_told_ = 1;
}
static void help(uint32_t lane) { mm_shortage_help(ref, here_, is_of[lane], &shortage_of[lane]); }
START_TEST(who_is_short_is_helped) {
    const uint32_t c = mm_class_of(16);
    for (int round = 0; round < 200; round++) {
        const uint32_t here = random_here(1), lane = mm_bits_select(here, random_below(mm_popcount(here)));
        uint64_t *word = (uint64_t *)ref->giving_up, awaited = 0;
        const int has_blocks = round / 4 % 2;
        while (has_blocks && of(c)->count < SEGMENTS * MM_SEGMENT_PAGES) make(c);
        memset(shortage_of, 0, sizeof shortage_of);
        for (uint32_t i = 0; i < UNIT_LANES; i++) is_of[i] = MM_SHORT_WAIT;
        const uint32_t pages = owned_pages();
        unit_eq(mm_flight_begin(word, &awaited), MM_FLIGHT_MINE);
        const uint64_t begun = *word;
        is_of[lane] = round % 4 == 0 ? MM_SHORT_SOME : round % 4 == 1 ? MM_SHORT_ALL : MM_SHORT_WAIT;
        if (round % 4 == 2) is_of[lane] = MM_SHORT_NONE;
        if (round % 4 == 3) is_of[lane] = MM_SHORT_ALL, is_of[mm_ctz(here)] = mm_ctz(here) == lane ? MM_SHORT_ALL : MM_SHORT_SOME;
        some_told_ = 0, unit_warps_each_step = look_whether_told;
        together(help, here, 1u << random_below(8));
        unit_warps_each_step = NULL;
        const int is_all = is_of[lane] == MM_SHORT_ALL;
        if (is_all) unit_eq(owned_pages(), 0);
        else if (is_of[lane] == MM_SHORT_SOME && has_blocks) unit_lt(owned_pages(), pages);
        else unit_eq(owned_pages(), pages);
        for (uint32_t i = 0; i < UNIT_LANES; i++)
            unit_eq(shortage_of[i].flight, i != lane || !is_all ? MM_FLIGHT_NONE : has_blocks ? MM_FLIGHT_FOUND : MM_FLIGHT_NOTHING);
        if (is_of[lane] == MM_SHORT_ALL || is_of[lane] == MM_SHORT_WAIT) unit_eq(some_told_, is_all && has_blocks);
        if (is_all) unit_eq(*word & (MM_FLIGHT_WORD_BUSY | MM_FLIGHT_WORD_FOUND), has_blocks ? MM_FLIGHT_WORD_FOUND : 0);
        if (!is_all) {
            unit_eq(*word, begun);
            mm_flight_end(word, 0);
        }
        unit_sound(&heap, 0);
        mm_slices_retire_all(ref, 1);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("shortage");
    TCase *tests = tcase_create("lanes as one");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {all_that_is_free, some_that_is_free, who_is_short_is_helped};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, most_of_some, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
