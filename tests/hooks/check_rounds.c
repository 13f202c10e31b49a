/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of shared waits for a context (runtime/host/pool/rounds.c), with a driver whose cuCtxSynchronize the tests hold. */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "mmconfig.h"
#include "runtime/host/pool/rounds.h"
#include "tests/runner.h"

#define CONTEXT ((CUcontext)64)
#define PATIENT 4000000000u /* looks of a thread that shall share */
#define LONG_US 20000       /* a thread that is about to wait waits by then, as a rule */

static int calls, failing_call; /* of cuCtxSynchronize; that one fails */
static bool is_held;            /* the first call does not return */
static long submitted, finished;

static CUresult get_current(CUcontext *context) {
    *context = CONTEXT;
    return CUDA_SUCCESS;
}
static CUresult synchronize(void) {
    const int call = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    const long all = __atomic_load_n(&submitted, __ATOMIC_SEQ_CST);
    while (call == 1 && __atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) usleep(100);
    for (long was = __atomic_load_n(&finished, __ATOMIC_SEQ_CST); was < all;)
        if (__atomic_compare_exchange_n(&finished, &was, all, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
    return call == failing_call ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}
static const struct mm_driver driver = {.cuCtxGetCurrent = get_current, .cuCtxSynchronize = synchronize};

static struct mm_rounds rounds;
static int started;
static void *waits(void *unused) {
    (void)unused;
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    return (void *)(size_t)mm_rounds_wait(&driver, &rounds, CONTEXT, PATIENT);
}

/* One thread is in the driver when three others come. Returns the number of errors. */
static int four_threads(void) {
    pthread_t t[4];
    void *result;
    int errors = 0;
    is_held = true;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&t[i], NULL, waits, NULL), 0);
        while (i == 0 && __atomic_load_n(&calls, __ATOMIC_SEQ_CST) == 0) usleep(100);
    }
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) != 4) usleep(100);
    usleep(LONG_US);
    ck_assert_int_eq(__atomic_load_n(&calls, __ATOMIC_SEQ_CST), 1);
    __atomic_store_n(&is_held, false, __ATOMIC_RELEASE);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &result);
        errors += (size_t)result == CUDA_ERROR_LAUNCH_FAILED;
        ck_assert((size_t)result == CUDA_ERROR_LAUNCH_FAILED || (size_t)result == CUDA_SUCCESS);
    }
    return errors;
}

/* Has four threads wait until they make only `least` calls, since a thread may be suspended just before it waits; they never make fewer. */
static void expect_calls(int least, int errors) {
    int tries = 0;
    do {
        calls = started = 0;
        ck_assert_int_eq(four_threads(), errors);
        ck_assert_int_ge(calls, least);
    } while (calls != least && ++tries < 20);
    ck_assert_int_eq(calls, least);
}

START_TEST(one_call_serves_those_who_came_before) {
    expect_calls(2, 0); /* not 1: that one began before they came */
    ck_assert_ptr_null(waits(NULL));
    ck_assert_int_eq(calls, 3); /* work may have come since */
}
END_TEST

START_TEST(an_error_is_one_threads) {
    failing_call = _i + 1;
    expect_calls(2 + _i, 1); /* the others make one more for themselves */
}
END_TEST

/* A thread whose call does not end is not waited for. */
START_TEST(a_wait_has_a_bound) {
    pthread_t first;
    is_held = true;
    ck_assert_int_eq(pthread_create(&first, NULL, waits, NULL), 0);
    while (__atomic_load_n(&calls, __ATOMIC_SEQ_CST) == 0) usleep(100);
    ck_assert_int_eq(mm_rounds_wait(&driver, &rounds, CONTEXT, MM_POOL_ROUND_LOOKS), CUDA_SUCCESS);
    ck_assert_int_eq(calls, 2);
    ck_assert_ptr_null(waits(NULL)); /* it is known to be slow: nobody looks any more */
    ck_assert_int_eq(calls, 3);
    __atomic_store_n(&is_held, false, __ATOMIC_RELEASE);
    pthread_join(first, NULL);
}
END_TEST

static void *submits(void *looks) {
    for (int i = 0; i < 20000; i++) {
        const long mine = __atomic_add_fetch(&submitted, 1, __ATOMIC_SEQ_CST);
        if (mm_rounds_wait(&driver, &rounds, CONTEXT, (unsigned)(size_t)looks) != CUDA_SUCCESS) return looks;
        if (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < mine) return looks;
    }
    return NULL;
}

/* After a wait, all that was submitted before it is done. */
START_TEST(each_waits_for_its_work) {
    pthread_t t[6];
    void *failed;
    for (size_t i = 0; i < 6; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, submits, (void *)(size_t)(i % 2 ? 3 : MM_POOL_ROUND_LOOKS)), 0);
    for (size_t i = 0; i < 6; i++) {
        pthread_join(t[i], &failed);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("rounds");
    TCase *c = tcase_create("rounds");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, one_call_serves_those_who_came_before);
    tcase_add_loop_test(c, an_error_is_one_threads, 0, 2);
    tcase_add_test(c, a_wait_has_a_bound);
    tcase_add_test(c, each_waits_for_its_work);
    suite_add_tcase(s, c);
    return suite_run(s);
}
