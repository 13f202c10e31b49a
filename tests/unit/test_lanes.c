/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Work that the lanes of a warp share: retiring several blocks at once (retire.h, table.h), with any subset of the lanes, in any order, and
 * with any interference. Help for lanes that are short of memory: test_shortage.c; sweeps: test_sweep.c. */
#define UNIT_WARPS 3
#include <limits.h>

#include "tests/unit/warps.h"

#undef MM_LOCK_POLLS /* each poll takes two lane changes here */
#define MM_LOCK_POLLS 512u
#undef MM_MAKE_LEAST /* few, so that eight lanes make blocks ahead */
#define MM_MAKE_LEAST 32

#include "tests/unit/blocks.h"
#include "tests/unit/together.h"

#define MOST_BLOCKS 64u

/* ---- Retiring several blocks at once ---- */

static const uint32_t sizes[] = {16, 48, 128, 1024};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

static uint32_t page_of[UNIT_LANES], got_of[UNIT_LANES];
static void retire_mine(uint32_t lane) { got_of[lane] = mm_blocks_retire(ref, here_, page_of[lane]); }
static void nobody_retires(void) {
    for (uint32_t i = 0; i < UNIT_LANES; i++) page_of[i] = MM_TREE_NONE, got_of[i] = 0;
}

/* Number of blocks of class c, counted from the page owners. */
static uint32_t blocks_of(uint32_t c) {
    uint32_t pages = 0;
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) pages += *mm_page_owner(ref, page) == c + 1;
    unit_eq(pages % (1u << mm_class_page_shift(c)), 0);
    return pages >> mm_class_page_shift(c);
}
/* The table holds exactly the n blocks of its class, each at its index. */
static void dense(uint32_t c, uint32_t n) {
    unit_eq(of(c)->count, n);
    unit_eq(blocks_of(c), n);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t entry = entry_at(c, i);
        unit_holds(mm_entry_is_of(entry, c), "entry %u of %u is nothing", i, n);
        unit_eq(*mm_page_index(ref, mm_entry_page(entry)), i);
        unit_eq(mm_word_generation(word_at(mm_entry_page(entry), 0)), mm_entry_generation(entry));
    }
    for (uint32_t i = n; i < MOST_BLOCKS; i++) unit_eq(entry_at(c, i), MM_ENTRY_NONE);
    unit_eq(of(c)->lock, 0);
}

/* Deals those of the n blocks of class c that are in `goes` to lanes of `here`, in random order. */
static uint64_t was[MOST_BLOCKS];
static void remember(uint32_t c, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) was[i] = entry_at(c, i);
}
static void deal(uint64_t goes, uint32_t here) {
    for (uint64_t rest = goes; rest != 0; rest &= rest - 1) {
        uint32_t lane;
        do lane = random_below(UNIT_LANES);
        while (!(here >> lane & 1) || page_of[lane] != MM_TREE_NONE);
        page_of[lane] = mm_entry_page(was[mm_ctz(rest)]);
    }
}
/* After retiring: entries below the new end are unchanged, except those of retired blocks, which now hold the entries from behind the new end. */
static void has_gone(uint32_t c, uint32_t n, uint64_t goes) {
    const uint32_t k = mm_popcount(goes), end = n - k;
    uint64_t behind = 0;
    for (uint32_t i = 0; i < end; i++) {
        const uint64_t now = entry_at(c, i);
        if (!(goes >> i & 1)) {
            unit_holds(now == was[i], "%u of %u go (%#llx): entry %u has moved", k, n, (unsigned long long)goes, i);
            continue;
        }
        uint32_t from = end;
        while (from < n && was[from] != now) from++;
        unit_holds(from < n && !(goes >> from & 1) && !(behind >> from & 1), "%u of %u go (%#llx): entry %u is not one of the last", k, n,
                   (unsigned long long)goes, i);
        behind |= 1ull << from;
    }
    dense(c, end);
    for (uint64_t rest = goes; rest != 0; rest &= rest - 1) {
        const uint64_t entry = was[mm_ctz(rest)];
        for (uint32_t i = 0; i < ref->classes[c].words; i++)
            unit_eq(word_at(mm_entry_page(entry), i), mm_word_make(mm_generation_end(mm_entry_generation(entry)), 0));
    }
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (page_of[i] != MM_TREE_NONE) unit_eq(got_of[i], 1u << mm_class_page_shift(c));
    unit_sound(&heap, 0);
}
static uint32_t blocks_most(uint32_t c) { return mm_at_most(SEGMENTS * MM_SEGMENT_PAGES >> mm_class_page_shift(c), UNIT_LANES); }

/* All subsets of up to as many blocks as there are lanes: none, all, only the last ones, none of the last ones. */
START_TEST(any_of_them_go) {
    const uint32_t c = mm_class_of(sizes[_i]);
    for (uint32_t n = 1; n <= blocks_most(c); n++)
        for (uint32_t goes = 0; goes < 1u << n; goes++) {
            while (of(c)->count < n) make(c);
            nobody_retires(), remember(c, n);
            const uint32_t here = random_here(mm_popcount(goes) ? mm_popcount(goes) : 1);
            deal(goes, here);
            together(retire_mine, here, goes % 2 ? TOGETHER : 1u << random_below(6));
            has_gone(c, n, goes);
            mm_slices_retire_all(ref, 1);
            unit_eq(of(c)->count, 0);
        }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A few of many: the last ones of the table, or those just before them, or any. */
START_TEST(few_of_many_go) {
    const uint32_t c = mm_class_of(16);
    for (int round = 0; round < 400; round++) {
        const uint32_t n = 9 + random_below(MOST_BLOCKS - 10), k = 1 + random_below(UNIT_LANES),
                       from = round % 4 == 0   ? n - k
                              : round % 4 == 1 ? n - 2 * mm_at_most(k, n / 2)
                                               : 0;
        uint64_t goes = 0;
        while (mm_popcount(goes) < k) goes |= 1ull << (from + random_below(round % 4 == 1 ? mm_at_most(k, n / 2) + k : n - from));
        goes &= mm_bits_low(n);
        while (of(c)->count < n) make(c);
        while (of(c)->count > n) unit_lt(0, mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 0))));
        nobody_retires(), remember(c, n);
        const uint32_t here = random_here(mm_popcount(goes));
        deal(goes, here);
        together(retire_mine, here, 1u << random_below(8));
        has_gone(c, n, goes);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Lanes with blocks of several classes, blocks with live slices, the same block, or pages that are no block: each block that can be retired is, once. */
START_TEST(not_all_can_go) {
    static const uint32_t some[] = {16, 48, 64};
    for (int round = 0; round < 600; round++) {
        uint32_t n[3], gone[3] = {0, 0, 0}, page_at[18], class_at[18], is_live[18], all = 0, holds = 0;
        uint64_t live = 0;
        void *held[18];
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t c = mm_class_of(some[k]);
            n[k] = 1 + random_below(6);
            for (uint32_t i = 0; i < n[k]; i++) {
                const uint32_t page = make(c), at = random_below(mm_class_slices(c));
                page_at[all] = page, class_at[all] = k, is_live[all] = random_below(3) == 0;
                if (is_live[all]) held[holds++] = (void *)mm_slices_claim(ref, 1, 1, entry_at(c, i), at, c), live += mm_class_bytes(c);
                all++;
            }
        }
        nobody_retires();
        const uint32_t here = random_here(1);
        int whose[UNIT_LANES];
        for (uint32_t i = 0; i < UNIT_LANES; i++) {
            whose[i] = -1;
            if (!(here >> i & 1) || random_below(8) == 0) continue;
            if (random_below(8) == 0) {
                page_of[i] = SEGMENTS * MM_SEGMENT_PAGES - 1; /* unowned */
                continue;
            }
            const uint32_t which = random_below(all);
            whose[i] = (int)which, page_of[i] = page_at[which];
            if (mm_class_page_shift(mm_class_of(some[class_at[which]])) > 0 && random_below(6) == 0) page_of[i]++, whose[i] = -1; /* the middle of a block */
        }
        together(retire_mine, here, 1u << random_below(8));
        for (uint32_t which = 0; which < all; which++) {
            const uint32_t pages = 1u << mm_class_page_shift(mm_class_of(some[class_at[which]]));
            uint32_t got = 0, tried = 0;
            for (uint32_t i = 0; i < UNIT_LANES; i++)
                if (whose[i] == (int)which) got += got_of[i], tried = 1;
            unit_eq(got, tried && !is_live[which] ? pages : 0);
            gone[class_at[which]] += got != 0;
        }
        for (uint32_t i = 0; i < UNIT_LANES; i++)
            if (whose[i] < 0) unit_eq(got_of[i], 0);
        for (uint32_t k = 0; k < 3; k++) dense(mm_class_of(some[k]), n[k] - gone[k]);
        unit_sound(&heap, live);
        for (uint32_t i = 0; i < holds; i++) mm_cpu_free(&heap, held[i]);
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* The table is locked: all blocks stay, all their words are restored, and the lock is unchanged; but blocks of another class are retired. */
START_TEST(locked) {
    const uint32_t c = mm_class_of(48), d = mm_class_of(16);
    for (uint32_t here = 1; here <= MM_WARP_ALL; here += here < 8 ? 1 : 31) {
        nobody_retires();
        for (uint32_t i = 0; i < UNIT_LANES; i++) page_of[i] = make(i % 3 == 2 ? d : c);
        remember(c, of(c)->count);
        const uint32_t n = of(c)->count, others = of(d)->count;
        of(c)->lock = 1;
        together(retire_mine, here, 1u << here % 8);
        unit_eq(of(c)->lock, 1);
        of(c)->lock = 0;
        uint32_t went = 0;
        for (uint32_t i = 0; i < UNIT_LANES; i++) {
            const int goes = i % 3 == 2 && here >> i & 1;
            unit_eq(got_of[i] != 0, goes);
            went += (uint32_t)goes;
        }
        dense(c, n), dense(d, others - went);
        for (uint32_t i = 0; i < n; i++) unit_eq(entry_at(c, i), was[i]);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* ---- Interference ---- */

static uint32_t c_, n_;
static uint64_t goes_, others_;             /* of the n_ blocks: those that lanes retire; those that others retire */
static long at_, put_at_, steps_, emptied_; /* emptied_: how often one of the last entries was empty when the count changed */
static void (*other_)(void), (*later_)(void);
static int has_later_;
/* At each step, every block that stays is in the table at its index. */
static void stays_found(void) {
    for (uint32_t i = 0; i < n_; i++) {
        if ((goes_ | others_) >> i & 1) continue;
        const uint32_t index = *mm_page_index(ref, mm_entry_page(was[i]));
        unit_holds(entry_at(c_, index) == was[i], "step %ld: a block that stays is not in the table", steps_);
    }
}
static void in_between(void) {
    stays_found();
    if (steps_ == at_) {
        for (uint32_t i = n_ - mm_popcount(goes_); i < n_; i++)
            if (entry_at(c_, i) == MM_ENTRY_NONE) {
                emptied_++;
                break;
            }
        other_();
    }
    if (steps_++ >= put_at_ && !has_later_ && later_ != NULL) has_later_ = 1, later_();
}
/* The blocks of goes_ are retired by as many lanes, others among them; other_ runs at once just before step `at`, and later_ `delay` steps after that.
 * Returns how many steps retiring took. */
static long retire_with(uint32_t here, long at, long delay) {
    nobody_retires(), remember(c_, n_);
    deal(goes_, here);
    at_ = at, put_at_ = at + delay, steps_ = 0, has_later_ = later_ == NULL;
    unit_warps_each_step = in_between;
    together(retire_mine, here, TOGETHER);
    unit_warps_each_step = NULL;
    if (steps_ <= at) other_();
    if (!has_later_) has_later_ = 1, later_();
    return steps_;
}
static const uint32_t patterns[] = {0x07, 0x38, 0x15, 0x2a, 0x19, 0x20, 0x01, 0x3f}; /* of six blocks: which are retired */
#define PATTERNS ((int)(sizeof patterns / sizeof *patterns))
static void six_blocks(void) {
    n_ = 6;
    while (of(c_)->count < n_) make(c_);
}
static uint32_t those_of(uint64_t goes) { return mm_at_most(6, mm_popcount(goes)); }
static uint32_t gone_now(void) {
    uint32_t gone = 0;
    for (uint32_t i = 0; i < UNIT_LANES; i++) gone += got_of[i] != 0;
    return gone;
}

static uint64_t p_;
static uint32_t index_, new_page_;
static void make_one(void) { make(c_); }
static void add_one(void) {
    uint64_t groups;
    new_page_ = mm_pages_take(ref, mm_class_page_shift(c_), 1, &groups) * MM_SEGMENT_PAGES + mm_ctz(groups);
    index_ = mm_table_add(ref, c_, 1);
}
static void put_one(void) { write_block(c_, index_, new_page_); }
static void claim_one(void) { p_ = mm_slices_claim(ref, 1, 1, was[mm_ctz(goes_)], 3, c_); }
static uint32_t other_got_;
static void retire_a_goer(void) { other_got_ = mm_blocks_retire(ref, 1, mm_entry_page(was[mm_ctz(goes_)])); }
static uint64_t locked_;
static void retire_another(void) {
    locked_ = of(c_)->lock;
    other_got_ = mm_blocks_retire(ref, 1, mm_entry_page(was[mm_ctz(others_)]));
}

/* A block is made while others are retired: at every step, those are retired, the new one is there, and there are no holes. */
START_TEST(a_maker_comes) {
    c_ = mm_class_of(_i % 2 ? 48 : 16), goes_ = patterns[_i / 2];
    const uint32_t k = mm_popcount(goes_);
    other_ = make_one, later_ = NULL, emptied_ = 0;
    for (long at = 0;; at++) {
        six_blocks();
        const long steps = retire_with(random_here(those_of(goes_)), at, 0);
        unit_eq(gone_now(), k);
        dense(c_, 6 - k + 1);
        unit_fresh(&heap, SEGMENTS);
        if (steps <= at) break;
    }
    unit_lt(0, emptied_); /* then all entries were put back once */
}
END_TEST

/* The same, but the block is put in later than its index is taken: retiring waits for it; if it does not come in time, all blocks stay. */
START_TEST(a_maker_is_slow) {
    static const long delays[] = {1, 5, 30, 200, 1L << 40};
    c_ = mm_class_of(_i % 2 ? 48 : 16), goes_ = patterns[_i / 2];
    const uint32_t k = mm_popcount(goes_);
    other_ = add_one, later_ = put_one, emptied_ = 0;
    uint32_t stayed = 0;
    for (uint32_t d = 0; d < 5; d++)
        for (long at = 0;; at += 1 + (long)random_below(4)) {
            six_blocks();
            const long steps = retire_with(random_here(those_of(goes_)), at, delays[d]);
            const uint32_t gone = gone_now();
            unit_holds(gone == k || (d == 4 && gone == 0), "step %ld, delay %ld: %u of %u went", at, delays[d], gone, k);
            stayed += gone == 0;
            dense(c_, 6 - gone + 1);
            if (gone == 0)
                for (uint32_t i = 0; i < 6; i++) unit_eq(entry_at(c_, i), was[i]);
            unit_sound(&heap, 0);
            unit_fresh(&heap, SEGMENTS);
            if (steps <= at) break;
        }
    unit_lt(0, stayed);
    unit_lt(0, emptied_);
}
END_TEST

/* A slice of a block about to be retired is claimed, or another caller retires that block or a different one: each block is retired once, and stays only
 * if it has a live slice or its table was locked. */
START_TEST(others_come) {
    static void (*const acts[])(void) = {claim_one, retire_a_goer, retire_another};
    c_ = mm_class_of(_i % 2 ? 48 : 16), goes_ = patterns[_i / 2];
    const uint32_t k = mm_popcount(goes_), pages = 1u << mm_class_page_shift(c_);
    later_ = NULL;
    for (int which = 0; which < (k == 6 ? 2 : 3); which++)
        for (long at = 0;; at++) {
            six_blocks();
            p_ = 0, other_got_ = 0, other_ = acts[which], others_ = which == 2 ? 1ull << mm_ctz(~goes_) : 0;
            const long steps = retire_with(random_here(k), at, 0);
            unit_eq(gone_now() + (which == 1 && other_got_ != 0), k - (p_ != 0));
            unit_eq(other_got_, which == 0 || (which == 1 && gone_now() == k) || (which == 2 && locked_) ? 0 : pages);
            dense(c_, 6 - gone_now() - (other_got_ != 0));
            unit_sound(&heap, p_ ? mm_class_bytes(c_) : 0);
            if (p_) mm_cpu_free(&heap, (void *)p_);
            unit_eq(unit_misuses(&heap), 0);
            unit_fresh(&heap, SEGMENTS);
            if (steps <= at) break;
        }
}
END_TEST

/* Lanes make blocks, in any order, while another caller tries to retire every page: no block that is not in the table yet is retired. In an ample heap they
 * make all of a segment, also those without numbers. */
static uint32_t number_;
static int is_one_;
static void make_mine(uint32_t lane) {
    (void)lane;
    mm_blocks_make(ref, here_, c_, number_, is_one_ ? MM_FIRST_ONE : MM_FIRST_LATE, 0);
}
static uint32_t went_; /* pages of blocks that it retired */
static void retire_any(void) {
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) {
        if (*mm_page_owner(ref, page) == MM_OWNER_NOBODY) continue;
        const uint64_t entry = mm_entry_make(mm_word_generation(word_at(page, 0)), page, c_);
        const int is_there = mm_table_has(ref, c_, entry);
        const uint32_t got = mm_blocks_retire(ref, 1, page);
        went_ += got;
        unit_holds(got == 0 || is_there, "page %u: a block goes that is not in the table", page);
    }
}
static void retire_any_at(void) {
    if (steps_++ == at_) retire_any();
}
START_TEST(made_by_lanes) {
    static const uint32_t bytes[] = {16, 48, MM_PAGE_BYTES / 2}; /* a segment has four blocks of the last one */
    c_ = mm_class_of(bytes[_i]), is_one_ = _i == 2;
    const uint64_t more = is_one_ ? MM_AMPLE_SEGMENTS : 0;
    for (uint32_t seed = 0; seed < 6; seed++)
        for (at_ = 0, steps_ = 1; at_ <= steps_; at_ += 1 + (long)random_below(3)) {
            number_ = first_ticket(c_), steps_ = 0, went_ = 0;
            of(c_)->tickets += 7 * mm_class_slices(c_);
            unit_warps_each_step = retire_any_at;
            mm_heap_of(ref)->free_count += more;
            together(make_mine, random_here(2), 1u << seed % 3);
            unit_warps_each_step = NULL;
            mm_heap_of(ref)->free_count -= more;
            dense(c_, of(c_)->count);
            if (is_one_) unit_eq((of(c_)->count << mm_class_page_shift(c_)) + went_, MM_SEGMENT_PAGES);
            unit_fresh(&heap, SEGMENTS);
        }
}
END_TEST

/* Lanes whose first draw gave nothing draw again as long as one of MM_DRAWS_SHARE succeeds: eight lanes of which one finds the only free slice draw once more,
 * seven positions, of which nothing is free. If nobody finds anything they draw once. Lanes that do not go draw nothing. */
static uint64_t drew_[UNIT_LANES];
static uint32_t goes_now_;
static void draw_mine(uint32_t lane) { drew_[lane] = mm_slices_draw(ref, here_, (int)(goes_now_ >> lane & 1), c_); }
START_TEST(draws_while_some_succeed) {
    ck_assert(MM_DRAWS_SHARE == UNIT_LANES);
    c_ = mm_class_of(512);
    for (uint32_t turn = 0; turn < 6; turn++)
        for (int has = 0; has < 2; has++)
            for (int all = 0; all < 2; all++) {
                new_heap();
                const uint32_t page = make(c_), generation = mm_word_generation(word_at(page, 0)),
                               free_bit = mm_class_word_mask(ref->classes[c_], 0) & 1u << 20;
                mm_page_words(ref, page)[0] = mm_word_make(generation, has ? free_bit : 0);
                goes_now_ = all ? MM_WARP_ALL : MM_WARP_ALL >> 3;
                together(draw_mine, MM_WARP_ALL, 1u << turn);
                uint32_t got = 0, draws = mm_popcount(goes_now_);
                for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
                    if (drew_[lane] == 0) continue;
                    unit_eq(drew_[lane], (uint64_t)(uintptr_t)slice_at(page, c_, 20));
                    unit_eq(goes_now_ >> lane & 1, 1);
                    got++;
                }
                unit_eq(got, has);
                unit_eq(of(c_)->cursor[0].place, has ? 2 * draws - 1 : draws);
                mm_page_words(ref, page)[0] = mm_word_make(generation, mm_class_word_mask(ref->classes[c_], 0));
            }
}
END_TEST
/* If the class is to grow, they get tickets, one each. */
START_TEST(draws_tickets) {
    c_ = mm_class_of(512), goes_now_ = MM_WARP_ALL >> 2;
    together(draw_mine, MM_WARP_ALL, 4);
    for (uint32_t lane = 0, i = 0; lane < UNIT_LANES; lane++) unit_eq(drew_[lane], goes_now_ >> lane & 1 ? mm_token_grow(c_, i++) : 0);
    unit_eq(of(c_)->tickets, mm_popcount(goes_now_));
}
END_TEST

/* Warps that retire and make blocks of the same classes: locks are taken one after the other, nothing is lost. */
#define ROUNDS 12
static const uint32_t mixed[] = {16, 48, 64};
static void retire_and_make(uint32_t thread) {
    uint64_t seed = thread + 77;
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t r = (uint32_t)(unit_random(&seed) >> 20), c = mm_class_of(mixed[r % 3]), warp = thread / UNIT_LANES;
        if (round % 3 == (int)warp % 3) {
            uint32_t slice;
            const uint32_t d = mm_class_of(mixed[(round + (int)warp) % 3]);
            const uint32_t number = mm_class_block_of(ref->classes[d], mm_tickets_draw(ref, MM_WARP_ALL, MM_WARP_ALL, d), &slice);
            mm_blocks_make(ref, MM_WARP_ALL, d, mm_warp_shuffle(MM_WARP_ALL, number, 0), MM_FIRST_LATE, 0);
        } else {
            const uint32_t count = mm_load_relaxed_u32(&of(c)->count), index = count == 0 ? 0 : (r >> 8) % count;
            const uint64_t entry = count == 0 ? MM_ENTRY_NONE : mm_table_load(ref, c, index, 0);
            (void)mm_blocks_retire(ref, MM_WARP_ALL, mm_entry_is_of(entry, c) ? mm_entry_page(entry) : MM_TREE_NONE);
        }
        unit_lane_called();
    }
}
START_TEST(warps_retire) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        new_heap();
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t i = 0; i < 10; i++) make(mm_class_of(mixed[k]));
        unit_holds(unit_warps_run(retire_and_make, (uint64_t)_i * 60 + seed, 1u << seed % 7, MOST_STEPS) == 0, "seed %u: a warp does not go on", seed);
        for (uint32_t k = 0; k < 3; k++) dense(mm_class_of(mixed[k]), of(mm_class_of(mixed[k]))->count);
        unit_sound(&heap, 0);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lanes");
    TCase *tests = tcase_create("lanes as one");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {few_of_many_go, not_all_can_go, locked, draws_while_some_succeed, draws_tickets};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, any_of_them_go, 0, SIZES);
    tcase_add_loop_test(tests, a_maker_comes, 0, 2 * PATTERNS);
    tcase_add_loop_test(tests, a_maker_is_slow, 0, 2 * PATTERNS);
    tcase_add_loop_test(tests, others_come, 0, 2 * PATTERNS);
    tcase_add_loop_test(tests, made_by_lanes, 0, 3);
    tcase_add_loop_test(tests, warps_retire, 0, 4);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
