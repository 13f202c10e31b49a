# shellcheck shell=bash disable=SC2034,SC2154,SC2317,SC2329  # for the sourcing scripts, which set root and out
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# lib.sh: what the suites of packages share. To be sourced, after tests/it.sh.
python=$("$root/tools/setup.sh" --python)
MAKE=${MAKE:-make}

# README's program, the one in its first block of CUDA C.
awk '/^```cuda$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$root/README.md" >"$out/app.cu"

# environment FOLDER WHEEL [PIP'S ARGUMENT...]: a new virtual environment in which pip installs the wheel
environment() {
    rm -rf "$1"
    "$python" -m venv --without-pip "$1" && "$python" -m pip --python "$1/bin/python" install --quiet --disable-pip-version-check --no-input "${@:3}" "$2"
}

# compiles COMMAND...: builds README's program, which then has mm and finds its run time
compiles() {
    local said
    rm -f "$out/app"
    "$@" "$out/app.cu" -o "$out/app" && said=$("${doctor:-mmdoctor}" "$out/app") && has "$said" 'built with mm, agreement version' && has "$said" 'run time /'
}
