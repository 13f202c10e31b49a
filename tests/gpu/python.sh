#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# python.sh BUILD: kernels that allocate in CuPy, Numba and PyTorch, with mm and without, where these are installed. A run with mm is
# recognised by the line about its heap that MM_VERBOSE=1 prints.
set -u
build=$(realpath "${1:?usage: python.sh BUILD}") failed=0
cd "$(dirname "${BASH_SOURCE[0]}")/python" || exit
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export CUPY_CACHE_DIR=$cache/cupy XDG_CACHE_HOME=$cache

# runs MODULE HAS_HEAP COMMAND...
runs() {
    local module=$1 expected=$2 said status heap=no
    shift 2
    python3 -c "import $module" 2>/dev/null || { echo "$module: not tried, it is not here"; return; }
    said=$(timeout 400 "$@" 2>&1)
    status=$?
    grep -q 'mm: heap on device' <<<"$said" && heap=yes
    if [[ $status == 0 && $heap == "$expected" ]]; then
        echo "$module, a heap of mm's: $heap: $(grep ' ok$' <<<"$said")"
    else
        printf '%s: status %s, a heap of mm'\''s: %s, expected: %s\n%s\n' "$module" "$status" "$heap" "$expected" "$said"
        failed=1
    fi
}
for module in cupy numba; do
    runs $module yes env MM_VERBOSE=1 "$build/bin/mmrun" python3 ${module}_kernel.py
    rm -rf "${cache:?}"/*
    runs $module no env MM_VERBOSE=1 MM_OFF=1 "$build/bin/mmrun" python3 ${module}_kernel.py
    rm -rf "${cache:?}"/*
done
runs cupy yes env MM_VERBOSE=1 "$build/bin/mmrun" python3 cupy_converged.py
runs torch yes env MM_VERBOSE=1 PYTORCH_NVCC="$build/bin/mmnvcc" "$build/bin/mmrun" python3 torch_extension.py
exit "$failed"
