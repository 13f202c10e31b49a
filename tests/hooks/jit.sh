#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# jit.sh BUILD FOLDER CUDA_HOME: what the driver gets for PTX of NVRTC (of nvcc, if there is no NVRTC) must assemble, and link. The
# driver is the stand-in, which keeps the text.
set -eu
lib=$(readlink -f "$1/lib/libmm.so.1") tests=$PWD/tests/hooks cuda=$3 build=$(readlink -f "$1")
source=$tests/jit_kernels.cu
cd "$2"
made=()
printf '__global__ void k(int *p) { *p = 1; }\n' >jit_none.cu

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

for arch in 75 90; do
    get "jit_whole_$arch.ptx" 0
    client jit-file "jit_whole_$arch.ptx" "jit_spliced_$arch.ptx"
    grep -q '^\.weak \.func.* malloc' "jit_spliced_$arch.ptx"
    "$cuda/bin/ptxas" -arch=sm_90 "jit_spliced_$arch.ptx" -o jit.cubin
done
# Two texts that both allocate, and what came behind them, with no more registers than it was given.
get jit_one_90.ptx 1
get jit_two_90.ptx 2
client jit-link-files jit_one_90.ptx jit_two_90.ptx jit_added.ptx
"$cuda/bin/ptxas" -c -arch=sm_90 jit_one_90.ptx -o jit_one.o
"$cuda/bin/ptxas" -c -arch=sm_90 jit_two_90.ptx -o jit_two.o
"$cuda/bin/ptxas" -c -arch=sm_90 -maxrregcount 24 jit_added.ptx -o jit_added.o
"$cuda/bin/nvlink" -m64 --arch=sm_90 jit_one.o jit_two.o jit_added.o -o jit.cubin
symbols=$(readelf -sW jit.cubin 2>/dev/null)
for name in malloc free mm_heap_v; do
    grep -qE " WEAK .* [0-9]+ $name" <<<"$symbols"
    ! grep -qE " UND $name" <<<"$symbols" || exit 1
done
# Fat binaries of mmnvcc's, compressed or not: the text that is linked is the program's, and links.
for mode in default size speed none; do
    "$build/bin/mmnvcc" -gencode arch=compute_75,code=compute_75 -fatbin -DPART=0 "-compress-mode=$mode" "$source" -o jit.fatbin
    client fatbin-file jit.fatbin jit_undone.ptx
    ! grep -q 'mm_heap_v' jit_undone.ptx || exit 1
    "$cuda/bin/ptxas" -c -arch=sm_90 jit_undone.ptx -o jit_undone.o
    "$cuda/bin/nvlink" -m64 --arch=sm_90 jit_undone.o "$build/lib/device/mm24.a" -o jit.cubin
    "$cuda/bin/nvcc" -gencode arch=compute_75,code=compute_75 -gencode arch=compute_75,code=sm_90 -fatbin -DPART=0 "$source" -o jit.fatbin
    ! client fatbin-file jit.fatbin jit_undone.ptx >jit.log || exit 1
done
# Who asks NVRTC for machine code gets its PTX, if it allocates; it is the text that is spliced when it is loaded.
if [[ ${made[0]} == *NVRTC ]]; then
    cubin() { LD_PRELOAD=$1 ./nvrtc CUBIN "$cuda/lib64/libnvrtc.so" "$2" -arch=sm_90 -DPART=0; }
    cubin "$lib" "$source" >jit_text.ptx
    ./nvrtc PTX "$cuda/lib64/libnvrtc.so" "$source" -arch=sm_90 -DPART=0 | cmp - jit_text.ptx
    ./nvrtc_hook CUBIN "$cuda/lib64/libnvrtc.so" "$source" -arch=sm_90 -DPART=0 | cmp - jit_text.ptx
    client jit-file jit_text.ptx jit_spliced.ptx
    [[ $(cubin '' "$source" | head -c 4) == $'\177ELF' ]]
    [[ $(cubin "$lib" jit_none.cu | head -c 4) == $'\177ELF' ]]
    [[ $(MM_OFF=1 cubin "$lib" "$source" | head -c 4) == $'\177ELF' ]]
fi
linked=$("$tests/nvjitlink.sh" "$lib" . "$cuda") # not within made+=(), which would forget that it failed
made+=("$linked")
printf 'jit: assembled and linked: %s\n' "${made[*]}"
