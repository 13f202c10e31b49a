#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# filled.sh BUILD: malloc fills according to MM_FILL, in a program with the allocator in its machine code, in its PTX, and linked by nvlink;
# and a program that expects another filling detects it. Ends with "filled: N passed, M failed".
set -u
build=$1 passed=0 failed=0
out=$(mktemp) && trap 'rm -f "$out"' EXIT || exit

# expect STATUS PROGRAM BYTE SETTINGS...
expect() {
    env "${@:4}" timeout 60 "$build/tests/gpu/$2" "$3" >"$out" 2>&1
    local status=$?
    if [[ $status == "$1" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s %s, %s: status %s, expected %s: %s\n' "$2" "$3" "${*:4}" "$status" "$1" "$(tail -n 1 "$out")"
    fi
}
for program in filled filled_rdc filled_ptx; do
    expect 0 "$program" zero MM_FILL=zero
    expect 0 "$program" junk MM_FILL=junk
    expect 0 "$program" junk MM_CHECK=1
    expect 0 "$program" zero MM_CHECK=1 MM_FILL=zero
    expect 1 "$program" zero MM_FILL=junk
    expect 1 "$program" zero MM_FILL=none
    expect 1 "$program" junk MM_CHECK=1 MM_FILL=none
done
echo "filled: $passed passed, $failed failed"
((failed == 0))
