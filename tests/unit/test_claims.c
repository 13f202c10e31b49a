/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the lanes of a warp claim and free at once (word.h, free.h): slices that are neighbours or not, free or not, through entries of different ages. */
#define UNIT_WARPS 3
#include "tests/unit/warps.h"

#include "tests/unit/blocks.h"
#include "tests/unit/together.h"

#define ROUNDS 3000u

static uint32_t c_;
static uint64_t entry_of[UNIT_LANES], got_of[UNIT_LANES];
static uint32_t slice_of[UNIT_LANES], goes_of[UNIT_LANES];
static void claim_mine(uint32_t lane) { got_of[lane] = mm_slices_claim(ref, here_, (int)goes_of[lane], entry_of[lane], slice_of[lane], c_); }
static void free_mine(uint32_t lane) { mm_heap_free(ref, (void *)(uintptr_t)got_of[lane]); }

/* Makes a block whose first page held another block before. Returns the old block's entry. */
static uint64_t a_second_block(void) {
    const uint32_t page = make(c_);
    const uint64_t stale = entry_at(c_, 0);
    unit_eq(mm_blocks_retire(ref, 1, page), 1u << mm_class_page_shift(c_));
    while (entry_at(c_, 0) == MM_ENTRY_NONE || mm_entry_page(entry_at(c_, 0)) != page) make(c_);
    unit_holds(mm_entry_generation(entry_at(c_, 0)) != mm_entry_generation(stale), "the same generation again");
    return stale;
}

/* Each lane gets a slice of its own block that was free, and no other lane gets it; through a stale entry it gets none. If the slices are neighbours in the
 * order of the lanes, and none is taken, each lane gets the one it asked for. Nothing else changes in the words. */
static void claims_of(int are_neighbours) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        new_heap();
        c_ = mm_class_of(round % 2 ? 64 : 512);
        const uint64_t stale = a_second_block(), fresh = entry_at(c_, 0);
        const uint32_t slices = mm_class_slices(c_), page = mm_entry_page(fresh), words = mm_class_make(c_).words;
        const uint32_t here = 1 + random_below(MM_WARP_ALL), first = random_below(slices - UNIT_LANES);
        uint32_t before[64] = {0}, after[64], rank = 0;
        if (!are_neighbours)
            for (uint32_t i = 0; i < slices; i++)
                if (random_below(2)) (void)mm_slices_claim(ref, 1, 1, fresh, i, c_);
        for (uint32_t i = 0; i < words; i++) before[i] = after[i] = mm_word_free(word_at(page, i));
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            goes_of[lane] = random_below(8) != 0;
            entry_of[lane] = random_below(4) ? fresh : stale;
            slice_of[lane] = are_neighbours ? first + rank : random_below(4) ? random_below(slices) : first;
            rank += goes_of[lane];
            got_of[lane] = 1;
        }
        together(claim_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            const uint64_t own = mm_slice_address(ref, page, c_, slice_of[lane]);
            if (!goes_of[lane] || entry_of[lane] == stale) unit_eq(got_of[lane], 0);
            else if (are_neighbours) unit_eq(got_of[lane], own);
            if (got_of[lane] == 0) continue;
            const uint32_t got = (uint32_t)((got_of[lane] - mm_page_address(ref, page)) / mm_class_bytes(c_)), bit = 1u << got % 32;
            unit_eq(got_of[lane], mm_slice_address(ref, page, c_, got));
            unit_eq(got / 32, slice_of[lane] / 32);
            unit_holds((after[got / 32] & bit) != 0, "slice %u was not free", got);
            after[got / 32] &= ~bit;
        }
        for (uint32_t i = 0; i < words; i++) {
            unit_eq(mm_word_free(word_at(page, i)), after[i]);
            unit_eq(mm_word_generation(word_at(page, i)), mm_entry_generation(fresh));
        }
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) /* frees all of them at once */
            if (!(here >> lane & 1) || got_of[lane] == 0) got_of[lane] = 0;
        together(free_mine, MM_WARP_ALL, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t i = 0; i < words; i++) unit_eq(mm_word_free(word_at(page, i)), before[i]);
        unit_eq(unit_misuses(&heap), 0);
    }
}
START_TEST(neighbours) { claims_of(1); }
END_TEST
START_TEST(any_slices) { claims_of(0); }
END_TEST

/* Several lanes free one slice at once: it becomes free, and all frees but one are double frees. */
START_TEST(one_slice_by_many) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        new_heap();
        c_ = mm_class_of(64);
        const uint32_t page = make(c_), here = 1 + random_below(MM_WARP_ALL);
        uint32_t lanes = 0, taken = 0;
        for (uint32_t i = 0; i < 4; i++) (void)mm_slices_claim(ref, 1, 1, entry_at(c_, 0), i, c_);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            const uint32_t i = random_below(4);
            got_of[lane] = (uint64_t)(uintptr_t)slice_at(page, c_, i);
            lanes++, taken |= 1u << i;
        }
        together(free_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        unit_eq(mm_word_free(word_at(page, 0)) & 15, taken);
        unit_eq(unit_misuses(&heap), lanes - mm_popcount(taken));
    }
}
END_TEST

static uint32_t want_of[UNIT_LANES];
static void draw_mine(uint32_t lane) { got_of[lane] = mm_slice_draw(ref, want_of[lane]); }

/* The first draw of lanes that want two classes, whose tables may have entries of blocks that exist no longer, and whose pages belong to either class now. Each
 * lane gets a free slice of a block of its class, and no other lane gets it, or a token; nothing else changes in the words. If all slices of a class
 * are free, and no entry is old, all of its lanes get slices that are neighbours, in the order of the lanes. If a class is to grow, its lanes get tickets in their
 * order, and the others no slices. */
START_TEST(first_draw) {
    uint32_t all_got = 0;
    for (uint32_t round = 0; round < 3 * ROUNDS; round++) {
        const uint32_t class_of[2] = {mm_class_of(64), mm_class_of(random_below(4) ? 512 : 65536)};
        uint32_t page_of[2][3], before[2][3][64], place_of[2], blocks[2], rank[2] = {0, 0};
        uint64_t old[2] = {MM_ENTRY_NONE, MM_ENTRY_NONE}; /* NONE: not written yet */
        int is_whole[2] = {1, 1};
        new_heap();
        for (uint32_t ages = random_below(4); ages > 0; ages--) { /* blocks that exist no longer, whose pages are used again */
            const uint32_t k = random_below(2), page = make(class_of[k]);
            old[k] = entry_at(class_of[k], of(class_of[k])->count - 1);
            mm_blocks_retire(ref, 1, page);
        }
        for (uint32_t first = random_below(2), j = 0; j < 2; j++) {
            const uint32_t k = first ^ j, c = class_of[k];
            blocks[k] = c == mm_class_of(65536) ? 1 : 1 + random_below(3);
            while (of(c)->count < blocks[k]) make(c);
            for (uint32_t i = 0; i < blocks[k]; i++) page_of[k][i] = mm_entry_page(entry_at(c, i));
            of(c)->until = of(c)->tickets;
        }
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t c = class_of[k], slices = mm_class_slices(c);
            for (uint32_t i = 0; i < blocks[k]; i++) {
                const int is_taken = random_below(4) == 0;
                for (uint32_t s = 0; is_taken && s < slices; s++)
                    if (random_below(2)) (void)mm_slices_claim(ref, 1, 1, entry_at(c, i), s, c);
                if (random_below(4) == 0) *mm_table_find(ref, c, i) = random_below(2) ? old[k] : MM_ENTRY_NONE, is_whole[k] = 0;
                is_whole[k] = is_whole[k] && !is_taken;
                for (uint32_t w = 0; w < mm_class_make(c).words; w++) before[k][i][w] = mm_word_free(word_at(page_of[k][i], w));
            }
            is_whole[k] = is_whole[k] && slices * blocks[k] >= UNIT_LANES;
            place_of[k] = of(c)->cursor[0].place =
                random_below(4) * slices + (random_below(2) ? random_below(32 - UNIT_LANES) : slices - 1 - random_below(UNIT_LANES));
        }
        const uint32_t here = 1 + random_below(MM_WARP_ALL), grows = random_below(8) == 0 ? random_below(2) : 2,
                       ticket = grows < 2 ? of(class_of[grows])->tickets : 0;
        uint32_t wants = 0, order = 0;
        if (grows < 2) of(class_of[grows])->until = ticket + 100;
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            const uint32_t k = random_below(3) == 0;
            want_of[lane] = class_of[k], got_of[lane] = 0;
            if (here >> lane & 1) wants |= 1u << k;
        }
        together(draw_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            const uint32_t k = want_of[lane] == class_of[1], c = class_of[k], slices = mm_class_slices(c), place = place_of[k] + rank[k]++;
            if (k == grows) {
                unit_eq(got_of[lane], mm_token_grow(c, ticket + order++));
                continue;
            }
            if (got_of[lane] & MM_TOKEN) {
                unit_eq(got_of[lane], MM_TOKEN | c);
                unit_holds(!is_whole[k] || (grows < 2 && wants >> grows & 1), "class %u: lane %u has no slice, and all are free", c, lane);
                continue;
            }
            all_got++;
            uint32_t i = 0;
            while (i < blocks[k] && got_of[lane] - mm_page_address(ref, page_of[k][i]) >= (uint64_t)MM_PAGE_BYTES << mm_class_page_shift(c)) i++;
            unit_lt(i, blocks[k]);
            const uint32_t slice = (uint32_t)((got_of[lane] - mm_page_address(ref, page_of[k][i])) / mm_class_bytes(c));
            unit_eq(got_of[lane], mm_slice_address(ref, page_of[k][i], c, slice));
            unit_holds((before[k][i][slice / 32] >> slice % 32 & 1) != 0, "class %u: slice %u of block %u was not free", c, slice, i);
            before[k][i][slice / 32] &= ~(1u << slice % 32);
            if (is_whole[k]) unit_eq(slice, place % slices);
        }
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t i = 0; i < blocks[k]; i++)
                for (uint32_t w = 0; w < mm_class_make(class_of[k]).words; w++) unit_eq(mm_word_free(word_at(page_of[k][i], w)), before[k][i][w]);
    }
    unit_lt(ROUNDS, all_got);
}
END_TEST

/* Lanes that want one class, all of whose slices are taken, and which got no pages lately, had different numbers of rounds of samples: those for which it was
 * the last one draw tickets, in their order; the others get nothing. */
static uint32_t need_, rounds_of[UNIT_LANES];
static void look_mine(uint32_t lane) {
    struct mm_seen seen = {0, 0, 0};
    got_of[lane] = mm_class_look(ref, here_, need_, c_, random_below(1u << 30), rounds_of[lane], &seen);
}
START_TEST(looks_after_any_rounds) {
    c_ = mm_class_of(512);
    while (of(c_)->count <= MM_SAMPLE_ALL) {
        make(c_);
        for (uint32_t i = 0; i < mm_class_slices(c_); i++) (void)mm_slices_claim(ref, 1, 1, entry_at(c_, of(c_)->count - 1), i, c_);
    }
    mm_heap_of(ref)->free_count = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t ticket = of(c_)->tickets;
        const uint32_t here = 1 + random_below(MM_WARP_ALL);
        of(c_)->stays_ns = mm_now_ns() + 3600ull * 1000000000; /* so far ahead that no machine is too slow */
        need_ = here & (random_below(2) ? MM_WARP_ALL : random_below(MM_WARP_ALL));
        if (need_ == 0) need_ = here;
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) rounds_of[lane] = random_below(2) ? MM_SAMPLE_POOR - 1 : random_below(9), got_of[lane] = 1;
        together(look_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++)
            if (here >> lane & 1) unit_eq(got_of[lane], need_ >> lane & 1 && rounds_of[lane] == MM_SAMPLE_POOR - 1 ? mm_token_grow(c_, ticket++) : 0);
        unit_eq(of(c_)->tickets, ticket);
    }
}
END_TEST

/* Lanes with tickets of a block that is there, or will be soon, get its slices; or others of the word, if those are taken. Those of one without pages, or whose
 * word of made a later block has, or of one that nobody makes, get nothing, after a while; at once if one of them is to make a segment's blocks. */
enum { NO_PAGES, GONE, NOBODY_MAKES, TAKEN, SOON, THERE, TICKET_STATES };
static uint32_t ticket_of[UNIT_LANES];
static long steps_, at_;
static uint64_t made_then_;
static void redeem_mine(uint32_t lane) { got_of[lane] = mm_ticket_claim(ref, here_, (int)goes_of[lane], c_, ticket_of[lane]); }
static void made_soon(void) {
    if (steps_++ == at_) *mm_made_at(ref, c_, 0) = made_then_;
}
START_TEST(claims_by_ticket) {
    uint32_t soon = 0;
    c_ = mm_class_of(64);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        new_heap();
        const uint32_t page = make(c_), state = random_below(TICKET_STATES), here = 1 + random_below(MM_WARP_ALL), slices = mm_class_slices(c_);
        const int makes = random_below(8) == 0; /* a lane is to make the block */
        uint32_t first = makes ? 0 : 1 + random_below(slices - UNIT_LANES - 1);
        uint64_t *made = mm_made_at(ref, c_, 0);
        made_then_ = *made, steps_ = 0, at_ = UNIT_LANES + random_below(8); /* after the first look of all */
        if (state == NO_PAGES) *made = mm_made_make(0, MM_MADE_NO_PAGES);
        else if (state == GONE) *made = mm_made_make(unit_made(ref, c_), 0);
        else if (state == NOBODY_MAKES) *made = 0;
        else if (state == SOON) *made = mm_made_make(0, MM_MADE_BUSY), unit_warps_each_step = made_soon;
        for (uint32_t i = 0; state == TAKEN && i < 20; i++) (void)mm_slices_claim(ref, 1, 1, entry_at(c_, 0), first / 32 * 32 + (first + i) % 32, c_);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            goes_of[lane] = random_below(8) != 0, ticket_of[lane] = first;
            first += goes_of[lane];
        }
        together(redeem_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        unit_warps_each_step = NULL;
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            if (!goes_of[lane] || state < TAKEN || makes) unit_eq(got_of[lane], 0);
            else if (state == SOON && got_of[lane] == 0) continue; /* other lanes saw it first, and this one looks on elsewhere */
            else if (state > TAKEN) unit_eq(got_of[lane], mm_slice_address(ref, page, c_, ticket_of[lane]));
            else unit_eq((got_of[lane] - mm_page_address(ref, page)) / mm_class_bytes(c_) / 32, ticket_of[lane] / 32);
            soon += state == SOON && got_of[lane] != 0;
            for (uint32_t other = 0; other < lane; other++)
                if (here >> other & 1 && got_of[lane] != 0) unit_holds(got_of[lane] != got_of[other], "lanes %u and %u have one slice", lane, other);
        }
    }
    unit_lt(0, soon);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("claims");
    TCase *tests = tcase_create("claims");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, neighbours);
    tcase_add_test(tests, any_slices);
    tcase_add_test(tests, one_slice_by_many);
    tcase_add_test(tests, first_draw);
    tcase_add_test(tests, looks_after_any_rounds);
    tcase_add_test(tests, claims_by_ticket);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
