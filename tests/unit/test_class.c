/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Size classes and the layout: arithmetic, so checked for every value where that is cheap. */
#include "tests/unit/support.h"

START_TEST(serves_every_size) {
    uint32_t before = 0;
    for (uint32_t bytes = 0; bytes <= MM_SLICE_BYTES_MAX; bytes++) {
        const uint32_t c = mm_class_of(bytes), slice = mm_class_bytes(c);
        unit_lt(c, MM_CLASS_COUNT);
        unit_holds(c == before || c == before + 1, "%u bytes: class %u after %u", bytes, c, before);
        unit_holds(slice >= bytes, "%u bytes in a slice of %u", bytes, slice);
        unit_holds(c == 0 || mm_class_bytes(c - 1) < bytes, "%u bytes: the class below would do", bytes);
        unit_holds(slice - bytes < 16 || bytes == 0 || 4ull * slice <= 5ull * bytes, "%u bytes waste %u", bytes, slice - bytes);
        before = c;
    }
    unit_eq(mm_class_of(0), 0);
    unit_eq(before, MM_CLASS_COUNT - 1);
    unit_eq(mm_class_bytes(before), MM_SLICE_BYTES_MAX);
}
END_TEST

START_TEST(slices_are_aligned) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_eq(mm_class_bytes(c) % 16, 0);
        unit_eq(mm_class_unit(c) << mm_class_shift(c), mm_class_bytes(c));
    }
    for (uint32_t power = 4; power <= MM_SEGMENT_SHIFT - 1; power++)
        unit_holds(mm_class_bytes(mm_class_of(1u << power)) == 1u << power, "2^%u has no class of its own", power);
}
END_TEST

/* log2, rounded down, by counting. */
static uint32_t log_of(uint32_t x) {
    uint32_t log = 0;
    while (x >>= 1) log++;
    return log;
}

/* Of a whole segment, and of one that a table of 16 bytes for each slice shares with them (a checked run). */
static uint32_t slices_of(uint32_t c, int is_cut) { return (uint32_t)(MM_SEGMENT_BYTES / (mm_class_bytes(c) + 16 * (uint32_t)is_cut)); }

/* Blocks: how many slices, words and blocks there are, against plain division. */
START_TEST(blocks_hold_their_slices) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t bytes = mm_class_bytes(c), slices = slices_of(c, _i), per = 1u << mm_class_block_shift(c);
        const struct mm_class k = mm_class_cut(c, 0, slices);
        if (_i == 0) unit_eq(mm_class_slices(c), slices);
        unit_eq(k.slices, slices);
        unit_le(2 - (uint32_t)_i, slices);
        /* mmconfig.h in words: at least 64 KiB, then 1024 slices, then at most 1 MiB, then 64 slices */
        const uint32_t rounded = 1u << log_of(bytes);
        uint32_t want = (1u << MM_BLOCK_BYTES_MIN_SHIFT) / rounded;
        if (want < 1u << MM_BLOCK_SLICES_SHIFT) want = 1u << MM_BLOCK_SLICES_SHIFT;
        if (want > (1u << MM_BLOCK_BYTES_MAX_SHIFT) / rounded) want = (1u << MM_BLOCK_BYTES_MAX_SHIFT) / rounded;
        if (want < 1u << MM_WORD_SHIFT) want = 1u << MM_WORD_SHIFT;
        unit_eq(per, want);
        unit_eq(k.blocks, (slices + per - 1) / per);
        unit_le(k.blocks, MM_SEGMENT_BLOCKS_MAX);
        if (_i == 0) unit_eq(k.blocks, mm_class_blocks(c));
        unit_eq(mm_class_blocks_mask(c), mm_class_blocks(c) == 64 ? ~0ull : (1ull << mm_class_blocks(c)) - 1);
        uint32_t words = 0, in_words = 0;
        for (uint32_t j = 0; j < k.blocks; j++) {
            const uint32_t in = slices - j * per < per ? slices - j * per : per;
            unit_eq(mm_class_block_words(k, j), (in + 63) / 64);
            unit_eq(mm_block_first_word(k, j), words);
            const uint64_t all = (in + 63) / 64 * 0x10001ull; /* so many not 0, so many full */
            for (uint64_t life = 0; life < 1u << 14; life += 5461) {
                const uint64_t now = all + life * MM_WORDS_LIFE;
                unit_eq(mm_words_are_all(now, k, j), 1);
                unit_eq(mm_words_are_all(now - 1, k, j) + mm_words_are_all(now - MM_WORDS_FULL, k, j), 0);
                unit_eq(mm_words_are_all(now + 1, k, j) + mm_words_are_all(now + MM_WORDS_FULL, k, j), 0);
                unit_eq(mm_words_are_all(now + MM_WORDS_REUSER, k, j) + mm_words_are_all(now | MM_WORDS_WHOLE, k, j), 0);
            }
            words += mm_class_block_words(k, j);
        }
        unit_le(words, MM_SEGMENT_WORDS);
        unit_eq(words, (slices + 63) / 64);
        for (uint32_t word = 0; word < words; word++) {
            uint64_t mask = 0;
            for (uint32_t b = 0; b < 64; b++) mask |= (uint64_t)(word * 64 + b < slices) << b;
            unit_eq(mm_class_word_mask(k, word), mask);
            in_words += mm_popcount(mask);
        }
        unit_eq(in_words, slices);
    }
}
END_TEST

/* What a class may hold, of 2^hold bytes: of blocks, rounded down, its stripes and what is ready ahead for them; half as many
 * of segments, its reserve. As many as that allows, up to what mmconfig.h says, and never less than one of each. */
START_TEST(stripes_within_what_they_may_hold) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        struct mm_class less = mm_class_cut(c, 0, slices_of(c, _i));
        unit_eq(less.stripe_mask | less.ahead | less.reserve_ahead | less.row_shift, 0);
        for (uint32_t hold = 0; hold < 64; hold++) {
            const struct mm_class k = mm_class_cut(c, hold, slices_of(c, _i));
            const uint32_t per = 1u << mm_class_block_shift(c), stripes = k.stripe_mask + 1u;
            const uint64_t block = (uint64_t)per << log_of(k.bytes) < MM_SEGMENT_BYTES ? (uint64_t)per << log_of(k.bytes) : MM_SEGMENT_BYTES;
            const uint64_t row = 1u << k.row_shift, may = 1ull << hold;
            unit_eq(k.bytes, mm_class_bytes(c));
            unit_eq(k.slices, slices_of(c, _i));
            unit_eq(k.blocks, (k.slices + per - 1) / per);
            unit_eq(k.block_shift, mm_class_block_shift(c));
            unit_eq(stripes & (stripes - 1), 0);
            unit_le(stripes, MM_STRIPES);
            unit_le(k.ahead, MM_AHEAD_MAX);
            const uint32_t many = k.block_shift > MM_BLOCK_SLICES_SHIFT ? k.block_shift - MM_BLOCK_SLICES_SHIFT : 0;
            const uint32_t ahead_max = MM_AHEAD_MAX >> many, reserve_max = MM_RESERVE_AHEAD >> many;
            unit_le(k.ahead, ahead_max);
            if (stripes > 1 || k.ahead > 0) unit_le(stripes * (k.ahead + 1) * block, may);
            if (stripes < MM_STRIPES) unit_lt(may, 4 * stripes * block); /* else there were more */
            if (k.ahead < ahead_max) unit_lt(may, (k.ahead == 0 ? 2 : 8) * stripes * (k.ahead + 1) * block);
            /* a lot of a stripe is a block */
            const uint32_t longest = mm_class_block_slices(k, 0);
            unit_le(longest, 1u << k.lot_shift);
            unit_lt(1u << k.lot_shift, 2 * longest);
            unit_le(2, 1u << k.lot_shift);
            /* a lot of a reserve is a row of segments: a bit for each block, and none to spare for a longer row */
            unit_le(row, 1u << MM_RESERVE_ROW_SHIFT);
            unit_eq((1u << k.row_lot_shift) % row, 0);
            const uint32_t bits = (1u << k.row_lot_shift) / (uint32_t)row;
            unit_le(k.blocks, bits);
            unit_lt(bits, 2 * k.blocks);
            unit_le(1u << k.row_lot_shift, 64);
            unit_le(k.reserve_ahead, reserve_max);
            if (row > 1 || k.reserve_ahead > 0) unit_le(row * (k.reserve_ahead + 1) * MM_SEGMENT_BYTES, may / 2);
            if (k.reserve_ahead < reserve_max) unit_lt(may, 4 * row * (k.reserve_ahead + 1) * MM_SEGMENT_BYTES);
            if (k.reserve_ahead > 1) unit_holds(row == 1u << MM_RESERVE_ROW_SHIFT || 2 * row * bits > 64, "class %u: a row of %u", c, (uint32_t)row);
            unit_eq(k.short_slices, mm_class_block_slices(k, k.blocks - 1u) < 1u << k.lot_shift ? mm_class_block_slices(k, k.blocks - 1u) : 0);
            /* a larger heap has no less of anything */
            unit_le(less.stripe_mask, k.stripe_mask);
            unit_le((less.stripe_mask + 1u) * (less.ahead + 1u), stripes * (k.ahead + 1u));
            unit_le((less.reserve_ahead + 1u) << less.row_shift, (k.reserve_ahead + 1u) << k.row_shift);
            unit_le(less.row_shift, k.row_shift);
            less = k;
        }
        unit_eq(less.stripe_mask + 1u, MM_STRIPES);
        unit_eq(less.ahead, MM_AHEAD_MAX >> (less.block_shift > MM_BLOCK_SLICES_SHIFT ? less.block_shift - MM_BLOCK_SLICES_SHIFT : 0));
    }
}
END_TEST

START_TEST(division_is_exact) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t bytes = mm_class_bytes(c);
        for (uint32_t in = 0; in < MM_SEGMENT_BYTES; in += in % 4096 ? 16 : 4096 - 16 * 3) {
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c));
            unit_holds(at == in / bytes, "class %u: offset %u is at %u", c, in, at);
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
        for (uint32_t in = 1; in < MM_SEGMENT_BYTES; in += 509) { /* odd and even, inside of slices and across */
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c));
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
        for (uint32_t i = 0; i < MM_SEGMENT_BYTES / bytes; i++) { /* each slice, and the byte before it */
            const uint32_t in = i * bytes;
            unit_eq(mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c)), i);
            unit_holds(i == 0 || mm_mulhi((in - 1) >> mm_class_shift(c), mm_class_reciprocal(c)) == i - 1, "before slice %u", i);
        }
    }
    for (uint32_t c = 4; c < 8; c++) /* as far as the comment promises */
        for (uint32_t x = 0; x < 1u << 29; x += x < 1u << 20 ? 1 : 4093)
            unit_holds(mm_mulhi(x, mm_class_reciprocal(c)) == x / mm_class_unit(c), "%u / %u", x, mm_class_unit(c));
}
END_TEST

START_TEST(bits) {
    unit_eq(mm_bits_low(0), 0);
    unit_eq(mm_bits_low(1), 1);
    unit_eq(mm_bits_low(63), ~0ull >> 1);
    unit_eq(mm_bits_low(64), ~0ull);
    unit_eq(mm_bits_low(200), ~0ull);
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        const uint64_t x = unit_random(&seed) & unit_random(&seed) & unit_random(&seed);
        const uint32_t start = (uint32_t)unit_random(&seed) % 200;
        if (x == 0) continue;
        uint32_t want = start % 64;
        while (!(x >> want & 1)) want = (want + 1) % 64;
        unit_eq(mm_bits_pick(x, start), want);
        const uint32_t most = (uint32_t)unit_random(&seed) % 70;
        uint64_t some = 0;
        for (uint32_t b = 0, n = 0; b < 64; b++) {
            if (!(x >> b & 1)) continue;
            unit_eq(mm_bits_select(x, n), b);
            if (n++ < most) some |= 1ull << b;
        }
        unit_eq(mm_bits_first(x, most), some);
    }
    unit_eq(mm_bits_first(~0ull, 64), ~0ull);
    unit_eq(mm_bits_first(~0ull, 63), ~0ull >> 1);
    unit_eq(mm_bits_first(~0ull, 0), 0);
    unit_eq(mm_bits_first(0, 5), 0);
    unit_eq(mm_bits_select(~0ull, 63), 63);
    unit_eq(mm_bits_select(1ull << 63, 0), 63);
}
END_TEST

/* Claims name what they were made of: any of 32 neighbours. */
START_TEST(claims) {
    static const uint32_t segment[] = {0, 1, 63, MM_TREE_BITS_MAX - 1};
    for (int k = 0; k < 4; k++) {
        const uint64_t s = segment[k];
        uint64_t seed = 9;
        for (uint32_t i = 0; i < MM_SEGMENT_SLICES_MAX; i = i == 0 || i == MM_SEGMENT_SLICES_MAX - 32 ? i + 32 : mm_class_at_most(i + 32 * 97, MM_SEGMENT_SLICES_MAX - 32)) {
            const uint32_t mask = i == 0 ? 1u << 31 : i == 32 ? ~0u : (uint32_t)unit_random(&seed) | 1;
            const mm_claim claim = mm_claim_make((uint32_t)s, i, mask);
            unit_eq(mm_claim_count(claim), mm_popcount(mask));
            for (uint32_t b = 0, rank = 0; b < 32; b++)
                if (mask >> b & 1) unit_eq(mm_claim_slice(claim, rank++), (s << MM_SLICE_BITS) + i + b);
        }
    }
    unit_eq(mm_claim_count(0), 0);
}
END_TEST

/* The arrays of the metadata lie one behind the other, each large enough, none in another. */
START_TEST(layout) {
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, MM_TREE_BITS_MAX};
    struct mm_layout l;
    unit_eq(mm_layout_make(&l, 0, 4096), -1);
    unit_eq(mm_layout_make(&l, MM_TREE_BITS_MAX + 1, 4096), -1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t n = sizes[i];
        unit_eq(mm_layout_make(&l, n, 4096), 0);
        unit_le(sizeof(struct mm_heap), l.free_tree);
        unit_le(n, l.tree_leaves * 64);
        unit_le(l.tree_leaves, l.tree_mids * 64);
        unit_le(8 * (1 + l.tree_mids + l.tree_leaves), l.tree_bytes);
        unit_le(l.free_tree + l.tree_bytes, l.class_trees);
        unit_le(l.free_tree + l.tree_bytes, l.image_bytes);
        unit_le(l.class_trees + 2 * MM_CLASS_COUNT * l.tree_bytes, l.rings);
        unit_le(l.rings + MM_CLASS_COUNT * MM_RINGS_BYTES, l.segments);
        unit_le(l.segments + ((n - 1) | ((1u << MM_RESERVE_ROW_SHIFT) - 1)) * sizeof(struct mm_segment), l.fixed_bytes - sizeof(struct mm_segment));
        unit_le(l.fixed_bytes + n * sizeof(struct mm_blocks), l.bits_offset);
        unit_eq(l.bits_offset % 4096, 0);
        unit_le(l.bits_offset + n * MM_SEGMENT_BITMAP_BYTES, l.total_bytes);
        unit_eq(l.free_tree % 128 + l.class_trees % 128 + l.rings % 128 + l.segments % 128 + l.fixed_bytes % 128, 0);
    }
}
END_TEST

START_TEST(image_of_a_fresh_heap) {
    static const uint64_t mapped[] = {0, 1, 63, 64, 65, 4096, 4097, 5000, 6000};
    struct mm_layout l;
    unit_eq(mm_layout_make(&l, 5000, 4096), 0);
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++) {
        struct mm_heap *h = (struct mm_heap *)calloc(1, l.image_bytes);
        memset(h, 0xff, l.image_bytes);
        mm_heap_image(h, &l, (uint64_t)(uintptr_t)h, MM_SEGMENT_BYTES, mapped[i]);
        unit_eq(h->abi, MM_ABI_VERSION);
        const struct mm_tree t = mm_segment_free_tree(&h->ref);
        const uint64_t want = mapped[i] < 5000 ? mapped[i] : 5000;
        for (uint32_t s = 0; s < 5000; s++) unit_eq(*mm_tree_leaf(t, s) >> (s % 64) & 1, s < want);
        for (uint32_t leaf = 0; leaf < l.tree_leaves; leaf++)
            unit_eq(t.node[1 + leaf / 64] >> (leaf % 64) & 1, leaf * 64 < want);
        for (uint32_t mid = 0; mid < 64; mid++) unit_eq(t.node[0] >> mid & 1, mid * 4096 < want);
        unit_eq(h->classes_used, 0); /* nothing is claimed for a class before it is used */
        unit_eq(h->free_count, want);
        unit_eq(h->grow.mapped, mapped[i]);
        /* the square of what is mapped, a power of two, by 2^MM_HOLD_SHIFT, and from the knee on its cube; but no more than so much of it */
        const uint32_t log = mapped[i] == 0 ? 0 : log_of((uint32_t)mapped[i]) + MM_SEGMENT_SHIFT;
        const uint32_t more = log > MM_HOLD_KNEE ? log - MM_HOLD_KNEE : 0;
        const uint32_t square = 2 * log > MM_HOLD_SHIFT ? 2 * log - MM_HOLD_SHIFT + more : 0, part = log > MM_HOLD_PART_SHIFT ? log - MM_HOLD_PART_SHIFT : 0;
        unit_eq(h->ref.hold_shift, square < part ? square : part);
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
            const struct mm_class k = mm_class_make(c, (uint32_t)h->ref.hold_shift);
            unit_eq(memcmp(&h->ref.classes[c], &k, sizeof k), 0);
        }
        free(h);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("class");
    UNIT_ADD(suite, "classes", serves_every_size, slices_are_aligned, blocks_hold_their_slices,
             stripes_within_what_they_may_hold, division_is_exact, bits, claims);
    UNIT_ADD(suite, "layout", layout, image_of_a_fresh_heap);
    return suite_run(suite);
}
