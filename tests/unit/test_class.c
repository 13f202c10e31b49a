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
    for (uint32_t power = 4; power <= MM_SLICE_SHIFT_MAX; power++)
        unit_holds(mm_class_bytes(mm_class_of(1u << power)) == 1u << power, "2^%u has no class of its own", power);
}
END_TEST

/* Blocks: the smallest aligned power of two of pages that has 32 slices; the number of slices and words, against
 * plain division. cut: part of each block is reserved for something else (a checked run). */
START_TEST(blocks_hold_their_slices) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t bytes = mm_class_bytes(c), pages = 1u << mm_class_page_shift(c);
        const uint32_t slices = (uint32_t)(pages * MM_PAGE_BYTES / (bytes + 16 * (uint32_t)_i));
        const struct mm_class k = _i ? mm_class_cut(c, slices) : mm_class_make(c);
        if (_i == 0) unit_eq(mm_class_slices(c), slices);
        unit_eq(k.slices, slices);
        unit_eq(k.bytes, bytes);
        unit_eq(1u << k.page_shift, pages);
        unit_le(pages, MM_SEGMENT_PAGES);
        const uint32_t whole = mm_class_slices(c), least = 1u << MM_BLOCK_SLICES_SHIFT;
        unit_holds(whole >= least || pages == MM_SEGMENT_PAGES, "class %u: %u slices", c, whole);
        unit_holds(pages == 1 || pages / 2 * MM_PAGE_BYTES / bytes < least, "class %u: half as many pages would do", c);
        unit_eq(k.words, (slices + 31) / 32);
        unit_le(k.words, pages << (MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT));
        unit_le(k.words, MM_BLOCK_WORDS_MAX);
        if (c != 0 && bytes % 32 == 0) unit_le(k.words, MM_BLOCK_WORDS_MAX / 2); /* with their words a sector apart, blocks have fewer (layout.h) */
        uint32_t in_words = 0;
        for (uint32_t word = 0; word < k.words; word++) {
            uint32_t mask = 0;
            for (uint32_t b = 0; b < 32; b++) mask |= (uint32_t)(word * 32 + b < slices) << b;
            unit_eq(mm_class_word_mask(k, word), mask);
            unit_eq(mm_class_word_slices(k, word), mm_popcount(mask));
            in_words += mm_popcount(mask);
        }
        unit_eq(in_words, slices);
        uint64_t seed = c + 1;
        for (uint32_t i = 0; i < 3000; i++) { /* positions as cursors count them: near the beginning, near the end, anywhere */
            const uint32_t place = i < 1000 ? i : i < 2000 ? ~0u - (i - 1000) : (uint32_t)unit_random(&seed);
            uint32_t slice = ~0u;
            unit_eq(mm_class_block_of(k, place, &slice), place / slices);
            unit_eq(slice, place % slices);
        }
        for (uint32_t i = 0; i < slices; i++) {
            unit_eq(mm_class_number(k, i * bytes), i);
            unit_eq(mm_class_number(k, i * bytes + bytes - 1), i);
        }
    }
}
END_TEST

START_TEST(division_is_exact) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t bytes = mm_class_bytes(c);
        for (uint32_t in = 0; in < MM_SEGMENT_BYTES; in += in % 4096 ? 16 : 4096 - 16 * 3) {
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(mm_class_unit(c)));
            unit_holds(at == in / bytes, "class %u: offset %u is at %u", c, in, at);
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
        for (uint32_t in = 1; in < MM_SEGMENT_BYTES; in += 509) { /* odd and even, inside slices and across */
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(mm_class_unit(c)));
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
        for (uint32_t i = 0; i < MM_SEGMENT_BYTES / bytes; i++) { /* each slice, and the byte before it */
            const uint32_t in = i * bytes;
            unit_eq(mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(mm_class_unit(c))), i);
            unit_holds(i == 0 || mm_mulhi((in - 1) >> mm_class_shift(c), mm_class_reciprocal(mm_class_unit(c))) == i - 1, "before slice %u", i);
        }
    }
    for (uint32_t c = 4; c < 8; c++) /* as far as the comment promises */
        for (uint32_t x = 0; x < 1u << 29; x += x < 1u << 20 ? 1 : 4093)
            unit_holds(mm_mulhi(x, mm_class_reciprocal(mm_class_unit(c))) == x / mm_class_unit(c), "%u / %u", x, mm_class_unit(c));
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

/* Packed words return what they were made of. */
START_TEST(handles) {
    uint64_t seed = 3;
    for (int i = 0; i < 100000; i++) {
        const uint64_t r = unit_random(&seed), q = unit_random(&seed);
        const uint32_t generation = (uint32_t)(r >> 32), free = (uint32_t)r, page = (uint32_t)q >> MM_ENTRY_SHAPE_BITS,
                       c = (uint32_t)(q >> 40) % MM_CLASS_COUNT;
        const uint64_t word = mm_word_make(generation, free);
        unit_eq(mm_word_generation(word), generation);
        unit_eq(mm_word_free(word), free);
        unit_eq(mm_word_is_dead(word), (int)(generation % 2));
        const uint32_t next = mm_generation_next(word);
        unit_holds(next % 2 == 0 && next != 0 && next != generation, "generation %u after %u", next, generation);
        unit_eq(mm_generation_end(next), next + 1);
        if (generation % 2 && generation != ~0u) unit_eq(next, generation + 1);
        const uint64_t entry = mm_entry_make(next, page, c);
        unit_eq(mm_entry_generation(entry), next);
        unit_eq(mm_entry_page(entry), page);
        for (uint32_t d = 0; d < MM_CLASS_COUNT; d++) unit_eq(mm_entry_is_of(entry, d), d == c);
        const uint32_t number = (uint32_t)(q >> 8), bit = (uint32_t)r % 32;
        const uint64_t left = mm_deferred_slice(c, number, bit);
        unit_eq(mm_deferred_kind(left), MM_DEFERRED_SLICE);
        unit_eq(mm_deferred_shape(left), c);
        unit_eq(mm_deferred_word(left), number);
        unit_eq(mm_deferred_bit(left), bit);
        const uint64_t off = q >> 24, odd = mm_deferred_odd((uint32_t)r % MM_MISUSE_KINDS, off);
        unit_eq(mm_deferred_kind(odd), MM_DEFERRED_ODD);
        unit_eq(mm_deferred_misuse(odd), (uint32_t)r % MM_MISUSE_KINDS);
        unit_eq(mm_deferred_offset(odd), off);
    }
    unit_eq(mm_generation_next(mm_word_make(~0u, 0)), 2); /* never 0 */
    unit_eq(mm_generation_next(mm_word_make(~0u - 1, 0)), 2);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) unit_eq(mm_entry_is_of(MM_ENTRY_NONE, c), 0);
    unit_eq(mm_owner_is_block(MM_OWNER_NOBODY), 0);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) unit_holds(mm_owner_is_block(c + 1) && !mm_owner_is_span(c + 1), "owner %u", c + 1);
    for (uint32_t n = 1; n < MM_SEGMENT_PAGES; n++) {
        unit_holds(mm_owner_is_span(MM_OWNER_SPAN + n) && !mm_owner_is_block(MM_OWNER_SPAN + n), "a span of %u", n);
        unit_eq(mm_owner_span_pages(MM_OWNER_SPAN + n), n);
    }
    unit_eq(mm_owner_is_span(MM_OWNER_SPAN_BODY) + mm_owner_is_block(MM_OWNER_SPAN_BODY), 0);
}
END_TEST

/* Shapes: the classes, and behind them the narrow blocks of those with blocks of several pages and slices of at most half a page. They have one page and one
 * word. */
START_TEST(shapes) {
    uint32_t narrow = 0;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t bytes = mm_class_bytes(c), shape = mm_shape_narrow(c);
        const struct mm_class wide = mm_class_make(c), same = mm_shape_make(c);
        unit_eq(mm_shape_class(c), c);
        unit_eq(memcmp(&wide, &same, sizeof wide), 0);
        unit_eq(mm_class_has_narrow(c) != 0, mm_class_page_shift(c) > 0 && 2 * bytes <= MM_PAGE_BYTES);
        if (!mm_class_has_narrow(c)) continue;
        const struct mm_class k = mm_shape_make(shape);
        unit_eq(shape, MM_CLASS_COUNT + narrow++);
        unit_lt(shape, MM_SHAPES);
        unit_eq(mm_shape_class(shape), c);
        unit_eq(k.bytes, bytes);
        unit_eq(k.page_shift, 0);
        unit_eq(k.words, 1);
        unit_eq(k.slices, MM_PAGE_BYTES / bytes);
        unit_le(2, k.slices);
        for (uint32_t in = 0; in < MM_PAGE_BYTES; in++) unit_eq(mm_class_number(k, in), in / bytes);
        const uint64_t entry = mm_entry_make(2, 77, shape);
        unit_eq(mm_entry_class(entry), c);
        unit_holds(mm_owner_is_block(shape + 1) && !mm_owner_is_span(shape + 1), "owner %u", shape + 1);
        for (uint32_t w = 0; w < 3; w++) {
            unit_eq(mm_entry_has(entry, c, w), w == 0);
            unit_eq(mm_entry_has(mm_entry_make(2, 77, c), c, w), 1);
            unit_eq(mm_entry_has(mm_entry_make(0, 77, shape), c, w), 0);
        }
    }
    unit_eq(MM_CLASS_COUNT + narrow, MM_SHAPES);
    unit_eq(mm_owner_is_block(MM_SHAPES + 1), 0);
}
END_TEST

/* The arrays of the metadata follow one another, each large enough, without overlap. */
START_TEST(layout) {
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, 1u << 18, (1u << 18) + 1, MM_TREE_BITS_MAX};
    struct mm_layout l;
    unit_eq(mm_layout_make(&l, 0, 4096, 16), -1);
    unit_eq(mm_layout_make(&l, MM_TREE_BITS_MAX + 1, 4096, 16), -1);
    unit_eq(mm_layout_make(&l, 1, 4096, 8), -1);
    unit_eq(mm_layout_make(&l, 1, 4096, 48), -1);
    for (size_t i = 0; i < 3 * (sizeof sizes / sizeof *sizes); i++)
        for (uint64_t spacing = 16; spacing <= MM_SPACING_MAX; spacing *= 2) {
            static const uint64_t units[] = {256, 4096, 2u << 20};
            const uint64_t n = sizes[i / 3], page = units[i % 3], pages = n * MM_SEGMENT_PAGES;
            uint64_t extents = 0, made = 0;
            unit_eq(mm_layout_make(&l, n, page, spacing), 0);
            for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
                made += 1u << mm_class_make(c).made_shift;
                const uint64_t blocks = pages >> mm_class_page_shift(c), has = mm_layout_extents(n, c);
                unit_le(blocks, has * MM_EXTENT);
                unit_le(has * MM_EXTENT, 1u << 31); /* an index fits */
                extents += has;
            }
            unit_le(n * sizeof(struct mm_segment), l.heap);
            unit_eq(l.segments + sizeof(struct mm_segment), l.heap);
            unit_le(l.heap + sizeof(struct mm_heap), l.free_tree);
            unit_le(n, l.tree_leaves * 64);
            unit_le(l.tree_leaves, l.tree_mids * 64);
            unit_le(l.tree_mids, l.tree_roots * 64);
            unit_le(l.tree_roots, MM_TREE_ROOTS_MAX);
            unit_le(8 * (l.tree_roots + l.tree_mids + l.tree_leaves), l.tree_bytes);
            unit_le(l.free_tree + l.tree_bytes, l.heap + l.image_bytes);
            unit_le(l.heap + l.image_bytes, l.classes);
            unit_eq((l.classes - l.heap) % 128 + (l.classes % 128 != l.heap % 128), 0);
            unit_le(l.classes + MM_CLASS_COUNT * sizeof(struct mm_class_state), l.room_trees);
            unit_le(l.room_trees + MM_ROOMS * l.tree_bytes, l.directory);
            unit_le(l.directory + extents * sizeof(uint32_t), l.made);
            unit_le(MM_MADE_WORDS, made);
            unit_le(l.made + made * sizeof(uint64_t), l.firsts);
            unit_le(l.firsts + MM_FIRSTS_BYTES, l.owners);
            unit_le(l.owners + pages, l.zero_bytes);
            unit_le(l.zero_bytes + MM_TABLE_SHARE * pages * sizeof(uint64_t), l.words);
            unit_le(l.words + pages * sizeof(uint64_t) * (spacing == 16 ? 32 : 16), l.total_bytes);
            unit_eq(l.heap % 256 + l.owners % 256 + l.words % 256 + l.zero_bytes % page + l.total_bytes % page, 0);
            unit_eq(l.heap % page, page > MM_NEAR_BYTES ? MM_NEAR_BYTES : 0);
            if (page < 2u << 20) continue;
            const uint64_t words_near = (page - l.words % page) / l.words_each, table_near = l.words % page / l.table_each;
            unit_le(words_near * 4 / 3, table_near); /* a page for words and table of the first segments: they do not both need a second one at the same time */
            unit_lt(page, (words_near + table_near) / 2 * (l.words_each + l.table_each) * 11 / 10);
            unit_eq(l.words_each * n + l.words, l.words + (pages * sizeof(uint64_t) << l.word_shift));
        }
}
END_TEST

START_TEST(image_of_a_fresh_heap) {
    static const uint64_t mapped[] = {0, 1, 63, 64, 65, 4096, 4097, 300000, 600000};
    const uint32_t n = 500000;
    struct mm_layout l;
    unit_eq(mm_layout_make(&l, n, 4096, 16), 0);
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++) {
        struct mm_heap *h = (struct mm_heap *)calloc(1, l.image_bytes);
        memset(h, 0xff, l.image_bytes);
        mm_heap_image(h, &l, (uint64_t)(uintptr_t)h - l.heap, MM_SEGMENT_BYTES, mapped[i]);
        unit_eq(h->ref.heap, (uint64_t)(uintptr_t)h);
        unit_eq(h->abi, MM_ABI_VERSION);
        const struct mm_tree t = mm_segment_free_tree(&h->ref);
        const uint64_t want = mapped[i] < n ? mapped[i] : n;
        for (uint32_t s = 0; s < n; s++) unit_eq(*mm_tree_leaf(t, s) >> (s % 64) & 1, s < want);
        for (uint32_t leaf = 0; leaf < l.tree_leaves; leaf++) unit_eq(t.node[t.roots + leaf / 64] >> (leaf % 64) & 1, leaf * 64 < want);
        for (uint32_t mid = 0; mid < 64 * t.roots; mid++) unit_eq(t.node[mid / 64] >> (mid % 64) & 1, mid * 4096 < want);
        unit_eq(h->free_count, want);
        unit_eq(h->grow.mapped, mapped[i]);
        unit_eq(h->grow.reached, mapped[i]);
        unit_eq(h->extents, 0);
        uint32_t directory = 0, made = 0;
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
            struct mm_class k = mm_class_make(c);
            k.directory = directory, k.directory_length = mm_layout_extents(n, c);
            k.made = made;
            directory += k.directory_length, made += 1u << k.made_shift;
            unit_eq(memcmp(&h->ref.classes[c], &k, sizeof k), 0);
        }
        free(h);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("class");
    UNIT_ADD(suite, "classes", serves_every_size, slices_are_aligned, division_is_exact, bits, handles, shapes);
    TCase *blocks = tcase_create("blocks");
    tcase_add_loop_test(blocks, blocks_hold_their_slices, 0, 2);
    suite_add_tcase(suite, blocks);
    UNIT_ADD(suite, "layout", layout, image_of_a_fresh_heap);
    return suite_run(suite);
}
