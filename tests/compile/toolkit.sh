#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# toolkit.sh RELEASE DIR: fetches another CUDA toolkit into DIR, with the layout of NVIDIA's installer: 13.x from PyPI; 12.4 from Debian 13
# (unpacked, not installed), because PyPI has no nvcc 12. Downloads 1 GB for 12.4, 300 MB for 13.x.
set -euo pipefail
release=$1 dir=$(realpath -m -- "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# wheels NAME...: unpacks these wheels into $work/wheels
wheels() {
    python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-cache-dir --only-binary=:all: \
        --target "$work/wheels" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}
# newest PACKAGE VERSION: the newest version of a package that begins with VERSION, as PACKAGE==VERSION.
newest() {
    python3 -m pip index versions --disable-pip-version-check "$1" 2>/dev/null |
        sed -n 's/^Available versions: //p' | tr -d ' ' | tr , '\n' | grep -m1 "^${2//./\\.}" | sed "s/^/$1==/"
}

case $release in
13.*)
    packages=()
    for p in nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime; do packages+=("$(newest $p "$release.")"); done
    cccl=$(newest nvidia-cuda-cccl "$release.") || cccl=$(newest nvidia-cuda-cccl "${release%%.*}.")
    wheels "${packages[@]}" "$cccl"
    mv "$work/wheels/nvidia/cu13" "$work/toolkit"
    cd "$work/toolkit"
    ln -s lib lib64
    ln -s libcudart.so.13 lib/libcudart.so
    mkdir -p nvvm/lib64
    [[ -e nvvm/lib64/libnvvm.so ]] || ln -s ../../lib/libnvvm.so.4 nvvm/lib64/libnvvm.so
    ;;
12.4)
    host=$(sed -n 's/^URIs: \(.*debian\)\/*$/\1/p; s/^deb [^h]*\(http[^ ]*debian\)\/* .*/\1/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1) || :
    [[ -n $host ]] || { echo "toolkit.sh: apt names no mirror of Debian's; expected one in its sources" >&2; exit 1; }
    mkdir -p "$work"/{lists/partial,cache/archives/partial,debs,deb}
    echo "deb [trusted=yes] $host trixie non-free" >"$work/sources.list"
    apt=(-qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
    apt-get "${apt[@]}" update
    (cd "$work/debs" && apt-get "${apt[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev libnvvm4 libcudart12)
    for deb in "$work"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -C "$work/deb" -x --exclude '*/libcu[bfrs]*' --exclude '*/libnpp*' --exclude '*/libnv[jr]*' ./usr
    done
    mkdir -p "$work"/toolkit/{bin,nvvm/bin,nvvm/lib64,lib64}
    cd "$work/toolkit"
    usr=$work/deb/usr
    cp -a "$usr"/bin/{ptxas,nvlink,fatbinary,cuobjdump,nvdisasm,bin2c,cudafe++,cu++filt,nvprune} bin
    cp -a "$usr"/lib/nvidia-cuda-toolkit/bin/{nvcc,crt} bin
    cp -a "$usr/lib/nvidia-cuda-toolkit/bin/cicc" nvvm/bin
    cp -a "$usr/lib/nvidia-cuda-toolkit/libdevice" nvvm
    cp -a "$usr"/lib/x86_64-linux-gnu/libnvvm.so.4* nvvm/lib64 && ln -s libnvvm.so.4 nvvm/lib64/libnvvm.so
    cp -a "$usr"/lib/x86_64-linux-gnu/{libcuda*,stubs} lib64
    ln -sf libcudart.so.12 lib64/libcudart.so
    cp -a "$usr/include" .
    cat >bin/nvcc.profile <<'EOF'
TOP              = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/$(_NVVM_BRANCH_)/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(TOP)/$(_NVVM_BRANCH_)/bin:$(_HERE_):
INCLUDES        +=  "-I$(TOP)/$(_TARGET_DIR_)/include" $(_SPACE_)
LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)/stubs" "-L$(TOP)/$(_TARGET_DIR_)/lib$(_TARGET_SIZE_)"
CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
EOF
    ;;
*)
    echo "toolkit.sh: release '$release'; expected 12.4 or 13.x" >&2
    exit 2
    ;;
esac
"$work/toolkit/bin/nvcc" --version >/dev/null
mkdir -p "${dir%/*}"
rm -rf "$dir"
mv "$work/toolkit" "$dir"
