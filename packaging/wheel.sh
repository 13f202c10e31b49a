#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# wheel.sh BUILD VERSION: makes BUILD/mm_cuda-VERSION-py3-none-PLATFORM.whl from the files that make install writes. PLATFORM names the oldest glibc
# that the programs run with. From the root of the tree; CUDA_HOME, ARCHS and CC in the environment, MAKE too.
set -euo pipefail
build=$(realpath "$1") version=$2 stage=$build/wheel
export LC_ALL=C
unset MAKEFLAGS MAKELEVEL MFLAGS
python=$(tools/setup.sh --python)

rm -rf "$stage" "$build"/mm_cuda-*.whl
mkdir -p "$stage"
cp -r packaging/python/. "$stage"
"${MAKE:-make}" --no-print-directory install DESTDIR="$stage" PREFIX=/mm_cuda >"$build/wheel.log" 2>&1 || { tail -n 20 "$build/wheel.log" >&2 && exit 1; }
cd "$stage"
rm -rf mm_cuda/lib/mm/toolkit # links to the toolkit of this machine; mmnvcc makes its own in the user's cache
cp mm_cuda/share/doc/mm/{LICENSE,NOTICES} .
cp "$OLDPWD/packaging/python/README.md" .
mv mm_cuda/share .
# A wheel has no links: a link to a program becomes a script that runs it, any other a copy.
while IFS= read -r -d '' link; do
    target=$(readlink -f "$link") from=${link%/*}
    [[ -f $target ]] || { printf 'mm: wheel: the link %s leads to no file\n' "$link" >&2 && exit 1; }
    relative=$(realpath --relative-to="$from" "$target")
    rm "$link"
    if [[ -x $target ]]; then
        # shellcheck disable=SC2016
        printf '#!/bin/sh\nexec "$(dirname -- "$(readlink -f -- "$0")")/%s" "$@"\n' "$relative" >"$link"
        chmod 755 "$link"
    else
        cp "$target" "$link"
    fi
done < <(find mm_cuda share -type l -print0)
# The newest version of glibc that a program asks for.
glibc=$({ find mm_cuda -type f -print0 | xargs -0 readelf -W --dyn-syms 2>/dev/null || :; } | grep -oE '@GLIBC_[0-9.]+' | sort -uV | tail -n 1)
glibc=${glibc#@GLIBC_}
PLATFORM=manylinux_${glibc//./_}_$(uname -m)
export PLATFORM VERSION=$version
# The packages that hold the compiler, as the set-up pins them.
nvcc=$(sed -n 's/^\([a-z-]*\)==\([0-9]*\.[0-9]*\)\..*/"\1==\2.*"/p' "$OLDPWD/tools/cuda-wheels.txt" | paste -sd,)
sed -i "s/@NVCC@/${nvcc//,/, }/" pyproject.toml
"$python" -m build --wheel --no-isolation --outdir "$build" . >>"$build/wheel.log" 2>&1 || { tail -n 20 "$build/wheel.log" >&2 && exit 1; }
ls "$build"/mm_cuda-*.whl
