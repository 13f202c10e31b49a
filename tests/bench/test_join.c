/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's join without a GPU: its relations, and its kernels, with a CPU thread for each thread of a CTA. malloc and free are those of
 * the C library, counted; malloc returns NULL when a test wants it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/cta.h"
#include "tests/runner.h"

static unsigned long long live, calls, null_every; /* live allocations; calls of malloc; every null_every-th call returns NULL (0: none) */

static void *counted_malloc(size_t bytes) {
    if (null_every && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % null_every == 0) return NULL;
    void *p = malloc(bytes);
    if (p == NULL) abort();
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return p;
}
static void counted_free(void *p) {
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    free(p);
}
#define malloc counted_malloc
#define free counted_free
#include "tools/mmbench/child/papers/join_kernels.h"
#undef malloc
#undef free

_Static_assert(sizeof(struct join_page) == JOIN_PAGE_BYTES, "the page has no padding");

/* ---- kernels ------------------------------------------------------------------------------------ */

struct arguments {
    struct join_input in;
    struct join_page **chains;
    struct join_array array;
    unsigned count, pages_most;
    struct tally *t;
    struct join_sum *found;
};

#define BODY(name, call)                                          \
    static void name##_body(const void *of) {                     \
        const struct arguments *a = (const struct arguments *)of; \
        call;                                                     \
    }
BODY(thread, join_thread_kernel(a->in, a->chains, NULL, a->t))
BODY(warp, join_warp_kernel(a->in, a->chains, NULL, a->t))
BODY(give, join_give_kernel(a->chains, a->count))
BODY(check, join_check_kernel(a->chains, a->count, a->pages_most, a->found))
BODY(counter, join_counter_kernel(a->in, a->array))
BODY(count, join_count_kernel(a->in, a->array))
BODY(scan_starts, join_scan_kernel(a->in.partitions, a->array))
BODY(write, join_write_kernel(a->in, a->array))
BODY(check_array, join_check_array_kernel(a->array, a->found))

enum variant { THREAD, WARP, VARIANTS };

/* Relations, the expected result, and the output of a run. */
struct fixture {
    struct join_input in;
    struct join_sum expected, found;
    struct arguments a;
    struct tally t;
};

/* The output of as many pairs as that has room in the array. */
static void open_output(struct fixture *f, unsigned pairs) {
    const unsigned threads = f->in.partitions * CTA_THREADS;
    live = calls = null_every = 0;
    memset(&f->t, 0, sizeof f->t);
    memset(&f->a, 0, sizeof f->a);
    f->a.in = f->in;
    f->a.pages_most = join_pages_most(&f->in);
    f->a.t = &f->t;
    f->a.found = &f->found;
    f->a.chains = (struct join_page **)calloc(threads, sizeof *f->a.chains);
    f->a.array.most = pairs;
    f->a.array.pairs = (struct join_pair *)calloc(pairs, sizeof *f->a.array.pairs);
    f->a.array.count = (unsigned *)calloc(1, sizeof *f->a.array.count);
    f->a.array.thread_starts = (unsigned *)calloc(threads, sizeof *f->a.array.thread_starts);
    f->a.array.partition_starts = (unsigned *)calloc(f->in.partitions, sizeof *f->a.array.partition_starts);
    ck_assert(f->a.chains && f->a.array.pairs && f->a.array.count && f->a.array.thread_starts && f->a.array.partition_starts);
}

static void open_join(struct fixture *f, unsigned tuples, int is_zipf, unsigned partitions) {
    ck_assert(join_make(&f->in, &f->expected, tuples, is_zipf, partitions));
    open_output(f, tuples);
}

static void close_join(struct fixture *f) {
    ck_assert_uint_eq(live, 0);
    free(f->a.chains);
    free(f->a.array.pairs);
    free(f->a.array.count);
    free(f->a.array.thread_starts);
    free(f->a.array.partition_starts);
    join_drop(&f->in);
}

/* For the kernels that need no particular width: to start few CPU threads is faster. */
static void launch_narrow(void (*body)(const void *), const struct fixture *f, unsigned threads) {
    cta_launch(body, &f->a, (threads + WARP_THREADS - 1) / WARP_THREADS, WARP_THREADS);
}

static void join(struct fixture *f, enum variant v) {
    f->a.count = f->in.partitions * (v == THREAD ? (unsigned)CTA_THREADS : (unsigned)JOIN_WARPS);
    cta_launch(v == THREAD ? thread_body : warp_body, &f->a, f->in.partitions, CTA_THREADS);
}

static void give(struct fixture *f) { launch_narrow(give_body, f, f->a.count); }

/* Whether the chains, or the array, hold what is expected. */
static int right(struct fixture *f, int is_array) {
    memset(&f->found, 0, sizeof f->found);
    launch_narrow(is_array ? check_array_body : check_body, f, is_array ? f->a.array.most : f->a.count);
    return f->found.pairs == f->expected.pairs && f->found.sum == f->expected.sum;
}

static void join_array(struct fixture *f, int is_scan) {
    *f->a.array.count = 0;
    memset(f->a.array.pairs, 0, f->a.array.most * sizeof *f->a.array.pairs);
    if (!is_scan) {
        cta_launch(counter_body, &f->a, f->in.partitions, CTA_THREADS);
        return;
    }
    cta_launch(count_body, &f->a, f->in.partitions, CTA_THREADS);
    cta_launch(scan_starts_body, &f->a, 1, CTA_THREADS);
    cta_launch(write_body, &f->a, f->in.partitions, CTA_THREADS);
}

/* The result of every variant, its pages, and that they are free afterwards. */
static void all_variants(struct fixture *f) {
    for (int v = 0; v < VARIANTS; v++) {
        join(f, (enum variant)v);
        ck_assert_uint_eq(f->t.nulls, 0);
        ck_assert(right(f, 0));
        ck_assert_uint_eq(live, join_pages(&f->in, v == THREAD ? 1 : WARP_THREADS));
        give(f);
        ck_assert_uint_eq(live, 0);
        for (unsigned i = 0; i < f->a.count; i++) ck_assert_ptr_null(f->a.chains[i]);
    }
    for (int is_scan = 0; is_scan <= 1; is_scan++) {
        join_array(f, is_scan);
        ck_assert(right(f, 1));
    }
}

#define RESULTS 4
/* One tuple; one more than a warp has lanes; more than a CTA has threads, so that the chain of a warp has several pages. Even, and Zipf. */
START_TEST(results) {
    const unsigned tuples[RESULTS] = {1, 33, 799, 799};
    struct fixture f;
    open_join(&f, tuples[_i], _i % 2, join_partitions(tuples[_i]));
    all_variants(&f);
    close_join(&f);
}
END_TEST

/* Several CTAs, some of which have no tuple. */
START_TEST(partitions_join) {
    struct fixture f;
    open_join(&f, 5, 0, 8);
    all_variants(&f);
    close_join(&f);
    open_join(&f, 1999, 1, 4);
    all_variants(&f);
    close_join(&f);
}
END_TEST

/* The kernels do not need unique keys: with three keys only, each lane has many matches, and a thread many pages. */
START_TEST(keys_that_are_not_unique) {
    enum { TUPLES = 100 };
    struct fixture f;
    unsigned matches = 0;
    memset(&f, 0, sizeof f);
    f.in.tuples = f.in.s_most = TUPLES;
    f.in.partitions = 1;
    f.in.r = (struct join_tuple *)calloc(TUPLES, sizeof *f.in.r);
    f.in.s = (struct join_tuple *)calloc(TUPLES, sizeof *f.in.s);
    f.in.r_offsets = (unsigned *)calloc(2, sizeof *f.in.r_offsets);
    f.in.s_offsets = (unsigned *)calloc(2, sizeof *f.in.s_offsets);
    ck_assert(f.in.r && f.in.s && f.in.r_offsets && f.in.s_offsets);
    f.in.r_offsets[1] = f.in.s_offsets[1] = TUPLES;
    for (unsigned i = 0; i < TUPLES; i++) {
        f.in.r[i].key = i % 3 * JOIN_BUCKETS;
        f.in.s[i].key = i % 5 * JOIN_BUCKETS; /* of two of the keys there are none in R */
        f.in.r[i].value = i;
        f.in.s[i].value = 1000 + i;
    }
    for (unsigned i = 0; i < TUPLES; i++)
        for (unsigned k = 0; k < TUPLES; k++) {
            const struct join_pair pair = {f.in.r[i].value, f.in.s[k].value};
            if (f.in.r[i].key != f.in.s[k].key) continue;
            f.expected.sum += join_hash_pair(pair);
            matches++;
        }
    f.expected.pairs = matches;
    open_output(&f, matches);
    f.a.pages_most = matches;
    for (int v = 0; v < VARIANTS; v++) {
        join(&f, (enum variant)v);
        ck_assert(right(&f, 0));
        give(&f);
    }
    for (int is_scan = 0; is_scan <= 1; is_scan++) {
        join_array(&f, is_scan);
        ck_assert(right(&f, 1));
    }
    close_join(&f);
}
END_TEST

/* The prefix sum of more partitions than a CTA has threads. */
START_TEST(scan) {
    struct arguments a;
    unsigned starts[2 * CTA_THREADS + 9], count = 0, sum = 0;
    memset(&a, 0, sizeof a);
    a.in.partitions = sizeof starts / sizeof *starts;
    a.array.partition_starts = starts;
    a.array.count = &count;
    for (unsigned p = 0; p < a.in.partitions; p++) starts[p] = p % 7 + 1;
    cta_launch(scan_starts_body, &a, 1, CTA_THREADS);
    for (unsigned p = 0; p < a.in.partitions; sum += p % 7 + 1, p++) ck_assert_uint_eq(starts[p], sum);
    ck_assert_uint_eq(count, sum);
}
END_TEST

/* If malloc returns NULL, matches are dropped, the NULL is counted, and no memory leaks. */
START_TEST(nulls) {
    struct fixture f;
    open_join(&f, 799, 1, 1);
    for (int v = 0; v < VARIANTS; v++)
        for (null_every = 1; null_every <= 3; null_every++) {
            calls = 0;
            f.t.nulls = 0;
            join(&f, (enum variant)v);
            ck_assert_uint_ge(f.t.nulls, JOIN_WARPS);
            ck_assert_uint_eq(f.t.nulls, calls / null_every);
            ck_assert_uint_eq(live, calls - f.t.nulls);
            ck_assert(!right(&f, 0));
            ck_assert_uint_lt(f.found.pairs, f.expected.pairs);
            ck_assert_uint_ge(f.found.pairs, live);
            give(&f);
            ck_assert_uint_eq(live, 0);
        }
    close_join(&f);
}
END_TEST

/* ---- the check ---------------------------------------------------------------------------------- */

/* An empty output, and faults in the pages: another value, two values exchanged, a missing pair, a missing page, a page twice, a chain without an end, and a
 * count that is too large. */
START_TEST(faults_are_found) {
    struct fixture f;
    open_join(&f, 799, 0, 1);
    ck_assert(!right(&f, 0) && !right(&f, 1));
    for (int v = 0; v < VARIANTS; v++) {
        join(&f, (enum variant)v);
        struct join_page *page = f.a.chains[3], *const next = page->next;
        struct join_pair *pair = &page->pairs[page->count - 1];
        const struct join_pair saved = *pair;
        ck_assert(right(&f, 0));
        pair->s ^= 1;
        ck_assert(!right(&f, 0));
        pair->r = saved.s;
        pair->s = saved.r;
        ck_assert(!right(&f, 0));
        *pair = saved;
        page->count--;
        ck_assert(!right(&f, 0));
        page->count++;
        f.a.chains[3] = v == THREAD ? NULL : next;
        ck_assert(!right(&f, 0));
        f.a.chains[3] = f.a.chains[4];
        ck_assert(!right(&f, 0));
        f.a.chains[3] = page;
        page->next = page;
        ck_assert(!right(&f, 0));
        page->next = next;
        const unsigned count = page->count;
        page->count = ~0u;
        ck_assert(!right(&f, 0));
        page->count = count;
        ck_assert(right(&f, 0));
        give(&f);
    }
    for (int is_scan = 0; is_scan <= 1; is_scan++) {
        join_array(&f, is_scan);
        f.a.array.pairs[7].r ^= 1;
        ck_assert(!right(&f, 1));
        f.a.array.pairs[7].r ^= 1;
        (*f.a.array.count)++;
        ck_assert(!right(&f, 1));
        (*f.a.array.count)--;
        ck_assert(right(&f, 1));
    }
    close_join(&f);
}
END_TEST

/* ---- relations ---------------------------------------------------------------------------------- */

START_TEST(keys_are_one_to_one) {
    const unsigned tuples[] = {1, 2, 3, 5, 12345, 16384, 99999, 1000000};
    for (unsigned k = 0; k < sizeof tuples / sizeof *tuples; k++) {
        unsigned char *seen = (unsigned char *)calloc(tuples[k], 1);
        ck_assert_ptr_nonnull(seen);
        for (unsigned i = 0; i < tuples[k]; i++) {
            const unsigned key = join_key(i, tuples[k]);
            if (key >= tuples[k] || seen[key]) ck_abort_msg("%u tuples: tuple %u has key %u", tuples[k], i, key);
            seen[key] = 1;
        }
        free(seen);
    }
}
END_TEST

/* Both relations are grouped, R's partitions fit the table, and the numbers of partitions are those of the paper's sizes. */
START_TEST(partitions) {
    const unsigned tuples[] = {1, 3072, 3073, 100000}, starts[] = {1, 1, 1, 4};
    for (unsigned k = 0; k < 4; k++) {
        struct join_input in;
        struct join_sum expected;
        ck_assert(join_make(&in, &expected, tuples[k], 1, starts[k]));
        ck_assert_uint_eq(in.r_offsets[in.partitions], tuples[k]);
        ck_assert_uint_eq(in.s_offsets[in.partitions], tuples[k]);
        unsigned s_most = 0, strangers = 0;
        for (unsigned p = 0; p < in.partitions; p++) {
            ck_assert_uint_le(in.r_offsets[p + 1] - in.r_offsets[p], JOIN_TABLE_TUPLES);
            for (unsigned i = in.r_offsets[p]; i < in.r_offsets[p + 1]; i++) strangers += join_partition(in.r[i].key, in.partitions) != p;
            for (unsigned i = in.s_offsets[p]; i < in.s_offsets[p + 1]; i++) strangers += join_partition(in.s[i].key, in.partitions) != p;
            if (in.s_offsets[p + 1] - in.s_offsets[p] > s_most) s_most = in.s_offsets[p + 1] - in.s_offsets[p];
        }
        ck_assert_uint_eq(in.s_most, s_most);
        ck_assert_uint_eq(strangers, 0);
        ck_assert_uint_eq(in.partitions, tuples[k] == 100000 ? 32 : 1);
        join_drop(&in);
    }
    ck_assert_uint_eq(join_partitions(3072), 1);
    ck_assert_uint_eq(join_partitions(16384), 8);
    ck_assert_uint_eq(join_partitions(10000000), 4096);
}
END_TEST

/* The expected result, found by comparing each tuple of R with each of S. */
START_TEST(expectation) {
    struct join_input in;
    struct join_sum expected, found = {0, 0};
    ck_assert(join_make(&in, &expected, 1000, 1, 1));
    for (unsigned i = 0; i < 1000; i++)
        for (unsigned k = 0; k < 1000; k++) {
            const struct join_pair pair = {in.r[i].value, in.s[k].value};
            if (in.r[i].key != in.s[k].key) continue;
            found.pairs++;
            found.sum += join_hash_pair(pair);
        }
    ck_assert_uint_eq(found.pairs, expected.pairs);
    ck_assert_uint_eq(found.sum, expected.sum);
    join_drop(&in);
}
END_TEST

/* The share of matches of R's first tuple, which is the most frequent in a Zipf distribution, of its first 2, 4, ... tuples: each within five
 * standard deviations of the theory. */
START_TEST(shares) {
    enum { TUPLES = 100000 };
    static unsigned matches[TUPLES];
    static double weights[2][TUPLES];
    for (unsigned i = 0; i < TUPLES; i++) {
        weights[0][i] = 1;
        weights[1][i] = pow(i + 1.0, -0.75);
    }
    for (int is_zipf = 0; is_zipf <= 1; is_zipf++) {
        struct join_input in;
        struct join_sum expected;
        double all = 0, some = 0;
        unsigned found = 0;
        ck_assert(join_make(&in, &expected, TUPLES, is_zipf, 64));
        memset(matches, 0, sizeof matches);
        for (unsigned i = 0; i < TUPLES; i++) matches[in.s[i].key]++;
        for (unsigned i = 0; i < TUPLES; i++) all += weights[is_zipf][i];
        for (unsigned i = 0; i < TUPLES; i++) {
            some += weights[is_zipf][i];
            found += matches[join_key(i, TUPLES)];
            if ((i & (i + 1)) != 0) continue;
            const double share = some / all, off = found - share * TUPLES;
            ck_assert_msg(off * off <= 25 * share * (1 - share) * TUPLES, "zipf %d: tuples up to %u: %u matches, expected %g", is_zipf, i, found,
                          share * TUPLES);
        }
        ck_assert_uint_eq(found, TUPLES);
        join_drop(&in);
    }
}
END_TEST

/* The relations are the same in every version, so that rows of two versions can be compared. */
START_TEST(relations_stay) {
    const unsigned long long sums[2] = {6465570588445124043ull, 14317580410389213958ull};
    for (int is_zipf = 0; is_zipf <= 1; is_zipf++) {
        struct join_input in;
        struct join_sum expected;
        ck_assert(join_make(&in, &expected, 16384, is_zipf, join_partitions(16384)));
        ck_assert_uint_eq(expected.sum, sums[is_zipf]);
        join_drop(&in);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("join");
    TCase *relations = tcase_create("relations"), *kernels = tcase_create("kernels");
    tcase_add_test(relations, keys_are_one_to_one);
    tcase_add_test(relations, partitions);
    tcase_add_test(relations, expectation);
    tcase_add_test(relations, shares);
    tcase_add_test(relations, relations_stay);
    tcase_add_loop_test(kernels, results, 0, RESULTS);
    tcase_add_test(kernels, partitions_join);
    tcase_add_test(kernels, keys_that_are_not_unique);
    tcase_add_test(kernels, scan);
    tcase_add_test(kernels, nulls);
    tcase_add_test(kernels, faults_are_found);
    tcase_set_timeout(relations, 60);
    tcase_set_timeout(kernels, 120);
    suite_add_tcase(suite, relations);
    suite_add_tcase(suite, kernels);
    return suite_run(suite);
}
