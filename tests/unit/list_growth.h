/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How a list of segments grows (runtime/listed/list.h). A part of listed.h. */
#ifndef MM_UNIT_LIST_GROWTH_H
#define MM_UNIT_LIST_GROWTH_H

/* A warp brings as many segments as callers want, and no more than a batch; the next one what is missing. */
static void list_has(uint32_t count) {
    unit_eq(mm_list_count(ref), count);
    for (uint32_t k = 0; k < count; k++) {
        unit_eq(mm_list_sees(ref, mm_list_segment(ref, k)), 1);
        for (uint32_t i = 0; i < k; i++) unit_holds(mm_list_segment(ref, k) != mm_list_segment(ref, i), "segment %u is there twice", mm_list_segment(ref, k));
    }
}
START_TEST(as_many_as_are_wanted) {
    struct mm_class_state *of = mm_list_state(ref);
    of->wanted = 5 * MM_SEGMENT_BYTES + 17, of->coming = 5;
    unit_eq(mm_list_add(ref, 1, 0), MM_LISTED_BUSY);
    unit_eq(of->coming, 5);
    of->coming = 0;
    unit_eq(mm_list_add(ref, 1, 0), MM_LISTED_MORE);
    list_has(5);
    unit_eq(mm_list_add(ref, 1, 0), MM_LISTED_MORE); /* it has grown since the caller looked */
    list_has(5);
    of->wanted = 4 * MM_SEGMENT_BYTES, of->coming = 3;
    unit_eq(mm_list_add(ref, 1, 5), MM_LISTED_MORE);
    list_has(6);
    unit_eq(mm_list_add(ref, 1, 6), MM_LISTED_MORE);
    of->coming = 4;
    unit_eq(mm_list_add(ref, 1, 7), MM_LISTED_BUSY);
    of->wanted = 20 * MM_SEGMENT_BYTES, of->coming = 0;
    unit_eq(mm_list_add(ref, 1, 7), MM_LISTED_MORE); /* there is one more */
    list_has(SEGMENTS);
    unit_eq(of->coming, 0);
    unit_eq(mm_list_add(ref, 1, SEGMENTS), MM_LISTED_NO_SEGMENT);
    unit_eq(of->coming, 0);
    of->coming = 1;
    unit_eq(mm_list_add(ref, 1, SEGMENTS), MM_LISTED_BUSY); /* it may be for this caller */
    unit_eq(of->coming, 1);
    of->wanted = of->coming = 0;
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Segments that warps bring while another one has the lock enter when it releases it; nobody waits. */
START_TEST(batches_that_wait) {
    struct mm_class_state *of = mm_list_state(ref);
    mm_list_add(ref, 1, 0);
    of->lock = OTHER_WARP;
    of->wanted = 2 * MM_SEGMENT_BYTES, unit_waits = 0;
    unit_eq(mm_list_add(ref, 1, 1), MM_LISTED_MORE);
    of->wanted = 5 * MM_SEGMENT_BYTES;
    unit_eq(mm_list_add(ref, 1, 1), MM_LISTED_MORE);
    unit_eq(mm_list_add(ref, 1, 1), MM_LISTED_BUSY);
    unit_eq((uint64_t)unit_waits, 0);
    unit_eq(mm_list_count(ref), 1);
    unit_eq(of->coming, 5);
    unit_eq(mm_list_is_changing(ref), 1);
    mm_list_unlock(ref, 1);
    list_has(6);
    unit_eq(of->lock | of->coming, 0);
    of->wanted = 0;
    mm_heap_free(ref, take(1));
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* What a caller waits for counts as long as it waits, and not longer. */
static uint64_t most_wanted, seen_bringing;
static void look_what_is_wanted(void) {
    seen_bringing |= *mm_list_bringing(ref, mm_warp_slot());
    if (mm_list_state(ref)->wanted > most_wanted) most_wanted = mm_list_state(ref)->wanted;
}
START_TEST(what_a_caller_wants) {
    most_wanted = seen_bringing = 0, unit_each_step = look_what_is_wanted;
    mm_heap_free(ref, take(1));
    unit_each_step = NULL;
    unit_eq(most_wanted, unit_taken(1)); /* the unit, not the byte */
    unit_eq(seen_bringing, 1ull << mm_warp_slot() % 64);
    unit_eq(mm_list_state(ref)->wanted, 0);
    take_the_rest();
    unit_eq(mm_list_state(ref)->wanted, 0);
}
END_TEST

/* A list grows by a share, or by what is wanted. (By more if more lanes call: Ouroboros' suites.) */
START_TEST(a_share_or_what_is_wanted) {
    struct mm_class_state *of = mm_list_state(ref);
    unit_eq(mm_list_wanted(ref, 0, 32), 1);
    unit_eq(mm_list_wanted(ref, 3, 32), MM_LISTED_LEAST);
    unit_eq(mm_list_wanted(ref, 5 * MM_LISTED_SHARE, 32), MM_LISTED_LEAST + 5);
    of->wanted = 40 * MM_SEGMENT_BYTES + 1;
    unit_eq(mm_list_wanted(ref, 0, 1), 40);
    unit_eq(mm_list_wanted(ref, 5 * MM_LISTED_SHARE, 1), 40);
    unit_eq(mm_list_wanted(ref, MM_LISTED_SEGMENTS_MAX - 3, 1), 3);
    unit_eq(mm_list_wanted(ref, MM_LISTED_SEGMENTS_MAX, 1), 0);
    of->wanted = 0;
}
END_TEST

/* Another warp reserves segments at some step of this one. This one brings what is left of the five that are wanted, or none if it has counted already. */
static uint32_t others_reserve, reserve_at, were_coming, were_there;
static void reserve_once(void) {
    struct mm_class_state *of = mm_list_state(ref);
    if (reserve_at-- != 0) return;
    unit_each_step = NULL;
    were_coming = (uint32_t)of->coming, were_there = of->count, of->coming += others_reserve;
}
START_TEST(others_reserve_meanwhile) {
    struct mm_class_state *of = mm_list_state(ref);
    static const uint32_t reserves[] = {2, 6};
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t left = reserves[i] < 5 ? 5 - reserves[i] : 0;
        int was_left = 0, was_vain = 0, is_over = 0;
        for (uint32_t step = 0; !is_over; step++) {
            of->wanted = 5 * MM_SEGMENT_BYTES, of->coming = 0;
            others_reserve = reserves[i], reserve_at = step, unit_each_step = reserve_once;
            const enum mm_listed added = mm_list_add(ref, 1, 0);
            is_over = unit_each_step != NULL;
            unit_each_step = NULL;
            const uint32_t has = mm_list_count(ref);
            const int is_late = is_over || were_coming != 0 || were_there != 0;
            unit_holds(has == (is_late ? 5 : left) || (has == 0 && !is_late), "%u segments", has);
            if (!is_late) was_left |= has == left, was_vain |= has != left;
            list_has(has);
            unit_eq(of->coming, is_over ? 0 : others_reserve);
            unit_eq(added, has != 0 ? MM_LISTED_MORE : MM_LISTED_BUSY);
            of->wanted = of->coming = 0;
            unit_fresh(&heap, SEGMENTS);
        }
        unit_eq((uint64_t)was_left, 1);
        if (left != 0) unit_eq((uint64_t)was_vain, 1);
    }
}
END_TEST

/* A wait for the list ends when that has changed, or after so many looks. */
START_TEST(looks_of_a_wait) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    unit_waits = 0;
    mm_list_await(ref, 0, 5);
    unit_eq((uint64_t)unit_waits, 0);
    mm_list_await(ref, 1, 5);
    unit_eq((uint64_t)unit_waits, 5);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

#endif
