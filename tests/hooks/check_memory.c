/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Chunks and the grower (runtime/host/{chunks,grower}.c) against a table of driver functions. */
#include "check_memory.h"

/* ---- chunks ---- */

START_TEST(rows) {
    grows(1, 2, 0, 2);
    grows(1, 1, 2, 1);
    grows(3, 3, 3, 3);
    ck_assert_uint_eq(mm_chunks_unmap(&d, &heap->chunks, 1, &error), MM_SEGMENT_BYTES);
    grows(2, 2, 6, 2); /* the gap is too small */
    grows(1, 5, 2, 1); /* one segment fits the gap, which has no more */
    ck_assert_uint_eq(mapped(), 8);
    grows(57, 57, 0, 0); /* not so many consecutive addresses */
    ck_assert_uint_eq(mapped(), 8);
    grows(56, 99, 8, 56);
    mm_chunks_drop(&d, &heap->chunks);
    for (unsigned i = 0; i < SEGMENTS; i++) ck_assert(!there[i]);
}
END_TEST

START_TEST(pieces) { /* pieces are halved until the driver accepts them */
    create_most = 4 * MM_SEGMENT_BYTES;
    grows(9, 16, 0, 16);
    ck_assert_uint_eq(heap->chunks.count, 4);
    creates = 2;
    grows(12, 12, 0, 0); /* the third piece of three segments is refused: the other two are unmapped again */
    ck_assert_uint_eq(mapped(), 16);
    ck_assert_uint_eq(heap->chunks.count, 4);
    creates = 2;
    grows(5, 12, 16, 6); /* two pieces are enough */
    open_fails = true, creates = UINT64_MAX;
    grows(1, 4, 0, 0);
    ck_assert_uint_eq(mapped(), 22);
}
END_TEST

START_TEST(metadata_in_pieces) { /* fixed metadata may be mapped in pieces; of segments fewer may do, so the caller decides */
    struct mm_host_stretch *s = heap->chunks.metadata;
    s->fixed_bytes = 5 * PAGE, s->bytes = 9 * PAGE;
    create_most = 2 * PAGE;
    ck_assert(mm_chunks_try_describe(&d, &heap->chunks, 0, &error));
    ck_assert_uint_eq(metadata_there[0], 5 * PAGE);
    ck_assert(s->count == 3 && s->end[0] == 2 * PAGE && s->end[1] == 4 * PAGE && s->end[2] == 5 * PAGE);
    create_most = PAGE;
    ck_assert(!mm_chunks_try_describe(&d, &heap->chunks, 2 * PAGE / EACH(0), &error));
    ck_assert_uint_eq(metadata_there[0], 5 * PAGE);
    ck_assert(mm_chunks_try_describe(&d, &heap->chunks, PAGE / EACH(0), &error));
    ck_assert_uint_eq(metadata_there[0], 6 * PAGE);
    create_most = PAGE / 2;
    ck_assert(!mm_chunks_try_describe(&d, &heap->chunks, 2 * PAGE / EACH(0), &error));
}
END_TEST

START_TEST(spare) {
    struct mm_host_chunks *c = &heap->chunks;
    create_most = 2 * MM_SEGMENT_BYTES;
    grows(16, 16, 0, 16); /* eight chunks of two */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 16}, false);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 1, 1).count, 0);
    mm_chunks_set_spare(c, (struct mm_host_segments){2, 2}, true);
    mm_chunks_set_spare(c, (struct mm_host_segments){6, 4}, true);
    struct mm_host_segments got = mm_chunks_find_spare(c, 1, 1);
    ck_assert(got.first == 2 && got.count == 2);
    got = mm_chunks_find_spare(c, 3, 1);
    ck_assert(got.first == 6 && got.count == 4);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 5, 1).count, 0);
    ck_assert_uint_eq(mm_chunks_unmap(&d, c, 2, &error), 2 * MM_SEGMENT_BYTES); /* 4 and 5 */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 16}, true);
    got = mm_chunks_find_spare(c, 5, 1);
    ck_assert_msg(got.first == 6 && got.count == 10, "a row goes on across what is not there");
}
END_TEST

START_TEST(alignments) { /* USER is a multiple of all of them */
    struct mm_host_chunks *c = &heap->chunks;
    grows(3, 3, 0, 3);
    struct mm_host_segments got = mm_chunks_grow(&d, c, 2, 5, 8, &error);
    ck_assert(got.first == 8 && got.count == 5);
    got = mm_chunks_grow(&d, c, 1, 1, 4, &error); /* in the gap, at an aligned place; the segment before it is not mapped */
    ck_assert(got.first == 4 && got.count == 1);
    ck_assert_uint_eq(mapped(), 9);
    ck_assert_uint_eq(mm_chunks_grow(&d, c, 33, 40, 32, &error).count, 0); /* only 32 segments from 32 on */
    ck_assert_uint_eq(mm_chunks_grow(&d, c, 1, 1, 64, &error).count, 0);   /* the only aligned segment is taken */
    ck_assert_uint_eq(mapped(), 9);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 1, 16).count, 3); /* segment 0 */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 3}, false);
    got = mm_chunks_find_spare(c, 1, 8);
    ck_assert(got.first == 8 && got.count == 5);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 6, 8).count, 0);
    c->user += 3 * MM_SEGMENT_BYTES; /* the heap's base need not have that alignment */
    got = mm_chunks_find_spare(c, 1, 4);
    ck_assert(got.first == 8 && got.count == 5); /* at 9 */
    c->user -= 3 * MM_SEGMENT_BYTES;
}
END_TEST

START_TEST(pages_of_several_segments) { /* pages of four segments: chunks begin and end at page boundaries */
    struct mm_host_chunks *c = &heap->chunks;
    c->unit = 4, create_most = 8 * MM_SEGMENT_BYTES;
    grows(1, 1, 0, 4);
    grows(3, 9, 4, 12);
    ck_assert_uint_eq(c->count, 3);
    create_most = 4 * MM_SEGMENT_BYTES - 1; /* less than a page is not tried */
    grows(1, 4, 0, 0);
    create_most = UINT64_MAX;
    const struct mm_host_segments got = mm_chunks_grow(&d, c, 5, 5, 2, &error);
    ck_assert(got.first == 16 && got.count == 8);
    free_now = 6 * (MM_SEGMENT_BYTES + 1); /* room for one page, not two */
    ck_assert(mm_grower_more(&d, heap, 5, 0, 1).count == 0);
    const struct mm_host_segments more = mm_grower_more(&d, heap, 1, 0, 1);
    ck_assert(more.first == 24 && more.count == 4);
    ck_assert_uint_eq(mapped(), 28);
    for (unsigned i = 0; i < c->count; i++) ck_assert(c->chunk[i].first % 4 == 0 && c->chunk[i].count % 4 == 0);
}
END_TEST

/* A heap grows by a fraction of its mapped size, at least by the minimum step and by the hoped number. */
START_TEST(steps) {
    for (uint64_t had = 0; had < SEGMENTS / 4; had += MM_HOST_STEP_SEGMENTS_MIN)
        ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 0, 1).count, MM_HOST_STEP_SEGMENTS_MIN);
    ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 20, 1).count, 20);
    heap->chunks.mapped_count = MM_HOST_STEP_PART * 24, heap->ceiling_segments = 1000; /* as if that many were mapped */
    ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 0, 1).count, 24);
}
END_TEST

/* The metadata of a step of several chunks are mapped together; if the driver refuses that, chunk by chunk. */
START_TEST(metadata_of_a_step) {
    struct mm_host_chunks *c = &heap->chunks;
    c->segment_count = MANY;
    for (int k = 0; k < MM_STRETCHES; k++) c->metadata[k].bytes = 64 * PAGE, c->metadata[k].fixed_bytes = 0;
    if (_i) create_most = MM_HOST_CHUNK_SEGMENTS_MAX * EACH(MM_STRETCHES) + PAGE, create_least = MM_HOST_CHUNK_SEGMENTS_MAX * MM_SEGMENT_BYTES;
    const struct mm_host_segments got = mm_chunks_grow(&d, c, 1, MANY, 1, &error);
    ck_assert(got.first == 0 && got.count == MANY);
    ck_assert_uint_eq(c->count, MANY / MM_HOST_CHUNK_SEGMENTS_MAX);
    for (int k = 0; k < MM_STRETCHES; k++) ck_assert_uint_eq(c->metadata[k].count, _i ? MANY / MM_HOST_CHUNK_SEGMENTS_MAX : 1);
}
END_TEST

START_TEST(devices) {
    grows(2, 2, 0, 2);
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, true, &error));
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, true, &error));
    ck_assert_uint_eq(heap->chunks.access.count, 2);
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, false, &error));
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, false, &error));
    ck_assert_uint_eq(heap->chunks.access.count, 1);
    for (int i = 1; i < MM_VM_DEVICES_MAX; i++) ck_assert(mm_chunks_try_access(&d, &heap->chunks, i, true, &error));
    ck_assert(!mm_chunks_try_access(&d, &heap->chunks, 99, true, &error));
}
END_TEST

/* ---- the grower ---- */

START_TEST(answers) {
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 3);
    const uint64_t first = answer_soon(0);
    ck_assert_uint_eq(first, mm_answer_make(1, 0, MM_HOST_STEP_SEGMENTS_MIN));
    ask(2, SEGMENTS);
    ck_assert_uint_eq(answer_soon(first), mm_answer_make(2, 0, 0)); /* not that many are left */
    ck_assert(mm_grower_try_stop(heap));
    ck_assert(heap->refusal[0]);
}
END_TEST

START_TEST(closed_stays_closed) { /* a request was pending; its answer must not follow the closing */
    heap->shared->mailbox.answer = MM_ANSWER_CLOSED;
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 1);
    sleep_ms(100);
    ck_assert_uint_eq(answer(), MM_ANSWER_CLOSED);
    ck_assert(mm_grower_try_stop(heap));
    for (unsigned i = 0; i < heap->chunks.count; i++) ck_assert(heap->chunks.chunk[i].is_spare);
}
END_TEST

START_TEST(waits_for_the_program) {
    mm_grower_holds = 1;
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 1);
    sleep_ms(100);
    ck_assert_uint_eq(answer(), 0);
    __atomic_store_n(&mm_grower_holds, 0, __ATOMIC_RELEASE);
    ck_assert_uint_ne(answer_soon(0), 0);
    __atomic_store_n(&mm_grower_holds, 1, __ATOMIC_RELEASE); /* and not forever */
    const uint64_t before = answer();
    ask(2, 1);
    ck_assert_uint_ne(answer_soon(before), before);
    mm_grower_holds = 0;
    ck_assert(mm_grower_try_stop(heap));
}
END_TEST

int main(void) {
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("memory");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, rows);
    tcase_add_test(c, pieces);
    tcase_add_test(c, metadata_in_pieces);
    tcase_add_test(c, spare);
    tcase_add_test(c, alignments);
    tcase_add_test(c, pages_of_several_segments);
    tcase_add_test(c, steps);
    tcase_add_loop_test(c, metadata_of_a_step, 0, 2);
    tcase_add_test(c, devices);
    tcase_add_test(c, answers);
    tcase_add_test(c, closed_stays_closed);
    tcase_add_test(c, waits_for_the_program);
    suite_add_tcase(s, c);
    return suite_run(s);
}
