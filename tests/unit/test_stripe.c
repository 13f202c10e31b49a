/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stripes and reserves: tickets, lots, rows of segments, and what free is told. (When memory is short: test_shortage.c.) */
#include "tests/unit/steps.h"

#include "tests/unit/stripes.h"

/* One after the other, each once, block by block; blocks are handed out with their last slice, neither before nor later, and each
 * is the stripe's own, and its lot's. With nothing ahead also from block to block in order. */
START_TEST(tickets_in_order) {
    const uint32_t c = (uint32_t)_i / 3, slices = mm_class_slices(c), per = 1u << mm_class_block_shift(c), n = 2 * slices;
    static const uint32_t hold[] = {0, MM_SEGMENT_SHIFT, LARGE};
    set_hold(hold[_i % 3]);
    const uint32_t shift = ref->classes[c].lot_shift;
    uint8_t *seen = (uint8_t *)calloc(SEGMENTS * slices, 1);
    uint32_t *all = (uint32_t *)malloc(n * sizeof *all), before = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slice = all[i] = take(c, 0), lot = (ring(c, 0)->tickets - 1) >> shift, s = slice / slices, in = slice % slices;
        unit_lt(slice, SEGMENTS * slices);
        unit_holds(!seen[slice], "slice %u twice", slice);
        seen[slice] = 1;
        if (ref->classes[c].ahead == 0) unit_eq(slice % slices, i % slices);
        if (i < slices && hold[_i % 3] == 0) unit_eq(slice, i);
        if (in % per != 0) unit_eq(slice, before + 1);
        before = slice;
        const uint32_t j = in / per, ends = in + 1 == slices || (in + 1) % per == 0;
        unit_eq(at(s)->unissued >> j & 1, !ends);
        unit_eq(of(s)->opener[j], 1 | lot << MM_OPENER_LOT_SHIFT);
        unit_eq(at(s)->owner, c + 1);
        if (in % per == per / 2) unit_sound(&heap, (uint64_t)(i + 1) * mm_class_bytes(c));
    }
    if (hold[_i % 3] == 0) unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 2);
    free_all(c, all, n);
    free(seen), free(all);
}
END_TEST

/* Several at once: all get theirs, also where blocks and segments end. */
START_TEST(groups) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c), all = slices < 3000 ? 3 * slices : slices / 16;
    uint8_t *seen = (uint8_t *)malloc(SEGMENTS * slices);
    for (uint32_t n = 2; n <= 32; n += 6) {
        uint32_t slice[32], got = 0;
        memset(seen, 0, SEGMENTS * slices);
        set_hold(n % 4 ? LARGE : 0);
        while (got + n <= all) {
            unit_eq(unit_take(ref, c, n, 0, slice), n);
            for (uint32_t i = 0; i < n; i++) {
                unit_holds(slice[i] < SEGMENTS * slices && !seen[slice[i]], "slice %u twice", slice[i]);
                seen[slice[i]] = 1;
            }
            got += n;
        }
        unit_sound(&heap, (uint64_t)got * mm_class_bytes(c));
        for (uint32_t i = 0; i < SEGMENTS * slices; i++)
            if (seen[i]) mm_heap_free(ref, address(c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
    free(seen);
}
END_TEST

/* A lot with more tickets than its block has slices says so; the tickets beyond are void, and nothing else is. */
START_TEST(short_lots) {
    uint32_t shorts = 0;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = mm_class_make(c, 0);
        const uint32_t last = mm_class_block_slices(k, k.blocks - 1u), in = 1u << k.lot_shift;
        set_hold(0);
        for (uint32_t j = 0; j < k.blocks; j++) {
            const uint32_t n = j + 1u < k.blocks ? in : last;
            int is_to_look = 0;
            for (uint32_t i = 0; i < in; i++) {
                const uint32_t t = mm_ring_draw(ring(c, 0), 1);
                unit_stripe_begin(ref, c, 0, t, &is_to_look);
                const uint64_t off = unit_stripe_piece(ref, c, 0, t), first = (uint64_t)(j << k.block_shift) * k.bytes;
                mm_ring_took(ring(c, 0), j, 1);
                unit_eq(off, i < n ? first + (uint64_t)i * k.bytes : MM_PIECE_VOID);
                unit_eq(at(0)->unissued >> j & 1, i + 1 < n);
                if (i > 0) continue;
                const uint64_t what = ring(c, 0)->slot[j % MM_RING].what;
                unit_eq((what & MM_LOT_ODD) != 0, n < in);
                unit_eq(what & MM_LOT_CONTENT, first);
                unit_eq(mm_stripe_block(k, what), j);
                unit_eq(mm_stripe_block(k, mm_lot_tag(5) | (what & MM_LOT_CONTENT) | 77ull << MM_SEGMENT_SHIFT), 77 << 6 | j);
            }
            unit_eq(is_to_look, 0); /* there is nothing yet */
            shorts += n < in;
        }
        for (uint32_t i = 0; i < k.slices; i++) mm_heap_free(ref, address(c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_lt(MM_CLASS_COUNT / 2, shorts);
}
END_TEST

/* Slices by address where a plain ticket will do, by token else: a lot's first ticket, which makes lots ready, and its last one,
 * with which the block has been handed out; and those of lots that are short, or have nothing. */
START_TEST(addresses_and_tokens) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c), n = slices < 9000 ? slices + slices / 2 : 9000;
    uint32_t tokens = 0, redraws = 0, *all = (uint32_t *)malloc(n * sizeof *all);
    set_hold(c % 2 ? LARGE : 0);
    unit_home = 200;
    const uint32_t k = 200 & ref->classes[c].stripe_mask, shift = ref->classes[c].lot_shift;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = ring(c, k)->tickets, place = t & ((1u << shift) - 1);
        uint64_t got = mm_slice_draw(ref, c);
        unit_eq(ring(c, k)->tickets, t + 1);
        const uint64_t what = mm_ring_slot(ring(c, k), t >> shift)->what;
        const int plain = place != 0 && place + 1 != 1u << shift && what >> 63 == 0;
        unit_eq((got & MM_TOKEN) == 0, plain);
        if (!plain && place != 0 && place + 1 != 1u << shift && !mm_lot_is_none(what)) { /* short: an address after all, or another ticket */
            unit_eq(got, MM_TOKEN_SHORT | mm_token_make(c, k, t));
            got = mm_slice_redraw(ref, got), redraws++;
            const uint32_t good = ref->classes[c].short_slices;
            unit_eq((got & MM_TOKEN) == 0, place + 1 < good || (place >= good && (got & MM_TOKEN) == 0));
            if (place + 1 == good) unit_eq(got, mm_token_make(c, k, t));
            if (place >= good) unit_holds((got & MM_TOKEN) == 0 || (uint32_t)got >> shift != t >> shift, "the same lot");
        } else if (!plain) {
            unit_eq(got, mm_token_make(c, k, t));
        }
        if (got & MM_TOKEN) {
            unit_holds(got < MM_TOKEN_RUN, "taken for a run");
            unit_eq(mm_token_class(got), c);
            unit_eq(mm_token_stripe(got), k);
            got = (uint64_t)(uintptr_t)mm_slice_malloc_slow(ref, got, 1, mm_inside_enter(ref, 1)), tokens++;
        }
        unit_holds(got != 0, "NULL");
        const uint64_t off = got - ref->user_base;
        all[i] = (uint32_t)(off / MM_SEGMENT_BYTES) * slices + (uint32_t)(off % MM_SEGMENT_BYTES) / mm_class_bytes(c);
        unit_holds(address(c, all[i]) == (void *)(uintptr_t)got, "no slice");
        if (place != 0 && i > 0 && ring(c, k)->tickets == t + 1) unit_eq(all[i], all[i - 1] + 1);
        if (i % 100 == 7 || i + 1 == n) unit_sound(&heap, (uint64_t)(i + 1) * mm_class_bytes(c));
    }
    unit_le(2, tokens);
    if (c % 2 == 0 && ref->classes[c].short_slices > 2 && slices < 9000) unit_lt(0, redraws);
    free_all(c, all, n);
    free(all);
}
END_TEST

/* Which ticket of which stripe, all of it. */
START_TEST(tokens) {
    static const uint32_t ticket[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        for (uint32_t k = 0; k < MM_STRIPES; k++)
            for (int i = 0; i < 5; i++) {
                const uint64_t token = mm_token_make(c, k, ticket[i]);
                unit_holds((token & MM_TOKEN) && token < MM_TOKEN_RUN, "not a token");
                unit_eq(mm_token_class(token), c);
                unit_eq(mm_token_stripe(token), k);
                unit_eq((uint32_t)token, ticket[i]);
            }
}
END_TEST

/* What free must be told of slice i of segment s (of class c), which nobody has been given: whether some stripe's lot has it. */
static int expected(uint32_t c, uint32_t s, uint32_t i) {
    const struct mm_class class_ = ref->classes[c];
    for (uint32_t k = 0; k < stripes(c); k++)
        for (uint32_t n = 0; n <= class_.ahead; n++) { /* of the lots that are not used up */
            const uint32_t m = mm_lot_after(ring(c, k)->tickets >> class_.lot_shift, n, class_.lot_shift);
            const uint64_t what = mm_ring_slot(ring(c, k), m)->what;
            if (mm_lot_is(what, m) && !mm_lot_is_none(what) && mm_stripe_block(class_, what) == (s << 6 | i >> class_.block_shift)) return MM_MISUSE_NEVER;
        }
    return MM_MISUSE_NOT_ALLOCATED;
}

/* Every slice of the heap, whatever the stripes have: what free is told, against a plain search; also when lots, and tickets,
 * begin again, or what an opener tells of a lot does. */
START_TEST(misuse_against_a_plain_search) {
    static const uint32_t from[] = {0, (1u << 24) - 2, (1u << 23) - 2, 0u - 2, 0u - MM_RING - 1, 1u << 20};
    const uint32_t c = (uint32_t)_i % 10 * 7, slices = mm_class_slices(c), shift = mm_class_make(c, LARGE).lot_shift;
    uint64_t seed = c + 1;
    for (int hold = 0; hold <= LARGE; hold += LARGE) {
        uint8_t *given = (uint8_t *)calloc(SEGMENTS * slices, 1);
        uint64_t live = 0;
        uint32_t nevers = 0;
        set_hold((uint32_t)hold);
        for (uint32_t k = 0; k < stripes(c); k++) unit_ring_from(ref, c, k, from[_i / 10] & ~0u >> shift);
        for (int round = 0; round < 8; round++) {
            for (uint32_t k = 0; k < 4; k++) {
                uint32_t n = (uint32_t)(unit_random(&seed) % (round % 3 ? 6 : slices / 2 < 3000 ? slices / 2 + 1 : 3000));
                while (n-- > 0) {
                    const uint32_t slice = take(c, k * 5 & ref->classes[c].stripe_mask);
                    if (slice != MM_TREE_NONE) given[slice] = 1, live++;
                }
            }
            for (uint32_t s = 0; s < SEGMENTS; s++) {
                if (at(s)->owner != c + 1) continue;
                for (uint32_t i = 0; i < slices; i += 1 + (slices > 1000) * (i % 37)) {
                    if (!(at(s)->unissued >> (i >> mm_class_block_shift(c)) & 1)) continue;
                    const int want = given[s * slices + i] ? 0 : expected(c, s, i), is = mm_stripe_misuse(ref, s, c, i);
                    unit_holds(is == want, "slice %u of segment %u: %d, not %d", i, s, is, want);
                    nevers += want == MM_MISUSE_NEVER;
                }
            }
            unit_sound(&heap, live * mm_class_bytes(c));
        }
        unit_lt(0, nevers);
        for (uint32_t i = 0; i < SEGMENTS * slices; i++)
            if (given[i]) mm_heap_free(ref, address(c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
        free(given);
    }
}
END_TEST

/* A lot that is on its way, in a block that has its opener already: not allocated; when it is ready: never handed out. */
START_TEST(misuse_of_a_lot_that_is_not_ready) {
    const uint32_t c = mm_class_of(_i == 0 ? 16 : _i == 1 ? 1024 : MM_SLICE_BYTES_MAX), shift = ref->classes[c].lot_shift;
    static const uint32_t lots[] = {0, 1, MM_RING, MM_RING + 1, (1u << 20) - 1, 1u << 20, (1u << 24) / MM_RING * MM_RING, ~0u};
    for (int i = 0; i < 8; i++) {
        const uint32_t m = lots[i] & ~0u >> shift, j = _i < 2 ? 2 : 0, slice = j << mm_class_block_shift(c);
        unit_ring_from(ref, c, 3, m);
        mm_ring_slot(ring(c, 3), m)->what = m < MM_RING ? 0 : mm_lot_tag(m - MM_RING) | MM_LOT_NONE;
        of(0)->opener[j] = 4 | m << MM_OPENER_LOT_SHIFT;
        unit_eq(mm_stripe_misuse(ref, 0, c, slice), MM_MISUSE_NOT_ALLOCATED);
        mm_ring_put(ring(c, 3), m, (uint64_t)slice * mm_class_bytes(c));
        unit_eq(mm_stripe_misuse(ref, 0, c, slice), MM_MISUSE_NEVER);
        unit_eq(mm_ring_draw(ring(c, 3), 1), m << shift);
        unit_eq(mm_stripe_misuse(ref, 0, c, slice), 0);
        unit_eq(mm_stripe_misuse(ref, 0, c, slice + 1), MM_MISUSE_NEVER);
        mm_ring_draw(ring(c, 3), (MM_RING << shift) - 1); /* as far as the ring goes while the last one is on the way */
        for (uint32_t p = 0; p < 1u << shift; p += 77) unit_eq(mm_stripe_misuse(ref, 0, c, slice + p), 0);
        mm_ring_put(ring(c, 3), mm_lot_after(m, MM_RING, shift), 0); /* and its slot has another */
        for (uint32_t p = 0; p < 1u << shift; p += 77) unit_eq(mm_stripe_misuse(ref, 0, c, slice + p), 0);
    }
    of(0)->opener[2] = of(0)->opener[0] = 0;
    unit_ring_from(ref, c, 3, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- Reserves --------------------------------------------------------------------------------------- */

/* The blocks of lot m of the reserve as it is: *n of them, as mm_reserve_block counts them. */
static void lot_blocks(uint32_t c, uint32_t m, uint32_t block[65], uint32_t *n) {
    const uint64_t what = mm_ring_slot(ring(c, MM_STRIPES), m)->what;
    unit_eq(mm_lot_is(what, m), 1);
    *n = 0;
    while ((block[*n] = mm_reserve_block(ref->classes[c], ring(c, MM_STRIPES), what, m, *n)) != MM_BLOCK_NONE) ++*n;
}

/* Any set of blocks of a row: place i is the i-th of them, beyond there is none. */
START_TEST(places_of_a_lot_of_a_reserve) {
    uint64_t seed = 8;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t bits = k.row_lot_shift - k.row_shift, row = 1u << k.row_shift;
        struct mm_ring *r = ring(c, MM_STRIPES);
        for (int i = 0; i < 40; i++) {
            const uint64_t all = mm_bits_low(row << bits), blocks = (i == 0 ? ~0ull : i == 1 ? 1ull << (row << bits) / 2 : unit_random(&seed)) & all;
            const uint32_t s = 64 * 3 + row * (uint32_t)(unit_random(&seed) % (64 / row)), m = 5;
            if (blocks == 0) continue;
            r->blocks[m] = blocks;
            uint32_t place = 0;
            for (uint32_t b = 0; b < row << bits; b++)
                if (blocks >> b & 1) unit_eq(mm_reserve_block(k, r, mm_lot_tag(m) | s, m, place++), (s + b / (1u << bits)) << 6 | b % (1u << bits));
            unit_eq(mm_reserve_block(k, r, mm_lot_tag(m) | s, m, place), MM_BLOCK_NONE);
            unit_eq(mm_reserve_block(k, r, mm_lot_tag(m) | s, m, 63 + (place == 64)), place == 64 ? MM_BLOCK_NONE : mm_reserve_block(k, r, mm_lot_tag(m) | s, m, 63));
            unit_eq(mm_reserve_block(k, r, mm_lot_tag(m) | MM_LOT_NONE, m, 0), MM_BLOCK_NONE);
        }
        for (uint32_t n = 1; n <= row; n++) /* fresh segments, side by side or apart */
            for (int apart = 0; apart < 2; apart++) {
                const uint32_t m = 5, s = apart ? 64 * 3 : 64 * 3 + 11;
                uint64_t set = mm_bits_low(n);
                if (apart) set = mm_bits_first(unit_random(&seed) | unit_random(&seed) | unit_random(&seed), n);
                const uint64_t what = mm_lot_tag(m) | (apart ? MM_ROW_APART : 0) | (uint64_t)n << MM_ROW_SHIFT | s;
                r->blocks[m] = apart ? set : 0;
                if (mm_popcount(set) != n) continue;
                for (uint32_t place = 0; place < 1u << k.row_lot_shift; place++) {
                    const uint32_t i = place / k.blocks, j = place % k.blocks;
                    unit_eq(place * k.row_reciprocal >> MM_ROW_RECIPROCAL_SHIFT, i);
                    unit_eq(mm_reserve_block(k, r, what, m, place), i < n ? (s + mm_bits_select(set, i)) << 6 | j : MM_BLOCK_NONE);
                }
            }
        r->blocks[5] = 0;
    }
}
END_TEST

/* A fresh row: all blocks of as many neighbouring segments as there are, each once. */
START_TEST(fresh_rows) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t row = 1u << k.row_shift, first = row < SEGMENTS ? row : SEGMENTS;
        uint32_t block[65], n;
        unit_reserve_put(ref, c, 0);
        lot_blocks(c, 0, block, &n);
        unit_eq(n, first * k.blocks);
        for (uint32_t i = 0; i < n; i++) unit_eq(block[i], (i / k.blocks) << 6 | i % k.blocks);
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - first);
        unit_eq(h->classes_used, 1ull << c);
        unit_reserve_put(ref, c, 1);
        const uint32_t second = SEGMENTS - first < row ? SEGMENTS - first : row;
        if (second != 0) {
            lot_blocks(c, 1, block, &n);
            unit_holds(n % k.blocks == 0 && n > 0 && n <= second * k.blocks, "%u blocks", n);
            const uint32_t s = block[0] >> 6;
            unit_le(first, s);
            for (uint32_t i = 0; i < n; i++) unit_eq(block[i], (s + i / k.blocks) << 6 | i % k.blocks);
            unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - first - n / k.blocks);
        } else {
            unit_eq(mm_lot_is_none(ring(c, MM_STRIPES)->slot[1].what), 1);
        }
        mm_cpu_heap_destroy(&heap);
        set_up();
    }
}
END_TEST

/* Whole blocks of a row of segments, wherever they are, but for those of another class, which stay; they make a lot when
 * somebody has seen that they are enough, or memory is scarce; a segment without any is no longer listed. */
START_TEST(whole_blocks_of_a_row) {
    static const uint32_t classes[] = {23, 27, 31, 35, 39}; /* one to sixteen segments to a row */
    const uint32_t c = classes[_i % 5], d = mm_class_of(256), scarce = (uint32_t)_i / 5, row = mm_reserve_row(ref, c), segments = 24;
    const uint32_t blocks = ref->classes[c].blocks;
    uint64_t seed = (uint64_t)_i + 1;
    mm_cpu_heap_destroy(&heap);
    unit_create(&heap, segments); /* the second row of sixteen reaches beyond the end of the heap */
    set_hold(LARGE);
    h = mm_heap_of(ref);
    for (int round = 0; round < 60; round++) {
        uint64_t given[24] = {0};
        const uint32_t other = (uint32_t)unit_random(&seed) % segments, gives = round % 3;
        uint64_t bit = 0;
        for (uint32_t s = 0; s < segments; s++) {
            const uint32_t owner = s == other ? d : c;
            unit_eq(mm_segment_claim_fresh(ref, owner, 0, 0, 1, &bit) + mm_ctz(bit), s);
            const uint64_t all = mm_bits_low(ref->classes[owner].blocks);
            given[s] = (gives == 0 ? ~0ull : gives == 1 ? unit_random(&seed) : unit_random(&seed) & unit_random(&seed)) & all;
            if (given[s] == all) given[s] &= ~(s % 3 ? 1ull : 0ull) & ~(all == 1 ? 0ull : 2ull);
            if (given[s] == all) given[s] = 0; /* it would be nobody's */
            if (given[s] != 0) mm_segment_give_back(ref, s, owner, given[s]);
        }
        if (scarce == 0) h->free_count = segments; /* as if there were */
        const uint32_t m = 1 + (uint32_t)round % 7;
        uint32_t first = MM_TREE_NONE, n = 0, block[65];
        const uint32_t any = mm_tree_find(mm_segment_class_tree(ref, c, MM_WHOLE), m);
        if (any != MM_TREE_NONE) first = any / row * row;
        for (uint32_t i = 0; first != MM_TREE_NONE && i < row && first + i < segments; i++) n += mm_popcount(given[first + i]);
        const uint32_t seen = n; /* the other class's, too: who counts does not look whose they are */
        if (other - first < row) n -= mm_popcount(given[other]);
        if (!scarce) mm_reserve_look(ref, c, m);
        unit_eq(h->classes[c].whole_row, !scarce && first != MM_TREE_NONE && seen * 4 >= 3 * row * blocks ? first + 1 : 0);
        const int takes = n > 0 && (scarce ? first != MM_TREE_NONE : h->classes[c].whole_row != 0);
        unit_ring_from(ref, c, MM_STRIPES, m);
        unit_reserve_put(ref, c, m);
        uint32_t got = 0;
        lot_blocks(c, m, block, &got);
        unit_eq(got, takes ? n : 0);
        unit_eq(h->classes[c].whole_row, 0);
        for (uint32_t i = 0; i < got; i++) {
            const uint32_t s = block[i] >> 6, j = block[i] & 63;
            unit_holds(s >= first && s < first + row && s != other && j < blocks && (given[s] >> j & 1), "block %u of segment %u", j, s);
            given[s] &= ~(1ull << j);
        }
        for (uint32_t s = 0; s < segments; s++) {
            unit_eq(at(s)->whole, given[s]);
            const int is_listed = (int)(*mm_tree_leaf(mm_segment_class_tree(ref, s == other ? d : c, MM_WHOLE), s) >> (s % 64) & 1);
            if (given[s] != 0) unit_eq(is_listed, 1);
            if (given[s] == 0 && takes && s - first < row && s != other) unit_eq(is_listed, 0);
        }
        for (uint32_t s = 0; s < segments; s += row) mm_reserve_tidy(ref, c, s); /* those that have some stay listed */
        for (uint32_t s = 0; s < segments; s++)
            if (s != other) unit_eq(*mm_tree_leaf(mm_segment_class_tree(ref, c, MM_WHOLE), s) >> (s % 64) & 1, given[s] != 0);
        for (uint32_t i = 0; i < got; i++) given[block[i] >> 6] |= 1ull << (block[i] & 63);
        ring(c, MM_STRIPES)->slot[m % MM_RING].what = mm_lot_tag(m) | MM_LOT_NONE; /* all back */
        for (uint32_t i = 0; i < got; i++) mm_segment_give_back(ref, block[i] >> 6, c, 1ull << (block[i] & 63));
        for (uint32_t s = 0; s < segments; s++) {
            const uint32_t owner = s == other ? d : c;
            mm_segment_give_back(ref, s, owner, mm_bits_low(ref->classes[owner].blocks) & ~given[s]);
        }
        unit_ring_from(ref, c, MM_STRIPES, 0);
        h->free_count = segments;
        mm_cpu_heap_drain_quiescent(&heap);
        unit_fresh(&heap, segments);
    }
}
END_TEST

/* A row with enough blocks that became whole is seen by who has made a lot ready; the next lot is of them. */
START_TEST(whole_blocks_before_fresh_ones) {
    const uint32_t c = mm_class_of(1024), per = 1u << mm_class_block_shift(c), slices = mm_class_slices(c);
    set_hold(0);
    unit_eq(slices, 4 * per);
    uint32_t n = 0;
    for (; n < slices; n++) unit_eq(take(c, 0), n);
    for (uint32_t i = 0; i < 3 * per; i++) mm_heap_free(ref, address(c, i));
    unit_eq(at(0)->whole, 7);
    unit_eq(h->classes[c].whole_row, 0);
    for (; n < 2 * slices; n++) unit_le(slices, take(c, 0)); /* nobody has looked yet */
    unit_eq(h->classes[c].whole_row, 1);
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 2);
    for (uint32_t i = 0; i < 3 * per; i++) unit_eq(take(c, 0), i);
    unit_eq(h->classes[c].whole_row, 0);
    for (; n < 3 * slices; n++) unit_le(2 * slices, take(c, 0));
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 3);
    unit_sound(&heap, (uint64_t)n * 1024);
}
END_TEST

/* Who makes a lot of the reserve ready is to look when the class has got more segments than ever, by a part; not again when it has
 * as many as before; and not as long as nothing has come back. */
START_TEST(looks_when_it_grows) {
    const uint32_t c = mm_class_of(64);
    uint32_t looked = 0;
    set_hold(0);
    for (int round = 0; round < 3; round++) {
        if (round != 0) mm_tree_insert(mm_segment_class_tree(ref, c, _i ? MM_AVAIL : MM_WHOLE), SEGMENTS - 1);
        for (uint32_t m = 0; m < SEGMENTS; m++) {
            const int looks = round == 1 && m > looked + looked / MM_REUSE_LOOKS;
            unit_ring_from(ref, c, MM_STRIPES, m);
            unit_eq(unit_reserve_put(ref, c, m), looks);
            if (looks) looked = m + 1;
            unit_eq(h->classes[c].looked, looked);
        }
        unit_eq(looked >= 3, round != 0);
        for (uint32_t s = 0; s < SEGMENTS; s++) mm_segment_give_back(ref, s, c, mm_class_blocks_mask(c));
    }
    unit_ring_from(ref, c, MM_STRIPES, 0);
    mm_cpu_heap_drain_quiescent(&heap);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Stripes that need a block one after the other share those of a segment, and of what is ready ahead. */
START_TEST(the_reserve_is_shared) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t blocks = k.blocks, each = k.ahead + 1u;
        const uint32_t n = stripes(c) * each < blocks ? stripes(c) : blocks / each;
        if (n < 2) continue;
        for (uint32_t i = 0; i < n; i++) unit_holds(take(c, i) != MM_TREE_NONE, "NULL");
        unit_le(SEGMENTS - mm_cpu_heap_free_segments(&heap), (1u << k.row_shift) * (k.reserve_ahead + 1u));
        unit_holds(ring(c, MM_STRIPES)->tickets != 0, "no ticket");
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        mm_cpu_heap_destroy(&heap);
        set_up();
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stripe");
    TCase *tests = tcase_create("stripes");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, tickets_in_order, 0, 3 * MM_CLASS_COUNT);
    tcase_add_loop_test(tests, groups, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, addresses_and_tokens, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, misuse_against_a_plain_search, 0, 10 * 6);
    tcase_add_loop_test(tests, misuse_of_a_lot_that_is_not_ready, 0, 3);
    tcase_add_loop_test(tests, whole_blocks_of_a_row, 0, 2 * 5);
    tcase_add_loop_test(tests, looks_when_it_grows, 0, 2);
    const TTest *const all[] = {short_lots, tokens, places_of_a_lot_of_a_reserve, fresh_rows, whole_blocks_before_fresh_ones,
                                the_reserve_is_shared};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
