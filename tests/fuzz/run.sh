#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh PROGRAM SECONDS SEEDS MAX_BYTES: replays the seeds (a folder), then fuzzes for SECONDS from them and from the inputs that earlier runs
# found (next to PROGRAM), with inputs of MAX_BYTES at most. Each seed is a test, and so is the fuzzing. A crash prints one line with the path of
# the input that reproduces it: PROGRAM PATH. Each input in tests/fuzz/known must still fail (after a fix, move its file to
# the seeds).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
program=$1 seconds=$2
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
    echo "fuzz: FUZZ_SECONDS: \"$seconds\" is no number of seconds; expected one such as 60" >&2
    exit 2
fi
seeds=$3
work=$(dirname "$program")
flags=(-timeout=20 -rss_limit_mb=4096 "-max_len=$4" -detect_leaks=0)
passed=0 failed=0

# tell LOG INPUT: prints the messages of the oracle, a sanitizer or libFuzzer in LOG, and the command that reproduces the failure.
tell() {
    grep -m 3 -E '^fuzz: |runtime error: |^(==[0-9]+== ?)?(ERROR|SUMMARY): ' "$1"
    printf 'fuzz: FAILED; reproduce it with: %s %s\n' "$program" "$2"
    sed -n 's/^Base64: /fuzz: the same, where that file is gone (base64 -d): /p' "$1"
}

mkdir -p "$work/corpus"
# All seeds in one process; one by one only if that fails.
all=("$seeds"/*)
if "$program" "${flags[@]}" "${all[@]}" >"$work/seed.log" 2>&1; then
    passed=${#all[@]} all=()
fi
for seed in "${all[@]}"; do
    if "$program" "${flags[@]}" "$seed" >"$work/seed.log" 2>&1; then
        ((++passed))
    else
        ((++failed))
        tell "$work/seed.log" "$seed"
    fi
done
for known in tests/fuzz/known/*; do
    [[ -e $known ]] || continue
    if "$program" "${flags[@]}" "$known" >"$work/seed.log" 2>&1; then
        ((++failed))
        printf 'fuzz: FAILED: %s is cured; move it to %s\n' "$known" "$seeds"
    else
        printf 'fuzz: known defect: %s: %s\n' "$known" "$(grep -m 1 '^fuzz: ' "$work/seed.log")"
    fi
done
if "$program" "${flags[@]}" -max_total_time="$seconds" -artifact_prefix="$work/" -print_final_stats=1 \
    "$work/corpus" "$seeds" >"$work/log" 2>&1; then
    ((++passed))
    grep -E 'DONE|exec_per_sec' "$work/log"
else
    ((++failed))
    tell "$work/log" "$(sed -n 's/.*Test unit written to //p' "$work/log")"
fi
printf 'fuzz: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
