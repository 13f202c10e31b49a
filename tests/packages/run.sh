#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh BUILD DEB WHEEL [PART TEST]: tests the two packages, without a GPU and without a network: what is in them, and their use where they are
# installed. For mutants.sh, PART (deb or wheel) and TEST select: only the tests
# whose names begin with TEST, and the installation, are run. From the root of the tree; CUDA_HOME in the environment.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$PWD build=$(realpath "$1") deb=$(realpath "$2") wheel=$(realpath "$3") part=${4:-all} only=${5-}
unset MAKEFLAGS MAKELEVEL MFLAGS MM_NVCC MM_OFF LD_PRELOAD NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS
export LC_ALL=C
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" packages
eval "any_$(declare -f it)"
it() { [[ $only && $1 != "$only"* && $1 != 'wheel: pip' ]] || any_it "$@"; }
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || exit
# shellcheck source=tests/packages/lib.sh
source "$root/tests/packages/lib.sh"
cd "$out" || exit
export XDG_CACHE_HOME=$out/cache
version=$(number_of MM_VERSION) toolkit=$CUDA_HOME
unset CUDA_HOME
makes install CUDA_HOME="$toolkit" DESTDIR="$out/dest" PREFIX=/usr >install.log 2>&1 || { tail -n 5 install.log && echo 'packages: 0 passed, 1 failed' && exit 1; }
list() { "$python" "$root/tests/packages/listing.py" "$@"; }
installed=$(list tree dest/usr)
has_installed() { has "$installed" '- lib/mm/libmm.so.1' && has "$installed" 'x bin/mmrun'; }
it 'what is installed' has_installed
soname() { has "$(readelf -d "$1/lib/mm/libmm.so.1")" 'soname: [libmm.so.1]'; }

if [[ $part != wheel ]]; then
    dpkg-deb -x "$deb" deb && dpkg-deb -e "$deb" control || exit
    field() { same "$(dpkg-deb -f "$deb" "$1")" "$2"; }
    it 'deb: its files are those of make install' same "$(list deb deb/usr)" "$installed"
    it 'deb: nothing outside /usr' same "$(ls -A deb)" usr
    it 'deb: version' field Version "$version"
    it 'deb: conflicts with the other mm.h' field Conflicts libmm-dev
    it 'deb: depends on binutils' eval 'has ", $(dpkg-deb -f "$deb" Depends)," ", binutils,"'
    it 'deb: depends on glibc' eval 'has "$(dpkg-deb -f "$deb" Depends)" "libc6 (>= 2."'
    it 'deb: soname' soname deb/usr
    lints() { says 0 '' eval 'lintian --allow-root --fail-on error "$deb" | grep ^E: ; [[ ${PIPESTATUS[*]} == "0 1" ]]'; }
    it 'deb: lintian' lints
    it 'deb: checksums' eval 'cd deb && md5sum --quiet -c ../control/md5sums'
    links() {
        local link
        while IFS= read -r link; do [[ -e $link ]] || { echo "$link leads nowhere" && return 1; }; done < <(find deb -type l)
        [[ deb/usr/bin/mmnvcc -ef deb/usr/lib/mm/mmnvcc && deb/usr/include/mm.h -ef deb/usr/lib/mm/include/mm.h ]]
    }
    it 'deb: links' links
    doctor=deb/usr/bin/mmdoctor
    it 'deb: mmrun' eval 'has "$(deb/usr/bin/mmrun --version)" "mmrun (mm) $version, "'
    it 'deb: mmnvcc' compiles env CUDA_HOME="$toolkit" deb/usr/bin/mmnvcc -arch=sm_90
    it 'deb: mmdoctor' env CUDA_HOME="$toolkit" deb/usr/bin/mmdoctor
fi

if [[ $part != deb ]]; then
    it 'wheel: its files are those of make install' same "$(list wheel "$wheel")" "$installed"
    glibc=$(find dest -type f -print0 | xargs -0 readelf -W --dyn-syms 2>/dev/null | grep -oE '@GLIBC_[0-9.]+' | sort -uV | tail -n 1)
    glibc=${glibc#@GLIBC_}
    it 'wheel: name' same "${wheel##*/}" "mm_cuda-$version-py3-none-manylinux_${glibc//./_}_$(uname -m).whl"
    it 'wheel: pip' environment venv "$wheel" --no-index --no-deps
    site=$(echo "$out"/venv/lib/python3*/site-packages)
    inside() { env PATH="$out/venv/bin:/usr/bin:/bin" "$@"; }
    doctor=venv/bin/mmdoctor
    it 'wheel: soname' soname "$site/mm_cuda"
    it 'wheel: mmrun' eval 'has "$(inside mmrun --version)" "mmrun (mm) $version, agreement version $(number_of MM_ABI_VERSION), $site/mm_cuda/lib/mm/libmm.so.1"'
    it 'wheel: mmrun --help' eval 'has "$(inside mmrun --help)" "usage: mmrun [OPTION...] COMMAND"'
    it 'wheel: mmbench' eval 'has "$(inside mmbench --version)" "mmbench (mm) $version, "'
    it 'wheel: without an nvcc' eval 'has "$(inside mmnvcc -c app.cu 2>&1)" "mmnvcc: no nvcc: "'
    it 'wheel: an nvcc in PATH' compiles env PATH="$out/venv/bin:$toolkit/bin:/usr/bin:/bin" mmnvcc -arch=sm_90
    it 'wheel: manual pages and examples' eval '[[ -f venv/share/man/man1/mmrun.1 && -f venv/share/doc/mm/examples/graph.cu ]]'
    # The layout of NVIDIA's packages: no lib64, no libcudart.so, no libnvvm.so where nvlink looks for it. pypi.sh uses the packages themselves.
    cu=$site/nvidia/cu13
    mkdir -p "$cu/lib" "$cu/nvvm" && cp -rL "$toolkit/bin" "$cu" && ln -s "$(readlink -f "$toolkit/include")" "$cu/include" && : >"$cu/lib/libnvvm.so.4" &&
        ln -s "$(readlink -f "$toolkit/nvvm")"/{bin,libdevice} "$cu/nvvm" &&
        ln -s "$(readlink -f "$toolkit/lib64")"/{libcudadevrt.a,libcudart_static.a,libcudart.so.1[0-9]} "$cu/lib" || exit
    compiled() { compiles inside mmnvcc -arch=sm_90 "$@" && has "$(inside mmnvcc --mm-show)" "$out/cache/mm/toolkit-"; }
    it "wheel: PyPI's nvcc" compiled
    # The folder of libraries that nvcc names: a link may find some of them elsewhere on this machine.
    libraries() {
        local folder file
        folder=$(inside mmnvcc --dryrun -arch=sm_90 app.cu 2>&1 | sed -n '/LIBRARIES=/s/.*"-L\([^"]*lib64\)".*/\1/p' | tail -n 1)
        for file in libcudart_static.a libcudart.so libcudadevrt.a; do [[ -e $folder/$file ]] || { echo "no $folder/$file" && return 1; }; done
    }
    it "wheel: PyPI's nvcc, libraries" libraries
    it "wheel: PyPI's nvcc comes before PATH's" eval 'has "$(PATH=$out/venv/bin:$toolkit/bin:/usr/bin:/bin mmdoctor)" "$cu/bin/nvcc, by the links in"'
    it 'wheel: CUDA_HOME comes first' eval 'lacks "$(CUDA_HOME=$toolkit inside mmdoctor)" "$cu"'
    it "wheel: PyPI's nvcc, -rdc=true" compiled -rdc=true
    it "wheel: PyPI's nvcc, for -dlto" eval 'compiled && [[ $(echo cache/mm/toolkit-*/nvvm/lib64/libnvvm.so) -ef $cu/lib/libnvvm.so.4 ]]'
    it "wheel: PyPI's nvcc, -cudart shared" compiled -cudart shared
    it 'wheel: mmdoctor' inside mmdoctor

    # PTX as Numba and CuPy pass it to the driver, here to its stand-in.
    printf '%s\n' 'extern "C" __global__ void k() { free(malloc(100)); }' >k.cu && "$toolkit/bin/nvcc" -arch=sm_90 -ptx k.cu -o k.ptx || exit
    loads() {
        local said
        said=$(MM_VERBOSE=1 LD_LIBRARY_PATH=$build/tests/hooks inside "$@" python "$root/tests/packages/driver.py" k.ptx k 2>&1) && has "$said" launched || return
        taken='mm: PTX that was built without mm is linked with it' heap='mm: heap on device 0: '
        if (($#)); then has "$said" "$taken" && has "$said" "$heap"; else lacks "$said" mm:; fi
    }
    it 'wheel: mmrun python' loads mmrun
    it 'python without mmrun' loads
fi

# ---- recipes -------------------------------------------------------------------------------------------

if [[ $part == all ]]; then
    it 'conda: version' eval 'has "$(<"$root/packaging/conda/meta.yaml")" "  version: $version"$'"'\\n'"
    it 'spack: version' eval 'has "$(<"$root/packaging/spack/package.py")" "version(\"$version\")"'
    it 'spack: Python' env PYTHONPYCACHEPREFIX="$out" "$python" -m py_compile "$root/packaging/spack/package.py"
    licences() {
        local name
        while read -r name; do [[ -f $root/$name ]] || { echo "no $name" && return 1; }; done < <(sed -n '/license_file:/,/summary/s/^    - //p' "$root/packaging/conda/meta.yaml")
    }
    it 'conda: licences' licences
    # On a machine without an nvcc, here with an nvidia-smi that finds a GPU: without a GPU, only the two self-tests fail.
    gpu_test() {
        local said
        mkdir smi && printf '#!/bin/sh\necho "a GPU"\n' >smi/nvidia-smi && chmod +x smi/nvidia-smi || return
        said=$(env -u MM_NVCC PATH="$out/smi:${python%/*}:/usr/bin:/bin" CUDA_HOME=/nonexistent "$root/tests/packages/gpu.sh" "$deb" "$wheel" 2>&1)
        has "$said" 'not tried: mmdoctor, and building programs: there is no nvcc here' && has "$said" 'ok: wheel: pip' || return
        [[ $said == *': 1 passed, 2 failed' || $said == *': 3 passed, 0 failed' ]] || { echo "$said" && false; }
    }
    if [[ -x /usr/bin/nvcc ]]; then echo 'skipped: the GPU test without an nvcc: /usr/bin has one'; else it 'the GPU test, without an nvcc' gpu_test; fi
fi
it_ends
