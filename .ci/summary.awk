# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sums what test suites say of themselves: Check's closing lines, and our shell suites'
# "name: N passed, N failed", or make matrix's "matrix: N combinations, N failed". A target that make gives up without a failing test before it (it did not
# compile, say) counts as one failure; check itself is the sum of them. Prints "PASSED FAILED".
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
