/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The bitmap tree: one thread against a plain set, stale hints, then threads. */
#include <pthread.h>

#include "tests/unit/support.h"

static const uint32_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097, 1u << 18, (1u << 18) + 1, 1u << 20};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

static struct mm_tree make_tree(uint32_t n) {
    const uint32_t leaves = (n + 63) / 64, mids = (leaves + 63) / 64, roots = (mids + 63) / 64;
    const struct mm_tree t = {(uint64_t *)calloc(roots + mids + leaves, 8), roots, mids};
    return t;
}

/* I1: a non-empty word has its bit set in the level above. exact: and an empty one has it clear. */
static void check_hints(struct mm_tree t, uint32_t n, int exact) {
    for (uint32_t leaf = 0; leaf < (n + 63) / 64; leaf++) {
        const uint64_t hint = t.node[t.roots + leaf / 64] >> (leaf % 64) & 1, is = *mm_tree_leaf(t, leaf * 64) != 0;
        unit_holds(exact ? hint == is : hint >= is, "leaf %u: empty %d, announced %d", leaf, !is, (int)hint);
    }
    for (uint32_t mid = 0; mid < t.mids; mid++) {
        const uint64_t hint = t.node[mid / 64] >> (mid % 64) & 1, is = t.node[t.roots + mid] != 0;
        unit_holds(exact ? hint == is : hint >= is, "middle word %u: empty %d, announced %d", mid, !is, (int)hint);
    }
}

static uint32_t first_of(const char *set, uint32_t n) {
    const char *at = (const char *)memchr(set, 1, n);
    return at ? (uint32_t)(at - set) : MM_TREE_NONE;
}

START_TEST(against_a_plain_set) {
    const uint32_t n = sizes[_i];
    const struct mm_tree t = make_tree(n);
    char *set = (char *)calloc(n, 1);
    uint64_t seed = n;
    for (int step = 0; step < 20000; step++) {
        const uint32_t s = (uint32_t)(unit_random(&seed) % n);
        switch (unit_random(&seed) % 6) {
        case 0:
        case 1: mm_tree_insert(t, s), set[s] = 1; break;
        case 2:
            unit_eq(mm_tree_erase(t, s), set[s]);
            set[s] = 0;
            break;
        case 3: {
            const uint32_t first = first_of(set, n);
            unit_eq(mm_tree_take(t, 0, 0), first);
            if (first != MM_TREE_NONE) set[first] = 0;
            break;
        }
        default: { /* several of one leaf */
            const int in = unit_random(&seed) % 2;
            uint64_t bits = unit_random(&seed) & unit_random(&seed), leaf = 0;
            const uint32_t base = s / 64 * 64;
            if (n - base < 64) bits &= mm_bits_low(n - base);
            if (bits == 0) bits = 1; /* an insert of none would announce an empty leaf */
            for (uint32_t i = 0; i < 64 && base + i < n; i++) {
                leaf |= (uint64_t)set[base + i] << i;
                if (bits >> i & 1) set[base + i] = (char)in;
            }
            unit_eq(in ? mm_tree_insert_bits(t, s, bits) : mm_tree_erase_bits(t, s, bits), leaf);
        }
        }
        unit_eq(*mm_tree_leaf(t, s) >> (s % 64) & 1, (uint64_t)set[s]);
        unit_eq(mm_tree_find(t, 0), first_of(set, n));
        if (step % 64 == 0) check_hints(t, n, 1);
    }
    check_hints(t, n, 1);
    free(t.node), free(set);
}
END_TEST

START_TEST(takes_in_ascending_order) {
    const uint32_t n = sizes[_i];
    const struct mm_tree t = make_tree(n);
    unit_eq(mm_tree_find(t, 0), MM_TREE_NONE);
    unit_eq(mm_tree_take(t, 0, 0), MM_TREE_NONE);
    for (uint32_t s = n; s-- > 0;) {
        mm_tree_insert(t, s);
        unit_eq(mm_tree_find(t, 0), s);
    }
    check_hints(t, n, 1);
    for (uint32_t s = 0; s < n; s++) unit_eq(mm_tree_take(t, 0, 0), s);
    unit_eq(mm_tree_take(t, 0, 0), MM_TREE_NONE);
    check_hints(t, n, 1);
    for (uint32_t i = 0; i < t.roots; i++) unit_eq(t.node[i], 0);
    free(t.node);
}
END_TEST

START_TEST(stale_hints_above_empty_words) {
    const uint32_t n = sizes[_i], leaves = (n + 63) / 64;
    const struct mm_tree t = make_tree(n);
    for (uint32_t leaf = 0; leaf < leaves && leaf < MM_TREE_TRIES - 2 * MM_TREE_ROOTS_MAX; leaf++) {
        t.node[t.roots + leaf / 64] |= 1ull << (leaf % 64);
        t.node[leaf / 4096] |= 1ull << (leaf / 64 % 64);
    }
    mm_tree_insert(t, n - 1); /* after all of them */
    unit_eq(mm_tree_find(t, 0), n - 1);
    check_hints(t, n, 1);                                                               /* the search has cleared them */
    for (uint32_t mid = 0; mid < t.mids; mid++) t.node[mid / 64] |= 1ull << (mid % 64); /* now above empty middle words */
    unit_eq(mm_tree_take(t, 0, 0), n - 1);
    for (uint32_t mid = 0; mid < t.mids; mid++) t.node[mid / 64] |= 1ull << (mid % 64);
    unit_eq(mm_tree_take(t, 0, 0), MM_TREE_NONE);
    for (uint32_t i = 0; i < t.roots; i++) unit_eq(t.node[i], 0);
    free(t.node);
}
END_TEST

/* A caller that clears a bit above rechecks the word: a word that is not empty keeps its bits. */
START_TEST(retract_looks_again) {
    const uint32_t n = sizes[_i];
    const struct mm_tree t = make_tree(n);
    mm_tree_insert(t, n - 1);
    mm_tree_retract(t, n - 1);
    check_hints(t, n, 1);
    unit_eq(mm_tree_find(t, 0), n - 1);
    if (n > 64) {
        mm_tree_insert(t, (n - 1) / 64 * 64 - 1); /* the leaf before it, most often under the same word */
        mm_tree_retract(t, 0);
        mm_tree_erase(t, n - 1);
        check_hints(t, n, 1);
        unit_eq(mm_tree_find(t, 0), (n - 1) / 64 * 64 - 1);
    }
    free(t.node);
}
END_TEST

/* An insert into a leaf that others use does not disturb them, and two inserts of one segment are one. */
/* Bits above that callers have not set yet are set where a word is not empty, and nowhere else. */
START_TEST(mend) {
    const uint32_t n = sizes[_i], leaves = (n + 63) / 64;
    uint64_t seed = n;
    for (int which = 0; which < 4; which++) { /* clears some bits of the mids, of the roots, of both, all of them */
        const struct mm_tree t = make_tree(n);
        unit_eq(mm_tree_mend(t, leaves), 0);
        check_hints(t, n, 1);
        for (uint32_t s = 0; s < n; s += 1 + (uint32_t)(unit_random(&seed) % (n / 3 + 1))) mm_tree_insert(t, s);
        unit_eq(mm_tree_mend(t, leaves), 0);
        check_hints(t, n, 1);
        for (uint32_t i = 0; i < t.roots + t.mids; i++) {
            const int is_mid = i >= t.roots;
            if (which == 3 || which == 2 || which == is_mid) t.node[i] &= which == 3 ? 0 : t.node[i] - 1;
        }
        unit_eq(mm_tree_mend(t, leaves), 1);
        check_hints(t, n, 1);
        unit_eq(mm_tree_find(t, 0), 0);
        unit_eq(mm_tree_mend(t, leaves), 0);
        free(t.node);
    }
}
END_TEST

START_TEST(insert_twice) {
    const struct mm_tree t = make_tree(65);
    mm_tree_insert(t, 64);
    mm_tree_insert(t, 64);
    unit_eq(mm_tree_erase(t, 64), 1);
    unit_eq(mm_tree_erase(t, 64), 0);
    unit_eq(mm_tree_find(t, 0), MM_TREE_NONE);
    free(t.node);
}
END_TEST

/* With a salt, searches spread near the front, and find what is there. */
START_TEST(salt) {
    const struct mm_tree t = make_tree(8192);
    char seen[8192] = {0};
    uint32_t different = 0;
    for (uint32_t s = 1000; s < 2000; s++) mm_tree_insert(t, s);
    unit_eq(mm_tree_find(t, 0), 1000);
    for (uint32_t salt = 0; salt < 640; salt++) {
        const uint32_t s = mm_tree_find(t, salt);
        unit_holds(s >= 1000 && s < 1000 + 64 * MM_TREE_SPREAD + 64, "segment %u", s);
        different += !seen[s];
        seen[s] = 1;
    }
    unit_le(MM_TREE_SPREAD, different);
    for (uint32_t s = 1000; s < 2000; s++) mm_tree_erase(t, s);
    mm_tree_insert(t, 5000);
    for (uint32_t salt = 0; salt < 200; salt++) unit_eq(mm_tree_find(t, salt), 5000);
    free(t.node);
}
END_TEST

/* After a collision: among 2, 4, 8, ... segments, or as many as a share of those in use, but at most MM_TREE_SPREAD words. */
START_TEST(salt_grows_with_collisions) {
    const struct mm_tree t = make_tree(8192);
    for (uint32_t s = 0; s < 8192; s++) mm_tree_insert(t, s);
    for (uint32_t used = 0; used <= 8192; used += 1024)
        for (uint32_t tries = 0; tries < 20; tries++) {
            const uint32_t grown = tries < 9 ? 2u << tries : 512, among = used / MM_TREE_SHARE + grown,
                           most = among < 64 * MM_TREE_SPREAD ? among : 64 * MM_TREE_SPREAD;
            uint32_t last = 0;
            for (uint32_t i = 0; i < 4000; i++) {
                const uint32_t s = mm_tree_find(t, mm_tree_salt(i, tries, used));
                if (s > last) last = s;
            }
            unit_eq(last, most - 1);
        }
    free(t.node);
}
END_TEST

/* A caller that comes for a segment that has just gone goes on to the next, whatever its salt; the last one is found, too. */
START_TEST(takes_all_with_any_salt) {
    const struct mm_tree t = make_tree(300000);
    uint64_t seed = 5;
    for (uint32_t s = 0; s < 300000; s += 1 + s % 977) mm_tree_insert(t, s);
    uint32_t n = 0, got = 0;
    for (uint32_t s = 0; s < 300000; s += 1 + s % 977) n++;
    for (uint32_t s; (s = mm_tree_take(t, (uint32_t)unit_random(&seed), 0)) != MM_TREE_NONE; got++) unit_eq(*mm_tree_leaf(t, s) >> (s % 64) & 1, 0);
    unit_eq(got, n);
    free(t.node);
}
END_TEST

#define THREADS 8
struct shared {
    struct mm_tree t;
    uint32_t n, rounds;
    int *owner; /* how many hold each segment; atomic */
    int bad;
    pthread_barrier_t start;
};
struct worker {
    struct shared *all;
    pthread_t thread;
    uint64_t seed;
};

static void *take_and_insert(void *arg) {
    struct worker *me = (struct worker *)arg;
    struct shared *all = me->all;
    uint32_t held[8], holds = 0;
    pthread_barrier_wait(&all->start);
    for (uint32_t i = 0; i < all->rounds; i++) {
        const uint64_t r = unit_random(&me->seed);
        if (holds < 8 && (holds == 0 || r % 2)) {
            const uint32_t s = mm_tree_take(all->t, (uint32_t)(r >> 8), 0);
            if (s == MM_TREE_NONE) continue;
            if (s >= all->n || __atomic_add_fetch(&all->owner[s], 1, __ATOMIC_RELAXED) != 1) __atomic_store_n(&all->bad, 1, __ATOMIC_RELAXED);
            held[holds++] = s;
        } else {
            const uint32_t s = held[--holds];
            __atomic_sub_fetch(&all->owner[s], 1, __ATOMIC_RELAXED);
            mm_tree_insert(all->t, s);
        }
    }
    while (holds > 0) {
        const uint32_t s = held[--holds];
        __atomic_sub_fetch(&all->owner[s], 1, __ATOMIC_RELAXED);
        mm_tree_insert(all->t, s);
    }
    return NULL;
}

/* Few segments, so that words become empty and full all the time. */
START_TEST(threads_take_and_insert) {
    static const uint32_t in_set[] = {1, 3, 24, 70};
    struct shared all = {make_tree(1u << 18), 1u << 18, 100000, NULL, 0, {{0}}};
    struct worker worker[THREADS];
    all.owner = (int *)calloc(all.n, sizeof(int));
    pthread_barrier_init(&all.start, NULL, THREADS);
    for (uint32_t i = 0; i < in_set[_i]; i++) /* scattered, or in groups of three */
        mm_tree_insert(all.t, _i % 2 ? i / 3 * 4099 + i % 3 : (i * 4099 + i * 61) % all.n);
    for (int i = 0; i < THREADS; i++) {
        worker[i].all = &all, worker[i].seed = (uint64_t)i + 1;
        pthread_create(&worker[i].thread, NULL, take_and_insert, &worker[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(worker[i].thread, NULL);
    unit_holds(!all.bad, "a segment was taken twice");
    check_hints(all.t, all.n, 0);
    for (uint32_t i = 0; i < in_set[_i]; i++) ck_assert_uint_ne(mm_tree_take(all.t, i, 0), MM_TREE_NONE);
    unit_eq(mm_tree_take(all.t, 0, 0), MM_TREE_NONE);
    free(all.t.node), free(all.owner);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tree");
    TCase *sized = tcase_create("sizes"), *threads = tcase_create("threads");
    tcase_set_timeout(sized, 120);
    tcase_add_loop_test(sized, against_a_plain_set, 0, SIZES);
    tcase_add_loop_test(sized, takes_in_ascending_order, 0, SIZES);
    tcase_add_loop_test(sized, stale_hints_above_empty_words, 0, SIZES);
    tcase_add_loop_test(sized, retract_looks_again, 0, SIZES);
    tcase_add_loop_test(sized, mend, 0, SIZES);
    tcase_add_test(sized, insert_twice);
    tcase_add_test(sized, salt);
    tcase_add_test(sized, salt_grows_with_collisions);
    tcase_add_test(sized, takes_all_with_any_salt);
    suite_add_tcase(suite, sized);
    tcase_set_timeout(threads, 120);
    tcase_add_loop_test(threads, threads_take_and_insert, 0, 4);
    suite_add_tcase(suite, threads);
    return suite_run(suite);
}
