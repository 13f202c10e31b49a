#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# misuse.sh BUILD [ONLY]: runs the cases of BUILD/tests/gpu/misuse, or those whose name holds ONLY, each in a process of its own, eight at a
# time. What it says on standard error must be, byte for byte, what it printed, and its exit status what the list says. Prints what
# differs, and ends with "misuse: N passed, N failed"; what needs a second GPU, where there is none, is neither.
set -u
build=${1:?usage: misuse.sh BUILD [ONLY]} only=${2-}
program=$build/tests/gpu/misuse no_second_gpu=77 at_a_time=8
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
list=$("$program" --list) || exit
unset "${!MM_@}"
export MM_HEAP_SIZE=256M # what a case takes is there, so that nothing of it hangs on when the host answers

names=() expected=() running=0 passed=0 failed=0 skipped=0
while read -r name status on_misuse spacing; do
    [[ $name == *"$only"* ]] || continue
    out=$dir/${#names[@]}
    names+=("$name") expected+=("$status")
    { MM_ON_MISUSE=$on_misuse MM_SPACING=$spacing timeout 60 "$build/bin/mmrun" "$program" "$name" </dev/null >"$out.wanted" 2>"$out.said"
        echo "$?" >"$out.status"; } &
    ((++running < at_a_time)) || wait -n
done <<<"$list"
wait

for i in "${!names[@]}"; do
    status=$(<"$dir/$i.status")
    if [[ $status == "$no_second_gpu" ]]; then
        skipped=$((skipped + 1))
        echo "SKIPPED ${names[i]}: there is one GPU only"
    elif [[ $status == "${expected[i]}" ]] && cmp -s "$dir/$i.wanted" "$dir/$i.said"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED ${names[i]}: status $status, expected ${expected[i]}"
        diff -u --label expected --label "standard error" "$dir/$i.wanted" "$dir/$i.said"
    fi
done
((skipped)) && echo "misuse: $skipped skipped, for want of a second GPU"
echo "misuse: $passed passed, $failed failed"
((failed == 0 && passed > 0))
