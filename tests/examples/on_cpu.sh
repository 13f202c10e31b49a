#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# on_cpu.sh SOURCE FOLDER: builds a program of examples/ for the CPU (cpu.h), and runs it twice, with enough memory and with little. It must
# find its result right and free all that its kernels allocated; and report that memory is out. Status 1: it does not; 2: it cannot be compiled.
set -u
here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit
source=$1 out=$2/${1##*/}
name=${out##*/} name=${name%.cu}
export ASAN_OPTIONS=detect_leaks=0 # cpu.h counts what kernels leave behind
# Kernels, and what they call, are above must().
sed -E -e 's/([A-Za-z_]+)<<<(.*), cta>>>(\(.*\));/LAUNCH(\2, cta, \1\3);/' \
    -e '/^static void must/,$!{s/\bmalloc\(/cpu_malloc(/g; s/\bfree\(/cpu_free(/g; s/\bnew ([a-z])/new (in_kernel()) \1/g; s/\bdelete ([^;]*);/cpu_free(\1);/}' \
    "$source" >"$out.cpp" || exit 2
g++ -std=c++17 -O1 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover=all -include "$here/cpu.h" "$out.cpp" -o "$out.cpu" || exit 2
# runs STATUS PATTERN: the program's status, and what it prints: one line on its output, and cpu.h's
runs() {
    local said got=0 pattern="^$name: $2"$'\n[0-9]+ allocations, '"$3 live$"
    said=$({ timeout 60 "$out.cpu" | sed '/./!d' && exit "${PIPESTATUS[0]}"; } 2>&1 | sort -r; exit "${PIPESTATUS[0]}") || got=$?
    [[ $got == "$1" && $said =~ $pattern ]] && return
    printf '%s: status %s, expected %s; it prints\n%s\nexpected\n%s\n' "$name" "$got" "$1" "$said" "$pattern"
    return 1
}
runs 0 'ok: [^'$'\n'']+' 0 && MM_TEST_ROOM=1000 runs 1 'FAILED: out of memory[^'$'\n'']+' '[0-9]+'
