/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The end of each suite's main, but for those on the GPU, which cannot fork (tests/gpu/support.h). */
#ifndef MM_TESTS_RUNNER_H
#define MM_TESTS_RUNNER_H

#include <check.h>

/* Runs the suite, which it frees; CK_VERBOSITY in the environment sets how much is printed. Returns the exit status for main. */
static inline int suite_run(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
