#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# jit.sh BUILD FOLDER CUDA_HOME: the text that the driver gets for PTX of NVRTC (of nvcc, if there is no NVRTC) must assemble and
# link. The driver is the stand-in, which keeps the text.
set -eu
lib=$(readlink -f "$1/lib/libmm.so.1") tests=$PWD/tests/hooks cuda=$3 build=$(readlink -f "$1")
source=$tests/jit_kernels.cu
cd "$2"
made=()
# The lowest architecture that mm was built for; the stand-in's, sm_90, is tested as well.
lowest=$(printf '%s\n' "$build"/lib/ptx/mm_*.ptx | sed 's/.*mm_\(.*\)\.ptx/\1/' | sort -n | head -n 1)

get() { # OUT PART: the program's PTX
    local status=0 arch=${1##*_}
    ./nvrtc PTX "$cuda/lib64/libnvrtc.so" "$source" "-arch=compute_${arch%.ptx}" "-DPART=$2" >"$1" || status=$?
    if ((status == 77)); then
        "$cuda/bin/nvcc" -ptx "-arch=compute_${arch%.ptx}" "-DPART=$2" "$source" -o "$1"
    elif ((status)); then
        echo "jit.sh: NVRTC does not make $1" >&2
        return 1
    fi
    made+=("$1: $( ((status)) && echo nvcc || echo NVRTC)")
}
client() { LD_LIBRARY_PATH=. LD_PRELOAD=$lib ./client v2-legacy "$@"; }

for arch in "$lowest" 90; do
    get "jit_whole_$arch.ptx" 0
    client jit-file "jit_whole_$arch.ptx" "jit_linked_$arch.ptx"
    cmp "jit_whole_$arch.ptx" "jit_linked_$arch.ptx"
    "$cuda/bin/ptxas" -c -arch=sm_90 "jit_linked_$arch.ptx" -o jit_linked.o
    "$cuda/bin/nvlink" -m64 --arch=sm_90 jit_linked.o "$build/lib/device/mm24.a" -o jit.cubin
done
# Machine code that the driver's linker gets: of a whole program, and of two texts that the program links. Linked with mm's device library,
# it has no undefined function. interpose/load corrects and compares the program's own code; tests/compile tests that.
links() { # CUBIN
    local symbols name
    client cubin-file "$1" jit_input.cubin
    "$cuda/bin/nvlink" -m64 --arch=sm_90 jit_input.cubin "$build/lib/device/mm24.a" -o jit.cubin 2>jit.log || { cat jit.log >&2 && return 1; }
    symbols=$(readelf -sW jit.cubin 2>/dev/null)
    for name in malloc free mm_heap_v; do
        grep -qE " WEAK .* [0-9]+ $name" <<<"$symbols" || return
        ! grep -qE " UND $name" <<<"$symbols" || return
    done
}
get jit_one_90.ptx 1
get jit_two_90.ptx 2
"$cuda/bin/ptxas" -c -arch=sm_90 jit_one_90.ptx -o jit_one.o
"$cuda/bin/ptxas" -c -arch=sm_90 jit_two_90.ptx -o jit_two.o
"$cuda/bin/nvlink" -m64 --arch=sm_90 jit_one.o jit_two.o -o jit_parts.cubin
"$cuda/bin/ptxas" -arch=sm_90 jit_whole_90.ptx -o jit_whole.cubin
links jit_parts.cubin
links jit_whole.cubin
# Fat binaries of mmnvcc, compressed or not: the linked text is the program's own, and links.
for mode in default size speed none; do
    "$build/bin/mmnvcc" -gencode "arch=compute_$lowest,code=compute_$lowest" -fatbin -DPART=0 "-compress-mode=$mode" "$source" -o jit.fatbin
    client fatbin-file jit.fatbin jit_undone.ptx
    ! grep -qE 'mm_heap_v|mm_call_' jit_undone.ptx || exit 1
    "$cuda/bin/ptxas" -c -arch=sm_90 jit_undone.ptx -o jit_undone.o
    "$cuda/bin/nvlink" -m64 --arch=sm_90 jit_undone.o "$build/lib/device/mm24.a" -o jit.cubin
    "$cuda/bin/nvcc" -gencode "arch=compute_$lowest,code=compute_$lowest" -gencode "arch=compute_$lowest,code=sm_90" -fatbin -DPART=0 "$source" -o jit.fatbin
    ! client fatbin-file jit.fatbin jit_undone.ptx >jit.log || exit 1
done
# NVRTC's machine code is unchanged under libmm.so.
if [[ ${made[0]} == *NVRTC ]]; then
    cubin() { LD_PRELOAD=$1 ./nvrtc CUBIN "$cuda/lib64/libnvrtc.so" "$source" -arch=sm_90 -DPART=0; }
    cubin "$lib" >jit_nvrtc.cubin
    cubin '' | cmp - jit_nvrtc.cubin
    links jit_nvrtc.cubin
fi
printf 'jit: assembled and linked: %s\n' "${made[*]}"
