/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's case "latency" without a GPU: bins and quantiles; and the sizes that workloads request. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"
#include "tools/mmbench/child/child.h"
#include "tools/mmbench/child/latency.h"
#include "tools/mmbench/protocol.h"

#define SAMPLES 10000

static struct latencies l;

static void begin(void) { memset(&l, 0, sizeof l); }

/* The bins follow one another without a gap; a value exceeds the least value of its bin by at most 1/1024. */
START_TEST(bins) {
    unsigned before = 0;
    ck_assert_uint_eq(latency_bin(0), 0);
    for (unsigned long long cycles = 1; cycles <= 0xffffffffu; cycles += 1 + cycles / 5000) {
        const unsigned bin = latency_bin((unsigned)cycles), least = latency_of_bin(bin);
        ck_assert(bin == before || bin == before + 1);
        ck_assert_uint_lt(bin, LATENCY_BINS);
        ck_assert_uint_le(least, cycles);
        ck_assert_uint_le(cycles - least, cycles >> LATENCY_BIN_SHIFT);
        ck_assert_uint_eq(latency_bin(least), bin);
        if (cycles < LATENCY_EXACT) ck_assert_uint_eq(least, cycles);
        before = bin;
    }
    ck_assert_uint_eq(latency_bin(0xffffffffu), LATENCY_BINS - 1);
}
END_TEST

static int compare(const void *a, const void *b) {
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Compares with quantiles of the sorted samples. */
START_TEST(quantiles) {
    static unsigned cycles[SAMPLES];
    srand(1);
    for (int most = 10; most < 100000000; most *= 10) {
        for (int i = 0; i < SAMPLES; i++) cycles[i] = 500 + (unsigned)(rand() % most);
        begin();
        latency_add(&l, cycles, SAMPLES / 2);
        latency_add(&l, cycles + SAMPLES / 2, SAMPLES / 2);
        qsort(cycles, SAMPLES, sizeof *cycles, compare);
        ck_assert_uint_eq(l.count, SAMPLES);
        ck_assert_uint_eq(l.least, cycles[0]);
        ck_assert_uint_eq(l.longest, cycles[SAMPLES - 1]);
        for (unsigned percent = 1; percent <= 100; percent++) {
            const unsigned exact = cycles[SAMPLES / 100 * percent - 1], got = latency_quantile(&l, percent);
            ck_assert_uint_le(got, exact);
            ck_assert_uint_le(exact - got, exact >> LATENCY_BIN_SHIFT);
        }
    }
}
END_TEST

START_TEST(few) {
    const unsigned two[] = {3000001, 5};
    begin();
    ck_assert_uint_eq(latency_quantile(&l, 50), 0);
    latency_add(&l, two, 1);
    ck_assert_uint_eq(latency_quantile(&l, 1), 3000001); /* not below the minimum */
    latency_add(&l, two + 1, 1);
    ck_assert_uint_eq(latency_quantile(&l, 50), 5);
    ck_assert_uint_gt(latency_quantile(&l, 51), 2990000);
}
END_TEST

/* SIZING_LOG: sizes stay within their bounds, and each doubling has the same number. */
START_TEST(log_sizes) {
    static const unsigned long long sizes[] = {8192, 65536, 1000000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const unsigned count = 1000000;
        struct asks a = {count, 0, SIZING_LOG, ask_doublings(sizes[k]), sizes[k]};
        unsigned in[32] = {0};
        unsigned long long most = 0;
        for (unsigned i = 0; i < count; i++) {
            const unsigned long long bytes = ask_bytes(&a, i, 3);
            ck_assert(bytes >= 16 && bytes <= sizes[k]);
            if (bytes > most) most = bytes;
            in[63 - __builtin_clzll(bytes / 16)]++;
        }
        ck_assert_uint_gt(most, sizes[k] - sizes[k] / 100);
        for (unsigned d = 0; 32ull << d <= sizes[k]; d++) {
            const double wanted = count * 65536.0 / a.powers;
            ck_assert(in[d] > wanted * .99 && in[d] < wanted * 1.01);
        }
    }
}
END_TEST

/* One in 1,000 stays, evenly distributed. */
START_TEST(stays) {
    unsigned in[10] = {0}, all = 0;
    for (unsigned i = 0; i < 10000000; i++)
        if (pinned_stays(i)) in[i / 1000000]++, all++;
    ck_assert(all > 9700 && all < 10300);
    for (int k = 0; k < 10; k++) ck_assert(in[k] > 850 && in[k] < 1150);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("latency");
    TCase *tests = tcase_create("latency");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, bins);
    tcase_add_test(tests, quantiles);
    tcase_add_test(tests, few);
    tcase_add_test(tests, log_sizes);
    tcase_add_test(tests, stays);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
