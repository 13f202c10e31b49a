#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs the GPU checks of the hooks (built by `make gpu-hooks`). Usage: gpu_run.sh BUILD. Prints one line for each
# case and ends with "N passed, M failed".
set -u
build=${1:?usage: gpu_run.sh BUILD}
dir=$build/tests/hooks/gpu
lib=$(readlink -f "$build/lib/libmm.so.1") || exit 2
passed=0 failed=0

# Programs linked with mmhook.o look for libmm.so.1 in the original build folder.
baked=$(sed -n 's|^INPUT(\(.*\)/mmhook.o.*|\1|p' "$build/lib/libmm.so")
if [ ! -e "$baked/libmm.so.1" ]; then
    mkdir -p "$baked" && cp "$lib" "$baked/"
fi

check() { # NAME COMMAND...
    local name=$1 output
    shift
    if output=$(timeout 60 "$@" 2>&1); then
        passed=$((passed + 1))
        printf 'ok    %-44s %s\n' "$name" "$(tr '\n' ' ' <<<"$output")"
    else
        local status=$?
        failed=$((failed + 1))
        printf 'FAIL  %-44s status %s: %s\n' "$name" "$status" "$output"
    fi
}

"$dir/gpu_probe" "$dir/module.fatbin"
export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

for case in function kernel ways contexts foreign-stream reset unload capture; do
    check "driver, preloaded: $case" env MM_HEAP_SIZE=1G LD_PRELOAD="$lib" "$dir/gpu_driver" "$dir/module.fatbin" "$case"
    check "driver, mmhook.o: $case" env MM_HEAP_SIZE=1G "$dir/gpu_driver_hook" "$dir/module.fatbin" "$case"
done
# Code loaded at run time.
for case in module module-options module-file fatbinary library library-preserved library-file link link-files nvrtc nvrtc-cubin; do
    check "code, preloaded: $case" env LD_PRELOAD="$lib" "$dir/gpu_jit" "$dir" "$case"
    check "code, mmhook.o: $case" "$dir/gpu_jit_hook" "$dir" "$case"
    check "code, MM_OFF=1: $case" env MM_OFF=1 LD_PRELOAD="$lib" "$dir/gpu_jit" "$dir" "$case"
done
for case in first reset race limit devices capture-global capture-thread capture-relaxed; do
    size=MM_HEAP_SIZE=256M
    case $case in first | limit) size=MM_VERBOSE=1 ;; esac
    for cudart in static shared ptds; do
        check "$cudart cudart, preloaded: $case" env "$size" LD_PRELOAD="$lib" "$dir/gpu_runtime_$cudart" "$case"
    done
    check "static cudart, mmhook.o: $case" env "$size" "$dir/gpu_runtime_hook" "$case"
done
check "larger than the GPU" env MM_HEAP_SIZE=99999T LD_PRELOAD="$lib" "$dir/gpu_runtime_static" first
check "banana" env MM_HEAP_SIZE=banana LD_PRELOAD="$lib" "$dir/gpu_runtime_static" first

check "what libmm.so adds to a launch" env LD_PRELOAD="$lib" "$dir/gpu_driver" "$dir/module.fatbin" speed
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
