#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks the lists of planted faults that CI has no time to plant: each text that a fault replaces must still be in its file. A fault whose text is gone
# is not planted, so it says nothing of the suites. Ends with "stale: N passed, M failed".
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
passed=0 failed=0

# check LIST SOURCE: the files that a list names are in the folder SOURCE.
check() {
    local line name file from
    while IFS= read -r line; do
        [[ $line == "#"* || -z $line ]] && continue
        IFS=$'\t' read -r name file from _ <<<"${line// @@/$'\t'}"
        file=$2/${file# } from=${from# }
        if [[ $(<"$file") == *"${from//'\n'/$'\n'}"* ]]; then
            ((++passed))
        else
            ((++failed))
            echo "FAIL  $1: $name: $file has no longer: $from"
        fi
    done <"$1"
}

for list in unit stress hooks; do check "tests/$list/mutants.txt" .; done
check tests/fit/mutants.txt runtime/host/fit
check tests/load/mutants.txt interpose/load
echo "stale: $passed passed, $failed failed"
((failed == 0 && passed != 0))
