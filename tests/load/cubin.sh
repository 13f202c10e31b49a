#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cubin.sh TEST LIB OUT: runs suite cubin in OUT, with machine code of the toolkit for each architecture for which LIB has mm's library. CUDA_HOME in
# the environment; to be run from the root of the tree.
set -eu
test=$(realpath "$1") lib=$(realpath "$2") src=$PWD/tests/programs
rm -rf "$3" && mkdir -p "$3" && cd "$3"
names=()

# image NAME ARCH SOURCE OPTION...: makes NAME.plain.cubin, and NAME.linked.cubin, which is linked with mm
image() {
    local name=$1 arch=$2 source=$3
    shift 3
    if [[ $name == arrays_rdc ]]; then
        "$CUDA_HOME/bin/nvcc" -cubin -rdc=true -arch="sm_$arch" "$src/$source.cu" -o "$name.part.cubin"
        "$CUDA_HOME/bin/nvlink" -m64 --arch="sm_$arch" "$name.part.cubin" -o "$name.plain.cubin"
    elif [[ $source == *.ptx ]]; then "$CUDA_HOME/bin/ptxas" -arch="sm_$arch" "$source" -o "$name.plain.cubin"
    elif [[ $name == newer ]]; then "$test" newer one.plain.cubin "$name.plain.cubin"
    else "$CUDA_HOME/bin/nvcc" -cubin -arch="sm_$arch" "$@" "$src/$source.cu" -o "$name.plain.cubin"; fi
    "$test" open "$name.plain.cubin" "$name.opened.cubin"
    "$CUDA_HOME/bin/nvlink" -m64 --arch="sm_$arch" "$name.opened.cubin" "$lib/device/mm32.a" -o "$name.linked.cubin" 2>"$name.log" ||
        { cat "$name.log" >&2 && exit 1; }
    names+=("$name")
}

mapfile -t archs < <("$CUDA_HOME/bin/nvcc" --list-gpu-code | sed 's/sm_//' |
    grep -xF -f <(printf '%s\n' "$lib"/ptx/mm_*.ptx | sed 's/.*mm_\(.*\)\.ptx/\1/'))
image one 90 load_one
image newer 90 load_one
for arch in "${archs[@]}"; do image "shared$arch" "$arch" shared; done
# Stores in front of arrays: the same PTX for all architectures.
arrays=arrays
"$CUDA_HOME/bin/nvcc" -ptx -arch="compute_${archs[0]}" "$src/$arrays.cu" -o arrays.ptx
for arch in "${archs[@]}"; do image "arrays$arch" "$arch" arrays.ptx; done
image arrays_debug 90 "$arrays" -G
image arrays_rdc 90 "$arrays"
image debug 90 shared -G
image lines 90 shared -lineinfo
image few 90 shared -maxrregcount=32
image specific 90a shared
image managed 90 managed
image references 90 "$src/references.ptx"
"$test" . "${names[@]}"
printf 'cubin: %d images linked and put right: passed\n' "${#names[@]}"
