/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's cases "footprint", "pinned" and "latency" without a GPU (footprint.h). */
#define _GNU_SOURCE
#include "tests/bench/footprint.h"

/* Objects of 64 B: the same number of bytes is live in each round. */
START_TEST(footprint) {
    begin(), keeps = 1;
    run(run_footprint, 64, 100000, 30);
    const double bytes = 6400000, device = 2 * bytes + METADATA;
    about(row("live", 0, 0), bytes / MIB);
    about(row("taken", 0, 0), (device + ACCOUNTED) / MIB);
    about(row("taken_over", 0, 0), (device + ACCOUNTED) / bytes);
    about(row("beyond", 0, 0), (device + OVERHEAD) / MIB); /* without the assertion's memory */
    about(row("taken_end", 0, 0), (device + ACCOUNTED) / MIB);
    about(row("freed_1s", 0, 0), (device + ACCOUNTED) / MIB);
    about(row("freed_late", 0, 0), (METADATA + ACCOUNTED) / (double)MIB);
    ck_assert_ptr_nonnull(strstr(rows, "account after 30 s\n"));
    ck_assert_uint_eq(live, 0);
    ck_assert_uint_eq(calls, 100000 + 40 * 50000);
    ck_assert_int_eq(slept, 30);
    begin();
    run(run_footprint, 64, 100000, 2);
    about(row("freed_1s", 0, 0), (METADATA + ACCOUNTED) / (double)MIB);
    about(row("taken_end", 0, 0), (device + ACCOUNTED) / MIB);
    ck_assert_int_eq(slept, 2);
}
END_TEST

/* With an account, "taken" includes a peak between two looks. */
START_TEST(within_a_kernel) {
    begin(), spikes = 1;
    run(run_footprint, 64, 100000, 2);
#ifdef NO_ACCOUNT
    about(row("taken", 0, 0), (2 * 6400000. + METADATA + OVERHEAD) / MIB);
#else
    about(row("taken", 0, 0), (3 * 6400000. + METADATA) / MIB);
#endif
}
END_TEST

/* "live" is the maximum over all rounds, not the value of the last one. */
START_TEST(live_at_most) {
    begin();
    run(run_footprint, 4096, 1000, 2);
    about(row("live", 0, 0), (double)live_most / MIB);
    ck_assert(row("taken_end", 0, 0) < row("taken", 0, 0));
}
END_TEST

START_TEST(no_workload) {
    begin();
    run(run_footprint, 64, 99999, 2);
    ck_assert_str_eq(fatal, "footprint: not a workload of its table");
}
END_TEST

START_TEST(failures) {
    begin(), is_null = 1;
    run(run_footprint, 64, 100000, 2);
    row("taken", 100000 - 2 * MIB / 64, 0);
    ck_assert_uint_eq(calls, 100000); /* the rounds end */
    begin(), breaks = 100000;
    run(run_footprint, 64, 100000, 2);
    row("freed_late", 0, 1);
    begin(), breaks = 1;
    run(run_pinned, 4096, 1024, 1);
    ck_assert_ptr_nonnull(strstr(rows, "live MiB "));
    ck_assert_ptr_null(strstr(rows, " 0 0 nonnull"));
    begin(), is_null = 1;
    run(run_pinned, 4096, 1024, 1);
    row("taken", 1024 - 512, 0);
    ck_assert_uint_eq(calls, 1024);
}
END_TEST

/* The first size, then the eight others; one in 1,000 objects of each stays. */
START_TEST(pinned) {
    static const unsigned long long sizes[] = {4096, 32, 64, 128, 256, 512, 1024, 2048, 8192};
    unsigned long long stayed = 0, most = 0, asks = 0;
    begin(), keeps = 1;
    run(run_pinned, 4096, 1024, 1);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        most = stayed + PINNED_BYTES, asks += PINNED_BYTES / sizes[k];
        for (unsigned i = 0; i < PINNED_BYTES / sizes[k]; i++) stayed += pinned_stays(i) ? sizes[k] : 0;
    }
    ck_assert_uint_eq(most, live_most);
    ck_assert_uint_eq(calls, asks);
    about(row("live", 0, 0), (double)most / MIB);
    about(row("taken", 0, 0), (2 * (double)most + METADATA + ACCOUNTED) / MIB);
    about(row("taken_over", 0, 0), (2 * (double)most + METADATA + ACCOUNTED) / (double)most);
    about(row("freed_1s", 0, 0), row("taken_end", 0, 0)); /* because of `keeps` */
    ck_assert_uint_eq(live, 0);
    begin();
    run(run_pinned, 4096, 1024, 1);
    about(row("taken_end", 0, 0), (2 * (double)stayed + METADATA + ACCOUNTED) / MIB);
    about(row("freed_1s", 0, 0), (METADATA + ACCOUNTED) / (double)MIB);
    ck_assert_int_eq(slept, 1);
}
END_TEST

START_TEST(latency) {
    begin();
    run_request(run_latency, 16, 1024, 1000000, 1);
#ifdef NO_ACCOUNT
    ck_assert_ptr_nonnull(
        strstr(rows, "malloc cycles 1529 1000 20230 1015808 latency 0 0 nonnull written\n")); /* all calls, including those of the first kernel */
    ck_assert_ptr_nonnull(strstr(rows, "grown calls 0 0 0 1 "));
#else
    ck_assert_str_eq(rows, "malloc cycles 1511 1000 2023 983040 latency 0 0 nonnull written\n"
                           "malloc_p99 cycles 2013 2013 2013 1 - 0 0 nonnull written\n"
                           "malloc_over ratio 1.33885 1.33885 1.33885 1 - 0 0 nonnull written\n"
                           "free cycles 611 100 1123 983040 latency 0 0 nonnull written\n"
                           "free_p99 cycles 1113 1113 1113 1 - 0 0 nonnull written\n"
                           "free_over ratio 1.83797 1.83797 1.83797 1 - 0 0 nonnull written\n"
                           "grown calls 65536 65536 65536 1 - 0 0 growth_count\n"
                           "grown_longest cycles 20230 20230 20230 1 - 0 0 growth_count\n");
    begin(), latency_growing = 1000;
    run_request(run_latency, 16, 1024, 1000000, 1);
    ck_assert_str_eq(fatal, "latency: the heap grew during every kernel");
#endif
    begin(), child_seconds = .02; /* 15 ms: each read of the clock advances it by 1 ms */
    run_request(run_latency, 4096, 262144, 1000000000, 1);
    ck_assert_uint_eq(latency_kernels, 1 + 15);
    begin(), is_null = 1;
    run_request(run_latency, 16, 32, 1000000, 1);
    ck_assert_uint_eq(latency_kernels, 1 + 1);
    row("malloc_over", 5, 0);
    ck_assert_ptr_nonnull(strstr(rows, " 0 - 5 0 nonnull written\nfree ")); /* malloc_over has no number */
    begin();                                                                /* after a warm-up, during which the heap grows */
    run(run_latency, 16, 1024, 1000000);
    ck_assert_ptr_nonnull(strstr(rows, "grown calls 0 0 0 1 "));
    ck_assert_ptr_nonnull(strstr(rows, " 1015808 latency 0 0 nonnull written\n"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("footprint");
    TCase *tests = tcase_create("footprint");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, footprint);
    tcase_add_test(tests, within_a_kernel);
    tcase_add_test(tests, live_at_most);
    tcase_add_test(tests, no_workload);
    tcase_add_test(tests, failures);
    tcase_add_test(tests, pinned);
    tcase_add_test(tests, latency);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
