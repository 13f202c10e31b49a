#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# builds.sh MMNVCC IMAGES OUT: builds the projects in tests/compile/projects with common build systems, in the usual ways to give them
# mmnvcc as the compiler. Every device image must contain the allocator (no service is left to the driver, and there is one heap variable),
# and each linked file must hold the path of a run time that exists. Where there is a GPU, the programs are run, too. CUDA_HOME names
# the toolkit. To be run from the root of the tree. Ends with "builds: N passed, M failed".
set -u
mmnvcc=$(realpath -s "$1") images=$(realpath "$2") projects=$PWD/tests/compile/projects
lib=$(dirname "$(readlink -f "$mmnvcc")")
rm -rf "$3" && mkdir -p "$3" && cd "$3" || exit
export NVCC_APPEND_FLAGS="-Xfatbin -compress=false" XDG_CACHE_HOME=$PWD/cache
passed=0 failed=0
has_gpu=
nvidia-smi -L >/dev/null 2>&1 && has_gpu=1

result() { # NAME WRONG
    if [[ -z $2 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: %s\n' "$1" "$2"
    fi
}

finish() {
    printf 'builds: %d passed, %d failed\n' "$passed" "$failed"
    exit $((failed > 0))
}

# wrong_with FILE: prints what is wrong with a linked file that must hold device images.
wrong_with() {
    local found runtime
    found=$("$images" "$1" 2>&1)
    { [[ $found ]] && ! grep -qv ' undefined= heap=1$' <<<"$found"; } || { echo "$1 holds '${found//$'\n'/; }'"; return; }
    runtime=$(strings -a "$1" | sed -n "s/.*mm's run time: //p" | head -1)
    [[ -f $runtime ]] || echo "$1 knows no run time"
}
# built NAME STATUS LOG FILE...: checks the FILEs, which hold device images, and runs those that are programs
built() {
    local name=$1 status=$2 log=$3 file wrong=
    shift 3
    [[ $status == 0 ]] || wrong="fails: $(grep -m1 -iE 'error|fatal|not found|mmnvcc' "$log")"
    for file; do
        [[ -z $wrong ]] && wrong=$(wrong_with "$file")
        [[ -z $wrong && $has_gpu && -x $file && $file != *.so ]] && { "$file" || wrong="$file: status $?"; }
    done
    result "$name" "$wrong"
}

cmake_files() { printf '%s\n' "$1"/{whole,separable,of_static_whole,of_static_parts,libshared_whole.so,libshared_parts.so}; }
cmake_build() { # NAME FOLDER COMMAND...: configures with COMMAND, then builds
    local name=$1 folder=$2 files
    shift 2
    { "$@" -S "$projects" -B "$folder" -DCMAKE_CUDA_ARCHITECTURES=90 && cmake --build "$folder"; } >"$folder.log" 2>&1
    local status=$?
    mapfile -t files < <(cmake_files "$folder")
    built "$name" $status "$folder.log" "${files[@]}"
    grep -q "CUDA::cudart\|Build files" "$folder.log" || result "$name" "no build files"
}

mkdir make path
(cd make && make -f "$projects/Makefile" NVCC="$mmnvcc") >make.log 2>&1
built "make NVCC=mmnvcc" $? make.log make/program
(cd path && PATH=$lib/path:$PATH make -f "$projects/Makefile") >path.log 2>&1
built "nvcc found in PATH" $? path.log path/program

cmake_build "CMake, CMAKE_CUDA_COMPILER" cmake cmake -DCMAKE_CUDA_COMPILER="$mmnvcc"
cmake_build "CMake, CUDACXX" cudacxx env CUDACXX="$mmnvcc" cmake
cmake_build "CMake, nvcc found in PATH" cmakepath env -u CUDACXX PATH="$lib/path:$PATH" cmake

# FindCUDA takes a toolkit, not a compiler. The C++ compiler links: so the program needs -lmm, or mmrun.
{ cmake -Wno-dev -S "$projects/findcuda" -B findcuda -DCUDA_TOOLKIT_ROOT_DIR="$lib/toolkit" -DCMAKE_EXE_LINKER_FLAGS="-L$lib" -DCMAKE_CXX_STANDARD_LIBRARIES=-lmm &&
    cmake --build findcuda; } >findcuda.log 2>&1
built "CMake, FindCUDA" $? findcuda.log findcuda/program

# not_tried PROGRAM: says so if PROGRAM is not installed
not_tried() { ! command -v "$1" >/dev/null && echo "$1: not tried, it is not here"; }
if ! not_tried meson; then
    printf "[binaries]\ncuda = '%s'\n" "$mmnvcc" >native.ini
    { meson setup meson "$projects/meson" --native-file native.ini && ninja -C meson; } >meson.log 2>&1
    built "Meson, a native file" $? meson.log meson/program
fi

# The commands of PyTorch's cpp_extension and setuptools (PYTORCH_NVCC): nvcc compiles objects, with dependencies, and c++ links.
{
    mkdir extension &&
        "$mmnvcc" --generate-dependencies-with-compile --dependency-output extension/whole.o.d -I"$projects" -DNO_MAIN -DTORCH_EXTENSION_NAME=whole \
            --expt-relaxed-constexpr --compiler-options "'-fPIC'" -gencode=arch=compute_90,code=compute_90 -gencode=arch=compute_90,code=sm_90 \
            -std=c++17 -c "$projects/whole.cu" -o extension/whole.o &&
        c++ -shared extension/whole.o -L"$CUDA_HOME/lib64" -lcudart -o extension/plain.so &&
        c++ -shared extension/whole.o -L"$lib" -lmm -L"$CUDA_HOME/lib64" -lcudart -o extension/whole.so
} >extension.log 2>&1
built "an extension linked by c++ -lmm" $? extension.log extension/whole.so
found=$("$images" extension/plain.so | grep -v ' undefined= heap=1$')
result "an extension linked by c++ without -lmm, for mmrun" "$found"

# A compiler cache returns the same output as mmnvcc.
export CCACHE_DIR=$PWD/ccache SCCACHE_DIR=$PWD/sccache SCCACHE_SERVER_UDS=$PWD/sccache.socket
for cache in ccache sccache; do
    not_tried "$cache" && continue
    mkdir "$cache.out"
    for i in 1 2; do
        "$cache" "$mmnvcc" -arch=sm_90 -dc "$projects/part.cu" -o "$cache.out/$i.o" >cached.log 2>&1 || result "$cache" "fails: $(<cached.log)"
    done
    result "$cache, the same object" "$(cmp "$cache.out/1.o" "$cache.out/2.o" 2>&1)"
    result "$cache, found the second time" "$("$cache" -s | awk 'tolower($0) ~ /hits/ && $0 ~ /[1-9]/ {hit = 1} END {if (!hit) print "no hit"}')"
    (cd "$cache.out" && "$cache" "$mmnvcc" -arch=sm_90 -dc "$projects/parts.cu" -o parts.o && "$mmnvcc" -arch=sm_90 parts.o 2.o -o program) >cached.log 2>&1
    built "$cache, a program of cached objects" $? cached.log "$cache.out/program"
    [[ $cache == ccache ]] || "$cache" --stop-server >/dev/null 2>&1
done
# sccache identifies a compiler by the contents of nvcc, cicc and ptxas. These must differ between builds of mm, even if only the device library differs.
identity=$(cat "$lib"/device/*.a | cksum)
for program in mmcicc mmptxas mmlink; do
    result "$program has the device library's checksum" "$(objcopy -O binary --only-section=.mm_device --set-section-flags .mm_device=alloc "$lib/$program" identity 2>&1 &&
        [[ $(<identity) == "$identity" ]] || echo "another")"
done
finish
