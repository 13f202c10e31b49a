#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# planted.sh BUILD: checks the reports of a checked run of a program with planted faults, verbatim except for addresses; compute-sanitizer finds
# as many leaks in CUDA's heap. Ends with "planted: N passed, M failed".
set -u
build=$1 passed=0 failed=0
program=$build/tests/gpu/planted
out=$(mktemp) err=$(mktemp) && trap 'rm -f "$out" "$err"' EXIT || exit

# expect NAME STATUS LINES SETTINGS... -- KINDS...: the lines may be in any order.
expect() {
    local name=$1 wanted=$2 lines=$3 settings=()
    shift 3
    while [[ $1 != -- ]]; do settings+=("$1") && shift; done
    shift
    env "${settings[@]}" timeout 60 "$program" "$@" >"$out" 2>"$err"
    local status=$?
    if [[ $status == "$wanted" && $(<"$out") == planted ]] &&
        diff <(grep . <<<"$lines" | sort) <(sed -E 's/0x[0-9a-f]+/@/' "$err" | sort) >"$out.diff"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: status %s, expected %s\n' "$name" "$status" "$wanted"
        cat "$out.diff"
    fi
    rm -f "$out.diff"
}
summary() { echo "mm: device 0: checked: $1 leaks of $2 bytes, $3 writes past the end, $4 writes after free, $5 misuses of free"; }

leaks='mm: device 0: leak: 640 objects of size class 112, 66560 bytes, allocated by kernel lose(unsigned int)
mm: device 0: leak: 12 objects of size class 2048, 24000 bytes, allocated by kernel make(unsigned long)
mm: device 0: leak: 7 objects of size class 3072, 21000 bytes, allocated by kernel void lose_one<large>()'
overruns=$(for i in 0 1 2; do
    echo "mm: device 0: write past the end of @, an allocation of 24 bytes, allocated by kernel make(unsigned long), seen by thread ($i,0,0) of block (0,0,0) of kernel give_back()"
done)
twice=$(for i in 0 1 2 3; do
    echo "mm: device 0: double free(@) of 200 bytes, allocated by kernel make(unsigned long), freed by kernel give_back(), by thread ($i,0,0) of block (0,0,0) of kernel give_back_some(unsigned int)"
done)
after_free=$(for _ in 0 1; do
    echo "mm: device 0: write after free to @, an allocation of 48 bytes, allocated by kernel make(unsigned long), freed by kernel give_back(), seen at the end"
done)

expect 'nothing found' 0 "$(summary 0 0 0 0 0)" MM_CHECK=1 MM_CHECK_EXITCODE=5 -- nothing
expect leaks 5 "$leaks
$(summary 659 111560 0 0 0)" MM_CHECK=1 MM_CHECK_EXITCODE=5 -- leaks
expect 'leaks, the context ends' 0 "$leaks
$(summary 659 111560 0 0 0)" MM_CHECK=1 -- leaks reset
expect overruns 1 "$overruns
$(summary 0 0 3 0 0)" MM_CHECK=1 MM_CHECK_EXITCODE=1 -- overruns
expect 'double free' 255 "$twice
$(summary 0 0 0 0 4)" MM_CHECK=1 MM_CHECK_EXITCODE=255 -- twice
expect 'after free' 7 "$after_free
$(summary 0 0 0 2 0)" MM_CHECK=1 MM_CHECK_EXITCODE=7 -- after-free
expect all 7 "$leaks
$overruns
$twice
$after_free
$(summary 659 111560 3 2 4)" MM_CHECK=1 MM_CHECK_EXITCODE=7 -- leaks overruns twice after-free reset
expect 'unchecked' 0 '' MM_CHECK=0 MM_CHECK_EXITCODE=7 MM_ON_MISUSE=ignore -- leaks overruns reset

# The kernel that leaks, among many in four streams by four threads; with memsets, some may be unknown, but none may be wrong.
expect streams 0 "mm: device 0: leak: 2000 objects of size class 1024, 2000000 bytes, allocated by kernel void lose_one<sized<1000> >()
mm: device 0: leak: 2000 objects of size class 2048, 4000000 bytes, allocated by kernel void lose_one<sized<2000> >()
$(summary 4000 6000000 0 0 0)" MM_CHECK=1 -- streams
env MM_CHECK=1 timeout 60 "$program" memsets >"$out" 2>"$err"
known=$(awk '/leak: / && ($10 == "1024," && / lose_one<sized<1000> >\(\)$/ || $10 == "2048," && / lose_one<sized<2000> >\(\)$/) {n += $5} END {print n + 0}' "$err")
unknown=$(awk '/leak: .* kernel not known$/ {n += $5} END {print n + 0}' "$err")
if ((known + unknown == 4000 && known > 2000)); then
    passed=$((passed + 1))
    echo "memsets: of 4000 the kernels of $unknown are not known"
else
    failed=$((failed + 1))
    echo "FAIL  memsets: $known known, $unknown not known of 4000"
    cat "$err"
fi

# The first NULL, and its kernel.
if env MM_CHECK=1 MM_STATS=json timeout 60 "$program" null 2>&1 >"$out" | grep -q '"null_count":1,"null_first_bytes":1125899906842624,.*"null_first_kernel":"make(unsigned long)"'; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo 'FAIL  the kernel that got NULL'
fi

# compute-sanitizer finds as many leaks and bytes in CUDA's heap.
if command -v compute-sanitizer >/dev/null; then
    compute-sanitizer --leak-check full --print-limit 2000 "$build/tests/gpu/planted_builtin" leaks reset >"$out" 2>&1
    found=$(awk '/Leaked .* bytes at .* on the device heap/ {n++; gsub(",", "", $3); bytes += $3} END {print n + 0, bytes + 0}' "$out")
    if [[ $found == '659 111560' ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  compute-sanitizer finds $found"
    fi
else
    echo 'not run: compute-sanitizer'
fi
echo "planted: $passed passed, $failed failed"
((failed == 0))
