/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Blocks: slices that come back, are used again, and make a block whole: counts, hints, reusers, stale ones. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 2
#ifdef UNIT_FEW
#define ROUNDS 2
#else
#define ROUNDS 6
#endif

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    h = mm_heap_of(ref);
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static struct mm_segment *at(uint32_t s) { return mm_segment_at(ref, s); }
static struct mm_blocks *of(uint32_t s) { return mm_segment_blocks(ref, s); }
static uint64_t counts(uint32_t j) { return of(0)->words[j] & (MM_WORDS_LIFE - 1); }
static int is_avail(uint32_t j) { return (int)(at(0)->avail >> j & 1); }
static int is_listed(uint32_t c) { return (int)(*mm_tree_leaf(mm_segment_class_tree(&h->ref, c, MM_AVAIL), 0) & 1); }
static void free_one(uint32_t c, uint32_t i) { mm_block_free_bits(ref, 0, c, i / 64, 1ull << (i % 64)); }

/* Hands out all slices of segment 0, in order, so that each is live. Returns how many. */
static uint32_t issue_all(uint32_t c) {
    const uint32_t slices = mm_class_slices(c);
    uint32_t slice;
    for (uint32_t i = 0; i < slices; i++) {
        unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
        unit_eq(slice, i);
    }
    unit_eq(at(0)->unissued & mm_class_blocks_mask(c), 0);
    unit_eq(at(0)->avail, 0);
    return slices;
}
/* Frees what is not free yet. */
static void free_rest(uint32_t c) {
    for (uint32_t i = 0; i < mm_class_slices(c); i++)
        if (at(0)->owner == c + 1 && !(mm_segment_bits(ref, 0)[i / 64] >> (i % 64) & 1) &&
            !(at(0)->unissued >> (i >> mm_class_block_shift(c)) & 1))
            free_one(c, i);
    unit_fresh(&heap, SEGMENTS);
}

/* What a free adds to the counts of its block, for every word as it was. */
START_TEST(change_of_counts) {
    uint64_t seed = 4;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t last = (mm_class_slices(c) - 1) / 64;
        for (int i = 0; i < 400; i++) {
            const uint32_t word = i % 2 ? last : 0;
            const uint64_t all = mm_class_word_mask(ref->classes[c], word);
            const uint64_t old = (i % 5 == 0 ? 0 : i % 5 == 1 ? all : i % 5 == 2 ? all & ~1ull : unit_random(&seed)) & all;
            const uint64_t mask = i % 7 == 0 ? all & ~old : i % 7 == 1 ? all : 1ull << unit_random(&seed) % mm_popcount(all);
            if (mask == 0) continue;
            const uint64_t now = old | mask;
            unit_eq(mm_block_change(ref->classes[c], word, mm_popcount(old), mm_popcount(mask & ~old)), (old == 0) + (now == all && old != all) * MM_WORDS_FULL);
        }
    }
}
END_TEST

/* Every slice comes back, in three orders: counts, avail and its tree go along; the last one makes its block whole, and the
 * last block the segment nobody's. */
START_TEST(counts_go_along) {
    const uint32_t c = (uint32_t)_i % MM_CLASS_COUNT, order = (uint32_t)_i / MM_CLASS_COUNT, slices = issue_all(c);
    const uint32_t shift = mm_class_block_shift(c);
    uint32_t stride = order == 0 ? 1 : order == 1 ? slices - 1 : slices / 2 * 2 - 61;
    while (order == 2 && (stride > slices || slices % 3 == 0 || slices % 7 == 0)) { /* any that has no divisor in common */
        uint32_t a = slices, b = stride %= slices;
        while (b) {
            const uint32_t r = a % b;
            a = b, b = r;
        }
        if (a == 1) break;
        stride++;
    }
    uint8_t *back = (uint8_t *)calloc(slices, 1);
    uint32_t *left = (uint32_t *)calloc(mm_class_blocks(c), 4);
    for (uint32_t i = 0; i < slices; i++) left[i >> shift]++;
    for (uint32_t n = 0, i = 0; n < slices; n++, i = (i + stride) % slices) {
        if (back[i]) break; /* the stride had a divisor in common after all */
        const uint32_t j = i >> shift;
        const uint64_t version = mm_version_read(h), life = of(0)->words[j] / MM_WORDS_LIFE;
        free_one(c, i);
        back[i] = 1, left[j]--;
        if (left[j] == 0) {
            unit_eq(counts(j) | (of(0)->opener[j] != 0), 0);
            unit_eq(of(0)->words[j] / MM_WORDS_LIFE, life + 1);
            unit_lt(version, mm_version_read(h));
            if (at(0)->owner == MM_OWNER_NOBODY) continue;
            unit_eq(at(0)->unissued >> j & at(0)->whole >> j & 1, 1);
            unit_eq(is_avail(j), 0);
            continue;
        }
        unit_eq(is_avail(j) & is_listed(c), 1);
        unit_eq(at(0)->unissued >> j & 1, 0);
        if (n % 1021 != 0 && left[j] > 2) continue;
        uint32_t some = 0, full = 0;
        const uint32_t first = mm_block_first_word(ref->classes[c], j), end = first + mm_class_block_words(ref->classes[c], j);
        for (uint32_t word = first; word < end; word++) {
            const uint64_t bits = mm_segment_bits(ref, 0)[word];
            some += bits != 0, full += bits == mm_class_word_mask(ref->classes[c], word);
        }
        unit_eq(counts(j), some + full * MM_WORDS_FULL);
    }
    free_rest(c);
    unit_eq(unit_misuses(&heap), 0);
    free(back), free(left);
}
END_TEST

/* Whatever pattern came back is used again, all of it and nothing else, by so many at once; then avail is empty. */
START_TEST(reuse_of_patterns) {
    static const uint32_t classes[] = {0, 1, 3, 7, 12, 20, 40, 43, 47, 52, 60, 63};
    const uint32_t c = classes[_i % 12], most = 1u << (uint32_t)_i / 12, slices = issue_all(c);
    uint8_t *back = (uint8_t *)malloc(slices);
    uint64_t seed = (uint64_t)_i + 1;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = 0, got = 0, tries = 0;
        memset(back, 0, slices);
        for (uint32_t i = 0; i + 1 < slices; i++) { /* the last one of each block stays, or it would be whole */
            if ((i + 1) % (1u << mm_class_block_shift(c)) == 0) continue;
            const uint64_t r = unit_random(&seed);
            back[i] = round == 0 || (round == 1 && i % 64 < 63) || (round == 2 && i / 64 % 2) || (round >= 3 && r % 8 < 1u << (round - 3));
            if (back[i]) free_one(c, i), n++;
        }
        unit_sound(&heap, (uint64_t)(slices - n) * mm_class_bytes(c));
        while (got < n) {
            const mm_claim claim = mm_block_reuse(ref, 0, c, most, (uint32_t)unit_random(&seed));
            const uint32_t count = mm_claim_count(claim);
            unit_le(count, most);
            unit_holds(count != 0 || tries++ < 64, "%u of %u not found", n - got, n);
            for (uint32_t k = 0; k < count; k++) {
                const uint64_t i = mm_claim_slice(claim, k);
                unit_holds(i < slices && back[i], "slice %u is not one that came back", (uint32_t)i);
                unit_eq(mm_segment_bits(ref, 0)[i / 64] >> (i % 64) & 1, 0);
                back[i] = 0;
            }
            got += count;
            if (got * 4 / n != (got - count) * 4 / n) unit_sound(&heap, (uint64_t)(slices - n + got) * mm_class_bytes(c));
        }
        unit_sound(&heap, (uint64_t)slices * mm_class_bytes(c));
        unit_eq(mm_block_reuse(ref, 0, c, most, 1), 0);
        unit_eq(at(0)->avail, 0);
        for (uint32_t j = 0; j < mm_class_blocks(c); j++) unit_eq(counts(j), 0);
    }
    free_rest(c);
    free(back);
}
END_TEST

/* All at once, up to 32 from one half word: as many as wanted if they are there. */
START_TEST(reuse_takes_as_many_as_it_can) {
    const uint32_t c = mm_class_of(64);
    issue_all(c);
    for (uint32_t n = 1; n <= 32; n++)
        for (uint32_t half = 0; half < 2; half++) {
            mm_block_free_bits(ref, 0, c, 5, 0xffffffffull << half * 32);
            const mm_claim claim = mm_block_reuse(ref, 0, c, n, 3);
            unit_eq(mm_claim_count(claim), n);
            unit_eq(mm_claim_slice(claim, 0), 5 * 64 + half * 32);
            uint32_t rest = n;
            while (rest < 32) rest += mm_claim_count(mm_block_reuse(ref, 0, c, 32, 3));
            unit_eq(at(0)->avail, 0);
        }
    free_rest(c);
}
END_TEST

/* A block with slices not handed out gives none; who hands out the last one offers those that have come back. */
START_TEST(offered_when_all_handed_out) {
    const uint32_t c = mm_class_of(64), per = 1u << mm_class_block_shift(c);
    uint32_t slice;
    for (uint32_t i = 0; i + 1 < per; i++) unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
    for (uint32_t i = 0; i < 10; i++) free_one(c, 3 * i);
    for (uint32_t salt = 0; salt < 5; salt++) {
        unit_eq(mm_block_reuse(ref, 0, c, 1, salt), 0);
        unit_eq(is_avail(0), 0);
        unit_sound(&heap, (uint64_t)(per - 11) * 64);
    }
    unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
    unit_eq(slice, per - 1);
    unit_eq(is_avail(0) & is_listed(c), 1);
    uint32_t got = 0;
    while (got < 10) {
        const mm_claim claim = mm_block_reuse(ref, 0, c, 4, got);
        unit_holds(claim != 0, "not found");
        got += mm_claim_count(claim);
    }
    unit_sound(&heap, (uint64_t)per * 64);
}
END_TEST

/* Freed again: the bit is there, nothing is counted; also after the block became whole, and was opened again. */
START_TEST(double_frees) {
    const uint32_t c = mm_class_of(1024), per = 1u << mm_class_block_shift(c), slices = issue_all(c);
    const uint64_t base = ref->user_base, bytes = mm_class_bytes(c);
    for (uint32_t i = 0; i + 1 < per; i++) {
        mm_heap_free(ref, (void *)(base + i * bytes));
        const uint64_t words = of(0)->words[0];
        unit_free(&heap, (void *)(base + i * bytes), MM_MISUSE_DOUBLE_FREE, (uint64_t)(slices - i - 1) * bytes, "again");
        unit_eq(of(0)->words[0], words);
    }
    mm_heap_free(ref, (void *)(base + (per - 1) * bytes));
    unit_eq(at(0)->whole, 1);
    uint64_t live = (uint64_t)(slices - per) * bytes;
    for (uint32_t i = 0; i < per; i += 7) unit_free(&heap, (void *)(base + i * bytes), MM_MISUSE_NOT_ALLOCATED, live, "of a whole block");
    for (uint32_t i = per; i < 3 * per; i++) mm_heap_free(ref, (void *)(base + i * bytes));
    live -= 2 * per * bytes;
    unit_ring_from(ref, c, MM_STRIPES, 1u << ref->classes[c].row_lot_shift);
    mm_heap_of(ref)->classes[c].whole_row = 1; /* the next lot is to be of whole blocks */
    uint32_t slice;
    unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
    unit_eq(slice, 0);
    live += bytes;
    for (uint32_t i = 1; i < per; i += 7) unit_free(&heap, (void *)(base + i * bytes), MM_MISUSE_NEVER, live, "of an opened block");
    unit_free(&heap, (void *)base, 0, live - bytes, "of an opened block");
    unit_free(&heap, (void *)base, MM_MISUSE_DOUBLE_FREE, live - bytes, "of an opened block");
}
END_TEST

static uint32_t step, inject_at, inject_class;
static int inject_what;
static void inject(void) {
    uint32_t slice;
    const uint32_t c = inject_class, slices = mm_class_slices(c);
    switch (inject_what) {
    case 0: /* the block's last live slice comes back */ free_one(c, slices - 1); break;
    case 1: /* another one, too, and all are used again */
        free_one(c, slices - 1);
        while (mm_block_reuse(ref, 0, c, 32, 0) != 0) continue;
        break;
    case 2: /* and the segment becomes another class's, all of its slices come back but one */
        free_one(c, slices - 1);
        if (at(0)->owner != MM_OWNER_NOBODY) break;
        mm_cpu_heap_drain_quiescent(&heap);
        inject_class = c + 1;
        for (uint32_t i = 0; i < mm_class_slices(c + 1); i++) unit_eq(unit_take(ref, c + 1, 1, 0, &slice), 1);
        for (uint32_t i = 1; i < mm_class_slices(c + 1); i++) free_one(c + 1, i);
        break;
    case 3: /* is used again */ mm_block_reuse(ref, 0, c, 32, 1); break;
    }
}
static void inject_at_step(void) {
    if (step++ != inject_at) return;
    unit_each_step = NULL;
    inject();
    unit_each_step = inject_at_step;
}

/* At every step of a reuse something happens to the block: nothing is lost, nothing comes twice, the block becomes whole if
 * all of it is free at the end. */
START_TEST(reuse_while_it_changes) {
    static const uint32_t classes[] = {39, 40, 43, 52}; /* blocks that are segments; of one word, or less */
    for (int k = 0; k < 4; k++)
        for (inject_what = 0; inject_what < 4; inject_what++)
            for (inject_at = 0; inject_at < 24; inject_at++)
                for (uint32_t n = 1; n <= 32; n = n * 4 + 1) {
                    const uint32_t c = inject_class = classes[k], slices = issue_all(c);
                    for (uint32_t i = 0; i + 1 < slices; i++)
                        if (i % 3 != 1 || inject_what != 3) free_one(c, i);
                    step = 0, unit_each_step = inject_at_step;
                    const mm_claim claim = mm_block_reuse(ref, 0, c, n, inject_at);
                    unit_each_step = NULL;
                    for (uint32_t i = 0; i < mm_claim_count(claim); i++) {
                        const uint64_t slice = mm_claim_slice(claim, i);
                        unit_eq(mm_segment_bits(ref, 0)[slice / 64] >> (slice % 64) & 1, 0);
                    }
                    unit_sound(&heap, UNIT_ANY);
                    free_rest(inject_class);
                }
}
END_TEST

static uint32_t others; /* slices 1 to others - 1 */
static void free_others(void) {
    for (uint32_t i = 1; i < others; i++) free_one(inject_class, i);
}
static void free_others_at_step(void) {
    if (step++ != inject_at) return;
    unit_each_step = NULL;
    free_others();
    unit_each_step = free_others_at_step;
}

/* While one offers the block whose first slice has come back, all others do: no hint leads to a block that is whole, or to a
 * segment that is nobody's. */
START_TEST(no_hint_is_left_behind) {
    const uint32_t c = inject_class = mm_class_of(1024), per = 1u << mm_class_block_shift(c);
    for (int all = 0; all < 2; all++)
        for (inject_at = 0; inject_at < 40; inject_at++) {
            const uint32_t slices = issue_all(c);
            others = all ? slices : per;
            step = 0, unit_each_step = free_others_at_step;
            free_one(c, 0);
            unit_each_step = NULL;
            if (step <= inject_at) free_others();
            unit_eq(at(0)->owner, all ? MM_OWNER_NOBODY : c + 1);
            unit_eq(at(0)->whole, !all);
            unit_holds(at(0)->avail == 0 && !(all && is_listed(c)), "avail %u, listed %d, step %u", (uint32_t)at(0)->avail,
                       is_listed(c), inject_at);
            free_rest(c);
        }
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* it does not know the stacks of actors */
/* A reuser of class `from` stands still twice: block j, which it found listed, becomes whole at the first stop; at the second the
 * segment comes back and block j is circulated for class `to`. Nobody else holds what the reuser gets, and the heap counts as many
 * bytes as are held: between most classes that is all the heap's checker can see of a double hand-out. */
static uint32_t looking_for;
static mm_claim found;
static void look_for_slices(void *arg) {
    (void)arg;
    found = mm_block_reuse(ref, 0, looking_for, 1, 0);
}
static void *circulate(uint32_t c) {
    const mm_claim claim = mm_stripe_circulate(ref, c, 1, 0);
    unit_holds(claim != 0, "no block of class %u to circulate", c);
    return (void *)(ref->user_base + mm_claim_offset(ref->classes[c], claim, 0));
}
static void reuse_beside_a_change(uint32_t from, uint32_t to, uint32_t j, int first_stop, int second_stop) {
    void *old[MM_SEGMENT_BLOCKS_MAX], *fresh[MM_SEGMENT_BLOCKS_MAX];
    for (uint32_t i = 0; i < j + 2; i++) old[i] = circulate(from); /* the first slice of each block; the others have come back */
    for (uint32_t i = 0; i < j; i++) mm_heap_free(ref, old[i]);
    looking_for = from, found = 0;
    unit_actor_make(0, look_for_slices, NULL);
    unit_go(0, first_stop);
    mm_heap_free(ref, old[j]);
    unit_go(0, second_stop);
    mm_heap_free(ref, old[j + 1]);
    for (uint32_t i = 0; i < j + 1; i++) fresh[i] = circulate(to);
    while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
    uint64_t live = (uint64_t)(j + 1) * mm_class_bytes(to);
    char *const p = (char *)ref->user_base + mm_claim_offset(ref->classes[from], found, 0);
    for (uint32_t i = 0; i < j + 1 && found; i++)
        unit_holds(p + mm_class_bytes(from) <= (char *)fresh[i] || (char *)fresh[i] + mm_class_bytes(to) <= p,
                   "classes %u, %u, stops after %d and %d steps: handed out twice", from, to, first_stop, second_stop);
    unit_sound(&heap, live + (found ? mm_class_bytes(from) : 0));
    if (found) mm_heap_free(ref, p);
    for (uint32_t i = 0; i < j + 1; i++) mm_heap_free(ref, fresh[i]);
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(reuse_while_its_segment_changes_hands) {
    static const uint32_t bytes[][2] = {{64, 4096}, {512, 48}, {1024, 256}, {64, 128}, {16, 64}, {64, 16}};
    const uint32_t from = mm_class_of(bytes[_i][0]), to = mm_class_of(bytes[_i][1]);
    for (uint32_t j = 0; j < 2 && j < mm_class_blocks(to); j++)
        for (int first_stop = 0; first_stop < 12; first_stop++)
            for (int second_stop = 0; second_stop < 12; second_stop++) reuse_beside_a_change(from, to, j, first_stop, second_stop);
}
END_TEST
#endif

/* A reuser that comes to a block of another class, of a run, or of nobody, leaves no trace. */
START_TEST(stale_reusers) {
    const uint32_t c = mm_class_of(1024);
    for (int k = 0; k < 4; k++) {
        void *p = k == 0 ? NULL : k == 1 ? mm_heap_malloc(ref, MM_SEGMENT_BYTES * SEGMENTS) : mm_heap_malloc(ref, k == 2 ? 16 : MM_SLICE_BYTES_MAX);
        for (uint32_t j = 0; j < 64; j++) {
            at(0)->avail |= 1ull << j; /* by one who came late */
            mm_tree_insert(mm_segment_class_tree(&h->ref, c, MM_AVAIL), 0);
            const uint64_t words = of(0)->words[j], owner = at(0)->owner;
            unit_eq(mm_block_reuse(ref, 0, c, 32, j), 0);
            unit_eq(of(0)->words[j], words);
            unit_eq(at(0)->owner, owner);
            unit_eq(at(0)->avail, 0);
        }
        unit_sound(&heap, UNIT_ANY);
        mm_heap_free(ref, p);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("block");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, change_of_counts);
    tcase_add_loop_test(tests, counts_go_along, 0, 3 * MM_CLASS_COUNT);
    tcase_add_loop_test(tests, reuse_of_patterns, 0, 12 * 6);
    tcase_add_test(tests, reuse_takes_as_many_as_it_can);
    tcase_add_test(tests, offered_when_all_handed_out);
    tcase_add_test(tests, double_frees);
    tcase_add_test(tests, reuse_while_it_changes);
    tcase_add_test(tests, no_hint_is_left_behind);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_loop_test(tests, reuse_while_its_segment_changes_hands, 0, 6);
#endif
    tcase_add_test(tests, stale_reusers);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
