#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# trace.sh BUILD: traces of programs are valid, have as many mallocs and frees as the programs make, replay without NULL, and cost at most three times the program's time.
# Ends with "trace: N passed, M failed", and prints what each took.
set -u
build=$(readlink -f "$1")
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
out=$dir/out

# shellcheck source=tests/gpu/timed.sh
source "$(dirname "$0")/timed.sh"
# counts FILE: mallocs, NULLs, frees, dropped, as mmbench --check-trace prints them.
counts() { "$build/bin/mmbench" --check-trace "$1" 2>&1 | sed -nE 's/.*: ([0-9]+) mallocs, ([0-9]+) NULLs, ([0-9]+) frees in .*; ([0-9]+) events dropped$/\1 \2 \3 \4/p'; }

# traced NAME MALLOCS FREES COMMAND...: MALLOCS "*": whatever the program makes, and nothing is dropped.
traced() {
    local name=$1 mallocs=$2 frees=$3 file=$dir/$1.trace plain with got
    shift 3
    plain=$(least_ms "$build/bin/mmrun" "$@") || plain=0
    with=$(least_ms "$build/bin/mmrun" --trace="$file" "$@") || with=0
    check "$name runs" test "$plain" -gt 0 -a "$with" -gt 0
    check "$name: $with ms instead of $plain" test "$with" -le $((3 * plain))
    got=$(counts "$file")
    echo "$name: $plain ms, traced $with ms; mallocs, NULLs, frees, dropped: ${got:-no valid trace}"
    # shellcheck disable=SC2053 # a pattern
    check "$name: counts" test "${got:+1}" = 1
    [[ $mallocs == '*' ]] || check "$name: $got, expected $mallocs 0 $frees 0" test "$got" = "$mallocs 0 $frees 0"
    "$build/bin/mmbench" --replay "$file" --allocators mm --runs 10 >"$out" 2>&1
    check "$name: replay" test $? = 0
    check "$name: a replay has the trace's counts" grep -q ": ${got%% *} mallocs, " "$out"
    check "$name: a replay gets no NULL" grep -qE '^mm .* 0$' "$out"
    cat "$out"
}

traced failing 1310720 1310720 "$build/tests/gpu/failing"
traced failing_plain 1310720 1310720 "$build/tests/gpu/failing_plain"
for name in graph lists strings table; do traced "$name" '*' '*' "$build/examples/$name"; done
echo "trace: $passed passed, $failed failed"
((failed == 0))
