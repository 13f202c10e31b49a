#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ship.sh OUT: programs and mm itself in other places than where they were made: moved, shipped, upgraded, of other versions.
# CUDA_HOME, CC, ARCHS and MAKE in the environment; from the root of the tree.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$PWD
out=$(mkdir -p "$1" && realpath "$1") || exit
rm -rf "${out:?}"/*
cd "$out" || exit
unset MAKEFLAGS MAKELEVEL MFLAGS MM_NVCC MM_OFF NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LD_PRELOAD LD_LIBRARY_PATH
export LC_ALL=C XDG_CACHE_HOME=$out/cache
prefix=$out/mm lib=$out/mm/lib/mm src=$root/tests/splice/programs
bin=$prefix/bin
# shellcheck source=tests/install/it.sh
source "$root/tests/install/it.sh" ship
version=$(number_of MM_VERSION) abi=$(number_of MM_ABI_VERSION)

makes install PREFIX="$prefix" > install.log 2>&1 || { tail -n 5 install.log && echo 'ship: 0 passed, 1 failed' && exit 1; }

# A program that says which libmm.so.1 it has, and what mm.h answers: 1, MM_ERROR_NO_HEAP, of a run time; 3 without one.
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
# by LIB ARGUMENT...: the program linked with the mm in LIB
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

# fake FOLDER LINE...: a libmm.so.1 of another version
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

# ---- static programs ---------------------------------------------------------------------------------

static_line="mm: a static program gets no run time of mm, and its kernels that call malloc will stop by an assertion; link it without -static"
static() {
    local said
    said=$("$bin/mmnvcc" -arch=sm_90 -Xcompiler -static "$src/one.cu" -o static 2>&1) && has "$said" "$static_line" && same "$(grep -c mm: <<< "$said")" 1
}
it '-static is warned of in one line' static

it_ends
