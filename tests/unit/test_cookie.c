/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Room in front of an allocation: what is stored there is harmless, and free and usable size recognise such a pointer. */
#include "runtime/checked/cookie.h"
#include "tests/unit/support.h"

#define SEGMENTS 24

static struct mm_cpu_heap heap;

static void set_up(void) { unit_create(&heap, SEGMENTS); }
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }
/* Tests that run in a loop: 1: a closed heap, whose calls all go through closed.h; 2: all but the first segment is beyond open_bytes; 3: and the fast path of free
 * has not seen that the heap has grown. */
static int is_late;
static void set_closed(int how) {
    heap.ref.open_bytes = how == 1 ? 0 : how >= 2 ? MM_SEGMENT_BYTES : heap.ref.user_bytes;
    is_late = how == 3;
}

/* As in runtime/device.cu. */
static void *plain(uint64_t bytes) { return heap.ref.open_bytes ? mm_heap_malloc(&heap.ref, bytes) : mm_closed_malloc(&heap.ref, bytes); }
static char *roomy(uint64_t bytes) { return (char *)mm_cookie_put(plain(mm_cookie_bytes(bytes, MM_COOKIE_SHIFT)), MM_COOKIE_SHIFT); }
static char *aligned(uint64_t bytes, uint64_t align) {
    const uint32_t shift = mm_cookie_shift(align);
    return (char *)mm_cookie_put(mm_heap_aligned_malloc(&heap.ref, mm_cookie_bytes(bytes, shift), align), shift);
}
static void give_back(void *p) {
    const int is_far = is_late && (uint64_t)(uintptr_t)p - heap.ref.user_base >= heap.ref.open_bytes;
    const uint64_t left = is_far ? mm_deferred_foreign((uint64_t)(uintptr_t)p) : mm_heap_release(&heap.ref, p);
    if (left) mm_cookie_free_other(&heap.ref, left);
}

static void store_count(char *p, uint64_t n) { memcpy(p - 8, &n, sizeof n); }

static const uint64_t sizes[] = {
    0, 1, 16, 32, 48, 64, 100, 1024, 10000, MM_SLICE_BYTES_MAX - 16, MM_SLICE_BYTES_MAX, 5 * MM_PAGE_BYTES, 300000, 3 * MM_SEGMENT_BYTES};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A count is stored in front of each allocation, and the bytes of all others stay intact. */
START_TEST(counts_harm_nobody) {
    enum { N = 3 };
    set_closed(_i);
    for (int k = 0; k < SIZES; k++) {
        char *roomy_one[N], *plain_one[N];
        for (int i = 0; i < N; i++) {
            roomy_one[i] = roomy(sizes[k]), plain_one[i] = (char *)plain(sizes[k]);
            unit_holds(roomy_one[i] && plain_one[i] && (uintptr_t)roomy_one[i] % 16 == 0, "%llu bytes", (unsigned long long)sizes[k]);
            memset(roomy_one[i], 'r', sizes[k]), memset(plain_one[i], 'p', sizes[k]);
        }
        for (int i = 0; i < N; i++) store_count(roomy_one[i], ~0ull);
        for (int i = 0; i < N; i++)
            for (uint64_t b = 0; b < sizes[k]; b += sizes[k] / 64 + 1)
                unit_holds(roomy_one[i][b] == 'r' && plain_one[i][b] == 'p', "%llu bytes: changed", (unsigned long long)sizes[k]);
        for (int i = 0; i < N; i++) give_back(roomy_one[i]), give_back(plain_one[i]);
    }
    unit_eq(unit_misuses(&heap), 0);
    set_closed(0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(alignments) {
    for (uint64_t align = 1; align <= MM_SLICE_BYTES_MAX; align *= 2) {
        char *p = aligned(100, align), *q = aligned(100, align);
        unit_holds(p && q && (uintptr_t)p % align == 0 && (uintptr_t)q % align == 0, "aligned to %llu", (unsigned long long)align);
        store_count(p, 7), store_count(q, 7);
        unit_le(100, mm_cookie_usable_size(&heap.ref, p));
        give_back(p), give_back(q);
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(usable_sizes) {
    set_closed(_i);
    for (int k = 0; k < SIZES; k++) {
        char *p = roomy(sizes[k]), *q = (char *)plain(sizes[k]);
        const uint64_t bytes = mm_cookie_usable_size(&heap.ref, p);
        unit_le(sizes[k], bytes);
        unit_eq(bytes, mm_closed_usable_size(&heap.ref, p - MM_COOKIE_BYTES) - MM_COOKIE_BYTES);
        unit_eq(mm_cookie_usable_size(&heap.ref, q), mm_closed_usable_size(&heap.ref, q));
        unit_eq(mm_cookie_usable_size(&heap.ref, p + 16), 0);
        give_back(p), give_back(q);
        unit_eq(mm_cookie_usable_size(&heap.ref, p), 0);
    }
}
END_TEST

/* No huge size wraps around to a small one. */
START_TEST(nothing_for_too_much) {
    for (uint64_t less = 0; less < 40; less++) unit_holds(roomy(~0ull - less) == NULL, "2^64 - %llu bytes", (unsigned long long)less + 1);
    unit_eq(mm_cookie_bytes(~0ull - 15, 4), ~0ull);
    unit_eq(mm_cookie_bytes(~0ull - 16, 4), ~0ull);
    unit_eq(mm_cookie_bytes(~0ull - 17, 4), ~0ull - 1);
}
END_TEST

static uint64_t count_of(enum mm_misuse kind) { return mm_cpu_misuse_count(&heap, kind); }

/* Misuse of pointers without room in front is misuse with it, too. */
START_TEST(misuse) {
    char *p = roomy(100), *other = roomy(100), *q = (char *)plain(100), *run = roomy(2 * MM_SEGMENT_BYTES);
    give_back(p + 16), give_back(p - 8), give_back(q + 16), give_back(run + 16), give_back(run + MM_SEGMENT_BYTES);
    unit_eq(count_of(MM_MISUSE_INTERIOR) + count_of(MM_MISUSE_NOT_ALLOCATED), 5);
    unit_eq(unit_misuses(&heap), 5);
    give_back(p);
    unit_eq(unit_misuses(&heap), 5);
    give_back(p);
    unit_eq(count_of(MM_MISUSE_DOUBLE_FREE), 1);
    give_back(other), give_back(q), give_back(run);
    unit_eq(unit_misuses(&heap), 6);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* An old seal just before an allocation's beginning does not count as its seal, in a closed heap either. */
START_TEST(old_seals) {
    set_closed(_i);
    heap.ref.spacing_mask = 0;
    enum { MANY = 4 * MM_PAGE_BYTES / 16 };
    static char *some[MANY];
    char *a = NULL, *b = NULL;
    for (int i = 0; i < MANY && !b; i++) { /* until two are neighbours, in any shards */
        some[i] = (char *)plain(16);
        for (int k = 0; k < i && !b; k++)
            if (some[k] - some[i] == 16 || some[i] - some[k] == 16) a = some[k] < some[i] ? some[k] : some[i], b = a + 16;
    }
    ck_assert(b != NULL);
    const uint64_t seal = mm_cookie_seal((uintptr_t)b, MM_COOKIE_SHIFT);
    memcpy(a, &seal, sizeof seal);
    unit_eq(mm_cookie_usable_size(&heap.ref, b), mm_closed_usable_size(&heap.ref, b));
    give_back(b);
    unit_lt(0, mm_closed_usable_size(&heap.ref, a));
    give_back(a);
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* Whether free considers a seal written in front of p that leads to p - 16. */
static int is_looked_at(char *p) {
    const uint64_t seal = mm_cookie_seal((uintptr_t)p, MM_COOKIE_SHIFT);
    memcpy(p - 16, &seal, sizeof seal);
    const uint64_t start = mm_cookie_start(&heap.ref, (uintptr_t)p);
    ck_assert(start == 0 || start == (uintptr_t)p - 16);
    return start != 0;
}

/* Addresses outside the heap, before and after everything, and unowned segments and pages: nothing is read there. */
START_TEST(far_away) {
    const uint64_t end = heap.ref.user_base + heap.ref.user_bytes, bad[] = {0, 16, heap.ref.user_base, heap.ref.user_base - 16, end, end + 16, ~0ull - 15};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) unit_eq(mm_cookie_start(&heap.ref, bad[i]), 0);
    char *const base = (char *)(uintptr_t)heap.ref.user_base;
    for (uint64_t s = 0; s < SEGMENTS; s++) ck_assert(!is_looked_at(base + s * MM_SEGMENT_BYTES + 16));
    char *span = (char *)plain(5 * MM_PAGE_BYTES), *run = (char *)plain(2 * MM_SEGMENT_BYTES);
    ck_assert(is_looked_at(span + 16) && is_looked_at(span + 5 * MM_PAGE_BYTES - 16) && is_looked_at(span + 3 * MM_PAGE_BYTES));
    ck_assert(is_looked_at(span + 5 * MM_PAGE_BYTES)); /* the page that would hold the seal counts */
    ck_assert(!is_looked_at(span + 5 * MM_PAGE_BYTES + 16));
    ck_assert(is_looked_at(run + 16) && is_looked_at(run + MM_SEGMENT_BYTES + 16) && !is_looked_at(run + 2 * MM_SEGMENT_BYTES + 16));
    ck_assert(!is_looked_at(run + MM_SEGMENT_BYTES)); /* the room is never in another segment */
    for (uint32_t shift = 0; shift < 64; shift++)     /* only seals that lead into the same segment, and no further than an alignment */
        for (uint64_t in = 48; in < MM_SEGMENT_BYTES; in *= 2) {
            const uint64_t p = (uintptr_t)run + MM_SEGMENT_BYTES + in, seal = mm_cookie_seal(p, shift);
            memcpy((char *)(uintptr_t)p - 16, &seal, sizeof seal);
            unit_eq(mm_cookie_start(&heap.ref, p), shift <= MM_SLICE_SHIFT_MAX && 1ull << shift <= in ? p - (1ull << shift) : 0);
        }
    char *p = roomy(100);
    const uint64_t others = mm_cookie_seal((uintptr_t)p + 64, MM_COOKIE_SHIFT);
    memcpy(p - 16, &others, sizeof others);
    unit_eq(mm_cookie_start(&heap.ref, (uintptr_t)p), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cookie");
    TCase *tests = tcase_create("cookie");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, counts_harm_nobody, 0, 4);
    tcase_add_test(tests, alignments);
    tcase_add_loop_test(tests, usable_sizes, 0, 4);
    tcase_add_test(tests, nothing_for_too_much);
    tcase_add_test(tests, misuse);
    tcase_add_loop_test(tests, old_seals, 0, 4);
    tcase_add_test(tests, far_away);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
