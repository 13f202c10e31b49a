#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# pool.sh BUILD [OPERATIONS]: cudaMalloc and cudaFree from a pool, in each mode and with each fit, on a GPU; then one run of OPERATIONS (a million), and times.
set -u
build=$1 operations=${2-1000000} failed=0
pool=$build/tests/gpu/pool
times=$(mktemp) && trap 'rm -f "$times"' EXIT || exit
run() { # SETTING... -- ARGUMENT...: runs with a bound, and reports a failure
    local settings=()
    while [[ $1 != -- ]]; do settings+=("$1"); shift; done
    shift
    env "${settings[@]}" timeout 300 "$build/bin/mmrun" "$pool" "$@" || { echo "pool ${settings[*]} $*: failed"; failed=1; }
}
for mode in keep async; do
    for fit in tlsf segregated bitmask first next best; do run "MM_POOL=$mode" "MM_POOL_FIT=$fit" -- fuzz 30000 "$RANDOM"; done
    run "MM_POOL=$mode" MM_POOL_CARVE=32M -- fuzz 30000 "$RANDOM"
    run "MM_POOL=$mode" -- waits
done
run MM_POOL=async -- fuzz "$operations" 1
for mode in off small keep async; do
    echo "MM_POOL=$mode"
    run "MM_POOL=$mode" -- times
done
# Programs that were not written for this: the same output in each mode.
for program in torch_pool cupy_pool; do
    module=${program%_pool} expected=
    python3 -c "import $module" 2>/dev/null || { echo "$module: not tried, it is not here"; continue; }
    for mode in off small keep async; do
        said=$(MM_POOL=$mode PYTORCH_NO_CUDA_MEMORY_CACHING=1 timeout 300 "$build/bin/mmrun" python3 "tests/gpu/python/$program.py" 2>"$times") || failed=1
        [[ $expected ]] || expected=$said
        if [[ $said == *" ok" && $said == "$expected" ]]; then
            echo "$program, MM_POOL=$mode: the same output; $(tail -n 1 "$times")"
        else
            printf '%s, MM_POOL=%s: other output:\n%s\n' "$program" "$mode" "$said"
            failed=1
        fi
    done
done
# compute-sanitizer sees the program's own calls: the pool is off.
if command -v compute-sanitizer >/dev/null; then
    said=$(MM_POOL=async MM_STATS=text timeout 300 "$build/bin/mmrun" compute-sanitizer "$pool" fuzz 2000 1 2>&1) || failed=1
    if [[ $said == *'0 errors'* && $said != *'pool on device'* ]]; then echo 'compute-sanitizer: the pool is off'; else printf 'compute-sanitizer: %s\n' "$said"; failed=1; fi
fi
exit "$failed"
