#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# host.sh BUILD: runs the cases of host.cu with mm, which must pass, and with CUDA's malloc, for comparison.
set -u
build=$1 tests=$1/tests/gpu failed=0
with_mm() { timeout 60 "$build/bin/mmrun" "$tests/host" "$@" || { echo "host $*: failed"; failed=1; }; }
cudas() { echo -n "CUDA's: " && timeout 60 "$tests/host_builtin" "$@"; }

# The first launch next to a kernel that occupies the device, and CUDA's, as medians of several runs. It should be at most 10 ms more, and is 25 to
# 45 more (docs/reference/limits.md); work that is now done when code is loaded took another 50 before.
BUSY_RUNS=7 BUSY_MORE_MS=60
median_ms() { sed -n 's/^busy: .* took \([0-9.]*\) ms.*/\1/p' | sort -n | awk '{ms[NR] = $1} END {print NR ? ms[int((NR + 1) / 2)] : "none"}'; }
busy() { for ((i = 0; i < BUSY_RUNS; i++)); do timeout 60 "$@" busy || echo "failed: $?"; done; }
theirs=$(busy "$tests/host_builtin" | median_ms)
for loading in LAZY EAGER; do
    said=$(CUDA_MODULE_LOADING=$loading busy "$build/bin/mmrun" "$tests/host")
    ours=$(median_ms <<<"$said")
    echo "busy, $loading: the first launch took $ours ms, CUDA's $theirs (medians of $BUSY_RUNS)"
    if grep -q failed <<<"$said" || ! awk -v ours="$ours" -v theirs="$theirs" -v more="$BUSY_MORE_MS" 'BEGIN {exit !(ours <= theirs + more)}'; then
        echo "FAIL  busy, $loading:" && echo "$said" && failed=1
    fi
done
with_mm graph 12
MM_GROW_WAIT_MS=300 with_mm graph 12
for many in 0 1; do
    cudas late "$(readlink -f "$tests/liblate_builtin.so")" "$many"
    for library in late late_plain; do
        echo -n "$library: " && with_mm late "$(readlink -f "$tests/lib$library.so")" "$many"
    done
done
exit "$failed"
