/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Words: what a claim gets and leaves, depending on the generation; and frees. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

START_TEST(claims_of_one_word) {
    uint64_t seed = 1;
    for (int i = 0; i < 100000; i++) {
        const uint32_t generation = (uint32_t)unit_random(&seed), free = (uint32_t)(unit_random(&seed) & unit_random(&seed)),
                       bits = (uint32_t)unit_random(&seed);
        uint64_t word = mm_word_make(generation, free);
        if (i % 3 == 0) { /* stale: the claim gets nothing; a live word loses nothing */
            unit_eq(mm_word_claim(&word, generation + 1 + i % 5, bits), 0);
            unit_eq(word, mm_word_make(generation, generation & 1 ? free & ~bits : free));
        } else {
            unit_eq(mm_word_claim(&word, generation, bits), free);
            unit_eq(word, mm_word_make(generation, free & ~bits));
        }
    }
}
END_TEST

/* One lane: each slice of a block is handed out once; its address is what the class says. */
START_TEST(each_slice_once) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c), slices = mm_class_slices(c);
        const uint64_t entry = entry_at(c, 0);
        for (uint32_t i = 0; i < slices; i++) {
            unit_eq(mm_slices_claim(ref, 1, 1, entry, i, c), (uint64_t)slice_at(page, c, i));
            unit_eq(mm_cpu_usable_size(&heap, slice_at(page, c, i)), mm_class_bytes(c));
        }
        for (uint32_t i = 0; i < slices; i++) unit_eq(mm_slices_claim(ref, 1, 1, entry, i, c), 0);
        unit_sound(&heap, (uint64_t)slices * mm_class_bytes(c));
        /* a lane that does not get its own slice gets another one of the word, and none of another word */
        for (uint32_t i = 0; i < slices; i += 7) {
            mm_cpu_free(&heap, slice_at(page, c, i));
            const uint32_t want = i ^ (i % 32 ? 1u : 0u), other = want < slices ? want : i;
            unit_eq(mm_slices_claim(ref, 1, 1, entry, other, c), (uint64_t)slice_at(page, c, i));
            mm_cpu_free(&heap, slice_at(page, c, i));
            if (i + 32 < slices) unit_eq(mm_slices_claim(ref, 1, 1, entry, i + 32, c), 0);
            unit_eq(mm_slices_claim(ref, 1, 1, entry, i, c), (uint64_t)slice_at(page, c, i));
        }
        unit_eq(mm_slices_claim(ref, 1, 0, entry, 0, c), 0); /* a lane that does not take part gets nothing, and takes nothing */
        for (uint32_t i = 0; i < slices; i++) mm_cpu_free(&heap, slice_at(page, c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* An entry of a retired block, whatever its pages hold now: a claim gets nothing there, and nothing is lost. */
START_TEST(stale_entries) {
    static const uint32_t sizes[] = {16, 48, 512, 640, 4096, 65536};
    for (uint32_t k = 0; k < 6; k++)
        for (uint32_t d = 0; d < 6; d++) {
            new_heap();
            const uint32_t c = mm_class_of(sizes[k]), e = mm_class_of(sizes[d]), page = make(c);
            const uint64_t stale = entry_at(c, 0), first = stale - 4ull * (1ull << 32); /* and one that never was */
            unit_lt(0, mm_blocks_retire(ref, 1, page));
            for (uint32_t i = 0; i < mm_class_slices(c); i++) unit_eq(mm_slices_claim(ref, 1, 1, stale, i, c), 0);
            for (uint32_t i = 0; i < mm_class_make(c).words; i++)
                unit_holds(mm_word_is_dead(word_at(page, i)) && mm_word_free(word_at(page, i)) == 0, "word %u", i);
            const uint32_t now = make(e);
            unit_eq(now, page);
            unit_sound(&heap, 0);
            for (uint32_t i = 0; i < mm_class_slices(c); i++) {
                unit_eq(mm_slices_claim(ref, 1, 1, stale, i, c), 0);
                unit_eq(mm_slices_claim(ref, 1, 1, first, i, c), 0);
            }
            unit_sound(&heap, 0);
            unit_fresh(&heap, SEGMENTS);
            void *span = mm_cpu_aligned_malloc(&heap, 9 * MM_PAGE_BYTES, MM_SEGMENT_BYTES / 2);
            for (uint32_t i = 0; i < mm_class_slices(c); i++) unit_eq(mm_slices_claim(ref, 1, 1, stale, i, c), 0);
            mm_cpu_free(&heap, span);
            unit_eq(unit_misuses(&heap), 0);
            unit_fresh(&heap, SEGMENTS);
        }
}
END_TEST

/* A claim by a stale entry holds bits of the new block for a moment: whatever happens then, they are restored afterwards. */
#define SIZE 512u
static uint32_t c_, page_;
static uint64_t stale_, p_;
static void block_in_place_of_another(void) {
    new_heap();
    c_ = mm_class_of(SIZE);
    page_ = make(c_), stale_ = entry_at(c_, 0);
    unit_lt(0, mm_blocks_retire(ref, 1, page_));
    unit_eq(make(c_), page_);
    p_ = 0;
}
static void claim_stale(void) { unit_eq(mm_slices_claim(ref, 1, 1, stale_, 5, c_), 0); }
static void claim_5(void) { p_ = mm_slices_claim(ref, 1, 1, entry_at(c_, 0), 5, c_); }
static void retire(void) { (void)mm_blocks_retire(ref, 1, page_); }
static void retire_and_make(void) {
    retire();
    if (entry_at(c_, 0) == MM_ENTRY_NONE) make(c_);
}
static void all_is_there(void) {
    unit_sound(&heap, p_ ? SIZE : 0);
    if (p_) mm_cpu_free(&heap, (void *)p_);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(stale_claim_meets_others) {
    unit_at_each_step(block_in_place_of_another, claim_stale, claim_5, all_is_there);
    unit_at_each_step(block_in_place_of_another, claim_5, claim_stale, all_is_there);
    unit_at_each_step(block_in_place_of_another, claim_stale, retire, all_is_there);
    unit_at_each_step(block_in_place_of_another, retire, claim_stale, all_is_there);
    unit_at_each_step(block_in_place_of_another, claim_stale, retire_and_make, all_is_there);
    unit_at_each_step(block_in_place_of_another, retire_and_make, claim_stale, all_is_there);
    unit_at_each_step(block_in_place_of_another, retire, claim_5, all_is_there);
}
END_TEST

/* Free: each slice once; a second free is reported, whether its block is there or not, and changes nothing. */
START_TEST(frees) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += 3) {
        new_heap();
        const uint32_t page = make(c), slices = mm_class_slices(c), bytes = mm_class_bytes(c);
        for (uint32_t i = 0; i < slices; i++) {
            char *p = (char *)slice_at(page, c, i);
            unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, 0, "a slice that was never handed out");
            unit_eq(mm_slices_claim(ref, 1, 1, entry_at(c, 0), i, c), (uint64_t)p);
            unit_free(&heap, p + 1, MM_MISUSE_INTERIOR, bytes, "its second byte");
            unit_free(&heap, p + bytes - 1, MM_MISUSE_INTERIOR, bytes, "its last byte");
            unit_free(&heap, p, 0, 0, "a slice");
            unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, 0, "a slice again");
            if (i > 64) i += 37;
        }
        const uint64_t block = MM_PAGE_BYTES << mm_class_page_shift(c), rest = block - (uint64_t)slices * bytes;
        if (rest) unit_free(&heap, (char *)slice_at(page, c, slices), MM_MISUSE_NEVER, 0, "behind the last slice");
        if (rest > 1) unit_free(&heap, (char *)slice_at(page, c, slices) + rest - 1, MM_MISUSE_NEVER, 0, "the block's last byte");
        unit_lt(0, mm_blocks_retire(ref, 1, page));
        unit_free(&heap, slice_at(page, c, 0), MM_MISUSE_NOT_ALLOCATED, 0, "a slice of a block that is gone");
        /* the owner was read before the block went */
        for (uint32_t w = 0; w < mm_class_make(c).words; w++) {
            const uint64_t left = mm_deferred_slice(c, (page << (uint32_t)ref->word_shift) + w, 3);
            unit_eq(mm_deferred_kind(mm_small_mark(ref, left)), MM_DEFERRED_TWICE);
            unit_eq(mm_word_free(word_at(page, w)), 0);
        }
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("word");
    TCase *tests = tcase_create("words");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {claims_of_one_word, each_slice_once, stale_entries, stale_claim_meets_others, frees};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
