#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh: plants the faults of mutants.txt in the examples, one at a time; on_cpu.sh must notice each. Ends with "examples-mutants: N
# passed, N failed".
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
passed=0 failed=0 whys=('not noticed' '' 'not planted')
while IFS= read -r line; do
    [[ $line && $line != '#'* ]] || continue
    file=${line%% @@ *} new=${line##* @@ } old=${line#* @@ } old=${old% @@ *}
    OLD=$old NEW=$new perl -pe 's/$ENV{OLD}/$ENV{NEW}/' "examples/$file.cu" >"$work/$file.cu"
    got=2
    if ! cmp -s "examples/$file.cu" "$work/$file.cu"; then
        got=0
        tests/examples/on_cpu.sh "$work/$file.cu" "$work" >"$work/said" 2>&1 || got=$?
    fi
    if ((got == 1)); then
        ((++passed))
    else
        ((++failed))
        printf 'examples-mutants: FAILED: %s: %s\n' "${whys[got]}" "$line"
    fi
done <tests/examples/mutants.txt
printf 'examples-mutants: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
