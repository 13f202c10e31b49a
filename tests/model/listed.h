/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Steps that the models of allocators of listed segments have in common: threads that let the list grow or look at it, and the host. Include after world.h. */
#ifndef MM_MODEL_LISTED_H
#define MM_MODEL_LISTED_H

static void add(void) {
    mm_list_add(&ref, 1, MM_LISTED_ANY);
    model_progress();
}
/* Has found nothing in the list when it was empty. */
static void add_once(void) {
    while (mm_list_add(&ref, 1, 0) == MM_LISTED_BUSY) mm_wait();
    model_require(mm_list_count(&ref) != 0, "a list that grew is empty");
    model_progress();
}
/* Entries that nobody has written yet are no segments. */
static void none_of(uint32_t segments) {
    world_make(segments);
    for (uint32_t k = 0; k < segments; k++) *mm_list_entry(&ref, k) = ~0u;
}
static void none_listed(void) { none_of(2); }
/* Callers want all segments: two; or two after the first one, which threads bring at the same time. */
static void none_listed_both_wanted(void) {
    none_listed();
    mm_list_state(&ref)->wanted = 2 * SEG;
}
static void one_listed_two_wanted(void) {
    none_of(3);
    mm_list_add(&ref, 1, MM_LISTED_ANY);
    mm_list_state(&ref)->wanted = 2 * SEG;
}
static uint32_t heap_segments(void) { return (uint32_t)(ref.user_bytes >> MM_SEGMENT_SHIFT); }
static void add_wanted(void) {
    while (mm_load_relaxed_u64(&mm_list_state(&ref)->coming) + mm_list_count(&ref) < heap_segments()) {
        const enum mm_listed added = mm_list_add(&ref, 1, MM_LISTED_ANY);
        if (added == MM_LISTED_NO_SEGMENT) break;
        if (added == MM_LISTED_BUSY) mm_wait();
    }
    model_progress();
}
/* What a check writes is not undone, so it puts back what callers want. */
static void check_wanted(uint32_t count) {
    const uint64_t wanted = mm_list_state(&ref)->wanted;
    mm_list_state(&ref)->wanted = 0;
    world_check();
    mm_list_state(&ref)->wanted = wanted;
    model_require((mm_list_state(&ref)->lock | mm_list_state(&ref)->coming) == 0, "the list is locked, or waits for segments");
    model_require(mm_list_count(&ref) >= count, "the list has %u segments of %u", mm_list_count(&ref), count);
}
static void check_both(void) { check_wanted(2); }
static void check_three(void) { check_wanted(3); }
static void check_some(void) { check_wanted(0); }
/* Reads the last entry of the list. */
static void look(void) {
    const uint32_t n = mm_list_count(&ref);
    if (n != 0) model_require(mm_list_segment(&ref, n - 1) < heap_segments(), "the list has an entry that is no segment");
    model_progress();
}
/* The host: answers one request with segment 1. */
static void serve(void) {
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < 4 && wanted == 0; i++) {
        wanted = mm_load_acquire_system_u64(&mailbox.wanted);
        if (wanted == 0) mm_wait();
    }
    if (wanted == 0) return;
    world_map(1, 1, 1);
    mm_store_release_system_u64(&mailbox.answer, mm_answer_make(wanted >> 32, 1, 1));
    model_progress();
}

/* Rounds of sweeps for one unit, each of which ends as soon as it has one. */
static uint64_t sweep_once(void) {
    uint64_t awaited = 0;
    struct mm_listed_swept swept = {0, 0};
    for (uint32_t i = 0; i < 8 && swept.address == 0; i++) {
        int has_none;
        if (mm_listed_ask(&ref, 1, &awaited, &has_none) != MM_LISTED_ROUND) {
            mm_wait();
            continue;
        }
        swept = mm_listed_sweep(&ref, 1, 1, 1);
        mm_listed_end(&ref, swept.most);
    }
    model_progress();
    return swept.address;
}

#endif
