#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# demo.sh FOLDER: runs the demo that make built in FOLDER. With a GPU: CUDA's allocator and mm, one after the other. Without: the CPU build.
set -u
folder=$1
objects=1000000

line() { printf '%-46s' "$1"; }

if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    echo "One program (demo/objects.cu), $objects objects made and deleted in kernels:"
    line "nvcc, CUDA's allocator, heap as it comes"
    "$folder/objects_nvcc" "$objects" # expected to fail: CUDA's default heap is too small
    line "nvcc, CUDA's allocator, told to take 1 GiB"
    "$folder/objects_nvcc" "$objects" 1024
    line "mmnvcc, mm"
    "$folder/objects_mm" "$objects" || exit
    line "mmnvcc, mm, from PTX"
    "$folder/objects_mm_ptx" "$objects"
else
    echo "No GPU here (nvidia-smi finds none). Both programs were compiled:"
    echo "  $folder/objects_nvcc with CUDA's allocator, $folder/objects_mm with mm."
    echo "The same workload on the CPU build of mm's allocator:"
    "$folder/objects_cpu" "$objects"
fi
