#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# misuse.sh BUILD [ONLY]: runs the cases of BUILD/tests/gpu/misuse, or those whose name contains ONLY, each in a separate process, eight at
# a time. A case's standard error must equal its standard output byte for byte, and its exit status must be the one in the list. Prints
# differences, and ends with "misuse: N passed, N failed"; cases skipped for lack of a second GPU are not counted.
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
