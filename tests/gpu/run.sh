#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh BUILD SUITE...: runs the GPU suites; without a GPU, prints so and fails.
set -u
build=$1
shift
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >/dev/null 2>&1; then
    echo "check-gpu: no GPU here (nvidia-smi finds none); the suites are built, nothing was run" >&2
    exit 1
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
failed=0
for suite in "$@"; do
    "$build/bin/mmrun" "$suite" || failed=1
done

# Cases that need a separate process; and 100 processes in which 16 threads race for the first launch.
ways=$build/tests/gpu/ways
for case in forks leave trims "time 60"; do
    read -r -a arguments <<<"$case"
    timeout 120 "$build/bin/mmrun" "$ways" "${arguments[@]}" || { echo "ways $case: failed"; failed=1; }
done
races=0
for _ in {1..10}; do
    pids=()
    for _ in {1..10}; do
        timeout 60 "$build/bin/mmrun" "$ways" race &
        pids+=("$!")
    done
    for pid in "${pids[@]}"; do wait "$pid" && races=$((races + 1)); done
done
echo "first launches raced in $races of 100 processes without a fault"
[[ $races == 100 ]] || failed=1
for two in "$build"/tests/gpu/two_*; do
    [[ -x $two && $two != *.o ]] || continue # none, if make allocators was not run
    MM_ON_MISUSE=ignore timeout 120 "$build/bin/mmrun" "$two" || { echo "${two##*/}: failed"; failed=1; }
done
tests/gpu/planted.sh "$build" || failed=1
tests/gpu/filled.sh "$build" || failed=1
tests/gpu/failing.sh "$build" || failed=1
tests/gpu/trace.sh "$build" || failed=1
tests/gpu/profile.sh "$build" || failed=1
tests/gpu/host.sh "$build" || failed=1
tests/gpu/pool.sh "$build" || failed=1
tests/gpu/tools.sh "$build" || failed=1
tests/gpu/misuse.sh "$build" || failed=1
tests/gpu/mps.sh "$build" || failed=1
tests/gpu/python.sh "$build" || failed=1
tests/gpu/examples.sh "$build" || failed=1
exit "$failed"
