#!/bin/bash
# fragments.sh OUT FRAGMENT.ptx...
# Writes what libmm.so.1 holds (interpose/runtime/jit.c): the fragments one after the other, each with a zero byte behind it, oldest
# architecture first. One that differs from the one before in nothing but its header is left out: that one serves as well.
set -eu
out=$1 before=
shift
mapfile -t sorted < <(printf '%s\n' "$@" | sort -V)
: > "$out"
for file in "${sorted[@]}"; do
    body=$(sed '/^\.version /d; /^\.target /d' "$file")
    [[ $body == "$before" ]] && continue
    before=$body
    cat "$file" >> "$out"
    printf '\0' >> "$out"
done
