#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# host.sh BUILD: the cases of host.cu with mm, which have to pass, and with CUDA's malloc, to compare.
set -u
build=$1 tests=$1/tests/gpu failed=0
with_mm() { timeout 60 "$build/bin/mmrun" "$tests/host" "$@" || { echo "host $*: failed"; failed=1; }; }
cudas() { echo -n "CUDA's: " && timeout 60 "$tests/host_builtin" "$@"; }
cudas busy
for loading in LAZY EAGER; do CUDA_MODULE_LOADING=$loading with_mm busy; done
with_mm graph 12
MM_GROW_WAIT_MS=300 with_mm graph 12
for many in 0 1; do
    cudas late "$(readlink -f "$tests/liblate_builtin.so")" "$many"
    for library in late late_plain; do
        echo -n "$library: " && with_mm late "$(readlink -f "$tests/lib$library.so")" "$many"
    done
done
exit "$failed"
