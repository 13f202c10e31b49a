/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* When memory is short: slices that came back, blocks put into circulation, flushing. When the answer is NULL: test_null.c. */
#include "tests/unit/steps.h"

#include "runtime/core/block.h"

static uint32_t searches, hidden;
/* The first `hidden` searches for slices that came back find nothing: others were quicker. */
static uint32_t unit_tree_find(struct mm_tree t, uint32_t salt, int is_hidden) {
    return is_hidden && searches++ < hidden ? MM_TREE_NONE : mm_tree_find(t, salt);
}
static uint64_t *hidden_tree; /* or NULL */
#define mm_tree_find(t, salt) unit_tree_find(t, salt, (t).node == hidden_tree) /* in reserve.h and shortage.h */
#include "tests/unit/stripes.h"

/* With no other memory, callers get slices that came back, all of them. */
START_TEST(reuse_when_there_is_nothing_else) {
    static const uint32_t classes[] = {0, 16, 30, 38, 50}; /* of several blocks, or one */
    const uint32_t c = classes[_i % 5], n = SEGMENTS * mm_class_slices(c), per = 1u << mm_class_block_shift(c);
    set_hold(_i < 5 ? 0 : LARGE);
    for (uint32_t i = 0; i < n; i++) unit_lt(take(c, 0), n);
    unit_eq(take(c, 0), MM_TREE_NONE);
    uint32_t freed = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i % mm_class_slices(c) % per % 3 == 0) mm_heap_free(ref, address(c, i)), freed++;
    unit_lt(SEGMENTS - 1, freed);
    for (uint32_t i = 0; i < freed; i++) {
        const uint32_t slice = take(c, i & ref->classes[c].stripe_mask);
        unit_holds(slice != MM_TREE_NONE && slice % mm_class_slices(c) % per % 3 == 0, "slice %u", slice);
    }
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
}
END_TEST

/* Slices that came back are used before the class grows if they are a good part of it, and as many as its stripes may hold;
 * less will do when memory is scarce. */
START_TEST(thrift) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c);
    const uint32_t share = 256 / MM_REUSE_SHARE, scarce = 256 / MM_REUSE_SHARE_SCARCE;
    struct mm_class_state *cs = &h->classes[c];
    const uint64_t block = mm_class_blocks(c) == 1 ? slices : 1u << mm_class_block_shift(c); /* the only one may be shorter */
    const uint64_t need = stripes(c) * (ref->classes[c].ahead + 1u) * block * MM_REUSE_HELD;
    const uint64_t enough = (256 * need + share * slices - 1) / (share * slices);
    cs->rich = share, cs->segments = enough;
    unit_eq(mm_stripe_is_thrifty(ref, c), 1);
    cs->segments = enough - 1;
    unit_eq(mm_stripe_is_thrifty(ref, c), 0);
    cs->rich = share - 1, cs->segments = 2 * enough;
    unit_eq(mm_stripe_is_thrifty(ref, c), 0);
    cs->rich = 256, cs->segments = 1 << 20;
    unit_eq(mm_stripe_is_thrifty(ref, c), 1);
    h->free_count = h->grow.scarce;
    cs->rich = share - 1, cs->segments = 1;
    unit_eq(mm_stripe_is_thrifty(ref, c), 0);
    h->free_count--;
    cs->rich = scarce;
    unit_eq(mm_stripe_is_thrifty(ref, c), 1);
    cs->rich = scarce - 1, cs->segments = 1 << 20;
    unit_eq(mm_stripe_is_thrifty(ref, c), 0);
    cs->rich = cs->segments = 0;
    h->free_count = SEGMENTS;
}
END_TEST

/* How much has come back is guessed from places all over the class, not from those in front, which are used up first; and what
 * was seen earlier is not forgotten at once. */
START_TEST(richness) {
    const uint32_t c = 7, n = SEGMENTS * mm_class_slices(c), per = 1u << mm_class_block_shift(c), guesses = 64;
    struct mm_class_state *cs = &h->classes[c];
    set_hold(0);
    for (uint32_t i = 0; i < n; i++) unit_lt(take(c, 0), n);
    cs->rich = 256;
    mm_stripe_look(ref, c, 0, mm_warp_here(), 0);
    unit_eq(cs->rich, 256 - 256 / MM_REUSE_DECAY);
    for (uint32_t looks = 0; looks < 20 * MM_REUSE_DECAY; looks++) mm_stripe_look(ref, c, looks, mm_warp_here(), 0);
    unit_eq(cs->rich, 0);
    for (uint32_t i = 0; i < n; i++) /* one of each block in the first segment, 7/8 of all the others */
        if (i < mm_class_slices(c) ? i % per == 0 : i % 8 != 0) mm_heap_free(ref, address(c, i));
    uint32_t sum = 0;
    for (uint32_t salt = 0; salt < guesses; salt++) sum += mm_stripe_richness(ref, c, salt, mm_warp_here(), 0);
    const uint32_t is = 256 * 7 / 8 * (SEGMENTS - 1) / SEGMENTS;
    unit_holds(sum / guesses > is - is / 8 && sum / guesses < is + is / 8, "%u/256 have come back, the guess is %u", is, sum / guesses);
    mm_stripe_look(ref, c, 1, mm_warp_here(), 0);
    unit_lt(is / 2, cs->rich);
    unit_sound(&heap, UNIT_ANY);
}
END_TEST

/* Much has come back: a search in vain, or some, are not a reason for the class to grow; more of them are. If little has come
 * back the first one is. */
START_TEST(searches_in_vain) {
    const uint32_t c = 0, slices = mm_class_slices(c), rich = _i % 2 ? 255 : 0;
    set_hold(0);
    for (uint32_t i = 0; i < slices; i++) unit_eq(take(c, 0), i);
    for (uint32_t i = 0; i < slices; i += 2) mm_heap_free(ref, address(c, i));
    h->classes[c].rich = 255;
    unit_lt(take(c, 0), slices); /* from here on the lot has nothing */
    unit_eq(mm_lot_is_none(mm_ring_slot(ring(c, 0), slices >> ref->classes[c].lot_shift)->what), 1);
    h->classes[c].rich = rich;
    hidden_tree = mm_segment_class_tree(ref, c, MM_AVAIL).node;
    searches = 0, hidden = (uint32_t)_i / 2;
    const uint32_t slice = take(c, 0);
    hidden_tree = NULL;
    const int grows = rich ? hidden >= MM_REUSE_FAILS : hidden >= 1;
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 1 - grows);
    unit_eq(slice >= slices, grows);
    unit_eq(searches, grows ? (rich ? MM_REUSE_FAILS : 1) : hidden + 1);
    /* if it grew there is memory: nobody else needs to search */
    unit_eq(ring(c, 0)->tickets % (1u << ref->classes[c].lot_shift) == 0, grows);
}
END_TEST

/* A block put into circulation: the caller has what it wanted, the rest can be had one by one, and it becomes whole like any other;
 * of the class's whole blocks if it has some, else of a fresh segment, whose other blocks are whole then. */
START_TEST(circulate) {
    const uint32_t c = (uint32_t)_i, blocks = mm_class_blocks(c), slices = mm_class_slices(c), bytes = mm_class_bytes(c);
    for (uint32_t n = 1; n <= 32; n = n * 2 - (n == 32) + (n == 16) * 1) {
        uint32_t got = 0, all = 0;
        uint64_t *seen = (uint64_t *)calloc(slices, 8);
        for (uint32_t j = 0; j < blocks && j < 3; j++) {
            const uint64_t version = mm_version_read(h);
            const mm_claim claim = mm_stripe_circulate(ref, c, n, 7 * n + j);
            const uint32_t first = (uint32_t)(mm_claim_slice(claim, 0)), block = first >> mm_class_block_shift(c);
            const uint32_t in = mm_class_block_slices(ref->classes[c], block);
            unit_eq(mm_claim_count(claim), n < in ? n : in);
            unit_lt(version, mm_version_read(h));
            unit_eq(first, block << mm_class_block_shift(c));
            for (uint32_t i = 0; i < mm_claim_count(claim); i++) {
                unit_eq(mm_claim_slice(claim, i), first + i);
                seen[first + i]++;
            }
            got += mm_claim_count(claim), all += in;
            unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 1);
            unit_eq(mm_popcount(at(0)->whole), blocks - 1 - j);
            unit_eq(at(0)->whole >> block & 1, 0);
            unit_eq(h->classes_used, 1ull << c);
            unit_sound(&heap, (uint64_t)got * bytes);
        }
        for (mm_claim claim; got < all; got += mm_claim_count(claim)) { /* the rest */
            claim = mm_stripe_reuse(ref, c, n, got);
            unit_holds(claim != 0, "%u of %u slices not found", all - got, all);
            for (uint32_t i = 0; i < mm_claim_count(claim); i++) seen[mm_claim_slice(claim, i)]++;
        }
        unit_eq(mm_stripe_reuse(ref, c, n, 0), 0);
        unit_sound(&heap, (uint64_t)all * bytes);
        uint32_t once = 0;
        for (uint32_t i = 0; i < slices; i++) {
            unit_le(seen[i], 1);
            once += seen[i] == 1;
            if (seen[i]) mm_heap_free(ref, address(c, i));
        }
        unit_eq(once, all);
        unit_eq(unit_misuses(&heap), 0);
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS);
        unit_fresh(&heap, SEGMENTS);
        free(seen);
        if (n == 32) break;
    }
}
END_TEST

/* A whole block that a hint promises is another class's: it stays that class's. */
START_TEST(circulate_with_stale_hints) {
    const uint32_t c = mm_class_of(64), d = mm_class_of(1024);
    uint64_t bit;
    unit_eq(mm_segment_claim_fresh(ref, d, 0, 0, 1, &bit), 0);
    unit_eq(bit, 1);
    mm_segment_give_back(ref, 0, d, 6);
    for (uint32_t s = 0; s < 4; s++) mm_tree_insert(mm_segment_class_tree(ref, c, MM_WHOLE), s);
    const mm_claim claim = mm_stripe_circulate(ref, c, 5, 0);
    unit_eq(mm_claim_count(claim), 5);
    unit_eq(mm_claim_slice(claim, 0) >> MM_SLICE_BITS, 1);
    unit_eq(at(0)->whole, 6);
    unit_eq(at(0)->owner, d + 1);
    unit_eq(*mm_tree_leaf(mm_segment_class_tree(ref, c, MM_WHOLE), 0), 2); /* where the fresh one's others are */
    unit_eq(*mm_tree_leaf(mm_segment_class_tree(ref, d, MM_WHOLE), 0), 1);
    for (uint32_t i = 0; i < 5; i++) mm_heap_free(ref, address(c, mm_class_slices(c) + i));
    mm_segment_give_back(ref, 0, d, mm_class_blocks_mask(d) & ~6ull);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* What a flush takes is free, to the slice and to the block; what was handed out is not. At any ticket of a lot, and again when what
 * was flushed has been handed out anew; what is ready has nothing then, but goes on. */
START_TEST(flush) {
    const uint32_t c = (uint32_t)_i % MM_CLASS_COUNT, slices = mm_class_slices(c), bytes = mm_class_bytes(c), per = 1u << mm_class_block_shift(c);
    set_hold(_i < MM_CLASS_COUNT ? 0 : LARGE);
    unit_eq(mm_stripe_flush(ref), 0);
    for (uint32_t n = 1; n <= slices && n < 3000; n = n < per && n * 2 + 1 > per ? per : n * 2 + 1) { /* also just where a lot ends */
        uint32_t *all = (uint32_t *)malloc(n * sizeof *all), ends = 0;
        for (int again = 0; again < 3; again++) {
            if (again == 2) unit_ring_from(ref, c, 0, (0u - 1) & ~0u >> ref->classes[c].lot_shift);
            for (uint32_t i = 0; i < n; i++) unit_lt(all[i] = take(c, 0), SEGMENTS * slices);
            ends = (all[n - 1] % slices + 1) % per == 0 || (all[n - 1] + 1) % slices == 0;
            for (uint32_t i = 1; i < n; i++) mm_heap_free(ref, address(c, all[i])); /* the first one stays */
            const uint64_t version = mm_version_read(h), segments = mm_cpu_heap_free_segments(&heap);
            const int any = mm_stripe_flush(ref);
            if (again == 0) unit_eq(any, ref->classes[c].ahead != 0 || !ends || n < slices);
            if (any && mm_cpu_heap_free_segments(&heap) > segments) unit_lt(version, mm_version_read(h));
            unit_eq(mm_stripe_flush(ref), 0);
            unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 1);
            const uint32_t s = all[0] / slices, j = all[0] % slices / per;
            unit_eq(at(s)->whole, mm_class_blocks_mask(c) & ~(1ull << j));
            unit_eq(unit_misuses(&heap), 0);
            unit_sound(&heap, bytes);
            mm_heap_free(ref, address(c, all[0]));
            unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS);
            unit_sound(&heap, 0);
        }
        unit_fresh(&heap, SEGMENTS);
        free(all);
    }
}
END_TEST

/* One ring, flushed at its beginning, in a lot, at a lot's first ticket, and with lots in between that have nothing: what is left of
 * the tickets, and what is ready then. */
START_TEST(flush_of_one_ring) {
    const uint32_t c = mm_class_of(1024), shift = ref->classes[c].lot_shift, ahead = ref->classes[c].ahead, per = 1u << shift;
    unit_eq(ahead, MM_AHEAD_MAX);
    struct mm_class *k = &heap.ref.classes[c]; /* there is to be more than a row of segments */
    k->row_lot_shift = (uint8_t)(k->row_lot_shift - k->row_shift), k->row_shift = 0;
    unit_eq(mm_stripe_flush_one(ref, c, 5), 0);
    unit_eq(ring(c, 5)->tickets, 0); /* nothing there: nothing taken */
    unit_lt(take(c, 5), SEGMENTS * mm_class_slices(c)); /* lots 0 and `ahead` are ready, those between are not begun */
    unit_eq(mm_stripe_flush_one(ref, c, 5), 1);
    unit_eq(ring(c, 5)->tickets, (ahead + 1) << shift); /* up to the last that had something */
    for (uint32_t m = 1; m <= 2 * ahead; m++) {
        const uint64_t what = ring(c, 5)->slot[m].what;
        unit_holds(mm_lot_is(what, m) && (m == ahead || mm_lot_is_none(what)), "lot %u after a flush", m);
    }
    unit_eq(ring(c, 5)->slot[2 * ahead + 1].what, 0);
    unit_sound(&heap, 1024);
    unit_eq(mm_stripe_flush_one(ref, c, 5), 0);
    unit_eq(ring(c, 5)->tickets, (ahead + 1) << shift);
    for (uint32_t i = 0; i < ahead * per; i++) { /* those that have nothing: each looks for itself, and the lot is skipped */
        const uint32_t before = ring(c, 5)->tickets >> shift;
        unit_lt(take(c, 5), SEGMENTS * mm_class_slices(c));
        unit_le(ring(c, 5)->tickets >> shift, before + 1);
        if (ring(c, 5)->tickets >> shift > 2 * ahead) break;
    }
    unit_sound(&heap, UNIT_ANY);
    /* a lot that has something, between others that have not */
    const uint32_t m = (ring(c, 5)->tickets >> shift) + 2;
    for (uint32_t i = 0; i < 3 * per && ring(c, 5)->tickets >> shift < m; i++) take(c, 5);
    unit_sound(&heap, UNIT_ANY);
    mm_stripe_flush_one(ref, c, 5);
    unit_sound(&heap, UNIT_ANY);
    /* a lot that is on its way: nobody waits for it, and it is left alone */
    mm_stripe_flush(ref);
    for (uint32_t i = 0; i <= per; i++) take(c, 6);
    struct mm_slot *slot = mm_ring_slot(ring(c, 6), ahead);
    const uint64_t was = slot->what;
    unit_holds(!mm_lot_is_none(mm_ring_slot(ring(c, 6), ahead + 1)->what), "there is something behind it");
    slot->what = 0;
    mm_stripe_flush_one(ref, c, 6);
    unit_eq(ring(c, 6)->tickets, ahead << shift);
    slot->what = was;
    mm_stripe_flush_one(ref, c, 6);
    unit_sound(&heap, UNIT_ANY);
    /* no room for what it would have to make ready: left alone, too */
    take(c, 7);
    mm_ring_slot(ring(c, 7), ahead + 1)->taken--;
    mm_stripe_flush_one(ref, c, 7);
    unit_eq(ring(c, 7)->tickets, 1u << shift);
    mm_ring_slot(ring(c, 7), ahead + 1)->taken++;
    unit_eq(mm_stripe_flush_one(ref, c, 7), 1);
    unit_sound(&heap, UNIT_ANY);
}
END_TEST

static uint32_t room_early;
static void look_for_room(void) {
    unit_each_step = NULL;
    if (mm_ring_has_room(ring(0, MM_STRIPES), 6, MM_RING) && at(0)->whole != ~1ull) room_early++; /* all blocks but one */
    unit_each_step = look_for_room;
}
/* A flush holds on to the lot of a reserve until it has given its blocks back: they stand in the slot. */
START_TEST(flush_of_a_reserve_in_use) {
    set_hold(0);
    unit_eq(take(0, 0), 0);
    unit_each_step = look_for_room, room_early = 0;
    unit_eq(mm_stripe_flush_one(ref, 0, MM_STRIPES), 1);
    unit_each_step = NULL;
    unit_eq(mm_ring_has_room(ring(0, MM_STRIPES), 6, MM_RING), 1);
    unit_eq(at(0)->whole, ~1ull);
    unit_eq(room_early, 0);
}
END_TEST

/* A lot of a reserve over several segments, flushed in the middle. */
START_TEST(flush_of_a_row_of_segments) {
    const uint32_t c = mm_class_of(MM_SEGMENT_BYTES / 5), slices = mm_class_slices(c);
    unit_le(SEGMENTS, 1u << ref->classes[c].row_shift);
    for (uint32_t n = 1; n < 6 * slices; n++) {
        uint32_t slice[6 * 8], used = 0;
        uint8_t in[SEGMENTS] = {0};
        for (uint32_t i = 0; i < n; i++) {
            unit_lt(slice[i] = take(c, 0), SEGMENTS * slices);
            used += !in[slice[i] / slices], in[slice[i] / slices] = 1;
        }
        unit_eq(mm_cpu_heap_free_segments(&heap), 0);
        unit_eq(mm_stripe_flush(ref), 1);
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - used);
        free_all(c, slice, n);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("shortage");
    TCase *tests = tcase_create("shortage");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, reuse_when_there_is_nothing_else, 0, 2 * 5);
    tcase_add_loop_test(tests, thrift, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, searches_in_vain, 0, 2 * (MM_REUSE_FAILS + 3));
    tcase_add_loop_test(tests, circulate, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, flush, 0, 2 * MM_CLASS_COUNT);
    const TTest *const all[] = {richness, circulate_with_stale_hints, flush_of_one_ring, flush_of_a_reserve_in_use,
                                flush_of_a_row_of_segments};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
