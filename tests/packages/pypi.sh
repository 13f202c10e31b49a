#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# pypi.sh BUILD WHEEL: installs the wheel and what it names as its compiler from PyPI (100 MB) into a new virtual environment, and uses it without any
# other toolkit; auditwheel, too, and a kernel of Numba (another 200 MB) if NUMBA=1. From the root of the tree.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$PWD build=$(realpath "$1") wheel=$(realpath "$2")
unset MAKEFLAGS MAKELEVEL MFLAGS MM_NVCC MM_OFF LD_PRELOAD NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS CUDA_HOME LIBRARY_PATH LD_LIBRARY_PATH
export LC_ALL=C
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" packages-pypi
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || exit
# shellcheck source=tests/packages/lib.sh
source "$root/tests/packages/lib.sh"
cd "$out" || exit
export XDG_CACHE_HOME=$out/cache

it 'pip installs the wheel and its compiler' environment venv "${wheel}[nvcc]" auditwheel ${NUMBA:+numba 'numba-cuda[cu13]'}
PATH=$out/venv/bin:/usr/bin:/bin
it 'the tag of the wheel' eval 'has "$(auditwheel show "$wheel" | tr "\n" " ")" "is consistent with the following platform tag: \"$(sed "s/.*-\(manylinux.*\).whl/\1/" <<<"$wheel")\""'
it "mmnvcc takes PyPI's nvcc" eval 'has "$(mmdoctor)" "/nvidia/cu13/bin/nvcc, by the links in $out/cache"'
for option in '' -rdc=true -dlto '-cudart shared' -G; do
    read -ra options <<<"$option"
    it "README's program ${option:-without options}" compiles mmnvcc -arch=sm_90 "${options[@]}"
done
it 'all architectures of the compiler' compiles mmnvcc -arch=all-major
for file in "$root"/examples/*.cu; do it "${file##*/}" mmnvcc -arch=sm_90 "$file" -o example; done
# As far as a machine without a GPU goes: Numba makes the kernel's PTX, which calls malloc; the stand-in for the driver loads it.
cat >numba_ptx.py <<'CODE'
from numba import cuda, types

malloc = cuda.declare_device("malloc", types.uint64(types.uint64), abi="c")


def k(out):
    out[0] = malloc(types.uint64(100))


text, _ = cuda.compile_ptx(k, types.void(types.uint64[:]), cc=(9, 0))
with open("numba.ptx", "w") as file:
    file.write(text)
CODE
numba_kernel() {
    local said
    mmrun python numba_ptx.py && said=$(MM_VERBOSE=1 LD_LIBRARY_PATH=$build/tests/hooks mmrun python "$root/tests/packages/driver.py" numba.ptx \
        "$(sed -n 's/^\.visible \.entry \([^(]*\)(.*/\1/p' numba.ptx)" 2>&1) && has "$said" launched && has "$said" 'mm: PTX that was built without mm is linked with it'
}
if [[ ${NUMBA-} ]]; then it 'Numba under mmrun' numba_kernel; fi
it_ends
