/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Narrow blocks (narrow.h): made by any subset of the lanes of a warp, in any order, in heaps of which only single pages are free; freed, found again, retired
 * beside wide blocks of their class; and a heap that gives all its single pages before NULL. */
#define UNIT_WARPS 3
#include "tests/unit/warps.h"
#undef MM_LOCK_POLLS /* each poll takes two lane changes here */
#define MM_LOCK_POLLS 512u
#include "tests/unit/blocks.h"
#include "tests/unit/together.h"

#define PAGES (SEGMENTS * MM_SEGMENT_PAGES)
static uint64_t live_, p_of[UNIT_LANES], held[PAGES << MM_WORD_SHIFT]; /* live_: bytes */
static uint32_t c_, need_, position_, class_of[UNIT_LANES], needs_of[UNIT_LANES], page_of[UNIT_LANES], got_of[UNIT_LANES];
static int is_last_;
static struct mm_seen seen_of[UNIT_LANES];
static enum mm_short is_of[UNIT_LANES];
static struct mm_heap_ref other_; /* another view of the heap */

/* Returns how many lanes got a slice. */
static uint32_t act(void (*does)(uint32_t lane), uint32_t here) {
    uint32_t got = 0;
    memset(p_of, 0, sizeof p_of);
    together(does, here, 1u << random_below(8));
    for (uint32_t i = 0; i < UNIT_LANES; i++) got += p_of[i] != 0;
    return got;
}
static uint32_t is_page_free(uint32_t page) { return mm_segment_at(ref, page / MM_SEGMENT_PAGES)->pages >> page % MM_SEGMENT_PAGES & 1; }
static const struct mm_class *block_of(uint64_t entry) { return &ref->classes[mm_entry_shape(entry)]; }
static uint64_t slice_of(uint64_t entry, uint32_t i) { return mm_slice_address(ref, mm_entry_page(entry), c_, i); }
static int is_live(uint32_t page, uint32_t i) { return !(word_at(page, i / 32) >> i % 32 & 1); }
static uint32_t each(void) { return ref->classes[mm_shape_narrow(c_)].slices; }

/* A heap of blocks of one page, a slice of each allocated, but for n pages of each segment. These are free; no two are neighbours. */
static void scattered(uint32_t n) {
    const uint32_t f = mm_class_of(MM_PAGE_BYTES >> MM_BLOCK_SLICES_SHIFT), odd = random_below(2);
    new_heap();
    while (of(f)->count < PAGES) make(f);
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        uint64_t goes = 0;
        while (mm_popcount(goes) < n) goes |= 1ull << (2 * random_below(MM_SEGMENT_PAGES / 2) + odd);
        for (uint32_t i = 0; i < MM_SEGMENT_PAGES; i++)
            if (!(goes >> i & 1)) mm_and_acquire_u64(mm_page_words(ref, s * MM_SEGMENT_PAGES + i), ~1ull);
    }
    mm_slices_retire_all(ref, 1);
    live_ = (uint64_t)of(f)->count * mm_class_bytes(f);
}
/* Frees what is allocated; then the heap is as new. */
static void ends(void) {
    for (uint32_t page = 0; page < PAGES; page++) {
        const uint32_t shape = *mm_page_owner(ref, page) - 1u;
        for (uint32_t i = 0; shape < MM_SHAPES && page % (1u << ref->classes[shape].page_shift) == 0 && i < ref->classes[shape].slices; i++)
            if (is_live(page, i)) mm_cpu_free(&heap, slice_at(page, shape, i));
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}

/* Makes narrow blocks for lanes; a segment has so many pages for them. The first lanes get a slice each, of as few blocks as have as many, and nothing else is
 * taken. */
static void make_mine(uint32_t lane) { p_of[lane] = mm_narrow_make(ref, here_, need_, c_, is_last_); }
static void made(uint32_t here, uint32_t need, int is_last, uint32_t has) {
    const uint32_t shape = mm_shape_narrow(c_), bytes = mm_class_bytes(c_), count = of(c_)->count;
    const uint32_t serves = mm_at_most(mm_popcount(need), has * each()), blocks = (serves + each() - 1) / each();
    uint32_t taken[PAGES] = {0}, was[PAGES], all = 0;
    for (uint32_t page = 0; page < PAGES; page++) was[page] = is_page_free(page);
    need_ = need, is_last_ = is_last;
    unit_eq(act(make_mine, here), serves);
    for (uint32_t i = 0; i < UNIT_LANES; i++) {
        unit_eq(p_of[i] != 0, (need >> i & 1) && mm_popcount(need & mm_bits_low(i)) < serves);
        if (p_of[i] == 0) continue;
        const uint32_t page = (uint32_t)((p_of[i] - ref->user_base) / MM_PAGE_BYTES), in = (uint32_t)((p_of[i] - ref->user_base) % MM_PAGE_BYTES);
        unit_holds(in % bytes == 0 && in / bytes < each() && !(taken[page] >> in / bytes & 1), "page %u, byte %u: no slice, or twice", page, in);
        unit_eq(mm_cpu_usable_size(&heap, (void *)p_of[i]), bytes);
        taken[page] |= 1u << in / bytes;
    }
    unit_eq(of(c_)->count, count + blocks);
    for (uint32_t i = count; i < count + blocks; i++) {
        const uint64_t entry = entry_at(c_, i);
        const uint32_t page = mm_entry_page(entry);
        unit_holds(mm_entry_is_of(entry, shape) && was[page]-- && !is_page_free(page), "entry %u is %#llx", i, (unsigned long long)entry);
        unit_eq(*mm_page_owner(ref, page), shape + 1);
        unit_eq(*mm_page_index(ref, page), i);
        unit_eq(word_at(page, 0), mm_word_make(mm_entry_generation(entry), (uint32_t)mm_bits_low(each()) & ~taken[page]));
        all += mm_popcount(taken[page]);
    }
    unit_eq(all, serves);
    for (uint32_t page = 0; page < PAGES; page++) unit_eq(was[page], is_page_free(page));
    unit_sound(&heap, live_ += (uint64_t)serves * bytes);
}

/* If a segment has too few pages the first lanes are served. With fewer than 1/MM_NARROW_SHARE of the pages free the heap grows, if it can. */
START_TEST(each_gets_one) {
    const uint32_t least = MM_SEGMENT_PAGES / MM_NARROW_SHARE;
    c_ = (uint32_t)_i;
    for (uint32_t round = 0; round < 10 * (least + 2); round++) {
        const uint32_t n = round % (least + 2), has = n <= least ? n : MM_SEGMENT_PAGES / 2, here = random_here(1);
        scattered(has);
        made(here, here & random_here(4), 0, n < least ? 0 : has);
        if (n >= least) scattered(has);
        made(here, here & random_here(4), 1, has);
        for (int more = 0; n > least && more < 5; more++) made(here, here & random_here(0), (int)random_below(2), has);
        ends();
    }
}
END_TEST

/* Groups of lanes want different classes, some of them without narrow blocks. Only those get slices whose shortage has come so far: before the heap grows, if
 * it can, or before NULL; never in a checked run. */
static void short_mine(uint32_t lane) { p_of[lane] = mm_narrow_malloc(&other_, here_, needs_of[lane], class_of[lane], is_of[lane]); }
START_TEST(groups_take_turns) {
    static const uint32_t some[] = {MM_NARROW_FIRST - 1, MM_NARROW_FIRST, MM_NARROW_END - 1, MM_NARROW_END};
    const enum mm_short is = (enum mm_short)(MM_SHORT_WAIT + _i % 6);
    const int can_grow = _i / 6 % 2, is_checked = _i / 12, gives = !is_checked && (is == MM_SHORT_NONE || (is == MM_SHORT_SOME && can_grow));
    for (int round = 0; round < 30; round++) {
        const uint32_t here = random_here(1), need = here & random_here(0);
        uint32_t of_class[MM_CLASS_COUNT + 1] = {0};
        scattered(MM_SEGMENT_PAGES / 2);
        other_ = *ref, other_.mailbox = (uint64_t)can_grow, other_.guard = (uint64_t)is_checked; /* neither is read */
        for (uint32_t i = 0; i < UNIT_LANES; i++) class_of[i] = some[random_below(4)], of_class[class_of[i]] |= need & 1u << i;
        for (uint32_t i = 0; i < UNIT_LANES; i++) needs_of[i] = of_class[class_of[i]], is_of[i] = needs_of[i] && mm_ctz(needs_of[i]) == i ? is : MM_SHORT_WAIT;
        act(short_mine, here);
        for (uint32_t i = 0; i < UNIT_LANES; i++) {
            unit_eq(p_of[i] != 0, gives && (need >> i & 1) && mm_class_has_narrow(class_of[i]));
            unit_eq(mm_cpu_usable_size(&heap, (void *)p_of[i]), p_of[i] != 0 ? mm_class_bytes(class_of[i]) : 0);
            mm_cpu_free(&heap, (void *)p_of[i]);
        }
        unit_sound(&heap, live_);
        ends();
    }
}
END_TEST

/* All else in the page is no slice. Lanes free their slices together. */
static void free_mine(uint32_t lane) { mm_heap_free(ref, (void *)p_of[lane]); }
START_TEST(slices_are_freed) {
    const uint32_t bytes = mm_class_bytes(c_ = (uint32_t)_i);
    scattered(8);
    made(MM_WARP_ALL, MM_WARP_ALL, 1, 8);
    for (uint32_t k = 0; k < of(c_)->count; k++) {
        for (uint32_t i = 0; i < each(); i++) {
            char *const p = (char *)slice_of(entry_at(c_, k), i);
            unit_free(&heap, p + 1 + random_below(bytes - 1), MM_MISUSE_INTERIOR, live_, "interior");
            if (is_live(mm_entry_page(entry_at(c_, k)), i)) unit_free(&heap, p, 0, live_ -= bytes, "a slice");
            unit_eq(mm_cpu_usable_size(&heap, p), 0);
            unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, live_, "a free slice");
        }
        for (uint64_t in = each() * bytes; in < MM_PAGE_BYTES; in += 16)
            unit_free(&heap, (void *)(slice_of(entry_at(c_, k), 0) + in), MM_MISUSE_NEVER, live_, "past the last slice");
    }
    const uint64_t misuses = unit_misuses(&heap), live = live_;
    for (int round = 0; round < 20; round++) {
        const uint32_t here = random_here(1);
        made(here, here, 1, 8);
        together(free_mine, here, 1u << random_below(8));
        unit_sound(&heap, live_ = live);
        mm_slices_retire_all(ref, 1);
        unit_eq(of(c_)->count, 0);
    }
    unit_eq(unit_misuses(&heap), misuses);
}
END_TEST

/* Narrow and wide blocks of a class whose slices are all free go, together; others stay. */
static void retire_mine(uint32_t lane) { got_of[lane] = mm_blocks_retire(ref, here_, page_of[lane]); }
START_TEST(free_ones_are_retired) {
    c_ = (uint32_t)_i;
    for (int round = 0; round < 40; round++) {
        uint32_t gone = 0, gets[UNIT_LANES] = {0}, n = 1 + random_below(2), wide = n;
        new_heap(), live_ = 0;
        while (of(c_)->count < n) make(c_);
        made(MM_WARP_ALL, random_here(1), 1, 8);
        if (random_below(2)) p_of[0] = mm_slices_claim(ref, 1, 1, entry_at(c_, 0), mm_class_slices(c_) - 1, c_);
        for (uint32_t i = 0; i < UNIT_LANES; i++) page_of[i] = MM_TREE_NONE, random_below(2) ? mm_cpu_free(&heap, (void *)p_of[i]) : (void)0;
        for (uint32_t k = 0; k < of(c_)->count; k++) {
            uint32_t lane, live = 0;
            do lane = random_below(UNIT_LANES);
            while (page_of[lane] != MM_TREE_NONE);
            page_of[lane] = mm_entry_page(entry_at(c_, k));
            for (uint32_t i = 0; i < block_of(entry_at(c_, k))->slices; i++) live += (uint32_t)is_live(page_of[lane], i);
            if (live == 0) gets[lane] = k < wide ? 1u << mm_class_page_shift(c_) : 1, gone++;
        }
        n = of(c_)->count;
        together(retire_mine, MM_WARP_ALL, 1u << random_below(8));
        for (uint32_t i = 0; i < UNIT_LANES; i++) {
            unit_eq(got_of[i], gets[i]);
            if (gets[i] != 0) unit_eq(*mm_page_owner(ref, page_of[i]), MM_OWNER_NOBODY);
        }
        unit_eq(of(c_)->count, n - gone);
        unit_sound(&heap, UNIT_ANY);
        ends();
    }
}
END_TEST

/* Sweeps, and samples in the end, find all slices that are free, of narrow and wide blocks, and nothing else. */
static void sweep_mine(uint32_t lane) { p_of[lane] = mm_class_sweep(ref, here_, need_, c_); }
static void sample_mine(uint32_t lane) {
    p_of[lane] = mm_sample_round(ref, here_, need_, c_, of(c_)->count, mm_random() + lane * 0x9e3779b1u, position_, &seen_of[lane]);
}
START_TEST(free_ones_are_found) {
    c_ = (uint32_t)_i;
    for (uint32_t round = 0; round < 24; round++) {
        const uint32_t wide = round / 2 % 3, many = round % 4 < 2 ? 6 : wide == 0 ? 40 : 20; /* few: searched word by word */
        uint32_t freed = 0, found = 0;
        uint64_t sum = 0;
        new_heap(), live_ = 0;
        do make(c_);
        while (of(c_)->count < wide);
        while (of(c_)->count < many) made(MM_WARP_ALL, MM_WARP_ALL, 1, 8);
        if (wide == 0) mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c_, 0)));
        for (uint32_t k = 0; k < of(c_)->count; k++)
            for (uint32_t i = 0; i < block_of(entry_at(c_, k))->slices; i++) mm_slices_claim(ref, 1, 1, entry_at(c_, k), i, c_);
        for (int k = 0; k < 20; k++) {
            const uint64_t entry = entry_at(c_, random_below(of(c_)->count)), p = slice_of(entry, random_below(block_of(entry)->slices));
            if (mm_cpu_usable_size(&heap, (void *)p) != 0) freed++, sum += p, mm_cpu_free(&heap, (void *)p);
        }
        memset(seen_of, 0, sizeof seen_of);
        for (uint32_t calls = 0; found < freed && calls < 4000; calls++) {
            const uint32_t here = random_here(1), need = here & random_here(0);
            need_ = need != 0 ? need : here, position_ = random_below(1000);
            found += act(round % 2 ? sweep_mine : sample_mine, here);
            for (uint32_t i = 0; i < UNIT_LANES; i++) sum -= p_of[i];
        }
        unit_eq(found, freed);
        unit_eq(sum, 0);
        for (uint32_t i = 0; wide == 0 && i < UNIT_LANES; i++) unit_eq(seen_of[i].slices, seen_of[i].words * each());
        ends();
    }
}
END_TEST

/* A full heap gives all its single pages before NULL, and the last slice that is freed again. A class without narrow blocks gets nothing. */
static void heap_mine(uint32_t lane) { p_of[lane] = (uint64_t)mm_heap_malloc(ref, mm_class_bytes(class_of[lane])); }
static uint32_t get(uint32_t here, uint32_t c) {
    for (uint32_t i = 0; i < UNIT_LANES; i++) class_of[i] = c;
    return act(heap_mine, here);
}
START_TEST(all_are_given) {
    c_ = (uint32_t)_i;
    for (uint32_t round = 0; round < 8; round++) {
        const uint32_t here = round % 2 ? random_here(2) : 1, pages = random_below(8);
        uint32_t n = 0;
        scattered(pages);
        const uint32_t room = mm_narrow_most(ref, c_);
        unit_eq(get(here, MM_NARROW_END), 0);
        for (uint32_t got = mm_popcount(here); got == mm_popcount(here);) {
            got = get(here, c_);
            for (uint32_t i = 0; i < UNIT_LANES; i++)
                if (p_of[i] != 0) held[n++] = p_of[i];
        }
        unit_eq(n, (pages * SEGMENTS < room ? pages * SEGMENTS : room) * each());
        unit_sound(&heap, live_ + (uint64_t)n * mm_class_bytes(c_));
        for (int k = 0; k < 4 && n != 0; k++) {
            const uint32_t at = random_below(n);
            mm_cpu_free(&heap, (void *)held[at]);
            unit_eq(get(here, c_), 1);
            for (uint32_t i = 0; i < UNIT_LANES; i++) unit_holds(p_of[i] == 0 || p_of[i] == held[at], "a slice that was not freed");
        }
        ends();
    }
}
END_TEST

/* A group's last step before NULL may come when others of its warp get pages. It gets narrow blocks all the same: there are pages for them all the time. */
static uint32_t kept_[PAGES], keeps_, rate_, goes_;
static void free_now_and_then(void) { /* another thread frees the slice that keeps a block */
    if (keeps_ == 0 || goes_ == 0 || unit_warps_random() % rate_ != 0) return;
    const uint32_t i = unit_warps_random() % keeps_, page = kept_[i];
    kept_[i] = kept_[--keeps_], goes_--;
    mm_cpu_free(&heap, slice_at(page, mm_class_of(MM_PAGE_BYTES >> MM_BLOCK_SLICES_SHIFT), 0));
}
START_TEST(others_get_pages) {
    c_ = MM_NARROW_END - 1;
    for (uint32_t round = 0; round < 500; round++) {
        const uint32_t mine = 1 + random_below(3), here = (uint32_t)mm_bits_low(mine) | (1 + random_below(31)) << 3;
        scattered(4), keeps_ = 0, goes_ = 12, rate_ = 50 + random_below(4000);
        for (uint32_t page = 1; page < PAGES; page += 2)
            if (!is_page_free(page)) kept_[keeps_++] = page;
        for (uint32_t i = 0; i < UNIT_LANES; i++) class_of[i] = i < 3 ? c_ : MM_NARROW_END + random_below(3);
        unit_warps_each_step = free_now_and_then;
        act(heap_mine, here);
        unit_warps_each_step = NULL;
        for (uint32_t i = 0; i < mine; i++) unit_holds(p_of[i] != 0, "round %u: NULL for lane %u", round, i);
        ends();
    }
}
END_TEST

/* Tables keep room for the entries of wide blocks, and the pool for their extents. */
START_TEST(room_stays) {
    c_ = (uint32_t)_i;
    scattered(8);
    const struct mm_class k = ref->classes[c_];
    const uint32_t all = k.directory_length << MM_EXTENT_SHIFT, wide = PAGES >> k.page_shift;
    const uint32_t most = mm_at_most(PAGES / 4, all - wide);
    unit_eq(mm_narrow_most(ref, c_), most);
    struct mm_heap_ref other = *ref; /* the directory has ten entries more than wide blocks need */
    other.classes[c_].directory_length = 1, other.user_bytes = (uint64_t)(MM_EXTENT - 10) << (MM_PAGE_SHIFT + k.page_shift);
    unit_eq(mm_narrow_most(&other, c_), 10);
    unit_eq(mm_narrow_reserve(ref, c_, most - 1), most - 1);
    unit_eq(mm_narrow_reserve(ref, c_, 2), 1);
    unit_eq(mm_narrow_reserve(ref, c_, 2), 0);
    unit_eq(of(c_)->narrow, most);
    need_ = MM_WARP_ALL, is_last_ = 1;
    unit_eq(act(make_mine, MM_WARP_ALL), 0);
    of(c_)->narrow = 0;
    made(MM_WARP_ALL, MM_WARP_ALL, 1, 8);
    unit_eq(of(c_)->narrow, of(c_)->count);
    unit_eq(mm_class_wide(ref, c_), 0);
    unit_eq(mm_narrow_reserve(ref, c_, most), most - of(c_)->count);
    of(c_)->narrow = of(c_)->count;
    ends();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("narrow");
    TCase *tests = tcase_create("narrow blocks");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {each_gets_one, slices_are_freed, free_ones_are_retired, free_ones_are_found, all_are_given, room_stays};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_loop_test(tests, all[i], MM_NARROW_FIRST, MM_NARROW_END);
    tcase_add_loop_test(tests, groups_take_turns, 0, 24);
    tcase_add_test(tests, others_get_pages);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
