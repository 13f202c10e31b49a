/* Stripes and reserves: tickets, lots, what free is told, what comes of memory that is short, flushing, and when the answer is NULL. */
#include "tests/unit/steps.h"

#include "runtime/core/block.h"

static uint32_t searches, hidden;
/* The first `hidden` searches for slices that came back find nothing: others were quicker. */
static uint32_t unit_tree_find(struct mm_tree t, uint32_t salt, int is_hidden) {
    return is_hidden && searches++ < hidden ? MM_TREE_NONE : mm_tree_find(t, salt);
}
static uint64_t *hidden_tree; /* or NULL */
#define mm_tree_find(t, salt) unit_tree_find(t, salt, (t).node == hidden_tree) /* in stripe.h */
#include "tests/unit/support.h"

#define SEGMENTS 8

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

/* Stripes, reserves and lots ahead as in a heap in which a class may hold 2^hold bytes. */
static void set_hold(uint32_t hold) {
    heap.ref.hold_shift = hold;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) heap.ref.classes[c] = mm_class_make(c, hold);
}
#define LARGE 40 /* as in the largest heap */

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    set_hold(LARGE);
    ref = &heap.ref;
    h = mm_heap_of(ref);
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static struct mm_segment *at(uint32_t s) { return mm_segment_at(ref, s); }
static struct mm_ring *ring(uint32_t c, uint32_t i) { return mm_ring_at(ref, c, i); }
static uint32_t stripes(uint32_t c) { return ref->classes[c].stripe_mask + 1u; }
static uint32_t take(uint32_t c, uint32_t k) {
    uint32_t slice;
    return unit_take(ref, c, 1, k, &slice) ? slice : MM_TREE_NONE;
}
static void *address(uint32_t c, uint32_t slice) {
    const uint32_t slices = mm_class_slices(c);
    return (void *)(ref->user_base + slice / slices * MM_SEGMENT_BYTES + (uint64_t)(slice % slices) * mm_class_bytes(c));
}
static void free_all(uint32_t c, const uint32_t *slice, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, slice[i]));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}

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
        unit_eq(at(s)->opener[j], 1 | lot << MM_OPENER_LOT_SHIFT);
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
            int refilled = 0;
            for (uint32_t i = 0; i < in; i++) {
                const uint32_t t = mm_ring_draw(ring(c, 0), 1);
                mm_stripe_begin(ref, c, 0, t, &refilled);
                const uint64_t off = mm_stripe_piece(ref, c, 0, t), first = (uint64_t)(j << k.block_shift) * k.bytes;
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
            unit_eq(refilled, j == 0);
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
    uint32_t tokens = 0, *all = (uint32_t *)malloc(n * sizeof *all);
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
        if (!plain) {
            unit_eq(got, mm_token_make(c, k, t));
            unit_holds(got < MM_TOKEN_RUN, "taken for a run");
            unit_eq(mm_token_class(got), c);
            unit_eq(mm_token_stripe(got), k);
            unit_eq((uint32_t)got, t);
            got = (uint64_t)(uintptr_t)mm_slice_malloc_slow(ref, got), tokens++;
        }
        unit_holds(got != 0, "NULL");
        const uint64_t off = got - ref->user_base;
        all[i] = (uint32_t)(off / MM_SEGMENT_BYTES) * slices + (uint32_t)(off % MM_SEGMENT_BYTES) / mm_class_bytes(c);
        unit_holds(address(c, all[i]) == (void *)(uintptr_t)got, "no slice");
        if (place != 0 && i > 0 && ring(c, k)->tickets == t + 1) unit_eq(all[i], all[i - 1] + 1);
        if (i % 100 == 7 || i + 1 == n) unit_sound(&heap, (uint64_t)(i + 1) * mm_class_bytes(c));
    }
    unit_le(2, tokens);
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
        at(0)->opener[j] = 4 | m << MM_OPENER_LOT_SHIFT;
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
    at(0)->opener[2] = at(0)->opener[0] = 0;
    unit_ring_from(ref, c, 3, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- Reserves --------------------------------------------------------------------------------------- */

/* The blocks of lot m of a reserve as it is: *n of them, as mm_reserve_block counts them. */
static void lot_blocks(uint32_t c, uint32_t r, uint32_t m, uint32_t block[65], uint32_t *n) {
    const uint64_t what = mm_ring_slot(ring(c, r), m)->what;
    unit_eq(mm_lot_is(what, m), 1);
    *n = 0;
    while ((block[*n] = mm_reserve_block(ref->classes[c], ring(c, r), what, m, *n)) != MM_BLOCK_NONE) ++*n;
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
        mm_reserve_put(ref, c, MM_STRIPES, 0);
        lot_blocks(c, MM_STRIPES, 0, block, &n);
        unit_eq(n, first * k.blocks);
        for (uint32_t i = 0; i < n; i++) unit_eq(block[i], (i / k.blocks) << 6 | i % k.blocks);
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - first);
        unit_eq(h->classes_used, 1ull << c);
        mm_reserve_put(ref, c, MM_STRIPES, 1);
        const uint32_t second = SEGMENTS - first < row ? SEGMENTS - first : row;
        if (second != 0) {
            lot_blocks(c, MM_STRIPES, 1, block, &n);
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
    const uint32_t c = classes[_i % 5], d = mm_class_of(256), scarce = (uint32_t)_i / 5, row = 1u << ref->classes[c].row_shift, segments = 24;
    const uint32_t blocks = ref->classes[c].blocks;
    uint64_t seed = (uint64_t)_i + 1;
    mm_cpu_heap_destroy(&heap);
    unit_create(&heap, segments); /* the second row of sixteen reaches beyond the end of the heap */
    set_hold(LARGE);
    h = mm_heap_of(ref);
    for (int round = 0; round < 60; round++) {
        uint64_t given[24] = {0};
        const uint32_t other = (uint32_t)unit_random(&seed) % segments, gives = round % 3;
        uint32_t count = 0;
        for (uint32_t s = 0; s < segments; s++) {
            const uint32_t owner = s == other ? d : c;
            unit_eq(mm_segment_claim_fresh(ref, owner, 0, 0, 1, &count), s);
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
        mm_reserve_put(ref, c, MM_STRIPES, m);
        uint32_t got = 0;
        lot_blocks(c, MM_STRIPES, m, block, &got);
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

/* Stripes that need a block one after the other share those of a segment, and of what is ready ahead. */
START_TEST(reserves_are_shared) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t blocks = k.blocks, reserves = k.reserve_mask + 1u, each = k.ahead + 1u;
        const uint32_t n = stripes(c) * each < blocks ? stripes(c) : blocks / each;
        if (n < 2) continue;
        for (uint32_t i = 0; i < n; i++) unit_holds(take(c, i) != MM_TREE_NONE, "NULL");
        const uint32_t used = reserves < n ? reserves : n;
        unit_le(SEGMENTS - mm_cpu_heap_free_segments(&heap), used * (1u << k.row_shift) * (k.reserve_ahead + 1u));
        for (uint32_t r = 0; r < MM_RESERVES; r++) unit_eq(ring(c, MM_STRIPES + r)->tickets != 0, r < used);
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        mm_cpu_heap_destroy(&heap);
        set_up();
    }
}
END_TEST

/* ---- When memory is short --------------------------------------------------------------------------- */

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
    h->free_count = ref->mapped_count / MM_SCARCE;
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
    uint32_t count;
    unit_eq(mm_segment_claim_fresh(ref, d, 0, 0, 1, &count), 0);
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

/* Before NULL, what others hold ready is flushed: every slice of the heap is had, from any stripe. */
START_TEST(other_stripes_before_null) {
    const uint32_t c = (uint32_t)_i, n = SEGMENTS * mm_class_slices(c);
    uint8_t *seen = (uint8_t *)calloc(n, 1);
    uint32_t got = 0;
    for (uint32_t k = 0; k < 6; k++) { /* six stripes hold something, some of them */
        const uint32_t slice = take(c, k * 11 % stripes(c));
        if (slice != MM_TREE_NONE) seen[slice] = 1, got++;
    }
    for (uint32_t slice; (slice = take(c, 3)) != MM_TREE_NONE; got++) {
        unit_holds(slice < n && !seen[slice], "slice %u twice", slice);
        seen[slice] = 1;
    }
    unit_eq(got, n);
    unit_eq(mm_stripe_flush(ref), 0);
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, i));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(seen);
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

static uint64_t steps, give_at;
static int given;
static void count_steps(void) { steps++; }

static uint64_t raise_at;
static void raise_at_step(void) {
    if (++steps == raise_at) h->version[1].word++;
}

/* Later callers of a class that is dry answer soon, and a dry class does not stop another. What comes to light while it is
 * searched is not forgotten. */
START_TEST(dry_is_remembered) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX), d = mm_class_of(16);
    take(d, 0);
    while (take(c, 0) != MM_TREE_NONE) continue;
    unit_eq(take(c, 0), MM_TREE_NONE); /* the first one flushed what there was, and so saw a change */
    unit_each_step = count_steps;
    steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    const uint64_t once = steps;
    h->classes[c].dry = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_holds(once * 3 < steps - once, "%u steps to say NULL again, %u the first time", (unsigned)once, (unsigned)(steps - once));
    unit_each_step = NULL;
    unit_eq(h->classes[c].dry, mm_version_read(h) + 1);
    unit_holds(take(d, 0) != MM_TREE_NONE, "another class is dry as well");
    mm_version_raise(h); /* something came to light: searched again */
    unit_each_step = count_steps, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_lt(once, steps);
    h->classes[c].dry = 0;
    unit_each_step = raise_at_step, raise_at = steps / 2, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_each_step = NULL;
    unit_lt(raise_at, steps);
    unit_eq(h->classes[c].dry, 0);
}
END_TEST

/* A lot that somebody is to make ready, and never does: an end after a bound, and memory from elsewhere; NULL is not remembered as dry. */
START_TEST(waiting_is_bounded) {
    const uint32_t c = mm_class_of(256), slices = mm_class_slices(c);
    set_hold(0);
    uint32_t slice;
    unit_eq(take(c, 0), 0);
    const uint32_t m = ring(c, 0)->tickets >> ref->classes[c].lot_shift;
    const uint64_t was = ring(c, 0)->slot[m].what;
    ring(c, 0)->slot[m].what = 0;
    unit_each_step = count_steps, steps = 0;
    unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
    unit_holds(steps >= MM_WAIT_ITERATIONS && steps < MM_WAIT_ITERATIONS + 1000, "%llu steps", (unsigned long long)steps);
    unit_eq(slice, slices); /* of a block in circulation */
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), MM_MISUSE_NOT_ALLOCATED); /* and free does not wait */
    unit_lt(steps, MM_WAIT_ITERATIONS + 1000);
    unit_each_step = NULL;
    ring(c, 0)->slot[m].what = was;
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), 0); /* the lot has been skipped: all handed out, for all that free knows */
    unit_eq(h->classes[c].dry, 0);
    unit_holds(unit_take(ref, c, 1, 0, &slice) == 1, "the next lot waits, too");
}
END_TEST

static void give_at_step(void) {
    if (steps++ != give_at) return;
    unit_each_step = NULL;
    given = 1;
    mm_heap_free(ref, address(mm_class_of(MM_SEGMENT_BYTES / 4), 5));
    unit_each_step = count_steps;
}

/* Memory that comes back at any step of a search that is about to find nothing: it gets it, or the next one does. */
START_TEST(supply_in_the_middle_of_a_search) {
    const uint32_t c = mm_class_of(MM_SEGMENT_BYTES / 4);
    uint32_t nulls = 0, searches = 0;
    for (give_at = 0;; give_at += 1 + give_at / 64, searches++) {
        while (take(c, 0) != MM_TREE_NONE) continue;
        h->classes[c].dry = 0; /* so that it searches */
        steps = 0, given = 0;
        unit_each_step = give_at_step;
        const uint32_t slice = take(c, 0);
        unit_each_step = NULL;
        if (!given) break;
        nulls += slice == MM_TREE_NONE;
        unit_holds(slice != MM_TREE_NONE || take(c, 0) != MM_TREE_NONE, "came back at step %u, still NULL", (unsigned)give_at);
        while (take(c, 0) != MM_TREE_NONE) continue;
    }
    unit_lt(30, searches);
    unit_holds(nulls * 3 < searches, "%u of %u NULL", nulls, searches);
}
END_TEST

/* mmbench's endurance in small: 2 GiB, three quarters of them asked for in 28 classes (81 % with the rounding), from as many
 * multiprocessors as an H200 has; every round half of it goes and comes anew. No NULL, and hardly more segments from
 * round to round. */
START_TEST(three_quarters_live) {
    const uint32_t segments = 512, n = (uint32_t)(segments * MM_SEGMENT_BYTES / 4 * 3 / 2056);
    struct mm_cpu_heap large;
    void **held = (void **)calloc(n, sizeof *held);
    uint64_t seed = 1, live = 0, was_free = 0;
    unit_eq(mm_cpu_heap_create(&large, 8 * segments, segments, MM_SEGMENT_BYTES), 0); /* most of it is not mapped */
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (round > 0 && unit_random(&seed) & 1) {
                mm_heap_free(&large.ref, held[i]);
                held[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            if (held[i] != NULL) continue;
            unit_home = i / 256 % 132;
            held[i] = mm_heap_malloc(&large.ref, 16 + unit_random(&seed) % 4081);
            unit_holds(held[i] != NULL, "NULL in round %d", round);
        }
        if (round > 0) unit_le(was_free, mm_cpu_heap_free_segments(&large) + segments / (round > 1 ? 32 : 16));
                was_free = mm_cpu_heap_free_segments(&large);
    }
    char why[200];
    const char *wrong = mm_cpu_heap_check_quiescent(&large, why, sizeof why, &live);
    unit_holds(wrong == NULL, "%s", wrong);
    unit_le(segments * MM_SEGMENT_BYTES / 4 * 3, live);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(&large.ref, held[i]);
    unit_fresh(&large, segments);
    mm_cpu_heap_destroy(&large);
    free(held);
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
    tcase_add_loop_test(tests, reuse_when_there_is_nothing_else, 0, 2 * 5);
    tcase_add_loop_test(tests, thrift, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, searches_in_vain, 0, 2 * (MM_REUSE_FAILS + 3));
    tcase_add_loop_test(tests, circulate, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, other_stripes_before_null, 16, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, flush, 0, 2 * MM_CLASS_COUNT);
    const TTest *const all[] = {short_lots, tokens, places_of_a_lot_of_a_reserve, fresh_rows,
                                whole_blocks_before_fresh_ones, reserves_are_shared, circulate_with_stale_hints, flush_of_one_ring,
                                flush_of_a_reserve_in_use, flush_of_a_row_of_segments, dry_is_remembered, waiting_is_bounded,
                                supply_in_the_middle_of_a_search, three_quarters_live};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
