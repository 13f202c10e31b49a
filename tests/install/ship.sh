#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ship.sh OUT: tests programs and installations that are not where they were made: moved, shipped, upgraded, or of other versions of mm.
# CUDA_HOME, CC, ARCHS and MAKE in the environment; to be run from the root of the tree.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$PWD
out=$(mkdir -p "$1" && realpath "$1") || exit
rm -rf "${out:?}"/*
cd "$out" || exit
unset MAKEFLAGS MAKELEVEL MFLAGS MM_NVCC MM_OFF NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LD_PRELOAD LD_LIBRARY_PATH
export LC_ALL=C XDG_CACHE_HOME=$out/cache
prefix=$out/mm lib=$out/mm/lib/mm src=$root/tests/programs
bin=$prefix/bin
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" ship
version=$(number_of MM_VERSION) abi=$(number_of MM_ABI_VERSION)

makes install PREFIX="$prefix" > install.log 2>&1 || { tail -n 5 install.log && echo 'ship: 0 passed, 1 failed' && exit 1; }

# A program that prints the result of mm_reset and the path of its libmm.so.1. The result is 1 (MM_ERROR_NO_HEAP) with a run time, 3 without one.
cat > own.c << 'END'
#include <mm.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[4096], *at;
    int answer = mm_reset();
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if ((at = strchr(line, '/')) && strstr(at, "libmm.so.1")) return printf("%d %s", answer, at) < 0;
    printf("%d none\n", answer);
    return 0;
}
END
# by LIB ARGUMENT...: links the program with the mm in LIB
by() { $CC own.c -I"$lib/include" "${@:2}" -L"$1" -lmm -ldl; }
by "$lib" -o own && by "$lib" -o bundled -Wl,-rpath,'$ORIGIN/here' && by "$lib" -o older -Wl,--disable-new-dtags,-rpath,'${ORIGIN}/here' || exit

# ---- where a program finds libmm.so.1 ---------------------------------------------------------------

mkdir here there loaded foreign early late && cp "$lib/libmm.so.1" here && cp "$lib/libmm.so.1" there && cp "$lib/libmm.so.1" loaded
it 'where it was when it was linked' says 0 "1 $lib/libmm.so.1" ./own
it '$ORIGIN' says 0 "1 $out/here/libmm.so.1" ./bundled
it 'LD_LIBRARY_PATH' says 0 "1 $out/there/libmm.so.1" env LD_LIBRARY_PATH="$out/there" ./own
it 'LD_LIBRARY_PATH before a run path' says 0 "1 $out/there/libmm.so.1" env LD_LIBRARY_PATH="$out/there" ./bundled
it 'the one that is loaded already' says 0 "1 $out/loaded/libmm.so.1" env LD_LIBRARY_PATH="$out/there" LD_PRELOAD="$out/loaded/libmm.so.1" ./own
shipped() { rm -rf 'else where' && mkdir 'else where' && cp -r bundled here 'else where' && says 0 "1 $out/else where/here/libmm.so.1" 'else where/bundled'; }
it 'program and library, shipped together' shipped
echo 'int theirs;' | $CC -shared -fPIC -Wl,-soname,libmm.so.1 -x c - -o foreign/libmm.so.1
it "somebody else's library of that name" says 0 "1 $lib/libmm.so.1" env LD_LIBRARY_PATH="$out/foreign" ./own
# doctor_finds PLACE FILE COMMAND...
doctor_finds() { has "$("${@:3}" "$bin/mmdoctor" "$2")" "$2: "; has "$("${@:3}" "$bin/mmdoctor" "$2")" "run time $1"; }
"$bin/mmnvcc" -arch=sm_90 "$src/one.cu" -o one && "$bin/mmnvcc" -arch=sm_90 -Xlinker -rpath -Xlinker '$ORIGIN/here' "$src/one.cu" -o bundle || exit
it 'mmdoctor, the place' doctor_finds "$lib/libmm.so.1" one env
it 'mmdoctor, $ORIGIN' doctor_finds "$out/here/libmm.so.1" bundle env
it 'mmdoctor, LD_LIBRARY_PATH' doctor_finds "$out/there/libmm.so.1" bundle env LD_LIBRARY_PATH="$out/there"

# ---- of other versions -------------------------------------------------------------------------------

# fake FOLDER LINE...: makes a libmm.so.1 of another version
fake() { printf '%s\n' 'void *mm_dlsym_v1(void *h, const char *n) { return h && n ? h : 0; }' 'int mm_reset(void) { return 7; }' "${@:2}" |
    $CC -shared -fPIC -Wl,-soname,libmm.so.1,-z,nodelete -x c - -o "$1/libmm.so.1"; }
fake early && fake late "const unsigned mm_agreement = $((abi + 1));" || exit
early="mm: $out/early/libmm.so.1 is of an earlier version of mm than this program, whose kernels get no heap; put that of mm $version there, or start the program with its mmrun"
it 'its own version comes before an earlier one' says 0 1 eval 'LD_LIBRARY_PATH=$out/early ./own | cut -d " " -f 1'
it 'and before one that is loaded already' says 0 1 eval 'LD_PRELOAD=$out/early/libmm.so.1 ./own | cut -d " " -f 1'
without_own() {
    local status=0
    mv "$lib/libmm.so.1" "$lib/kept"
    says 0 "$early"$'\n'"7 $out/early/libmm.so.1" env LD_LIBRARY_PATH="$out/early" ./own &&
        says 0 "7 $out/late/libmm.so.1" env LD_LIBRARY_PATH="$out/late" ./own && says 0 '3 none' ./own || status=1
    mv "$lib/kept" "$lib/libmm.so.1"
    return "$status"
}
it 'an earlier version is told of; a later one tells by itself; none is as if mm were not there' without_own

# ---- a copy of mm ------------------------------------------------------------------------------------

rm -rf 'a copy' && cp -r "$prefix" 'a copy' && copy=$out/'a copy'
built_by_copy() {
    "$copy/bin/mmnvcc" -arch=sm_90 "$src/one.cu" -o copied && doctor_finds "$copy/lib/mm/libmm.so.1" copied env &&
        says 0 0 eval '"$copy/bin/mmdoctor" copied > doctor.log; echo $?' && lacks "$(< doctor.log)" "$lib/"
}
it 'mmnvcc and mmdoctor of a copy use the copy' built_by_copy
copy_links() { "$copy/bin/mmnvcc" own.c -o copied && says 0 "1 $copy/lib/mm/libmm.so.1" ./copied; }
it 'what it links finds its run time' copy_links
copy_alone() {
    local status=0
    mv "$prefix" gone
    { copy_links && "$copy/bin/mmnvcc" -rdc=true -arch=sm_90 "$src/part.cu" "$src/use.cu" -o copied && "$copy/bin/mmdoctor" copied; } || status=1
    mv gone "$prefix"
    return "$status"
}
it 'without what it was copied from' copy_alone
copy_ld() { by "$copy/lib/mm" -o copied -Wl,-Map,map && has "$(< map)" "$copy/lib/mm/mmhook.o" && lacks "$(< map)" "$lib/"; }
it '-lmm of a copy takes nothing else' copy_ld
for linker in gold lld; do
    ! type -P ld.$linker > /dev/null || it "-lmm by $linker" eval 'by "$lib" -fuse-ld=$linker -o linked && says 0 "1 $lib/libmm.so.1" ./linked'
done
it 'libmm.so by its path' eval '$CC own.c -I"$lib/include" "$lib/libmm.so" -o linked -ldl && says 0 "1 $lib/libmm.so.1" ./linked'

# ---- CMake -------------------------------------------------------------------------------------------

# project PREFIX COMPILER LINE...: configures a CMake project with these lines; sets `said` to CMake's output as one line
project() {
    rm -rf project && mkdir project && printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(p CXX)' "${@:3}" > project/CMakeLists.txt
    said=$(cmake -S project -B project/build -DCMAKE_PREFIX_PATH="$1" -DCMAKE_CUDA_COMPILER="$2" -DCMAKE_CUDA_ARCHITECTURES=90 2>&1)
    local status=$?
    said=$(tr -s ' \n' ' ' <<< "$said")
    return $status
}
find='find_package(mm REQUIRED)' cuda='enable_language(CUDA)'
uses=("add_executable(app $src/one.cu)" 'target_link_libraries(app PRIVATE mm::mm)')
warning="mm: the CUDA compiler is $CUDA_HOME/bin/nvcc, whose kernels keep CUDA's malloc: configure a fresh build folder with -DCMAKE_CUDA_COMPILER=$bin/mmnvcc"
# refuses_project LINE...: with nvcc, CMake warns and generates no build files
refuses_project() { ! project "$prefix" "$CUDA_HOME/bin/nvcc" "$@" "${uses[@]}" && has "$said" "$warning" && has "$said" "mm::wants -DCMAKE_CUDA_COMPILER=$bin/mmnvcc"; }
it 'CMake, CUDA by nvcc' refuses_project "$cuda" "$find"
it 'CMake, CUDA by nvcc, enabled later' refuses_project "$find" "$cuda"
warns_project() { project "$prefix" "$CUDA_HOME/bin/nvcc" "$cuda" "$find" "$find" "add_executable(app $src/none.cu)" && same "$(grep -o "CMake Warning" <<< "$said" | wc -l)" 1; }
it 'CMake, CUDA by nvcc, nothing links mm::mm' warns_project
# built_project PREFIX COMPILER: configures without a warning, builds, and the program finds its run time
built_project() {
    project "$1" "$2" "$cuda" "$find" "${uses[@]}" && lacks "$said" Warning && cmake --build project/build && doctor_finds "$1/lib/mm/libmm.so.1" project/build/app env
}
it 'CMake, CUDA by mmnvcc' built_project "$prefix" "$bin/mmnvcc"
it 'CMake, CUDA by mmnvcc under the name nvcc' built_project "$prefix" "$lib/path/nvcc"
it 'CMake, CUDA by the nvcc of the links' built_project "$prefix" "$lib/toolkit/bin/nvcc"
it 'CMake, a copy of mm' built_project "$copy" "$copy/bin/mmnvcc"

# ---- static programs ---------------------------------------------------------------------------------

static_line="mm: a static program gets no run time of mm, and its kernels that call malloc will fail with cudaErrorLaunchFailure; link it without -static"
static() {
    local said
    said=$("$bin/mmnvcc" -arch=sm_90 -Xcompiler -static "$src/one.cu" -o static 2>&1) && has "$said" "$static_line" && same "$(grep -c mm: <<< "$said")" 1
}
it '-static is warned of in one line' static

# ---- relocatable PTX ---------------------------------------------------------------------------------

reloc=("$bin/mmnvcc" -rdc=true --relocatable-ptx)
# refuses_reloc OBJECT COMMAND...: expects one line that names OBJECT, and no output file
refuses_reloc() {
    local said
    rm -f reloc
    ! said=$("${@:2}" -o reloc 2>&1) && [[ ! -e reloc && $said == "mmnvcc: --relocatable-ptx leaves calls of CUDA's malloc,free in the PTX of '"*"$1'; leave the option out: "* ]] &&
        same "$(grep -c . <<< "$said")" 1
}
"$bin/mmnvcc" -arch=sm_90 -dc "$src/part.cu" "$src/use.cu" && rm -f parts.a && ar rcs parts.a part.o use.o && printf 'int main() { return 0; }\n' > empty.cu || exit
it '--relocatable-ptx' refuses_reloc part.o "${reloc[@]}" -arch=sm_90 "$src/part.cu" "$src/use.cu"
it '--relocatable-ptx, PTX only' refuses_reloc part.o "${reloc[@]}" -gencode arch=compute_90,code=compute_90 "$src/part.cu" "$src/use.cu"
it '--relocatable-ptx, a library' refuses_reloc parts.a "${reloc[@]}" -arch=sm_90 empty.cu parts.a
it '--relocatable-ptx, nothing allocates' "${reloc[@]}" -arch=sm_90 "$src/none.cu" -o reloc
it 'the same objects without it' "$bin/mmnvcc" -rdc=true -arch=sm_90 part.o use.o -o reloc

# ---- the owner of the cache --------------------------------------------------------------------------

# view PLACE: mmnvcc of the copy uses a toolkit view in that place. The view of a copy is in the cache
view() {
    local said
    said=$(TMPDIR=$out/tmp "$copy/bin/mmnvcc" --mm-show) && eval "said=$said" && has "$said" "$out/$1"
}
mkdir -p tmp
it 'links in the cache' view cache/mm/toolkit-
unsafe_cache() {
    local status=0
    chmod 777 cache/mm && view "tmp/mmnvcc-$UID/toolkit-" || status=1
    chmod 700 cache/mm && view cache/mm/toolkit- || status=1
    return "$status"
}
it 'a cache in which others may write is not looked at' unsafe_cache
foreign_cache() {
    local status=0
    chown 65534 cache/mm && view "tmp/mmnvcc-$UID/toolkit-" || status=1
    chown "$UID" cache/mm && view cache/mm/toolkit- || status=1
    return "$status"
}
if ((UID == 0)); then it "somebody else's cache is not looked at" foreign_cache; fi # only root can give a folder to another user

# ---- make install ------------------------------------------------------------------------------------

# installs_by HOME ARGUMENT...: `make install ARGUMENT...` of a tree that was built with the toolkit in $out/kit uses the toolkit in HOME
mkdir -p kit/bin built/lib/toolkit && ln -s "$CUDA_HOME"/bin/* kit/bin && printf '%s\n' "$root/build/lib" "$out/kit/bin" > built/lib/toolkit/mm-view
installs_by() { has "$(env -u CUDA_HOME "$MAKE" -n -C "$root" BUILD="$out/built" PREFIX=/opt/mm "${@:2}" install 2>&1)" "cd $1/bin &&"; }
it 'make install takes the toolkit that mm was built with' installs_by "$out/kit"
it 'make install, CUDA_HOME' installs_by "$CUDA_HOME" CUDA_HOME="$CUDA_HOME"
toolkit_gone() { mv kit gone && lacks "$(env -u CUDA_HOME "$MAKE" -n -C "$root" BUILD="$out/built" PREFIX=/opt/mm install 2>&1)" "$out/kit" && mv gone kit; }
it 'make install, the toolkit is gone' toolkit_gone
# installs_for ARCHS ARGUMENT...: `make ARGUMENT...` installs the PTX of exactly these architectures, in this order
installs_for() { same "$(env -u ARCHS "$MAKE" -n -C "$root" BUILD="$out/built" PREFIX=/opt/mm "${@:2}" 2>&1 | sed -n 's/^install .*mm_/&/p' | grep -o 'mm_[0-9]*[.]ptx' | tr -dc '0-9\n' | paste -sd' ')" "$1"; }
all_archs=$(sed -n 's/^ARCHS *?= //p' "$root/Makefile")
it 'make install, no architectures known' installs_for "$all_archs" install
remembers() { "$MAKE" --no-print-directory -C "$root" BUILD="$out/built" ARCHS='80 90' "$out/built/archs" && installs_for '80 90' install; }
it 'make install takes the architectures that mm was built for' remembers
it 'make install-compile-time, the same' installs_for '80 90' install-compile-time
it 'make install, ARCHS' installs_for 75 ARCHS=75 install
it 'make all install, all architectures' installs_for "$all_archs" all install

# ---- variables ---------------------------------------------------------------------------------------

# doctor_wrong LINE SETTING...: mmdoctor reports exactly that line as wrong with the environment
doctor_wrong() {
    local said
    said=$(env "${@:2}" "$bin/mmdoctor" | grep '^wrong: ')
    same "$said" "$1"
}
it 'mmdoctor, good variables' doctor_wrong '' MM_HEAP_SIZE=1G MM_FILL=junk MM_STATS=json MM_NVCC= MMX=1
it 'mmdoctor, a bad value' doctor_wrong 'wrong: MM_FILL=ones is not understood; expected none, zero or junk; using none' MM_FILL=ones
it 'mmdoctor, a bad MM_OFF, once' doctor_wrong "wrong: MM_OFF is 'yes'; set it to 0 or 1" MM_OFF=yes
unknown="wrong: MM_HEAPSIZE=1G is not a variable of mm; known are $(sed -n '/^#define MM_HOST_VARIABLES /,/[^\\]$/p' "$root/mmconfig.h" | grep -oE '"[A-Z_]+"' | tr -d '"' | paste -sd, | sed 's/,/, /g')"
it 'mmdoctor, an unknown variable' doctor_wrong "$unknown" MM_HEAPSIZE=1G

# ---- glibc -------------------------------------------------------------------------------------------

# The symbols that the installed files import from glibc: NAME@GLIBC_VERSION
imports() {
    find "$prefix" -type f -print0 | xargs -0 readelf -W --dyn-syms 2> /dev/null |
        awk '$7 == "UND" && match($8, /@GLIBC_[0-9.]+/) {print substr($8, 1, RSTART + RLENGTH - 1)}' | sort -u
}
later() { [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | tail -n 1) == "$1" ]]; }
readme=$(tr '\n' ' ' < "$root/README.md")
[[ $readme =~ Building\ needs\ glibc\ ([0-9]+\.[0-9]+)\ or\ newer ]] && builds_with=${BASH_REMATCH[1]}
[[ $readme =~ a\ build\ on\ Debian\ 12\ needs\ only\ ([0-9]+\.[0-9]+) ]] && needs=${BASH_REMATCH[1]}
what_it_needs() { same "$(imports | sed 's/.*@GLIBC_//' | sort -uV | tail -n 1)" "$needs"; }
if (. /etc/os-release && [[ $ID$VERSION_ID == debian12 ]]) 2> /dev/null; then it 'glibc, as README says of Debian 12' what_it_needs; fi
# README names the oldest glibc for building. A symbol of a newer version must be an old function under a new version: one that was in
# another library, or inline in a header (stat), or of an older C standard.
builds_on_older() {
    local import libc status=0
    libc=$(ldd "$lib/libmm.so.1" | awk '$1 == "libc.so.6" {print $3}') && old=$(readelf -W --dyn-syms "$libc" "${libc%/*}/libm.so.6" | awk '{print $8}') || return
    while read -r import; do
        later "${import#*@GLIBC_}" "$builds_with" || continue
        [[ ! ${import%@*} =~ ^(stat|fstat|lstat|__isoc23_.*)$ ]] || continue
        while read -r version; do
            ! later "$version" "$builds_with" && continue 2
        done < <(sed -n "s/^${import%@*}@@\\?GLIBC_//p" <<< "$old")
        echo "$import is in no glibc $builds_with" && status=1
    done < <(imports)
    return "$status"
}
it 'glibc, as README says for building' builds_on_older

it_ends
