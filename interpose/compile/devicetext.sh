#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# devicetext.sh PTXAS ARCH DEVICE.ptx OUT.ptx
# Rewrites the PTX that nvcc -rdc=true -ptx made from runtime/device.cu: renames the entry points to the names that programs call, since nvcc
# cannot compile functions of such names; makes them and the heap variable weak, and aligns the variable to 16; names other functions mm$NAME, without
# the hash of a path and the types, which were a twentieth of a library; removes comments, and hints for tools about unused bytes of a load, which need
# PTX 8.3. Declares the lowest PTX version with which
# ptxas accepts the text, because other toolkits read it, too.
set -eu
ptxas=$1 arch=$2 in=$3 out=$4

# The PTX version that introduced an architecture (PTX ISA, release notes). A ptxas may accept earlier ones, which a later ptxas refuses:
# 13.0's accepts sm_88 from 7.3 on.
introduced=([75]=6.3 [80]=7.0 [86]=7.1 [87]=7.4 [88]=9.0 [89]=7.8 [90]=7.8 [100]=8.6 [103]=8.8 [107]=9.4 [110]=9.0 [120]=8.7 [121]=8.8)
least=${introduced[arch]:-1.0}

mapfile -t versions < <("$ptxas" --list-version | grep -oE '[0-9]+\.[0-9]+' | sort -V | sed -n "/^${least/./\\.}\$/,\$p")
: > "$out.log"
# Prefixes mm's variables with mm$, so that they are not taken for the program's.
rename=''
while read -r name; do
    rename+="s/(^|[^A-Za-z0-9_\$])${name//\$/\\\$}([^A-Za-z0-9_\$]|\$)/\\1mm\$$name\\2/g;"
done < <(sed -nE 's/^\.global [^=;]* ([^][ =;]+)(\[[0-9]+\])?( = .*)?;.*/\1/p' "$in")
sed -E "$rename" "$in" |
    sed -E 's/[[:space:]]*\/\/.*//; /^[[:space:]]*$/d; /^[[:space:]]*\.pragma "used_bytes_mask [^"]*";$/d
    s/\b_ZN[0-9]+_INTERNAL_[0-9a-f]+_[0-9]+_device_cu_[0-9a-f]{8}[0-9]+mm_([a-z0-9_]+)E[A-Za-z0-9_]*(_param_[0-9]+|_retval[0-9]*)\b/mm$\1\2/g
    s/\b_ZN[0-9]+_INTERNAL_[0-9a-f]+_[0-9]+_device_cu_[0-9a-f]{8}[0-9]+mm_([a-z0-9_]+)E[A-Za-z0-9_]*/mm$\1/g
    s/\bmm_device_(malloc|free)\b/\1/g; s/\bmm_device_usable_size\b/mm_usable_size/g
    s/\bmm_device_aligned_malloc\b/__cuda_syscall_aligned_malloc/g; s/\bmm_device_(new|aligned_new)\b/mm$\1/g
    s/^\.visible \.const \.align [0-9]+ /.weak .const .align 16 /; s/^\.visible /.weak /' > "$out.text"
for version in "${versions[@]}"; do
    sed "s/^\.version .*/.version $version/" "$out.text" > "$out.tmp"
    if "$ptxas" -c -arch="sm_$arch" "$out.tmp" -o "$out.cubin" 2> "$out.log"; then
        mv "$out.tmp" "$out"
        rm -f "$out.cubin" "$out.log" "$out.text"
        exit 0
    fi
done
echo "devicetext.sh: $ptxas takes the device code for sm_$arch in none of its PTX versions from $least on:" >&2
cat "$out.log" >&2
rm -f "$out.tmp" "$out.cubin" "$out.log" "$out.text"
exit 1
