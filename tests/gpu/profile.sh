#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# profile.sh BUILD: profiles of programs have the requests of each kernel, in every form, and cost at most three times the program's time; series of maps cover a run.
# Ends with "profile: N passed, M failed", and prints what each took.
set -u
build=$(readlink -f "$1")
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
out=$dir/out run=$build/bin/mmrun

# shellcheck source=tests/gpu/timed.sh
source "$(dirname "$0")/timed.sh"
# row FILE KERNEL: the numbers of the first row whose kernel's name contains KERNEL: mallocs, bytes, NULLs, frees, live, live bytes.
row() { awk -v kernel="$2" 'NR > 5 && index($0, kernel) {print $1, $2, $3, $4, $5, $6; exit}' "$1"; }
# is FILE KERNEL NUMBERS
is() { check "$1: $2: $(row "$dir/$1" "$2"), expected $3" test "$(row "$dir/$1" "$2")" = "$3"; }

# Exactly known: 4,096 threads, 40 rounds.
calls=$((4096 * 40))
for program in profiled profiled_plain profiled_ptx; do
    "$run" --profile="$dir/$program.txt" "$build/tests/gpu/$program" >"$out" 2>&1
    check "$program" test $? = 0
    grep -h '^mm:' "$out"
    is "$program.txt" fill "$((3 * calls)) $((calls * (48 + 1000 + 20000))) 0 0 0 0"
    is "$program.txt" keep "$calls $((calls * 256)) 0 0 $calls $((calls * 256))"
    is "$program.txt" drain "0 0 0 $((3 * calls)) 0 0"
    is "$program.txt" refused "0 0 3 0 0 0"
    is "$program.txt" 'all kernels' "$((4 * calls)) $((calls * (48 + 1000 + 20000 + 256))) 3 $((3 * calls)) $calls $((calls * 256))"
    check "$program: no other kernel" test "$(sed -n '5,/all kernels$/p' "$dir/$program.txt" | wc -l)" = 6
done
# The other forms agree with the text.
for form in folded svg pprof pb.gz; do
    "$run" --profile="$dir/p.$form" "$build/tests/gpu/profiled" >"$out" 2>&1
    check "p.$form" test -s "$dir/p.$form"
done
check 'folded: bytes' test "$(awk '{n += $NF} END {print n}' "$dir/p.folded")" = $((calls * (48 + 1000 + 20000 + 256)))
check 'folded: a size of a kernel' grep -qE "fill.*;up to 48 bytes $((calls * 48))\$" "$dir/p.folded"
check 'svg' grep -q "by $((4 * calls)) mallocs" "$dir/p.svg"
check 'gzip' gzip -t "$dir/p.pb.gz"
check 'pprof: names' grep -qa refused "$dir/p.pprof"

# timed NAME COMMAND...: what a profile costs.
timed() {
    local name=$1 plain with
    shift
    plain=$(least_ms "$run" "$@") || plain=0
    with=$(least_ms "$run" --profile="$dir/$name.txt" "$@") || with=0
    check "$name runs" test "$plain" -gt 0 -a "$with" -gt 0
    check "$name: $with ms instead of $plain" test "$with" -le $((3 * plain))
    echo "$name: $plain ms, profiled $with ms; $(grep -h 'profile in' "$out" | sed 's/.*: \([0-9]* mallocs\)/\1/'); $(grep -c . "$dir/$name.txt") lines"
    check "$name: each kernel has a name" eval "! grep -q 'not known' '$dir/$name.txt'"
}
for name in failing failing_plain profiled; do timed "$name" "$build/tests/gpu/$name"; done
for name in graph lists strings table; do timed "$name" "$build/examples/$name"; done
check 'failing: make' test "$(row "$dir/failing.txt" make | cut -d' ' -f1,4)" = '655360 655360'
check 'failing: other' test "$(row "$dir/failing.txt" other | cut -d' ' -f1,4)" = '655360 655360'

# 121 launches: every eighth has a frame, and the end has one.
plain=$(least_ms "$run" "$build/tests/gpu/profiled") || plain=0
with=$(least_ms "$run" --map-series="$dir/series.svg" "$build/tests/gpu/profiled") || with=0
echo "series: $plain ms, with a series $with ms, $(wc -c <"$dir/series.svg") bytes"
check 'series: frames' test "$(grep -c '>after launch ' "$dir/series.svg")" = 16
check 'series: the last launches' grep -q '>after launch 121: ' "$dir/series.svg"
check 'series: the end' grep -q '>at the end, launches: 121: ' "$dir/series.svg"
check 'series: it is whole' test "$(tail -n 1 "$dir/series.svg")" = '</svg>'
"$run" --map-series="$dir/s.svg" --profile="$dir/s.txt" --stats "$build/examples/graph" >"$out" 2>&1
check 'all at once' test $? = 0 -a -s "$dir/s.svg" -a -s "$dir/s.txt"
echo "profile: $passed passed, $failed failed"
((failed == 0))
