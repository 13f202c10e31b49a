# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# For scripts that source it: check, which counts in `passed` and `failed`, and least_ms. Both leave output in the file $out.
passed=0 failed=0
: "${out:?the file for output}"

# check NAME COMMAND...: the command succeeds.
check() {
    if "${@:2}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: %s\n' "$1" "$(tail -n 3 "$out")"
    fi
}
now_ms() { date +%s%3N; }
# least_ms COMMAND...: the least time of five runs.
least_ms() {
    local begin took least=1000000000
    for _ in 1 2 3 4 5; do
        begin=$(now_ms)
        "$@" >"$out" 2>&1 || return
        took=$(($(now_ms) - begin))
        ((took >= least)) || least=$took
    done
    echo "$least"
}
