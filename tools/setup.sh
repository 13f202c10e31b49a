#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the packages that this machine lacks for building and testing mm; prints nothing when none is missing.
#   tools/setup.sh [aarch64|build|builds|check|fuzz|install|lint|model|packages|plot|root]...   the purposes (all of them if none is named)
#   tools/setup.sh --cuda-home            prints the directory of the CUDA toolkit (nothing if there is none)
#   tools/setup.sh --python               prints the Python that makes wheels (nothing if there is none)
set -u
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit
# shellcheck source=tools/toolkit.sh
source "$root/tools/toolkit.sh"
build=$root/build
own=$build/cuda
log=$build/setup.log
purposes='aarch64 build builds check fuzz install lint model packages plot root'

has() { command -v "$1" >/dev/null; }

# has_cc: true if the C compiler can be run and the C library has its headers.
has_cc() { has cc && printf '#include <stdlib.h>\n' | cc -E -x c - >/dev/null 2>&1; }

# Asks the compiler driver, which searches as the linker will. The GPU suites link these libraries statically, because they run on other machines.
has_static() { [[ $(cc -print-file-name="$1" 2>/dev/null) == /* ]]; }

# libmm.so.1 links these statically, to decompress fat binaries.
has_unpackers() {
    has_static liblz4.a && has_static libzstd.a && printf '#include <lz4.h>\n#include <zstd.h>\n' | cc -E -x c - >/dev/null 2>&1
}

has_matplotlib() {
    local python
    for python in python3 /usr/bin/python3; do "$python" -c 'import matplotlib' 2>/dev/null && return; done
    false
}
# wheel_python: prints a Python with the modules that make a wheel.
wheel_python() {
    local python
    for python in python3 /usr/bin/python3; do "$python" -c 'import build.__main__, setuptools, wheel, pip' 2>/dev/null && echo "$python" && return; done
    false
}
has_check() {
    has pkg-config && pkg-config --exists check 2>/dev/null &&
        has_static libcheck.a && has_static libsubunit.a
}

has_aarch64() { has aarch64-linux-gnu-gcc && printf '#include <stdlib.h>\n' | aarch64-linux-gnu-gcc -E -x c - >/dev/null 2>&1; }

# clang alone does not include the libraries of its sanitizers and of libFuzzer.
has_fuzzer() {
    has clang && printf 'int LLVMFuzzerTestOneInput(void) { return 0; }\n' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null
}

# need PACKAGE...: adds packages to missing, each once; groups may share some.
need() {
    local package
    for package; do [[ " ${missing[*]-} " == *" $package "* ]] || missing+=("$package"); done
}

# look_around GROUP...: sets missing to the Debian packages to install, and toolkit to "missing" if a toolkit must be
# fetched.
look_around() {
    local group
    missing=() toolkit=
    [[ $* == lint ]] || has_cc || need gcc libc6-dev
    for group; do
        case $group in
        build)
            has g++ || need g++ # nvcc's host compiler
            has_unpackers || need liblz4-dev libzstd-dev
            if ! mm_toolkit_find "$own"; then
                toolkit=missing
                python3 -m pip --version >/dev/null 2>&1 || need python3 python3-pip
            fi
            ;;
        check)
            has pkg-config || need pkg-config
            has_check || need check libsubunit-dev
            python3 -c 'import jsonschema' 2>/dev/null || need python3-jsonschema
            ;;
        aarch64) has_aarch64 || need gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
        install)
            has mandoc || need mandoc
            has cmake || need cmake
            ;;
        builds)
            has cmake || need cmake
            has ccache || need ccache
            has meson || need meson # with ninja
            ;;
        fuzz) has_fuzzer || need clang libclang-rt-dev ;;
        lint)
            has shellcheck || need shellcheck
            has cppcheck || need cppcheck
            has clang-format-14 || need clang-format-14
            ;;
        packages)
            has dh || need debhelper
            has dpkg-buildpackage || need dpkg-dev
            has lintian || need lintian
            wheel_python >/dev/null || need python3 python3-build python3-pip python3-setuptools python3-wheel
            ;;
        root) has debootstrap || need debootstrap ;;
        plot) has_matplotlib || need python3-matplotlib ;;
        model) has spin || need spin ;;
        *) mm_die "setup: \"$group\" is not a purpose; expected some of: $purposes" 2 ;;
        esac
    done
}

# reason: prints what went wrong according to the log; tries the most specific pattern first.
reason() {
    local pattern
    for pattern in '(Temporary failure (in name resolution|resolving .*)|(Could not resolve|Unable to locate|No matching distribution|No space left).*)' \
        '(E: |ERROR: ).*' '.+'; do
        grep -m1 -oE "$pattern" "$log" | cut -c1-120 | grep . && return
    done
}

# ask PACKAGES: on a terminal, says what sudo is for and lets it ask for the password.
ask() {
    (: </dev/tty) 2>/dev/null || return
    printf 'mm: sudo may ask for your password, to install by apt-get (and what these need): %s\n' "$1" >/dev/tty
    sudo -v 2>/dev/null
}

# install PACKAGE...: by apt-get, through sudo where that is needed and allowed.
install() {
    local as_root=() how="apt-get update && apt-get install -y --no-install-recommends $*"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120)
    has apt-get || mm_die "setup: missing $*; expected apt-get to install them (Debian, Ubuntu), or install them by hand"
    if ((EUID != 0)); then
        as_root=(sudo)
        # With a terminal sudo may ask for the password; without one it must not wait for it.
        if ! has sudo || ! { sudo -n true 2>/dev/null || ask "$*"; }; then
            mm_die "setup: missing $*; expected root or sudo to install them. Run as root: $how"
        fi
    fi
    printf 'mm: installing %s (apt-get)\n' "$*"
    # A failed update is ignored: the packages may still be available.
    "${as_root[@]}" "${apt[@]}" update >"$log" 2>&1 </dev/null
    "${as_root[@]}" "${apt[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 </dev/null ||
        mm_die "setup: apt-get could not install $*: $(reason); expected a reachable package mirror (on Ubuntu: with universe); all of it in $log"
}

# fetch_toolkit: installs the compiler's wheels as one toolkit directory of the usual layout, build/cuda. It is built in
# build/cuda.part and renamed in one step, so that build/cuda is always complete.
fetch_toolkit() {
    local part=$own.part version
    version=$(sed -n 's/^nvidia-cuda-nvcc==\([0-9.]*\).*/\1/p' "$root/tools/cuda-wheels.txt")
    [[ $(uname -sm) =~ ^Linux\ (x86_64|aarch64)$ ]] ||
        mm_die "setup: no CUDA toolkit, and none can be fetched for $(uname -sm); expected CUDA_HOME=DIR"
    printf 'mm: %sfetching the CUDA %s compiler (100 MB, from PyPI) into build/cuda\n' \
        "${mm_toolkit_passed:+$mm_toolkit_passed; }" "$version"
    rm -rf "$part"
    # The user's pip settings (mirror, certificates) apply, except those that conflict with --target.
    PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 python3 -m pip install --quiet --disable-pip-version-check \
        --no-input --retries 2 --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
        --target "$part" -r "$root/tools/cuda-wheels.txt" >"$log" 2>&1 </dev/null ||
        mm_die "setup: the CUDA compiler could not be fetched: $(reason); expected a reachable PyPI, or CUDA_HOME=DIR; all of it in $log"
    # The wheels lack lib64 (nvcc.profile names it), libcudart.so (for -cudart shared), and libnvvm.so in the folder where
    # nvlink searches for it (for -dlto).
    ln -s lib "$part/nvidia/cu13/lib64"
    ln -s libcudart.so.13 "$part/nvidia/cu13/lib/libcudart.so"
    mkdir -p "$part/nvidia/cu13/nvvm/lib64"
    ln -s ../../lib/libnvvm.so.4 "$part/nvidia/cu13/nvvm/lib64/libnvvm.so"
    mm_toolkit_version "$part/nvidia/cu13" >>"$log" ||
        mm_die "setup: the CUDA compiler that was fetched does not run; expected it to, on $(uname -sm)"
    rm -rf "$own"
    mv "$part/nvidia/cu13" "$own" && rm -rf "$part"
}

if [[ ${1-} == --cuda-home ]]; then
    mm_toolkit_find "$own" && printf '%s\n' "$mm_toolkit"
    exit 0
fi
if [[ ${1-} == --python ]]; then
    wheel_python
    exit 0
fi
# shellcheck disable=SC2086 # words
(($#)) || set -- $purposes
look_around "$@"
[[ ${#missing[@]} -gt 0 || $toolkit ]] || exit 0

# Something must be installed. One process at a time: the others wait for the lock, then look again.
if ! { mkdir -p "$build" && exec 9>"$build/setup.lock" && flock 9; } 2>/dev/null; then
    mm_die "setup: cannot write to $build; expected a directory of your own"
fi
look_around "$@"
if ((${#missing[@]})); then
    install "${missing[@]}"
    look_around "$@"
    ((${#missing[@]} == 0)) || mm_die "setup: installed, yet not found: ${missing[*]}; expected PATH, cc and pkg-config to see what apt-get installs"
fi
[[ ! $toolkit ]] || fetch_toolkit
