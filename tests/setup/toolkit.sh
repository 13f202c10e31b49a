#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Fetches the pinned CUDA compiler, as on a machine without one, and uses it in every way that mm needs.
set -euo pipefail
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/tools" "$work"
cd "$work"
unset CUDA_HOME
export MM_CUDA_USUAL=
PATH=/usr/bin:/bin tools/setup.sh build
home=$(PATH=/usr/bin:/bin tools/setup.sh --cuda-home)
[[ $home == "$work/build/cuda" ]]

cat >a.cu <<'CU'
#include <cuda_fp16.h>
#include <thrust/sort.h>
__device__ void put(int *p);
__global__ void k(int *p) { put(p); delete p; }
int main() { k<<<1, 1>>>(nullptr); return cudaGetLastError() == cudaErrorInvalidDeviceFunction; }
CU
printf '__device__ void put(int *p) { p = new int; *p = 1; }\n' >b.cu
nvcc=$home/bin/nvcc
"$nvcc" -arch=sm_90 -dc a.cu b.cu
"$nvcc" -arch=sm_90 a.o b.o -o separate -lcudadevrt
"$nvcc" -arch=sm_90 -dlink a.o b.o -o d.o -lcudadevrt
g++ a.o b.o d.o -L"$home/lib64" -lcudadevrt -lcudart_static -lpthread -ldl -lrt -o linked
sed -i 's/^__device__.*put.*;$/#include "b.cu"/' a.cu
for arch in 75 90 120; do "$nvcc" -arch=sm_$arch a.cu -o whole; done
"$nvcc" -arch=sm_90 -cudart shared a.cu -o shared
"$nvcc" -arch=sm_90 -dlto -rdc=true a.cu -o lto
for program in separate linked whole lto; do "./$program"; done
LD_LIBRARY_PATH=$home/lib64 ./shared
printf 'toolkit: compiled, linked and ran in every way\n'
