/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The account of a heap, compared with what the device has lost, and replays of traces, which use it, without a GPU (footprint.h). */
#define _GNU_SOURCE
#include "tests/bench/footprint.h"

#ifndef NO_ACCOUNT
START_TEST(account) {
    struct account a;
    begin(), asserted = 1;
    account_begin(&a);
    void *p = take(10 * MIB), *q = take(30 * MIB);
    give(q); /* freed between two looks */
    account_look(&a);
    ck_assert_uint_eq(a.now, 20 * MIB + METADATA);
    ck_assert_uint_eq(a.most, a.now);
    ck_assert_uint_eq(a.beyond, a.now + OVERHEAD);
    give(p);
    account_look(&a);
    ck_assert_uint_eq(a.most, 20 * MIB + METADATA);
    account_peak(&a);
    ck_assert_uint_eq(a.now, METADATA);
    ck_assert_uint_eq(a.most, 80 * MIB + METADATA);
    ck_assert_uint_eq(account_growths(), 2);
    lies = 1;
    if (setjmp(on_fatal) == 0) account_look(&a);
    ck_assert_str_eq(
        fatal,
        "the heap's account: 8388608 bytes are mapped, and the device has lost 78643200; expected 67108864 more or less at most; do other programs use it?");
}
END_TEST

/* Local memory that the driver takes with the first kernel that allocates is not the heap's, and is not memory of an account that is wrong. */
START_TEST(local_memory) {
    struct account a;
    begin(), asserted = 1, stack = LOCAL;
    account_begin(&a);
    launched(), account_warmed();
    take(10 * MIB);
    account_look(&a);
    ck_assert_uint_eq(a.most, 20 * MIB + METADATA);
    lies = 1;
    if (setjmp(on_fatal) == 0) account_look(&a);
    ck_assert_str_eq(
        fatal,
        "the heap's account: 29360128 bytes are mapped, and the device has lost 99614720; expected 67108864 more or less at most; do other programs use it?");
    begin(), asserted = 1, stack = (unsigned long long)PROCESSORS * THREADS_EACH * STACK_LIMIT + ACCOUNT_SLACK_BYTES + MIB;
    account_begin(&a);
    launched();
    if (setjmp(on_fatal) == 0) account_warmed();
    ck_assert_str_eq(
        fatal, "the heap's account: 0 bytes are mapped, and the device has lost 344981504; expected 343932928 more or less at most; do other programs use it?");
    begin(), asserted = 1;
    account_begin(&a);
    take(100 * MIB), unlost = 200 * MIB;
    if (setjmp(on_fatal) == 0) account_warmed();
    ck_assert_ptr_nonnull(strstr(fatal, "218103808 bytes are mapped, and the device has lost 10485760; expected 343932928 "));
    begin(), stack = LOCAL;
    run(run_footprint, 64, 100000, 30);
    about(row("taken", 0, 0), (2 * 6400000. + METADATA) / MIB);
    ck_assert_str_eq(fatal, "");
    begin(), stack = LOCAL;
    run(run_pinned, 4096, 1024, 1);
    row("freed_1s", 0, 0);
    ck_assert_str_eq(fatal, "");
}
END_TEST
#else
START_TEST(account) {
    struct account a;
    begin(), asserted = 1;
    account_begin(&a);
    account_warmed();
    give(take(10 * MIB));
    account_look(&a);
    ck_assert_uint_eq(a.now, METADATA + OVERHEAD);
    account_peak(&a);
    ck_assert_uint_eq(a.most, a.now);
    ck_assert_uint_eq(account_growths(), 0);
}
END_TEST
#endif

/* A first step without calls warms the kernels up. Then the first run is counted, and two are timed. Of CUDA's allocator that step counts, too. */
START_TEST(replay) {
    static const char trace[] = "mm-trace 1\nk 0\nm 1048576 0 0\nk 1\nf 0 0 0\nm 4194304 0 5\nm 1048576 1 40\nm 16 2 1\nend 4 0 1 0\n";
    char path[] = "/tmp/mm-replay-XXXXXX", said[200] = "";
    FILE *out = tmpfile(), *file = fdopen(mkstemp(path), "w");
    ck_assert(out && file && fputs(trace, file) >= 0 && fclose(file) == 0);
    begin(), asserted = 1, stack = LOCAL;
    fflush(stdout);
    const int kept = dup(1);
    dup2(fileno(out), 1);
    if (setjmp(on_fatal) == 0) run_replay(path, 2);
    dup2(kept, 1), close(kept);
    rewind(out);
    ck_assert_str_eq(fatal, "");
    ck_assert(fgets(said, sizeof said, out));
    unsigned long long taken = 0;
    ck_assert_msg(sscanf(said, "@replay 1 1 1 2 %llu 0 0\n", &taken) == 1, "%s", said);
#ifdef NO_ACCOUNT
    ck_assert_uint_eq(taken, 2 * (5 * MIB + 16) + METADATA + OVERHEAD + LOCAL);
#else
    ck_assert_uint_eq(taken, 2 * (5 * MIB + 16) + METADATA);
#endif
    ck_assert(steps == 1 + 3 * 2 && no_calls == 1 && live == 0);
    fclose(out), unlink(path);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("account");
    TCase *tests = tcase_create("account");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, account);
#ifndef NO_ACCOUNT
    tcase_add_test(tests, local_memory);
#endif
    tcase_add_test(tests, replay);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
