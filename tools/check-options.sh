#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tools/check-options.sh VAR=VALUE...: checks the options of a build. Names the first wrong one in one line and exits with
# status 2. The Makefile runs it before it builds anything.
set -uf
# shellcheck source=tools/toolkit.sh
source "$(dirname "${BASH_SOURCE[0]}")/toolkit.sh"

bad() { mm_die "$1: \"$2\" $3; expected $4" 2; }

# A path must be safe in recipes, in run paths and in nvcc.profile.
check_path() {
    [[ $2 == /* ]] || bad "$1" "$2" 'is not an absolute path' 'a directory such as /usr/local'
    [[ $2 =~ ^[[:alnum:]/._+@~,=-]+$ ]] ||
        bad "$1" "$2" 'has characters that make or a run path cannot carry' 'letters, digits and /._+@~,=- only'
}

check_cuda_home() {
    local version
    [[ -n $1 ]] || bad CUDA_HOME '' 'was not given, and PATH, /usr/local/cuda and build/cuda hold no CUDA toolkit that can be used' \
        'CUDA_HOME=DIR, or make setup first, which fetches one'
    check_path CUDA_HOME "$1"
    [[ -x $1/bin/nvcc ]] || bad CUDA_HOME "$1" 'has no bin/nvcc' 'the directory of a CUDA toolkit, such as /usr/local/cuda'
    version=$(mm_toolkit_version "$1") || bad CUDA_HOME "$1" 'has an nvcc that does not run' 'a CUDA toolkit for this machine'
    mm_version_ok "$version" || bad CUDA_HOME "$1" "is CUDA $version" "$MM_CUDA_MIN or newer"
}

# Uses cuda_home: its nvcc must know every architecture.
check_archs() {
    local known arch
    # In the format of the option: "75 80 ... 121".
    known=$("$cuda_home/bin/nvcc" --list-gpu-arch 2>/dev/null | sed -n 's/^compute_\([0-9]*\)$/\1/p' | sort -n | tr '\n' ' ')
    known=${known% }
    [[ $1 =~ [^[:space:]] ]] || bad ARCHS "$1" 'names no architecture' "some of: $known"
    for arch in $1; do
        [[ " $known " == *" $arch "* ]] || bad ARCHS "$arch" 'is not an architecture that this nvcc knows' "some of: $known"
    done
}

check_cc() {
    local cc
    read -ra cc <<<"$1"
    command -v "${cc[0]-}" >/dev/null || bad CC "$1" 'cannot be run' 'a C11 compiler such as gcc or clang'
    printf '#include <stdatomic.h>\n_Static_assert(1, "");\n' | "${cc[@]}" -std=c11 -fsyntax-only -x c - >/dev/null 2>&1 ||
        bad CC "$1" 'does not compile C11 (-std=c11)' 'a C11 compiler such as gcc or clang'
}

cuda_home=
for option; do
    value=${option#*=}
    case $option in
    CURDIR=*) check_path 'the path of this checkout' "$value" ;;
    CUDA_HOME=*) check_cuda_home "$value"; cuda_home=$value ;;
    ARCHS=*) check_archs "$value" ;;
    CC=*) check_cc "$value" ;;
    PREFIX=*) check_path PREFIX "$value" ;;
    DESTDIR=*) [[ -z $value ]] || check_path DESTDIR "$value" ;;
    *) mm_die "check-options: \"$option\" is not an option; expected CUDA_HOME=, ARCHS=, CC=, PREFIX= or DESTDIR=" 2 ;;
    esac
done
