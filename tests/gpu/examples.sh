#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# examples.sh BUILD: runs the programs of examples/ on this GPU: built by mmnvcc; built by nvcc, under mmrun; the Python program under mmrun, if CuPy
# is installed. Each must find its result right and use a heap of mm's.
set -u
build=$(realpath "${1:?usage: examples.sh BUILD}") failed=0
cd "$(dirname "${BASH_SOURCE[0]}")/../../examples" || exit

# runs NAME COMMAND...
runs() {
    local said status
    said=$(MM_VERBOSE=1 timeout 400 "${@:2}" 2>&1)
    status=$?
    if [[ $status == 0 && $said == *'mm: heap on device'* ]] && grep "^$1: ok" <<<"$said"; then return; fi
    printf '%s: status %s of %s\n%s\n' "$1" "$status" "${*:2}" "$said"
    failed=1
}
for file in *.cu; do
    name=${file%.cu}
    runs "$name" "$build/examples/$name"
    runs "$name" "$build/bin/mmrun" "$build/examples/plain_$name"
done
if python3 -c 'import cupy' 2>/dev/null; then
    runs factors "$build/bin/mmrun" python3 factors.py
else
    echo 'factors.py: not tried, CuPy is not here'
fi
exit "$failed"
