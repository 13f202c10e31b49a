# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sums the results that test suites print: the closing lines of Check, "name: N passed, N failed" of our shell suites, and
# "matrix: N combinations, N failed" of make matrix. If make gives up on a target without a failing test before it (for example,
# because it does not compile), that counts as one failure. The target check is skipped: it only sums the others. Prints "PASSED FAILED".
/^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+/ {
    gsub(/[^0-9 ]/, "")
    failed += $3 + $4
    passed += $2 - $3 - $4
    told = told || $3 + $4
}
/^[a-z][a-z0-9_-]*: [0-9]+ passed, [0-9]+ failed$/ { passed += $2; failed += $4; told = told || $4 }
/^matrix: [0-9]+ combinations, [0-9]+ failed$/ { passed += $2 - $4; failed += $4; told = told || $4 }
/^make(\[[0-9]+\])?: \*\*\* \[/ && !/: check\] / {
    if (!told)
        failed++
    told = 0
}
END { print passed + 0, failed + 0 }
