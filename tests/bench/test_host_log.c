/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The logs of mmbench's cases "malloc_large" and "hostlog": random numbers, generators, text format; and the ranges of live blocks. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"
#include "tools/mmbench/child/papers/host.h"

#define MIB (1ull << 20)

/* ---- random numbers ---- */

/* The 10,000th number with the default seed is in the C++ standard ([rand.predef]); the others are from std::mt19937_64(42). */
START_TEST(mersenne_twister) {
    static const struct {
        unsigned i;
        uint64_t value;
    } known[] = {{1, 13930160852258120406ull},   {2, 11788048577503494824ull},    {312, 5750122803995977291ull},
                 {313, 16623992230603958570ull}, {10000, 9487037760323427527ull}, {100000, 1764150376459039589ull}};
    struct mt64 m;
    uint64_t x = 0;
    unsigned k = 0;
    mt64_seed(&m, 5489);
    for (int i = 0; i < 10000; i++) x = mt64_next(&m);
    ck_assert_uint_eq(x, 9981545732273789042ull);
    mt64_seed(&m, 42);
    for (unsigned i = 1; k < sizeof known / sizeof *known; i++) {
        x = mt64_next(&m);
        if (i == known[k].i) ck_assert_uint_eq(x, known[k++].value);
    }
}
END_TEST

/* ---- logs ---- */

/* Replays a log: each block is freed once, after its allocation. Returns the most live bytes and their call, and the most live blocks. */
static uint64_t replay(const struct host_log *l, unsigned *at, unsigned *blocks) {
    uint64_t *bytes = (uint64_t *)calloc(l->count, sizeof *bytes), now = 0, most = 0;
    unsigned next = 0, count = 0;
    *blocks = 0;
    for (unsigned i = 0; i < l->count; i++) {
        const struct host_call *c = &l->calls[i];
        if (c->size) {
            ck_assert_uint_eq(c->id, next++);
            now += bytes[c->id] = c->size;
            if (++count > *blocks) *blocks = count;
        } else {
            ck_assert_uint_lt(c->id, next);
            ck_assert_uint_ne(bytes[c->id], 0);
            now -= bytes[c->id], bytes[c->id] = 0, count--;
        }
        if (now > most) most = now, *at = i;
    }
    ck_assert_uint_eq(now, 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(next, l->blocks);
    free(bytes);
    return most;
}

static void check_log(const struct host_log *l, uint64_t least, uint64_t most) {
    unsigned at = 0, blocks;
    ck_assert_uint_eq(replay(l, &at, &blocks), l->most_live);
    ck_assert_uint_eq(at, l->most_live_call);
    ck_assert_uint_eq(blocks, l->most_live_blocks);
    for (unsigned i = 0; i < l->count; i++)
        if (l->calls[i].size) ck_assert(l->calls[i].size >= least && l->calls[i].size <= most);
}

START_TEST(large) {
    struct host_log l;
    unsigned low = 0;
    host_log_begin(&l);
    ck_assert_ptr_null(host_log_large(&l));
    check_log(&l, 1024, 16 * MIB);
    ck_assert_uint_eq(l.count, 10000);
    ck_assert_uint_eq(l.blocks, 5000);
    ck_assert_uint_eq(l.most_live_blocks, 50);
    ck_assert_uint_eq(l.most_live, 501561086); /* the log is the same everywhere */
    ck_assert_uint_eq(l.most_live_call, 9379);
    ck_assert_uint_eq(l.calls[0].size, 1024 + 11788048577503494824ull % (16 * MIB - 1023)); /* the second number: the first one is the slot */
    for (unsigned i = 0; i < l.count; i++) low += l.calls[i].size && l.calls[i].size < 8 * MIB;
    ck_assert(low > 2400 && low < 2600);
    for (unsigned i = 9950; i < 10000; i++) ck_assert_uint_eq(l.calls[i].size, 0);
    host_log_end(&l);
}
END_TEST

START_TEST(training) {
    struct host_log l, again;
    host_log_begin(&l), host_log_begin(&again);
    ck_assert_ptr_null(host_log_training(&l));
    ck_assert_ptr_null(host_log_training(&again));
    ck_assert_uint_eq(l.count, again.count);
    for (unsigned i = 0; i < l.count; i++) ck_assert(l.calls[i].size == again.calls[i].size && l.calls[i].id == again.calls[i].id);
    check_log(&l, 512, TRAINING_SIZE_MOST);
    ck_assert_uint_eq(l.count, TRAINING_CALLS);
    ck_assert_uint_eq(l.most_live_blocks, TRAINING_BLOCKS_MOST);
    ck_assert_uint_eq(l.most_live, TRAINING_LIVE_MOST);
    host_log_end(&l), host_log_end(&again);
}
END_TEST

/* All iterations make the same calls. Some sizes repeat exactly; the others vary by 20 % either way. */
START_TEST(iterations) {
    const unsigned stay = TRAINING_LAYERS * TRAINING_WEIGHTS, each = (TRAINING_CALLS - 2 * stay) / TRAINING_ITERATIONS;
    unsigned repeat = 0, varying = 0;
    double widest = 0;
    struct host_log l;
    host_log_begin(&l);
    ck_assert_ptr_null(host_log_training(&l));
    for (unsigned i = stay; i < stay + each; i++) {
        uint64_t least = l.calls[i].size, most = least;
        for (unsigned k = 1; k < TRAINING_ITERATIONS; k++) {
            const struct host_call *c = &l.calls[i + k * each];
            ck_assert_int_eq(c->size == 0, l.calls[i].size == 0);
            if (!c->size) ck_assert_uint_eq(c->id, l.calls[i].id + k * (l.blocks - stay) / TRAINING_ITERATIONS);
            if (c->size < least) least = c->size;
            if (c->size > most) most = c->size;
        }
        if (!most) continue;
        if (least == most) repeat++;
        else varying++;
        if ((double)most / (double)least > widest) widest = (double)most / (double)least;
    }
    ck_assert_uint_eq(repeat, TRAINING_LAYERS * 4);      /* statistics, gradients of weights, a workspace both ways */
    ck_assert_uint_eq(varying, TRAINING_LAYERS * 4 + 1); /* activations and a gradient; and the last layer's output gradient */
    ck_assert(widest > 1.4 && widest < 1.5 + 1e-4);      /* 120 / 80, but for rounding to elements */
    host_log_end(&l);
}
END_TEST

/* most_live_call is the first of several. */
START_TEST(live_at_most) {
    static const struct {
        uint64_t size;
        long long free_id;
    } calls[] = {{5, -1}, {7, -1}, {0, 0}, {5, -1}, {0, 1}, {0, 2}};
    struct host_log l;
    host_log_begin(&l);
    ck_assert_str_eq(host_log_complete(&l), "no calls");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) ck_assert_ptr_null(host_log_add(&l, calls[i].size, calls[i].free_id));
    ck_assert_ptr_null(host_log_complete(&l));
    ck_assert_uint_eq(l.most_live, 12);
    ck_assert_uint_eq(l.most_live_call, 1);
    ck_assert_uint_eq(l.most_live_blocks, 2);
    host_log_end(&l);
}
END_TEST

static void refused(const char *text, size_t bytes, const char *expected) {
    char why[HOST_LOG_WHY_BYTES] = "";
    FILE *f = tmpfile();
    struct host_log l;
    ck_assert_ptr_nonnull(f);
    fwrite(text, 1, bytes, f);
    rewind(f);
    host_log_begin(&l);
    ck_assert_int_eq(host_log_read(&l, f, why), expected != NULL);
    ck_assert_str_eq(why, expected ? expected : "");
    host_log_end(&l);
    fclose(f);
}

START_TEST(reader) {
#define HEAD "size,free_id\n"
#define CASE(text) text, sizeof text - 1
    refused(CASE(HEAD "4096,-1\n1,-1\n0,1\n0,0\n"), NULL);
    refused(CASE(HEAD "1099511627776,-1\n0,0\n"), NULL);
    refused(CASE(""), "line 0: no calls");
    refused(CASE(HEAD), "line 1: no calls");
    refused(CASE("1,-1\n0,0\n"), "line 1: expected size,free_id");
    refused(CASE("size,free_id\r\n1,-1\n"), "line 1: expected size,free_id");
    refused(CASE(HEAD "1,-1\n\n"), "line 3: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,-1\r\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1;-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD " 1,-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "+1,-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "-1,-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "0x10,-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,-1 \n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,-12\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,-2\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "18446744073709551617,-1\n"), "line 2: expected SIZE,ID in decimal");
    refused(CASE(HEAD "1,-1\n0,4294967296\n"), "line 3: frees a block before its allocation");
    refused(CASE(HEAD "1,-1\n0,1\n"), "line 3: frees a block before its allocation");
    refused(CASE(HEAD "0,0\n1,-1\n"), "line 2: frees a block before its allocation");
    refused(CASE(HEAD "1,-1\n0,0\n0,0\n"), "line 4: frees a block that is free already");
    refused(CASE(HEAD "0,-1\n"), "line 2: neither a size nor an id; expected one of them");
    refused(CASE(HEAD "1,-1\n1,0\n"), "line 3: a size and an id; expected one of them");
    refused(CASE(HEAD "1099511627777,-1\n"), "line 2: a size above 2^40");
    refused(CASE(HEAD "1,-1\n2,-1\n0,0\n"), "line 4: the log ends before everything is free");
    refused(CASE(HEAD "1,-1\n0,0"), "line 3: no newline at the end");
    refused(CASE(HEAD "1,-1\n0,0\0\n0,0\n"), "line 3: too long, or with a byte of value 0");
    refused(CASE(HEAD "1,-1\n0,000000000000000000000000000000000000000000000000000000000000000000\n"), "line 3: too long, or with a byte of value 0");
}
END_TEST

START_TEST(round_trip) {
    char why[HOST_LOG_WHY_BYTES] = "";
    for (int is_training = 0; is_training <= 1; is_training++) {
        FILE *f = tmpfile(), *full = fopen("/dev/full", "w");
        struct host_log l, got;
        host_log_begin(&l), host_log_begin(&got);
        ck_assert_ptr_null(is_training ? host_log_training(&l) : host_log_large(&l));
        ck_assert_int_eq(host_log_write(&l, full), 1);
        ck_assert_int_eq(host_log_write(&l, f), 0);
        rewind(f);
        ck_assert_msg(host_log_read(&got, f, why) == 0, "%s", why);
        ck_assert_uint_eq(got.count, l.count);
        ck_assert_uint_eq(got.most_live, l.most_live);
        for (unsigned i = 0; i < l.count; i++) ck_assert(l.calls[i].size == got.calls[i].size && l.calls[i].id == got.calls[i].id);
        host_log_end(&l), host_log_end(&got);
        fclose(f), fclose(full);
    }
}
END_TEST

/* ---- ranges ---- */

START_TEST(overlaps) {
    struct host_ranges r;
    ck_assert_int_eq(host_ranges_begin(&r, 4), 0);
    ck_assert_int_eq(host_ranges_add(&r, 1000, 100, 0), 0);
    ck_assert_int_eq(host_ranges_add(&r, 1100, 100, 1), 0); /* touches it */
    ck_assert_int_eq(host_ranges_add(&r, 900, 100, 2), 0);
    ck_assert_int_eq(host_ranges_add(&r, 1000, 100, 3), 1); /* the same */
    ck_assert_int_eq(host_ranges_add(&r, 1199, 1, 3), 1);   /* inside */
    ck_assert_int_eq(host_ranges_add(&r, 899, 2, 3), 1);    /* over its begin */
    ck_assert_int_eq(host_ranges_add(&r, 1199, 2, 3), 1);   /* over its end */
    ck_assert_int_eq(host_ranges_add(&r, 800, 1000, 3), 1); /* around all */
    ck_assert_int_eq(host_ranges_add(&r, 5000, 0, 3), 1);
    ck_assert_int_eq(host_ranges_add(&r, ~0ull - 10, 100, 3), 1);
    host_ranges_remove(&r, 1000, 3); /* was not added */
    ck_assert_int_eq(host_ranges_add(&r, 1050, 10, 4), 1);
    host_ranges_remove(&r, 1000, 0);
    ck_assert_int_eq(host_ranges_add(&r, 1000, 101, 4), 1);
    ck_assert_int_eq(host_ranges_add(&r, 1000, 100, 4), 0);
    ck_assert_int_eq(host_ranges_add(&r, 0, 900, 5), 0);
    ck_assert_int_eq(host_ranges_add(&r, 5000, 1, 6), 1); /* no room */
    host_ranges_end(&r);
}
END_TEST

/* Compares with a map of all addresses. */
START_TEST(overlaps_random) {
    static unsigned char map[2000];
    unsigned begins[100], lengths[100], refusals = 0;
    int is_live[100] = {0};
    struct host_ranges r;
    srand(1);
    ck_assert_int_eq(host_ranges_begin(&r, 100), 0);
    for (int step = 0; step < 100000; step++) {
        const unsigned i = (unsigned)rand() % 100;
        if (is_live[i]) {
            host_ranges_remove(&r, begins[i], i);
            memset(map + begins[i], 0, lengths[i]), is_live[i] = 0;
            continue;
        }
        begins[i] = (unsigned)rand() % 1960, lengths[i] = 1 + (unsigned)rand() % 40;
        const int overlaps = memchr(map + begins[i], 1, lengths[i]) != NULL;
        ck_assert_int_eq(host_ranges_add(&r, begins[i], lengths[i], i), overlaps);
        refusals += (unsigned)overlaps;
        if (!overlaps) memset(map + begins[i], 1, lengths[i]), is_live[i] = 1;
    }
    ck_assert(refusals > 1000 && refusals < 90000);
    host_ranges_end(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("host_log");
    TCase *tests = tcase_create("host_log");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, mersenne_twister);
    tcase_add_test(tests, large);
    tcase_add_test(tests, training);
    tcase_add_test(tests, iterations);
    tcase_add_test(tests, live_at_most);
    tcase_add_test(tests, reader);
    tcase_add_test(tests, round_trip);
    tcase_add_test(tests, overlaps);
    tcase_add_test(tests, overlaps_random);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
