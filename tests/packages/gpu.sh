#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# gpu.sh DEB WHEEL [EXAMPLES]: on a machine with a GPU, by hand. Unpacks the Debian package, and installs the wheel into a virtual environment (both in a
# temporary folder; needs no root and no network). With each: builds README's program with the package's mmnvcc and with nvcc, if this machine
# has an nvcc, and runs it; runs the examples that nvcc compiled (EXAMPLES: build/examples, made by make build-gpu-tests) under mmrun; runs factors.py, if CuPy is here. All
# must end well, with a heap of mm's. Ends with "packages-gpu: N passed, N failed"; says what was not tried.
set -u
deb=$(realpath "$1") wheel=$(realpath "$2") examples=${3:+$(realpath "$3")}
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
cd "$work" || exit
export MM_VERBOSE=1 XDG_CACHE_HOME=$work/cache CUPY_CACHE_DIR=$work/cupy-cache
passed=0 failed=0
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || { echo 'packages-gpu: no GPU here (nvidia-smi finds none); nothing was run' >&2 && exit 1; }

# runs WHAT COMMAND...: it must end well within six minutes; the self-test takes five at most
runs() {
    if timeout 360 "${@:2}" >said 2>&1; then
        ((++passed)) && echo "ok: $1"
    else
        ((++failed)) && echo "FAILED: $1" && cat said
    fi
}
# has_heap WHAT COMMAND...: the same, and the program gets a heap of mm's
has_heap() { runs "$1" bash -c '"$@" >out 2>&1 && grep "mm: heap on device" out || { cat out && false; }' bash "${@:2}"; }

awk '/^```cuda$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$root/README.md" >app.cu
nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null)
[[ $nvcc ]] || echo 'not tried: mmdoctor, and building programs: there is no nvcc here'

# uses PACKAGE FOLDER: tests mm with its commands in FOLDER
uses() {
    local bin=$2 program name
    if [[ $nvcc ]]; then
        runs "$1: mmdoctor" env MM_NVCC="$nvcc" "$bin/mmdoctor" # without an nvcc it finds fault
        runs "$1: mmnvcc builds README's program" env MM_NVCC="$nvcc" "$bin/mmnvcc" -arch=native app.cu -o app
        has_heap "$1: README's program" ./app
        runs "$1: nvcc builds README's program" "$nvcc" -arch=native app.cu -o plain
        has_heap "$1: README's program under mmrun" "$bin/mmrun" ./plain
    fi
    for program in ${examples:+"$examples"/plain_*}; do
        name=${program##*/plain_}
        has_heap "$1: $name under mmrun" "$bin/mmrun" "$program"
    done
    if "${python:-python3}" -c 'import cupy' 2>/dev/null; then
        has_heap "$1: factors.py" "$bin/mmrun" "${python:-python3}" "$root/examples/factors.py"
    else
        echo "not tried: $1: factors.py, CuPy is not here"
    fi
    runs "$1: mmdoctor --selftest" "$bin/mmdoctor" --selftest="$work/report"
}
if command -v dpkg-deb >/dev/null; then dpkg-deb -x "$deb" deb; else mkdir deb && (cd deb && ar x "$deb" && tar -xf data.tar.*); fi
uses deb "$work/deb/usr/bin"
# Without pip, too: the environment's own, or this machine's.
python3 -m venv --system-site-packages venv 2>/dev/null || { rm -rf venv && python3 -m venv --without-pip --system-site-packages venv; }
# If python3 is of an environment itself, venv sees what its base has, not what it has.
python3 -c 'import site; print("\n".join(site.getsitepackages()))' >"$(venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/outer.pth"
runs 'wheel: pip' venv/bin/python -m pip install --quiet --no-index --no-deps "$wheel"
python=$work/venv/bin/python
uses wheel "$work/venv/bin"
printf 'packages-gpu: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
