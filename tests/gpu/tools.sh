#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tools.sh BUILD: NVIDIA's tools work on a program that mm took over at build time or at load time as on one built by plain nvcc: ncu, cuda-gdb,
# compute-sanitizer, cuobjdump, nvdisasm. Ends with "tools: N passed, M failed", and lists missing tools as skipped.
set -u
build=$1 passed=0 failed=0
tests=$build/tests/gpu
library=$(readlink -f "$build/lib/libmm.so.1")
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit
out=$dir/out
line=$(grep -n 'the line that tools.sh looks for' tests/gpu/tools.cu | cut -d: -f1)

# check NAME COMMAND...: the command succeeds.
check() {
    if "${@:2}"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  $1:"
        tail -n 25 "$out"
    fi
}
has() {
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not here"
    return 1
}
prints() { grep -qE -- "$1" "$out"; }

built=$tests/tools plain=$tests/plain_tools

if has ncu; then
    for program in "$built" "$plain"; do
        timeout 120 ncu --target-processes all --metrics smsp__inst_executed.sum --csv "$build/bin/mmrun" "$program" >"$out" 2>&1
        check "ncu, ${program##*/}: right, on mm's heap" prints "^tools: 64 rows right, heap of mm's$"
        check "ncu, ${program##*/}: the metric of its kernel" prints '"fill_rows.*"smsp__inst_executed.sum","inst","[1-9][0-9,]*"'
    done
fi

if has cuda-gdb; then
    for program in "${built}_debug" "${plain}_debug"; do
        timeout 120 cuda-gdb -batch -ex "set environment LD_PRELOAD $library" -ex 'set breakpoint pending on' -ex "break tools.cu:$line" -ex run \
            -ex 'print row' -ex 'print sum - row - 40 * row' -ex 'print p[3] - row' -ex bt -ex "x/2i \$pc" -ex delete -ex continue "$program" >"$out" 2>&1
        check "cuda-gdb, ${program##*/}: stops in the kernel" prints "fill_rows.* at .*tools.cu:$line"
        check "cuda-gdb, ${program##*/}: locals" prints '^[$]1 = [0-9]+$'
        check "cuda-gdb, ${program##*/}: locals that were computed" prints '^[$]2 = 780$'
        check "cuda-gdb, ${program##*/}: the heap's memory" prints '^[$]3 = 3$'
        check "cuda-gdb, ${program##*/}: machine code" prints '<.*fill_rows.*\+[0-9]+>'
        check "cuda-gdb, ${program##*/}: goes on" prints "^tools: 64 rows right, heap of mm's$"
    done
fi

# memcheck's report of a write behind an array, without addresses and process numbers.
outside() {
    grep -E 'Invalid|    at |by thread|bytes after|ERROR SUMMARY' "$1" | sed -E 's/0x[0-9a-f]{8,}/@/g'
}
if has compute-sanitizer; then
    sanitize=(timeout 120 compute-sanitizer --tool memcheck --target-processes all --error-exitcode 9)
    "${sanitize[@]}" "${plain}" outside >"$dir/nvcc" 2>&1
    outside "$dir/nvcc" >"$dir/nvcc.report"
    cp "$dir/nvcc" "$out"
    check "compute-sanitizer, nvcc's: the line" grep -q "tools.cu:$line" "$dir/nvcc.report"
    for program in "$built" "$plain"; do
        "${sanitize[@]}" "$build/bin/mmrun" "$program" >"$out" 2>&1
        check "compute-sanitizer, ${program##*/}: nothing" prints 'ERROR SUMMARY: 0 errors'
        check "compute-sanitizer, ${program##*/}: right, on mm's heap" prints "^tools: 64 rows right, heap of mm's$"
        "${sanitize[@]}" "$build/bin/mmrun" "$program" outside >"$out" 2>&1
        outside "$out" >"$dir/report"
        diff "$dir/nvcc.report" "$dir/report" >"$out"
        check "compute-sanitizer, ${program##*/}: a write behind an array as in nvcc's" test ! -s "$out"
    done
fi

if has cuobjdump && has nvdisasm; then
    cuobjdump -sass "$built" >"$out" 2>&1
    check 'cuobjdump: the kernel and the allocator' prints 'Function : .*fill_rows'
    check 'cuobjdump: the allocator' prints 'Function : .*malloc'
    (cd "$dir" && cuobjdump -xelf all "$(readlink -f "$OLDPWD/$built" 2>/dev/null || readlink -f "$built")") >"$out" 2>&1
    nvdisasm -g -c "$dir"/*.cubin >"$out" 2>&1
    check 'nvdisasm: -lineinfo' prints "tools.cu\", line $line"
fi
echo "tools: $passed passed, $failed failed"
((failed == 0))
