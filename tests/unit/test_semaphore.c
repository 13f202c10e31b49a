/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The bulk semaphore of Ouroboros (runtime/ouroboros/semaphore.h): as many lanes as a large GPU has, and callers that wait. */
#include <math.h>

#include "tests/unit/steps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"

#define Q 3u
/* As many lanes want pages as an H200 has resident, and as many warps cut chunks: the numbers do not run into each other. The published code has 14 bits. */
START_TEST(many_reservations) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    const uint64_t lanes = 270336, pages = mm_chunk_pages(Q);
    for (uint64_t i = 0; i < lanes; i++) mm_semaphore_expect(ref, Q);
    for (uint32_t round = 0; round < 2; round++) {
        of->awaited = (uint64_t)(0u - lanes) << 32 | lanes; /* callers have wanted almost 2^32 pages */
        uint64_t cuts = 0;
        for (uint64_t i = 0; i < lanes; i += 32) {
            cuts += mm_semaphore_wants(ref, Q, 32) != 0;
            unit_eq((uint32_t)of->awaited, lanes);
        }
        unit_eq(of->awaited >> 32, 0);
        unit_eq(cuts, lanes / pages); /* each cuts a chunk as soon as all pages of the last one are wanted */
    }
    of->awaited = lanes;
    for (uint64_t i = 0; i < lanes; i++) mm_semaphore_expected(ref, Q);
    unit_eq((uint32_t)of->awaited, 0);
}
END_TEST

/* A caller that has said that it wants a page waits, with so many entries there. Returns the rights that it got. */
static uint32_t await(uint64_t awaited, uint64_t count) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    of->awaited = awaited, of->count = count, unit_waits = 0;
    const uint64_t waiters = of->waiters;
    const uint32_t rights = mm_semaphore_wait(ref, Q, 1);
    unit_eq(of->waiters, waiters);
    unit_eq(of->count, count - rights);
    return rights;
}
/* Nobody brings an entry: each wait ends. */
START_TEST(waits_in_vain) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    unit_eq(await(1ull << 32 | 1, 0), 0);
    unit_eq(unit_waits, MM_OURO_LOOKS);
    unit_eq(of->awaited >> 32, 1 + MM_OURO_LOOKS / MM_OURO_AGAIN); /* others may have taken what was cut for it: it wants it again */
    unit_eq(await((uint64_t)(0u - 1) << 32 | 1, 0), 0);
    unit_eq(unit_waits, 2 * MM_OURO_AGAIN - 1); /* with that, all pages of a chunk are wanted: it has to cut one */
    unit_eq(await(1ull << 32, 0), 0);
    unit_eq(unit_waits, MM_OURO_SHORT_LOOKS); /* nobody cuts a chunk */
}
END_TEST
/* Who wants all pages of a chunk, or the first one of the next chunk, has to cut one. */
START_TEST(has_to_cut) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    of->awaited = 5ull << 32 | 1;
    unit_eq(mm_semaphore_wants(ref, Q, mm_chunk_pages(Q)), 1);
    unit_eq(of->awaited, 5ull << 32 | 1); /* nobody else has to know */
    unit_eq(mm_semaphore_wants(ref, Q, 1), 0);
    of->awaited = 0;
    unit_eq(mm_semaphore_wants(ref, Q, 1), 1);
    unit_eq(mm_semaphore_wants(ref, Q, mm_chunk_pages(Q) - 1), 0);
    unit_eq(mm_semaphore_wants(ref, Q, 1), 1);
}
END_TEST
START_TEST(some_of_many) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    of->waiters = 7;
    for (uint32_t i = 0; i < 1000; i++) unit_eq(await(1ull << 32 | 1, 8), 1); /* enough for all */
    of->waiters = 63;
    uint32_t got = 0;
    for (uint32_t i = 0; i < 4000; i++) got += await(1ull << 32, 8) != 0;
    const double share = 1 - pow(1 - 8 / 64., MM_OURO_SHORT_LOOKS + 1);
    unit_holds(fabs(got / 4000. - share) < .03, "%g have taken, expected %g", got / 4000., share);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("semaphore");
    TCase *tests = tcase_create("semaphore");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {many_reservations, waits_in_vain, has_to_cut, some_of_many};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
