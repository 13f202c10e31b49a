#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# keys.sh FILE...: no machine code of sm_90 in the files has a MATCH.ANY whose value is the register that is always 0. ptxas takes the result of such a match for the
# same in all lanes, as it does that of __activemask, and lanes that are apart lose values (mm_warp_group; docs/explanation/lanes-that-leave.md). Files without a
# match, those whose device code is PTX, are not counted.
set -u
export LC_ALL=C
passed=0 failed=0 without=0
# An instruction, in bytes: opcode and predicate, register of the result, of the value, the rest. grep knows lines: newlines, which are register 10, become 1.
match='\xa1[\x03\x13\x23\x33\x43\x53\x63\x73\x83\x93\xa3\xb3\xc3\xd3\xe3\xf3].'
rest='\x00\x00\x00\x00\x00\x80\x0e\x00'
has() { tr '\n' '\1' < "$2" | grep -aqP "(?s)$1"; } # PATTERN FILE
has "$match\xff$rest" <(printf '\xa1\x73\x0a\xff\0\0\0\0\0\x80\x0e\0') || { echo 'keys: FAILED: a match that is planted is not found' >&2; failed=1; }
for file in "$@"; do
    if ! has "$match.$rest" "$file"; then
        without=$((without + 1))
    elif ! has "$match\xff$rest" "$file"; then
        passed=$((passed + 1))
    else
        printf 'keys: FAILED: %s: a group of lanes is made with a value that ptxas knows to be 0\n' "$file" >&2
        failed=$((failed + 1))
    fi
done
((passed + failed > without)) || { echo "keys: FAILED: $without of $# files have no match" >&2; failed=$((failed + 1)); }
echo "keys: $passed passed, $failed failed"
[[ $failed == 0 ]]
