#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# stack.sh MMNVCC IMAGES DIR ARCH...: checks how much of a kernel's stack the allocator uses, with both device libraries. Each thread has 1,024
# bytes by default; the allocator must leave at least 8 for the kernel's own frame (8 on sm_75; 16 and more otherwise). For
# a kernel that needs more, CUDA allocates memory for all threads of the device, and waits for all kernels. Ends with "stack: N passed, M failed".
set -u
mmnvcc=$1 images=$2 dir=$3 most=1016 passed=0 failed=0
shift 3
mkdir -p "$dir" || exit
for arch in "$@"; do
    for registers in 24 32; do
        "$mmnvcc" -arch="sm_$arch" -maxrregcount="$registers" -cubin tests/programs/stack.cu -o "$dir/program" &&
            "$images" -k "$dir/program" >"$dir/functions"
        if awk -v most="$most" '/ _Z(8allocate|7release)/ { kernels++; sub(/.* stack=/, ""); if ($0 < 0 || $0 + 0 > most) bad = 1 }
            END { exit !(kernels == 2 && !bad) }' "$dir/functions"; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAIL  sm_$arch, $registers registers, at most $most bytes:"
            grep -E ' _Z(8allocate|7release)' "$dir/functions"
        fi
    done
done
echo "stack: $passed passed, $failed failed"
((failed == 0 && passed != 0))
