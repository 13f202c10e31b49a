#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# fragments.sh OUT FRAGMENT.ptx...
# Writes what libmm.so.1 holds (interpose/preload/jit.c): the fragments one after the other, each with a zero byte behind it, oldest
# architecture first. One that differs from the one before in nothing but its header is left out: that one serves as well, unless it
# needs a later PTX version (sm_88's is 9.0, sm_89's 7.8).
set -eu
out=$1 before='' needs=''
shift
mapfile -t sorted < <(printf '%s\n' "$@" | sort -V)
: > "$out"
for file in "${sorted[@]}"; do
    body=$(sed '/^\.version /d; /^\.target /d' "$file")
    version=$(sed -n 's/^\.version //p' "$file")
    [[ $body == "$before" && $(printf '%s\n' "$needs" "$version" | sort -V | head -1) == "$needs" ]] && continue
    before=$body needs=$version
    cat "$file" >> "$out"
    printf '\0' >> "$out"
done
