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

/* Blocks: size, alignment, capacity, words, against plain division. */
START_TEST(blocks_hold_their_slices) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint64_t block = 1ull << mm_class_block_shift(c), bytes = mm_class_bytes(c), capacity = mm_class_capacity(c);
        unit_le(MM_GRANULE_BYTES, block);
        unit_le(block, MM_SEGMENT_BYTES);
        unit_eq(mm_class_block_granules(c) * MM_GRANULE_BYTES, block);
        unit_eq(capacity, block / bytes);
        unit_le(2, capacity);
        unit_lt(capacity, 1u << 16);
        unit_holds(block == MM_SEGMENT_BYTES || capacity >= 1u << MM_BLOCK_SLICES_SHIFT, "class %u: blocks of %llu", c, (unsigned long long)capacity);
        unit_eq(mm_class_words(c), (capacity + 63) / 64);
        unit_le(mm_class_words(c), mm_class_block_granules(c) * MM_GRANULE_WORDS);
        /* what free may look at for a pointer behind the last slice is a bit of this block */
        unit_lt((block - 1) / bytes / 64, mm_class_words(c));
    }
}
END_TEST

START_TEST(division_is_exact) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t block = 1u << mm_class_block_shift(c), bytes = mm_class_bytes(c);
        for (uint32_t in = 0; in < block; in += 16) {
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c));
            unit_holds(at == in / bytes, "class %u: offset %u is at %u", c, in, at);
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
        for (uint32_t in = 1; in < block; in += 509) { /* odd and even, inside of slices and across */
            const uint32_t at = mm_mulhi(in >> mm_class_shift(c), mm_class_reciprocal(c));
            unit_holds((at * bytes == in) == (in % bytes == 0), "class %u: offset %u taken for a slice", c, in);
        }
    }
    for (uint32_t c = 4; c < 8; c++) /* as far as the comment promises */
        for (uint32_t x = 0; x < 1u << 29; x += x < 1u << 20 ? 1 : 4093)
            unit_holds(mm_mulhi(x, mm_class_reciprocal(c)) == x / mm_class_unit(c), "%u / %u", x, mm_class_unit(c));
}
END_TEST

START_TEST(segment_masks) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        uint64_t mask = 0;
        const uint32_t granules = mm_class_block_granules(c);
        for (uint32_t g = 0; g < MM_SEGMENT_GRANULES; g += granules) mask |= 1ull << g;
        unit_eq(mm_class_segment_mask(c), mask);
        for (uint32_t g = 0; g < 3 * MM_SEGMENT_GRANULES; g++)
            unit_eq(mm_block_of_granule(g, c), g / granules * granules);
    }
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
    }
}
END_TEST

/* The arrays of the metadata lie one behind the other, each large enough, none in another. */
START_TEST(layout) {
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4095, 4096, 4097, MM_TREE_BITS_MAX};
    struct mm_layout l;
    unit_eq(mm_layout_make(&l, 0, 4096), -1);
    unit_eq(mm_layout_make(&l, MM_TREE_BITS_MAX + 1, 4096), -1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t n = sizes[i], granules = n * MM_SEGMENT_GRANULES;
        unit_eq(mm_layout_make(&l, n, 4096), 0);
        unit_le(sizeof(struct mm_heap), l.free_tree);
        unit_le(n, l.tree_leaves * 64);
        unit_le(l.tree_leaves, l.tree_mids * 64);
        unit_le(8 * (1 + l.tree_mids + l.tree_leaves), l.tree_bytes);
        unit_le(l.free_tree + l.tree_bytes, l.class_trees);
        unit_le(l.free_tree + l.tree_bytes, l.image_bytes);
        unit_le(l.class_trees + MM_CLASS_COUNT * l.tree_bytes, l.segment_words);
        unit_le(l.segment_words + 8 * n, l.segment_owners);
        unit_le(l.segment_owners + 8 * n, l.full_words);
        unit_le(l.full_words + 4 * granules, l.ctrl);
        unit_le(l.ctrl + 8 * granules, l.bits_offset);
        unit_eq(l.bits_offset % 4096, 0);
        unit_le(l.bits_offset + n * MM_SEGMENT_BITMAP_BYTES, l.total_bytes);
        unit_eq(l.free_tree % 128 + l.class_trees % 128 + l.segment_words % 8 + l.ctrl % 8, 0);
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
        const struct mm_tree t = mm_segment_free_tree(h);
        const uint64_t want = mapped[i] < 5000 ? mapped[i] : 5000;
        for (uint32_t s = 0; s < 5000; s++) unit_eq(*mm_tree_leaf(t, s) >> (s % 64) & 1, s < want);
        for (uint32_t leaf = 0; leaf < l.tree_leaves; leaf++)
            unit_eq(t.node[1 + leaf / 64] >> (leaf % 64) & 1, leaf * 64 < want);
        for (uint32_t mid = 0; mid < 64; mid++) unit_eq(t.node[0] >> mid & 1, mid * 4096 < want);
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) /* nothing is claimed for a class before it is used */
            for (uint32_t k = 0; k < MM_STRIPES; k++) unit_eq(h->classes[c].stripe[k], 0);
        free(h);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("class");
    UNIT_ADD(suite, "classes", serves_every_size, slices_are_aligned, blocks_hold_their_slices, division_is_exact,
             segment_masks, bits);
    UNIT_ADD(suite, "layout", layout, image_of_a_fresh_heap);
    return unit_main(suite);
}
