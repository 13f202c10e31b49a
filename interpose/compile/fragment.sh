#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# fragment.sh MMFRAGMENT PTXAS ARCH DEVICE.ptx OUT.ptx
# Writes the fragment under the lowest PTX version with which ptxas accepts it: it goes into modules of that
# version and later, and other toolkits and drivers read it.
set -eu
mmfragment=$1 ptxas=$2 arch=$3 in=$4 out=$5

# The version that introduced an architecture (PTX ISA, release notes). A ptxas may take earlier ones, which a later ptxas refuses:
# 13.0's takes sm_88 from 7.3 on.
introduced=([75]=6.3 [80]=7.0 [86]=7.1 [87]=7.4 [88]=9.0 [89]=7.8 [90]=7.8 [100]=8.6 [103]=8.8 [107]=9.4 [110]=9.0 [120]=8.7 [121]=8.8)
least=${introduced[arch]:-1.0}

mapfile -t versions < <("$ptxas" --list-version | grep -oE '[0-9]+\.[0-9]+' | sort -V | sed -n "/^${least/./\\.}\$/,\$p")
: > "$out.log"
for version in "${versions[@]}"; do
    "$mmfragment" "$version" < "$in" > "$out.tmp"
    if "$ptxas" -c -arch="sm_$arch" "$out.tmp" -o "$out.cubin" 2> "$out.log"; then
        mv "$out.tmp" "$out"
        rm -f "$out.cubin" "$out.log"
        exit 0
    fi
done
echo "fragment.sh: $ptxas takes the device code for sm_$arch in none of its PTX versions from $least on:" >&2
cat "$out.log" >&2
rm -f "$out.tmp" "$out.cubin" "$out.log"
exit 1
