#!/usr/bin/env bash
# run.sh BUILD SUITE...: runs the GPU suites; says so and fails where there is no GPU.
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
exit "$failed"
