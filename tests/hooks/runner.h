/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_HOOKS_RUNNER_H
#define MM_HOOKS_RUNNER_H

#include <check.h>

/* Runs the suite; returns the exit status for main. */
static inline int suite_run(Suite *s) {
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
