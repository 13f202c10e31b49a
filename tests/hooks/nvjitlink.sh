#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# nvjitlink.sh LIBMM FOLDER CUDA_HOME: what the real nvJitLink makes under LIBMM. The allocator is in it, if it allocates; kernels with bounds
# and limits can call it. From the root of the tree; FOLDER holds what jit.sh made.
set -eu
lib=$1 cuda=$3 source=${BASH_SOURCE[0]%/*}/jit_kernels.cu
source=$(realpath "$source")
cd "$2"

has() { # PATTERN: in the symbols of jit.cubin
    grep -qE "$1" <<<"$(readelf -sW jit.cubin 2>/dev/null)"
}
nvjitlink() { # PRELOADED PROGRAM TEXT... [-- OPTION...]
    local preloaded=$1 program=$2
    shift 2
    rm -f jit.cubin
    LD_PRELOAD=$preloaded "./$program" "$cuda/lib64/libnvJitLink.so" jit.cubin "$@"
}
whole() { # the allocator is there, and nothing is left to the driver
    local name
    for name in malloc free mm_heap_v; do has " [0-9]+ $name" && ! has " UND $name" || return; done
}
status=0
nvjitlink '' nvjitlink jit_one_90.ptx || status=$?
if ((status == 77)); then
    echo "no nvJitLink"
    exit
fi
((status == 0))
if has mm_heap_v; then exit 1; fi
"$cuda/bin/nvcc" -dlto -ltoir -rdc=true -arch=sm_90 -DPART=1 "$source" -o jit_one.ltoir
"$cuda/bin/nvcc" -ptx -arch=compute_90 jit_none.cu -o jit_none_90.ptx
for way in "$lib nvjitlink" " nvjitlink_hook"; do
    [[ $way == " "* && ${WAYS-} == preloaded ]] && continue
    mine() { nvjitlink "${way% *}" "${way#* }" "$@"; }
    mine jit_one_90.ptx jit_two_90.ptx && whole || exit
    mine jit_one_90.ptx jit_two_90.ptx -- -maxrregcount=24 && whole || exit
    mine jit_one.ltoir jit_two_90.ptx -- -lto && whole || exit
    NVJITLINK_GLOBAL=1 mine jit_one_90.ptx && has mm_heap_v || exit
    MM_OFF=1 mine jit_one_90.ptx && ! has mm_heap_v || exit
    mine jit_none_90.ptx && ! has mm_heap_v || exit
done
echo "nvJitLink's"
