#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# failing.sh BUILD: the requests that MM_FAIL chooses get NULL, in a program with the allocator in its machine code, in its PTX, linked by nvlink, and taken over at
# load time. Ends with "failing: N passed, M failed".
set -u
build=$1 passed=0 failed=0
out=$(mktemp) && trap 'rm -f "$out"' EXIT || exit
each=655360 # requests of a kernel's name in failing.cu

# expect PROGRAM MAKE OTHER SETTING: so many requests of each kernel fail; "sum N": so many of both.
expect() {
    local program=$1 make=$2 other=$3 setting=$4 sum status got
    env "$setting" timeout 120 "$build/bin/mmrun" "$build/tests/gpu/$program" >"$out" 2>&1
    status=$?
    got=$(sed -n 's/^failing: make \([0-9]*\), other \([0-9]*\) of [0-9]* each$/\1 \2/p' "$out")
    sum=unknown
    [[ ! $got ]] || sum=$((${got% *} + ${got#* })) # an error in arithmetic would end the loop of all programs, without a failure
    [[ $make != sum ]] || got="sum $sum"
    if [[ $status == 0 && $got == "$make $other" ]] &&
        { [[ $setting == MM_FAIL=0 ]] || grep -q "^mm: device 0: $setting: $sum of $((2 * each)) requests failed$" "$out"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s, %s: status %s, NULL: %s, expected %s: %s\n' "$program" "$setting" "$status" "${got:-unknown}" "$make $other" "$(tail -n 1 "$out")"
    fi
}
for program in failing failing_rdc failing_ptx failing_plain; do
    expect "$program" 0 0 MM_FAIL=0
    for seed in '' :7 :123456789; do expect "$program" sum 1280 "MM_FAIL=1/1024$seed"; done
    expect "$program" sum $((2 * each)) MM_FAIL=1/1
    for number in 1 1000 $((2 * each)); do expect "$program" sum 1 "MM_FAIL=$number"; done
    expect "$program" 0 0 "MM_FAIL=$((2 * each + 1))"
    expect "$program" "$each" 0 MM_FAIL=kernel:make
    expect "$program" 0 "$each" MM_FAIL=kernel:other
    expect "$program" 0 "$each" MM_FAIL=kernel:_ZN5inner5otherEPj
    expect "$program" 0 0 MM_FAIL=kernel:inner
done
MM_CHECK=1 expect failing sum 1280 MM_FAIL=1/1024
if grep -q ': checked: 0 leaks of 0 bytes, 0 writes past the end, 0 writes after free, 0 misuses of free$' "$out"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "FAIL  failing, MM_CHECK=1: $(tail -n 1 "$out")"
fi
echo "failing: $passed passed, $failed failed"
((failed == 0))
