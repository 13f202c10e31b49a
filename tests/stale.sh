#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks the lists of planted faults, of which CI has time to plant the model's only: each text that a fault replaces must still be in its file. A fault whose text is gone
# is not planted, so it says nothing of the suites. Ends with "stale: N passed, M failed".
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
passed=0 failed=0

# check LIST SOURCE: the files that a list names are in the folder SOURCE.
check() {
    local line said
    while IFS= read -r line; do
        [[ $line == "#"* || -z $line ]] && continue
        if said=$(plant "$line" "$2" "$work"); then
            ((++passed))
        else
            ((++failed))
            printf 'FAIL  %s: %s\n' "$1" "$said"
        fi
    done <"$1"
}

# A line of the model's list has a second field, the scenarios, and may replace several texts; CI plants them, but late.
pairs() {
    awk -F ' @@ ' '!/^#/ && NF {for (i = 4; i < NF; i += 2) print $1 " @@ " $3 " @@ " $i " @@ " $(i + 1)}' tests/model/mutants.txt
}
pairs >"$work/model.txt"

for list in unit stress hooks; do check "tests/$list/mutants.txt" .; done
check tests/fit/mutants.txt runtime/host/fit
check tests/load/mutants.txt interpose/load
check "$work/model.txt" runtime
echo "stale: $passed passed, $failed failed"
((failed == 0 && passed != 0))
