#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# crowded.sh BUILD SUITE...: runs the GPU suites on a shared device: while another process holds all but 8 GB of its memory, and two instances at
# the same time. Ends with "crowded: N passed, M failed".
set -u
build=$1
shift
left_mib=8192 passed=0 failed=0
export MM_TEST_SHARED=1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit

# run NAME SUITE: runs the suite, and prints its result, and its output if it failed.
run() {
    local log=$dir/${1// /_}_${2##*/} begin=$SECONDS status
    timeout 120 "$build/bin/mmrun" "$2" >"$log" 2>&1
    status=$?
    printf '%s, %s: status %s, %s s\n' "${2##*/}" "$1" "$status" "$((SECONDS - begin))"
    ((status == 0)) || tail -n 15 "$log"
    return "$status"
}
count() { if (($1 == 0)); then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }

mkfifo "$dir/hold" || exit
timeout 600 "$build/tests/gpu/occupy" "$left_mib" <"$dir/hold" >"$dir/state" &
exec 3>"$dir/hold" # until this is closed it keeps what it has
for _ in {1..600}; do [[ -s $dir/state ]] || sleep 0.1; done
state=$(<"$dir/state")
if [[ $state ]]; then
    echo "another process holds the rest: $state"
    for suite in "$@"; do run 'little memory' "$suite"; count $?; done
else
    echo 'FAIL  the process that takes the memory does not start'
    failed=$((failed + 1))
fi
exec 3>&-
wait

for suite in "$@"; do
    run 'first of two' "$suite" &
    first=$!
    run 'second of two' "$suite"
    count $?
    wait "$first"
    count $?
done
echo "crowded: $passed passed, $failed failed"
((failed == 0))
