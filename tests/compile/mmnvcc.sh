#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmnvcc.sh MMNVCC IMAGES OUT: compiles programs by mmnvcc in every mode and checks their contents; then checks
# mmnvcc's error messages. CUDA_HOME in the environment names the toolkit. To be run from the root of the tree.
set -u
mmnvcc=$(realpath "$1") images=$(realpath "$2")
nvcc=$CUDA_HOME/bin/nvcc
rm -rf "$3"
mkdir -p "$3"
out=$(realpath "$3")
src=$PWD/tests/programs config=$PWD/mmconfig.h
cd "$out" || exit 1
export XDG_CACHE_HOME=$out/cache
view=$("$mmnvcc" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=\(.*\)/bin$|\1|p')
# The architectures that this nvcc supports and that this mm was built for (ARCHS).
mapfile -t archs < <("$nvcc" --list-gpu-code | sed 's/sm_//' |
    grep -xF -f <(printf '%s\n' "$(dirname "$(readlink -f "$mmnvcc")")"/ptx/mm_*.ptx | sed 's/.*mm_\(.*\)\.ptx/\1/'))
count=0 failed=0

fail() {
    printf 'mmnvcc.sh: %s\n' "$*" >&2
    failed=$((failed + 1))
}

# same NAME FOUND EXPECTED
same() {
    count=$((count + 1))
    [[ $2 == "$3" ]] || fail "$1: found" $'\n'"$2"$'\n'"  expected" $'\n'"$3"
}

# has_arch ARCH: true if both support it
has_arch() { [[ " ${archs[*]} " == *" $1 "* ]]; }

# build NAME ARGUMENTS...: builds an executable by mmnvcc
build() {
    local name=$1
    shift
    "$mmnvcc" -Xfatbin -compress=false "$@" -o "$name" > "$name.log" 2>&1 || fail "$name: $(< "$name.log")"
}

# holds NAME IMAGES...: the executable holds exactly these images; each has one heap variable and leaves no service undefined, and no
# machine code has a YIELD
holds() {
    local name=$1 expected
    shift
    expected=$(printf '%s undefined= heap=1\n' "$@" | sort)
    same "$name" "$("$images" "$name" 2>&1 | sort)" "$expected"
    [[ $* != *elf* ]] || same "YIELDs and NANOSLEEPs in $name" "$("$(dirname "$(readlink -f "$mmnvcc")")/mmunyield" -n "$name" 2>&1 | grep -v ': 0 YIELD, 0 NANOSLEEP$')" ""
}

# linked_toolkit FOLDER: makes a toolkit that consists of links to the real one
linked_toolkit() {
    local entry
    mkdir -p "$1/bin" "$1/nvvm"
    ln -s "$CUDA_HOME"/bin/* "$1/bin"
    ln -s "$CUDA_HOME"/nvvm/* "$1/nvvm"
    for entry in "$CUDA_HOME"/*; do
        [[ ${entry##*/} == bin || ${entry##*/} == nvvm ]] || ln -s "$entry" "$1"
    done
}

# The main test: no image refers to the driver's allocator, and each has one heap variable.
modes() {
    local arch file
    for arch in 75 80 90 100; do
        has_arch $arch || continue
        build whole$arch -arch=sm_$arch "$src/all.cu"
        holds whole$arch "elf sm_$arch" "ptx sm_$arch"
        build parts$arch -arch=sm_$arch -rdc=true "$src/part.cu" "$src/use.cu"
        holds parts$arch "elf sm_$arch"
    done 2>&1
    for arch in 75 90 100; do # linked, with debug information
        has_arch $arch || continue
        build debug$arch -arch=sm_$arch -G "$src/all.cu"
        holds debug$arch "elf sm_$arch" "ptx sm_$arch"
    done
    "$mmnvcc" -cubin -G -arch=sm_90 "$src/all.cu" -o debug.cubin && "$nvcc" -cubin -G -arch=sm_90 "$src/all.cu" -o plain.cubin
    same "debug information" "$(readelf --debug-dump=info debug.cubin 2> /dev/null | grep -c DW_AT_name)" \
        "$(readelf --debug-dump=info plain.cubin 2> /dev/null | grep -c DW_AT_name)"
    build lines -arch=sm_90 -lineinfo "$src/all.cu"
    holds lines "elf sm_90" "ptx sm_90"
    build one -arch=sm_90 "$src/one.cu"
    holds one "elf sm_90" "ptx sm_90"
    build header -arch=sm_90 -std=c++11 -Xcompiler -Wall,-Wextra,-Werror "$src/header.cu"
    holds header "elf sm_90" "ptx sm_90"
    build headerparts -arch=sm_90 -rdc=true "$src/header.cu" # nvlink knows malloc as a service of the driver, but not mm_usable_size
    holds headerparts "elf sm_90"
    build sizeparts -arch=sm_90 -rdc=true -maxrregcount 24 -DSIZE_ONLY "$src/header.cu"
    holds sizeparts "elf sm_90"
    build few -arch=sm_90 -maxrregcount 24 "$src/one.cu"
    holds few "elf sm_90" "ptx sm_90"
    build fewparts -arch=sm_90 -maxrregcount 24 -rdc=true "$src/one.cu"
    holds fewparts "elf sm_90"
    if has_arch 75; then
        build several -gencode arch=compute_75,code=sm_75 -gencode "arch=compute_90,code=[sm_90,compute_90]" "$src/all.cu"
        holds several "elf sm_75" "elf sm_90" "ptx sm_90"
        build severalparts -rdc=true -gencode arch=compute_75,code=sm_75 -gencode arch=compute_90,code=sm_90 "$src/all.cu"
        holds severalparts "elf sm_75" "elf sm_90"
        same "modules registered" "$(nm severalparts | grep -c mm_fatbinwrap)" 1
    fi
    build ptxonly -gencode arch=compute_90,code=compute_90 "$src/all.cu"
    holds ptxonly "ptx sm_90"
    build child -rdc=true -arch=sm_90 "$src/child.cu"
    holds child "elf sm_90"
    build debugparts -rdc=true -G -arch=sm_90 "$src/all.cu"
    holds debugparts "elf sm_90"
    build shared.so -shared -Xcompiler -fPIC -cudart shared -arch=sm_90 "$src/all.cu"
    holds shared.so "elf sm_90" "ptx sm_90"
    build ewp -arch=sm_90 -ewp "$src/one.cu"
    same ewp "$("$images" ewp)" "elf sm_90 undefined= heap=1"
    "$mmnvcc" -arch=sm_90 -dc "$src/part.cu" "$src/use.cu" || fail "-dc"
    build later -arch=sm_90 part.o use.o
    holds later "elf sm_90"
    # The last link by g++, without -lmm: the output of the device link contains everything it needs.
    build dlink.o -arch=sm_90 -dlink part.o use.o
    g++ part.o use.o dlink.o -L"$CUDA_HOME/lib64" -lcudart_static -ldl -lrt -lpthread -o foreign || fail "link by g++"
    holds foreign "elf sm_90"
    # Relocatable PTX only: the driver links it, with mm's module, which is registered next to the program's.
    build ptxparts -rdc=true -gencode arch=compute_90,code=compute_90 "$src/all.cu"
    same ptxparts "$(nm ptxparts | grep -c mm_fatbinwrap)" 1
    same "ptxonly is no relocatable code" "$(nm ptxonly | grep -c mm_fatbinwrap)" 0
    # mmnvcc can compile its own PTX further. Plain ptxas cannot, and reports the allocator's functions as unresolved.
    for file in one names; do
        "$mmnvcc" -ptx -arch=sm_90 "$src/$file.cu" -o $file.ptx
        "$mmnvcc" -dc -arch=sm_90 $file.ptx -o $file.part.o || fail "-dc of $file.ptx"
        "$mmnvcc" -cubin -arch=sm_90 "$src/$file.cu" -o $file.cubin && "$mmnvcc" -cubin -arch=sm_90 $file.ptx -o $file.from.cubin
        same "machine code of $file.ptx" "$(cmp $file.cubin $file.from.cubin && echo same)" same
        same "$file.ptx without mm" "$("$CUDA_HOME/bin/ptxas" -arch=sm_90 $file.ptx -o plain.cubin 2>&1 | grep -c "Unresolved extern function 'mm_call_")" 1
    done
    "$mmnvcc" -dlink -cubin -arch=sm_90 one.part.o names.part.o -o both.cubin || fail "link of two modules"
    same "heap variables of two modules" "$(readelf -sW both.cubin 2> /dev/null | awk '$NF ~ /^mm_heap_v/ {print $4, $5}')" "OBJECT WEAK"
    # LTO needs libnvvm in the place where the toolkit's nvlink searches; slim installations have it in another place, or not at all.
    linked_toolkit lto
    mkdir -p lto/nvvm/lib64
    for file in "$CUDA_HOME"/lib64/libnvvm.so*; do
        [[ ! -e $file || -e lto/nvvm/lib64/${file##*/} ]] || ln -s "$file" lto/nvvm/lib64
    done
    if lto/bin/nvcc -dlto -arch=sm_90 "$src/use.cu" "$src/part.cu" -o plainlto 2> /dev/null; then
        CUDA_HOME=$PWD/lto build lto.exe -dlto -arch=sm_90 "$src/part.cu" "$src/use.cu"
        holds lto.exe "elf sm_90"
        same "silence of -dlto" "$(< lto.exe.log)" ""
        # Not inlined: malloc is the library's symbol, which is weak.
        mkdir -p keptlto
        CUDA_HOME=$PWD/lto "$mmnvcc" -dlto -arch=sm_90 --keep --keep-dir keptlto "$src/part.cu" "$src/use.cu" -o lto.exe || fail "-dlto --keep"
        same "malloc under -dlto" "$(readelf -sW keptlto/*dlink*.cubin 2> /dev/null | awk '$NF == "malloc" {print $5}')" WEAK
    else
        echo "mmnvcc.sh: -dlto not tried: the toolkit's own nvcc cannot"
    fi
}

# Of the stores in front of allocations in arrays.cu only those stay that are no counts written by nvcc: one, or three under -G.
arrays() {
    local mode
    for mode in -std=c++14 -std=c++20 -lineinfo -rdc=true -ewp -G; do
        "$mmnvcc" -ptx -arch=sm_90 "$mode" "$src/arrays.cu" -o arrays.ptx || fail "$mode arrays.cu"
        same "stores in front of allocations, $mode" "$(awk '/\.entry/ {on = 1} on && /st\.u64.*\+-8\]/' arrays.ptx | wc -l)" \
            "$([[ $mode == -G ]] && echo 3 || echo 1)"
        "$view/bin/ptxas" -c -arch=sm_90 arrays.ptx -o arrays.cubin || fail "ptxas of $mode arrays.cu"
    done
    "$nvcc" -ptx -arch=sm_90 -rdc=true "$src/use.cu" -o plain.ptx && "$mmnvcc" -ptx -arch=sm_90 -rdc=true "$src/use.cu" -o ours.ptx
    same "relocatable code without arrays" "$(cmp plain.ptx ours.ptx && echo same)" same
    "$mmnvcc" -ptx -rdc=true -arch=sm_90 "$src/arrays.cu" -o /dev/null || fail "-rdc=true -o /dev/null"
    build arrays -arch=sm_90 "$src/arrays.cu"
    holds arrays "elf sm_90" "ptx sm_90"
}

# Output that does not concern mm is the same as nvcc's.
untouched() {
    "$nvcc" -ptx -arch=sm_90 "$src/none.cu" -o plain.ptx
    "$mmnvcc" -ptx -arch=sm_90 "$src/none.cu" -o ours.ptx
    same "module without services" "$(cmp plain.ptx ours.ptx && echo same)" same
    build none -arch=sm_90 "$src/none.cu"
    same none "$("$images" none)" "$("$nvcc" -Xfatbin -compress=false -arch=sm_90 "$src/none.cu" -o none && "$images" none)"
    "$nvcc" -c -arch=sm_90 "$src/all.cu" -o plain.o
    "$mmnvcc" -c -arch=sm_90 "$src/all.cu" -o ours.o
    # but for mmfatbinary's function, which is called at exit
    same "symbols of the host's object" "$(nm ours.o | cut -c18- | sed 's/_[0-9a-f]\{8\}_//' | grep -vE ' (_ZL?[0-9]*__mm_|__mm_|_ZZL?[0-9]*__mm_|dl_iterate_phdr$|write$|strstr$)')" \
        "$(nm plain.o | cut -c18- | sed 's/_[0-9a-f]\{8\}_//')"
    same "the host's malloc" "$(nm ours.o | grep -E -w -c 'U (malloc|free)')" 2
    same version "$("$mmnvcc" --version)" "$("$nvcc" --version)"
    "$mmnvcc" -ptx -arch=sm_90 "$src/all.cu" -o /dev/null || fail "-o /dev/null"
    "$nvcc" -optix-ir -arch=sm_90 "$src/one.cu" -o plain.ir && "$mmnvcc" -optix-ir -arch=sm_90 "$src/one.cu" -o ours.ir
    # A module that does not allocate needs no code of mm, for any architecture.
    bare_library
    "$nvcc" -cubin -arch=sm_90 "$src/none.cu" -o plain90.cubin && bare/mmnvcc -cubin -arch=sm_90 "$src/none.cu" -o ours90.cubin
    same "no services, no library" "$(cmp plain90.cubin ours90.cubin && echo same)" same
    # A program's own functions with these names stay in place.
    printf 'extern "C" __device__ __noinline__ void free(void *p) noexcept { *(int *)p = 1; }\n__global__ void k(void *p) { free(p); }\n' > own.cu
    "$nvcc" -cubin -arch=sm_90 own.cu -o plain.cubin && "$mmnvcc" -cubin -arch=sm_90 own.cu -o ours.cubin
    same "own free" "$(cmp plain.cubin ours.cubin && echo same)" same
    same "LLVM IR" "$(cmp plain.ir ours.ir && echo same)" same
}

# Special output files: links, an open file, and a folder in which no other folder can be made.
outputs() {
    : > target.ptx
    ln -s target.ptx soft.ptx
    "$mmnvcc" -ptx -arch=sm_90 "$src/one.cu" -o soft.ptx || fail "-o of a symbolic link"
    same "symbolic link" "$(readlink soft.ptx) $(grep -c 'extern .func.*mm_call_free' target.ptx)" "target.ptx 1"
    : > target2.ptx
    ln target2.ptx hard.ptx
    "$mmnvcc" -ptx -arch=sm_90 "$src/one.cu" -o hard.ptx || fail "-o of a hard link"
    same "hard link" "$(stat -c %h hard.ptx) $(grep -c 'extern .func.*mm_call_free' target2.ptx)" "2 1"
    same "no second file" "$(find . -maxdepth 1 -name '*.mm-*')" ""
    "$mmnvcc" -cubin -arch=sm_90 "$src/one.cu" -o whole.cubin
    "$mmnvcc" -cubin -arch=sm_90 "$src/one.cu" -o /proc/self/fd/9 9> through.cubin || fail "-o /proc/self/fd/9"
    same "no folder next to the output" "$(cmp whole.cubin through.cubin && echo same)" same
    "$mmnvcc" -cubin -arch=sm_90 "$src/one.cu" -o /dev/null || fail "-cubin -o /dev/null"
    same "/dev/null stays" "$(stat -c %F /dev/null)" "character special file"
}

# bare_library: makes a copy of mm without a toolkit view, and with empty device libraries.
bare_library() {
    rm -rf bare
    cp -r "$(dirname "$(readlink -f "$mmnvcc")")" bare
    rm -rf bare/toolkit
    cp bare/libmmshared.a bare/device/mm32.a
    cp bare/libmmshared.a bare/device/mm24.a
}

# Limits of a kernel's registers hold: at most 32 under __launch_bounds__(1024,2), 24 under -maxrregcount 24.
registers() {
    # shellcheck disable=SC2016 # awk's
    local kernel used show='/properties for/ {name = $0} /nvlink.* used/ && name ~ of {print $5}'
    used=$("$mmnvcc" -cubin -arch=sm_90 -Xptxas -v "$src/all.cu" -o bounded.cubin 2>&1 | awk -v of=bounded "$show")
    same "registers of a bounded kernel, whole program" "$((used > 0 && used <= 32))" 1
    used=$("$mmnvcc" -cubin -arch=sm_90 -maxrregcount 24 -Xptxas -v "$src/one.cu" -o few.cubin 2>&1 | awk -v of=kPPv "$show")
    same "registers under -maxrregcount 24" "$((used > 0 && used <= 24))" 1
    used=$("$mmnvcc" -rdc=true -arch=sm_90 -Xnvlink -v "$src/part.cu" "$src/use.cu" -o bounded 2>&1 | awk -v of=capped "$show")
    same "registers of a bounded kernel, relocatable" "$((used > 0 && used <= 32))" 1
    # For virtual calls and recursion nvlink cannot compute the stack size, and warns; ptxas does not (13.5's does for recursion).
    printf 'struct a { __device__ virtual void f(int n) {} };\nstruct b : a { __device__ void f(int n) override { delete (int *)(long)n; } };\n%s\n' \
        '__global__ void k(a **p) { p[0]->f(1); p[1] = new b; }' > virtual.cu
    printf '__device__ __noinline__ int f(int n, int *p) { return n < 2 ? *new int : f(n - 1, p) + f(n - 2, p + 1); }\n%s\n' \
        '__global__ void k(int *p) { p[0] = f(p[1], p); }' > recursive.cu
    for kernel in virtual recursive; do
        same "what is said of $kernel.cu" "$("$mmnvcc" -cubin -arch=sm_90 $kernel.cu -o $kernel.cubin 2>&1)" \
            "$("$nvcc" -cubin -arch=sm_90 $kernel.cu -o plain.cubin 2>&1 | grep -v 'Stack size for entry function')"
    done
    # There is one copy of the allocator for all kernels, and all symbols that the host looks up by name exist.
    same "one allocator" "$(readelf -sW bounded.cubin 2> /dev/null | awk '$4 == "FUNC" && $8 == "malloc"' | wc -l)" 1
    "$nvcc" -cubin -arch=sm_90 "$src/names.cu" -o plain.cubin && "$mmnvcc" -cubin -arch=sm_90 "$src/names.cu" -o names.cubin
    same "names of variables and kernels" "$(names names.cubin)" "$(names plain.cubin)"
    # Apart from calls of the allocator, the kernels are nvcc's, byte for byte (matrix.sh compares all of them).
    "$nvcc" -cubin -arch=sm_90 "$src/all.cu" -o plain.cubin
    same "what is said of numbers" "$("$mmnvcc" -cubin -arch=sm_90 -Xptxas -v "$src/all.cu" -o bounded.cubin 2>&1 | grep '^ptxas' | grep -v 'Compile time')" \
        "$("$nvcc" -cubin -arch=sm_90 -Xptxas -v "$src/all.cu" -o plain.cubin 2>&1 | grep '^ptxas' | grep -v 'Compile time')"
}

# Device libraries are made with the release of the toolkit in use, not with the one that mm was built with.
# Its ptxas may be stricter than that of mm's build.
libraries() {
    local arch file refused='' other=$PWD/other-release lib
    lib=$(dirname "$(readlink -f "$mmnvcc")")
    same "release of the device libraries" "$(< "$view/device/release")" "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    linked_toolkit "$other"
    rm "$other/bin/nvcc"
    printf '#!/bin/sh\n"%s" "$@" | sed "/^sm_90$/! { /^sm_/d }; s/release [0-9.]*/release 99.9/"\n' "$nvcc" > "$other/bin/nvcc"
    chmod +x "$other/bin/nvcc"
    file=$(CUDA_HOME=$other "$mmnvcc" --mm-show)
    same "device libraries for a newer toolkit" "$(cat "${file%/bin/nvcc}/device/release")" 99.9
    for arch in "${archs[@]}"; do
        [[ -f $lib/ptx/mm_$arch.ptx ]] || continue
        { head -n 3 "$lib/ptx/mm_$arch.ptx" && echo '.visible .entry k() { ret; }'; } > header.ptx
        "$CUDA_HOME/bin/ptxas" -arch="sm_$arch" header.ptx -o header.cubin > header.log 2>&1 || refused+="sm_$arch: $(< header.log)"
    done
    same "fragments whose PTX version ptxas refuses" "$refused" ""
    mkdir good early wrong
    cp "$lib/ptx/mm_90.ptx" good
    sed 's/^\.version .*/.version 6.0/' "$lib/ptx/mm_90.ptx" > early/mm_90.ptx
    sed 's/^\.address_size .*/& wrong/' "$lib/ptx/mm_90.ptx" > wrong/mm_90.ptx
    if "$CUDA_HOME/bin/ptxas" --list-version > /dev/null 2>&1; then
        for file in good early; do
            "$lib/mmdevice" $file "$CUDA_HOME/bin" "$lib/devicelib.c" $file/device 90 || fail "mmdevice from $file/mm_90.ptx"
        done
        same "device libraries from a text of too early a version" "$(diff -r good/device early/device && ls early/device)" \
            "$(printf '%s\n' driver.fatbin mm24.a mm32.a mmptx.a release)"
    else
        echo "mmnvcc.sh: texts of too early a version not tried: this ptxas does not list its versions"
    fi
    refuses "a text that ptxas refuses" "*mm*_90.ptx, line 3*mmdevice: '$CUDA_HOME/bin/ptxas' takes not all texts" \
        "$lib/mmdevice" wrong "$CUDA_HOME/bin" "$lib/devicelib.c" refused 90
}

# names CUBIN: the variables and kernels that a program can look up: kind, binding, size, name.
names() {
    readelf -sW "$1" 2> /dev/null | awk '($4 == "OBJECT" || $6 == "[<other>:") && $NF !~ /mm\$|mm_heap_v|reservedS/ {print $4, $5, $4 == "OBJECT" ? $3 : "", $NF}' | sort
}

# refuses NAME LINE COMMAND...: the command fails with this one line (a pattern) and leaves no output
refuses() {
    local name=$1 line=$2 said status
    shift 2
    rm -f refused
    said=$("$@" 2>&1)
    status=$?
    count=$((count + 1))
    # shellcheck disable=SC2053 # a pattern
    [[ $status != 0 && $said == $line && ! -e refused ]] ||
        fail "$name: status $status, said" $'\n'"$said"$'\n'"  expected" $'\n'"$line"
}

# constant_word CUBIN NAME: the first word of a constant variable, whose symbol is NAME or ends with NAME
constant_word() {
    local section value
    section=$(readelf -SW "$1" 2> /dev/null | awk '/ \.nv\.constant3 / {sub(/.*\.nv\.constant3/, ""); print $3}')
    value=$(readelf -sW "$1" 2> /dev/null | awk -v of="$2\$" '$4 == "OBJECT" && $NF ~ of {print $2}')
    od -An -tx4 -j $((16#$section + 16#$value)) -N 4 "$1"
}

# Constant memory belongs to the program, too: its variables keep their names and values next to mm's variable, which is aligned to 16 bytes. All of
# the remaining memory can be used.
constants() {
    local cubin bytes mine too_much all=65536
    mine=$(awk '$2 == "MM_HEAP_REF_BYTES" {print $3}' "$config")
    too_much=$(printf 'File uses too much global constant data (0x%x bytes, 0x%x max)' $((all + mine)) $all)
    for bytes in 256 $(((all - mine) / 16 * 16)); do
        "$nvcc" -cubin -arch=sm_90 -DTABLE_BYTES="$bytes" "$src/constants.cu" -o plain.cubin
        "$mmnvcc" -cubin -arch=sm_90 -DTABLE_BYTES="$bytes" "$src/constants.cu" -o linked.cubin
        "$mmnvcc" -cubin -arch=sm_90 -G -DTABLE_BYTES="$bytes" "$src/constants.cu" -o debug.cubin
        "$mmnvcc" -dc -arch=sm_90 -DTABLE_BYTES="$bytes" "$src/constants.cu" -o constants.o
        "$view/bin/nvlink" -m64 --arch=sm_90 constants.o -o parts.cubin || fail "device link with $bytes bytes of constants"
        for cubin in linked debug; do
            same "names of $bytes bytes of constants, $cubin" "$(names $cubin.cubin)" "$(names plain.cubin)"
        done
        for cubin in plain linked debug parts; do
            same "values of $bytes bytes of constants, $cubin" \
                "$(constant_word $cubin.cubin table) $(constant_word $cubin.cubin own) $(constant_word $cubin.cubin written)" \
                " 74616231  6f776e31  00000000"
        done
        build constants -arch=sm_90 -DTABLE_BYTES="$bytes" "$src/constants.cu"
        holds constants "elf sm_90" "ptx sm_90"
    done
    "$nvcc" -cubin -arch=sm_90 -DTABLE_BYTES=$all "$src/constants.cu" -o plain.cubin || fail "nvcc: $all bytes of constants"
    refuses "constants that leave mm no room" "mmnvcc: the allocator cannot be linked to the machine code of '*': nvlink error   : $too_much; -rdc=true may do" \
        "$mmnvcc" -cubin -arch=sm_90 -DTABLE_BYTES=$all "$src/constants.cu" -o refused
    refuses "constants that leave mm no room, relocatable" "nvlink error   : $too_much" \
        "$mmnvcc" -rdc=true -arch=sm_90 -DTABLE_BYTES=$all "$src/constants.cu" -o refused
}

# fake_toolkit FOLDER RELEASE: makes a toolkit with its own programs, so that none is taken from PATH
fake_toolkit() {
    local program
    mkdir -p "$1/bin/crt" "$1/nvvm/bin"
    # shellcheck disable=SC2016 # the profile's own syntax
    printf 'TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\n' > "$1/bin/nvcc.profile"
    printf '#!/bin/sh\necho "Cuda compilation tools, release %s, V%s.1"\n' "$2" "$2" > "$1/bin/nvcc"
    for program in bin/ptxas bin/nvlink bin/fatbinary nvvm/bin/cicc; do printf '#!/bin/sh\n' > "$1/$program"; done
    chmod +x "$1"/bin/{nvcc,ptxas,nvlink,fatbinary} "$1/nvvm/bin/cicc"
    : > "$1/bin/crt/link.stub"
}

refusals() {
    local plain=$PWD/plain program # /usr/bin may have an nvcc
    mkdir plain
    for program in bash env readlink sed stat; do ln -s "$(type -P $program)" plain; done
    refuses "MM_NVCC" "mmnvcc: MM_NVCC is 'nowhere/nvcc'; expected the path of an nvcc with nvcc.profile next to it" \
        env MM_NVCC=nowhere/nvcc "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    refuses "CUDA_HOME" "mmnvcc: CUDA_HOME is '/nowhere'; expected bin/nvcc and bin/nvcc.profile in it" \
        env CUDA_HOME=/nowhere "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    bare_library
    refuses "no nvcc" "mmnvcc: no nvcc: MM_NVCC and CUDA_HOME are not set, and there is none in PATH (*)" \
        env -u CUDA_HOME PATH="$PWD/bare/path:$plain" bare/mmnvcc -arch=sm_90 "$src/one.cu" -o refused
    fake_toolkit old 11.8
    refuses "old toolkit" "mmnvcc: '*/old/bin/nvcc' is of release 11.8; mm needs CUDA toolkit 12.0 or later" \
        env CUDA_HOME="$PWD/old" "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    fake_toolkit strange 12.9
    refuses "a toolkit for other GPUs" "mmnvcc: '*/strange/bin/nvcc' compiles for no architecture that mm has code for, in '*/ptx'" \
        env CUDA_HOME="$PWD/strange" "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    fake_toolkit lame 13.0
    rm lame/nvvm/bin/cicc
    refuses "no cicc" "mmnvcc: no cicc for '*/lame/bin/nvcc': looked for '*/lame/nvvm/bin/cicc'" \
        env CUDA_HOME="$PWD/lame" "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    fake_toolkit other 13.1
    refuses "unwritable" "mmnvcc: no place for the links to '*/other/bin': cannot write to /proc/x/mm nor /proc/y/mmnvcc-*" \
        env XDG_CACHE_HOME=/proc/x TMPDIR=/proc/y CUDA_HOME="$PWD/other" "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    refuses "no HOME" "mmnvcc: no place for the links to '*/other/bin': cannot write to /proc/y/mmnvcc-*" \
        env -u XDG_CACHE_HOME -u HOME TMPDIR=/proc/y CUDA_HOME="$PWD/other" "$mmnvcc" -arch=sm_90 "$src/one.cu" -o refused
    mkdir precious
    : > precious/file
    refuses "no view of ours" "mmnvcc: '*/precious' is there, but mm did not make it; it stays as it is" \
        bare/mmview "$PWD/bare" "$CUDA_HOME/bin" "$PWD/precious"
    same "what is not ours stays" "$(echo precious*/*)" precious/file
    refuses "no device library, whole program" "mmnvcc: the device link leaves '*' undefined: mm has no code for sm_90; build mm with it in ARCHS" \
        bare/mmnvcc -cubin -arch=sm_90 "$src/one.cu" -o refused
    rm bare/libmm.so
    refuses "half of mm" "mmnvcc: mm is not whole: no libmm.so in '*/bare', so that programs would get no run time; build or install it again" \
        bare/mmnvcc -arch=sm_90 "$src/one.cu" -o refused
    : > bare/libmm.so
    rm -r bare/ptx/mm_90.ptx "$XDG_CACHE_HOME"
    refuses "no device library" "mmnvcc: the device link leaves 'free' undefined: mm has no code for sm_90; build mm with it in ARCHS" \
        bare/mmnvcc -arch=sm_90 -rdc=true "$src/one.cu" -o refused
    "$mmnvcc" -arch=sm_90 -dc "$src/part.cu" "$src/use.cu"
    echo '-o refused' > options
    refuses "output in a file of options" "mmnvcc: nvlink gets its options from a file and has no -o next to it, so mm cannot tell whether the allocator is in; name the output by -o" \
        "$view/bin/nvlink" -m64 --arch=sm_90 part.o use.o --options-file options
    same "nvlink --version" "$("$view/bin/nvlink" --version)" "$("$CUDA_HOME/bin/nvlink" --version)"
    "$view/bin/nvlink" -m64 --arch=sm_90 part.o use.o --output-file=long.cubin || fail "--output-file="
    same "--output-file=" "$("$view/bin/nvlink" -m64 --arch=sm_90 part.o use.o -o short.cubin && cmp long.cubin short.cubin && echo same)" same
    # shellcheck disable=SC2016 # for the inner shell
    refuses "not a regular file" "*mmnvcc: cannot change '/dev/fd/9': it is not a regular file" \
        bash -c '"$@" 9> >(cat)' bash "$mmnvcc" -arch=sm_90 -ptx "$src/one.cu" -o /dev/fd/9
    refuses "address of malloc, as nvcc does" "$("$nvcc" -cubin -arch=sm_90 "$src/address.cu" -o refused 2>&1)" \
        "$mmnvcc" -cubin -arch=sm_90 "$src/address.cu" -o refused
    printf '__global__ void k() { wrong; }\n' > wrong.cu
    refuses "cicc's own error" "wrong.cu(1)*" "$mmnvcc" -arch=sm_90 -ptx wrong.cu -o refused
}

# A program that used CUDA without libmm.so.1 says so once when it exits, if its kernels allocate. Empty libraries stand for the driver and libmm.so.1.
no_run_time() {
    local line='mm: libmm.so.1 was not loaded; kernels that call malloc fail with cudaErrorLaunchFailure: start the program with mmrun, or link it with mmnvcc' flags
    : > empty.c
    if ! gcc -shared empty.c -o libcuda.so.1 || ! cp libcuda.so.1 libmm.so.1; then fail "empty libraries"; fi
    for flags in "-std=c++11 -Xcompiler -Wall,-Wextra,-Werror" "-std=c++20 -Xcompiler -Wall,-Wextra,-Wshadow,-Werror"; do
        # shellcheck disable=SC2086 # several words
        "$mmnvcc" -arch=sm_90 $flags -c "$src/one.cu" -o noted.o || fail "note, $flags"
    done
    "$mmnvcc" -arch=sm_90 -c "$src/none.cu" -o unnoted.o || fail "no note"
    "$mmnvcc" -arch=sm_90 -Dk=k2 -Dmain=main2 -c "$src/one.cu" -o noted2.o || fail "note in two objects"
    g++ noted.o noted2.o -L"$CUDA_HOME/lib64" -lcudart_static -ldl -lrt -lpthread -o noted || fail "link by g++"
    g++ unnoted.o -L"$CUDA_HOME/lib64" -lcudart_static -ldl -lrt -lpthread -o unnoted || fail "link by g++"
    same "no run time" "$(LD_PRELOAD=$PWD/libcuda.so.1 ./noted 2>&1 | grep ^mm:)" "$line"
    same "no run time, relocatable code" "$(LD_PRELOAD=$PWD/libcuda.so.1 ./foreign 2>&1 | grep ^mm:)" "$line"
    same "no run time, no driver" "$(./noted 2>&1 | grep ^mm:)" ""
    same "a run time" "$(LD_PRELOAD="$PWD/libcuda.so.1 $PWD/libmm.so.1" ./noted 2>&1 | grep ^mm:)" ""
    same "no run time, nothing allocated" "$(LD_PRELOAD=$PWD/libcuda.so.1 ./unnoted 2>&1 | grep ^mm:)" ""
}

# Several mmnvcc at once with a toolkit that has no view yet; mmnvcc under the name nvcc; spaces in every path.
places() {
    local i bad=0 linked="$PWD/a toolkit"
    export XDG_CACHE_HOME=$out/cache2
    cp -r "$(dirname "$(readlink -f "$mmnvcc")")" "a library"
    linked_toolkit "$linked"
    for i in 1 2 3 4 5 6; do
        CUDA_HOME=$linked "a library/mmnvcc" -ptx -arch=sm_90 "$src/one.cu" -o "race $i.ptx" 2> "race $i.log" &
    done
    wait
    for i in 1 2 3 4 5 6; do
        grep -q mm_call_free "race $i.ptx" || bad=1
        [[ -s "race $i.log" ]] && bad=1
    done
    same "six at once" "$bad $(find cache2/mm -maxdepth 1 -name 'toolkit-*' | wc -l)" "0 1"
    CUDA_HOME=$linked "a library/mmnvcc" -rdc=true -Xfatbin -compress=false -arch=sm_90 "$src/all.cu" -o spaces 2> spaces.log ||
        fail "paths with spaces: $(< spaces.log)"
    holds spaces "elf sm_90"
    # shellcheck disable=SC2016 # for the inner shell
    same "under the name nvcc" "$(env -u CUDA_HOME PATH="$(dirname "$(readlink -f "$mmnvcc")")/path:$CUDA_HOME/bin:$PATH" \
        bash -c 'nvcc -ptx -arch=sm_90 "$0" -o named.ptx && grep -c "extern .func.*mm_call_free" named.ptx' "$src/one.cu")" 1
    mkdir script
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$CUDA_HOME/bin/nvcc" > script/nvcc
    chmod +x script/nvcc
    same "an nvcc that is a script" "$(MM_NVCC=$PWD/script/nvcc "$mmnvcc" -ptx -arch=sm_90 "$src/one.cu" -o script.ptx &&
        grep -c "extern .func.*mm_call_free" script.ptx)" 1
    # A view is recognised, no matter under which path mm was installed.
    mkdir prefix
    cp -r "a library" prefix/mm
    rm -rf prefix/mm/toolkit
    ln -s prefix linked
    for i in "$PWD/prefix//mm" "$PWD/linked/mm"; do
        rm -rf prefix/mm/toolkit cache3
        prefix/mm/mmview "$i" "$(cd "$CUDA_HOME/bin" && pwd -P)" "$PWD/prefix/mm/toolkit" || fail "mmview of '$i'"
        XDG_CACHE_HOME=$PWD/cache3 prefix/mm/mmnvcc --version > /dev/null || fail "mm in '$i'"
        same "mm in '$i'" "$(find cache3 2> /dev/null)" ""
    done
    same "a view as CUDA_HOME" "$(CUDA_HOME=$view "$mmnvcc" -ptx -arch=sm_90 "$src/one.cu" -o view.ptx &&
        grep -c "extern .func.*mm_call_free" view.ptx)" 1
}

modes
arrays
untouched
outputs
registers
libraries
constants
no_run_time
refusals
places
printf 'mmnvcc: %d passed, %d failed\n' $((count > failed ? count - failed : 0)) "$failed"
[[ $failed == 0 ]]
