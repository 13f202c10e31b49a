#!/bin/bash
# fragment.sh MMFRAGMENT PTXAS ARCH DEVICE.ptx OUT.ptx
# Writes the fragment under the lowest PTX version with which ptxas accepts it: it goes into modules of that
# version and later.
set -eu
mmfragment=$1 ptxas=$2 arch=$3 in=$4 out=$5
mapfile -t versions < <("$ptxas" --list-version | grep -oE '[0-9]+\.[0-9]+' | sort -V)
for version in "${versions[@]}"; do
    "$mmfragment" "$version" < "$in" > "$out.tmp"
    if "$ptxas" -c -arch="sm_$arch" "$out.tmp" -o "$out.cubin" 2> "$out.log"; then
        mv "$out.tmp" "$out"
        rm -f "$out.cubin" "$out.log"
        exit 0
    fi
done
echo "fragment.sh: $ptxas takes the device code for sm_$arch in none of its PTX versions:" >&2
cat "$out.log" >&2
rm -f "$out.tmp" "$out.cubin" "$out.log"
exit 1
