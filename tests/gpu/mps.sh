#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mps.sh BUILD: tests two programs at a time, and growth, under CUDA's Multi-Process Service, which it starts and ends. Without that
# service, it says so and returns 0.
set -u
build=${1:?usage: mps.sh BUILD}
control=$(PATH=$PATH:/usr/local/nvidia/bin command -v nvidia-cuda-mps-control) || {
    echo "MPS: not tried, nvidia-cuda-mps-control is not here"
    exit 0
}
dir=$(mktemp -d)
export CUDA_MPS_PIPE_DIRECTORY=$dir CUDA_MPS_LOG_DIRECTORY=$dir
trap 'echo quit | timeout 20 "$control" >/dev/null 2>&1; rm -rf "$dir"' EXIT
timeout 20 "$control" -d || { echo "MPS: not tried, it does not start"; exit 0; }

failed=0 pids=()
for _ in 1 2; do
    timeout 60 "$build/bin/mmrun" "$build/tests/gpu/ways" works &
    pids+=("$!")
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
timeout 100 "$build/bin/mmrun" "$build/tests/gpu/grow" blocked exhausted copies || failed=1
servers=$(timeout 10 "$control" <<<get_server_list)
[[ -n $servers ]] || { echo "MPS: no server, so the programs ran without"; failed=1; }
((failed)) && echo "MPS: failed" || echo "MPS: two programs at once, and growing, by server $servers"
exit "$failed"
