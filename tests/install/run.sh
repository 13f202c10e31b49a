#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh OUT: installs mm into OUT, and tests which files are there, whether programs find them, and what its programs print; uninstall; dist.
# CUDA_HOME, CC, ARCHS and MAKE in the environment; to be run from the root of the tree.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
root=$PWD
out=$(mkdir -p "$1" && realpath "$1") || exit
rm -rf "${out:?}"/*
cd "$out" || exit
unset MAKEFLAGS MAKELEVEL MFLAGS MM_NVCC MM_OFF NVCC_CCBIN NVCC_PREPEND_FLAGS NVCC_APPEND_FLAGS LD_PRELOAD
export LC_ALL=C XDG_CACHE_HOME=$out/cache
prefix=$out/mm lib=$out/mm/lib/mm src=$root/tests/programs
bin=$prefix/bin
nvcc_bin=$(cd "$CUDA_HOME/bin" && pwd -P)
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" install
version=$(number_of MM_VERSION) abi=$(number_of MM_ABI_VERSION)
abi_of_others=$((abi % 10 == 0 ? abi + 1 : abi - 1)) # with as many digits

makes install PREFIX="$prefix" > install.log 2>&1 || { tail -n 5 install.log && echo 'install: 0 passed, 1 failed' && exit 1; }

# ---- versions, and mmnvcc's own options ----------------------------------------------------------

it 'a version of three numbers' eval '[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ && $abi =~ ^[0-9]+$ ]]'
it 'mmnvcc --mm-version' says 0 "mmnvcc (mm) $version, agreement version $abi" env -i PATH=/usr/bin:/bin "$bin/mmnvcc" --mm-version
it 'mmrun --version' says 0 "mmrun (mm) $version, agreement version $abi, $lib/libmm.so.1" "$bin/mmrun" --version
it 'mmdoctor --version' says 0 "mmdoctor (mm) $version, agreement version $abi" "$bin/mmdoctor" --version
bench_version() { [[ $("$bin/mmbench" --version) == "mmbench (mm) $version, commit "?* ]]; }
it 'mmbench --version' bench_version
it "nvcc's own --version" says 0 "$("$CUDA_HOME/bin/nvcc" --version)" "$bin/mmnvcc" --version

for program in mmrun mmdoctor mmbench; do
    it "$program -h" says 0 "$("$bin/$program" --help)" "$bin/$program" -h
    it "$program -V" says 0 "$("$bin/$program" --version)" "$bin/$program" -V
done
it "nvcc's own -h" says 0 "$("$CUDA_HOME/bin/nvcc" -h)" "$bin/mmnvcc" -h
it "nvcc's own -V" says 0 "$("$CUDA_HOME/bin/nvcc" -V)" "$bin/mmnvcc" -V
mm_help() { local said; said=$(env -i PATH=/usr/bin:/bin "$bin/mmnvcc" --mm-help) && has "$said" 'usage: mmnvcc [--mm-show]'; }
it '--mm-help' mm_help
# alone HOW: copies or links mmnvcc to a folder without the other files of mm
alone() {
    rm -rf alone && mkdir alone && "$@" "$lib/mmnvcc" alone/mmnvcc &&
        says 1 "mmnvcc: '$out/alone/mmnvcc' is a copy without the files next to the original in PREFIX/lib/mm; link to it, do not copy it" \
            alone/mmnvcc -c x.cu && says 0 "$nvcc_bin/nvcc -c x.cu" env MM_OFF=1 alone/mmnvcc --mm-show -c x.cu
}
it 'a copied mmnvcc' alone cp
it 'a hard-linked mmnvcc' alone ln
linked() { rm -rf alone && mkdir alone && ln -s "$lib/mmnvcc" alone/mmnvcc && says 0 "$lib/toolkit/bin/nvcc" alone/mmnvcc --mm-show; }
it 'a link to mmnvcc' linked
it '--mm-show' says 0 "$lib/toolkit/bin/nvcc -arch=sm_90 a\\ b.cu -o shown" "$bin/mmnvcc" --mm-show -arch=sm_90 'a b.cu' -o shown
it '--mm-show without arguments' says 0 "$lib/toolkit/bin/nvcc" "$bin/mmnvcc" --mm-show
shown_runs() {
    local command
    command=$("$bin/mmnvcc" --mm-show -cubin -arch=sm_90 "-DQUOTED=\"a 'b' \$c\"" "$src/one.cu" -o "it's shown.cubin") &&
        [[ ! -e "it's shown.cubin" && $command != *$'\n'* ]] && eval "$command" && has "$("$lib/mmimages" "it's shown.cubin")" "heap=$abi"
}
it 'what --mm-show prints can be run' shown_runs
it 'one line for a line break' says 0 "$lib/toolkit/bin/nvcc \$'a\\nb'" "$bin/mmnvcc" --mm-show $'a\nb'
it 'an unknown --mm- option' says 2 "mmnvcc: unknown option '--mm-tea'; expected --mm-show, --mm-allocator=NAME, --mm-version or --mm-help, or one of nvcc's" "$bin/mmnvcc" --mm-tea -c x.cu
behind() { local said; ! said=$("$bin/mmnvcc" -c --mm-version 2>&1) && has "$said" "nvcc fatal" && has "$said" "--mm-version"; }
it 'behind others it is for nvcc' behind

# ---- MM_OFF --------------------------------------------------------------------------------------

off_line() { printf "%s: MM_OFF=%s is not understood; expected 0 or 1; using 0" "$1" "$2"; }
it 'MM_OFF=1' says 0 "$nvcc_bin/nvcc -c x.cu" env MM_OFF=1 "$bin/mmnvcc" --mm-show -c x.cu
off_compiles() {
    MM_OFF=1 "$bin/mmnvcc" -cubin -arch=sm_90 "$src/one.cu" -o off.cubin &&
        same "$("$lib/mmimages" off.cubin)" $'file cubin\nfinal elf sm_90 heap= undefined=free'
}
it 'MM_OFF=1 compiles without mm' off_compiles
for value in '' 0; do it "MM_OFF=$value" says 0 "$lib/toolkit/bin/nvcc" env MM_OFF="$value" "$bin/mmnvcc" --mm-show; done
it 'MM_OFF=yes' says 0 "$(off_line mmnvcc yes)"$'\n'"$lib/toolkit/bin/nvcc" env MM_OFF=yes "$bin/mmnvcc" --mm-show
it 'MM_OFF of two lines' says 0 "$(off_line mmnvcc '1?1')"$'\n'"$lib/toolkit/bin/nvcc" env MM_OFF=$'1\n1' "$bin/mmnvcc" --mm-show
preloaded=('sh' -c 'echo "${LD_PRELOAD-none}"')
it 'mmrun preloads' says 0 "$lib/libmm.so.1" "$bin/mmrun" "${preloaded[@]}"
it 'mmrun, MM_OFF=0' says 0 "$lib/libmm.so.1" env MM_OFF=0 "$bin/mmrun" "${preloaded[@]}"
it 'mmrun, MM_OFF=1' says 0 none env MM_OFF=1 "$bin/mmrun" "${preloaded[@]}"
it 'mmrun, MM_OFF=yes' says 0 "$(off_line mmrun yes)"$'\n'"$lib/libmm.so.1" env MM_OFF=yes "$bin/mmrun" "${preloaded[@]}"
it 'mmrun, MM_OFF of two lines' says 0 "$(off_line mmrun '1?1')"$'\n'"$lib/libmm.so.1" env MM_OFF=$'1\n1' "$bin/mmrun" "${preloaded[@]}"
no_library() {
    mkdir -p lonely/bin && cp "$bin/mmrun" lonely/bin && says 0 none env MM_OFF=1 lonely/bin/mmrun "${preloaded[@]}"
}
it 'mmrun, MM_OFF=1, needs no library' no_library

# ---- exports of libmm.so.1 -----------------------------------------------------------------------

exports() {
    same "$(readelf -W --dyn-syms "$lib/libmm.so.1" | awk '$5 != "LOCAL" && $7 ~ /^[0-9]+$/ {print $8}' | sort)" \
        "$({ sed -n 's/^ *X(\([A-Za-z0-9_]*\),.*/\1/p' "$root/interpose/preload/names.h" && printf '%s\n' dlsym mm_dlsym_v1 mm_agreement mm_pool_taken_v1 &&
            grep '#define MM_OWN' "$root/interpose/preload/names.h" | grep -oE 'mm_[a-z_]+'; } | sort)"
}
it 'libmm.so.1 exports the hooks, dlsym, its version, the account of pools and what mm.h declares, without versions, and nothing else' exports

# ---- mmdoctor ------------------------------------------------------------------------------------

doctor=("$bin/mmdoctor")
# diagnoses STATUS TEXT FILE...: mmdoctor ends with that status, and prints exactly that about the files, in addition to what it prints without files.
diagnoses() {
    local said got=0 machine
    said=$("${doctor[@]}" "${@:3}" 2>&1) || got=$?
    machine=$("${doctor[@]}")
    same "${said#"$machine"}" "${2:+$'\n'}$2" && same "$got" "$1"
}
"$bin/mmnvcc" -arch=sm_90 "$src/one.cu" -o whole && "$bin/mmnvcc" -rdc=true -arch=sm_90 "$src/part.cu" "$src/use.cu" -o parts &&
    "$bin/mmnvcc" -shared -Xcompiler -fPIC -arch=sm_90 "$src/one.cu" -o plugin.so && "$bin/mmnvcc" -c -arch=sm_90 "$src/one.cu" -o one.o &&
    "$bin/mmnvcc" -c -arch=sm_90 -Xfatbin -compress-all --compress-mode=speed "$src/one.cu" -o lz4.o &&
    "$bin/mmnvcc" -c -arch=sm_90 -Xfatbin -compress-all --compress-mode=size "$src/one.cu" -o zstd.o &&
    "$bin/mmnvcc" -cubin -arch=sm_90 "$src/one.cu" -o one.cubin && "$bin/mmnvcc" -fatbin -arch=sm_90 "$src/one.cu" -o one.fatbin &&
    "$bin/mmnvcc" -dc -arch=sm_90 "$src/part.cu" -o part.o && g++ one.o -L"$CUDA_HOME/lib64" -lcudart_static -lpthread -ldl -lrt -o hookless &&
    "$bin/mmnvcc" -arch=sm_90 "$src/none.cu" -o none || exit
nvcc=$CUDA_HOME/bin/nvcc
"$nvcc" -arch=sm_90 "$src/one.cu" -o plain && "$nvcc" -rdc=true -arch=sm_90 "$src/part.cu" "$src/use.cu" -o plainparts &&
    "$nvcc" -c -arch=sm_90 -Xfatbin -compress-all "$src/one.cu" -o plain.o && "$bin/mmnvcc" plain.o -o hooked &&
    "$nvcc" -rdc=true -gencode arch=compute_90,code=compute_90 "$src/part.cu" "$src/use.cu" -o plainptx || exit
ar rcs ours.a one.o part.o && ar rcs mixed.a one.o plain.o
printf 'int main(void) { return 0; }\n' > host.c && $CC host.c -o host

mine="built with mm, agreement version $abi" loaded='taken over when it is loaded under mm (by mmrun, or with libmm.so.1 loaded):'
lines() { printf '%-15s%s\n' "$@"; }
# wrong FILE TEXT
wrong() { printf 'wrong: %s: %s\n' "$1" "$2"; }
instead="compile it, and do its device link, with mmnvcc"
name_one='name a program, library, object, archive, cubin or fatbin'
machine() {
    local said
    said=$("${doctor[@]}") && lacks "$said" 'wrong:' && has "$said" "$(lines mm "$version, agreement version $abi, in $lib")" &&
        has "$said" "$(lines 'run time' "$lib/libmm.so.1, agreement version $abi")" && has "$said" "$(lines toolkit "${nvcc_bin%/bin}, release ")" &&
        has "$said" "$(lines mmnvcc "$nvcc_bin/nvcc, by the links in $lib/toolkit")" && has "$said" "$(lines 'host compiler' "$(g++ --version | head -n 1)")"
}
it 'mmdoctor on this machine' machine
for file in whole parts plugin.so; do it "mmdoctor $file" diagnoses 0 "$(lines $file: "$mine" $file: "run time $lib/libmm.so.1")" $file; done
for file in one.o lz4.o zstd.o one.cubin one.fatbin ours.a; do it "mmdoctor $file" diagnoses 0 "$(lines $file: "$mine")" $file; done
it 'mmdoctor, relocatable' diagnoses 0 "$(lines part.o: 'relocatable device code, which gets mm from the device link, if that is done by mmnvcc')" part.o
it 'mmdoctor, nothing allocates' diagnoses 0 "$(lines none: 'device code that does not allocate')" none
it 'mmdoctor, no device code' diagnoses 0 "$(lines host: 'no device code')" host
it 'mmdoctor, by nvcc' diagnoses 0 "$(lines plain: "$loaded sm_90 (free), PTX sm_90 (free)")" plain
it 'mmdoctor, by nvcc, compressed' diagnoses 0 "$(lines plain.o: "$loaded sm_90 (free), PTX sm_90 (free)")" plain.o
it 'mmdoctor, device link by nvcc' diagnoses 0 "$(lines plainparts: "$loaded sm_90 (malloc, free)")" plainparts
it 'mmdoctor, by nvcc, linked by mmnvcc' diagnoses 0 "$(lines hooked: "$loaded sm_90 (free), PTX sm_90 (free)" hooked: "run time $lib/libmm.so.1")" hooked
it 'mmdoctor, device link by the driver' diagnoses 1 "$(wrong plainptx "device code with CUDA's own malloc: code that the driver links; $instead")" plainptx
it 'mmdoctor, one of two' diagnoses 0 "$(lines mixed.a: "$mine" mixed.a: "$loaded sm_90 (free), PTX sm_90 (free)")" mixed.a
it 'mmdoctor, not linked by mmnvcc' diagnoses 1 "$(lines hookless: "$mine"
    wrong hookless 'nothing in it loads libmm.so.1; start it with mmrun, or link it with mmnvcc')" hookless
it 'mmdoctor, a text' diagnoses 1 "wrong: host.c: is nothing that holds device code; $name_one" host.c
it 'mmdoctor, no file' diagnoses 1 "wrong: nowhere: is no file that can be read; $name_one" nowhere
it 'mmdoctor, one of several' diagnoses 1 "$(lines one.o: "$mine"
    wrong nowhere "is no file that can be read; $name_one"
    lines host: 'no device code')" one.o nowhere host
it 'mmdoctor, a file that begins with -' diagnoses 1 "wrong: -x: is no file that can be read; $name_one" -- -x
stale="built with mm's agreement version $abi_of_others, this is $abi; compile and link it again with this mmnvcc"
another() { sed "s/mm_heap_v$abi/mm_heap_v$abi_of_others/g" one.o > other.o && diagnoses 1 "$(wrong other.o "$stale")" other.o; }
another_cubin() { sed "s/mm_heap_v$abi/mm_heap_v$abi_of_others/g" one.cubin > other.cubin && diagnoses 1 "$(wrong other.cubin "$stale")" other.cubin; }
it 'mmdoctor, another agreement' another_cubin
# headed OFFSET BYTES...: makes headed.cubin, a cubin of nvcc with other bytes in its header
headed() { "$nvcc" -cubin -arch=sm_90 "$src/one.cu" -o headed.cubin && while (($#)); do printf '%b' "$2" | dd of=headed.cubin bs=1 seek="$1" conv=notrunc 2> /dev/null; shift 2; done; }
# The architecture is the second byte of e_flags (at 48). Before CUDA 13, where EI_ABIVERSION (at 8) is 7, it was the first.
unserved() { headed 49 '\x46' && diagnoses 1 "$(wrong headed.cubin "keeps CUDA's own malloc on sm_70, for which mm has no code; build mm with it in ARCHS")" headed.cubin; }
it 'mmdoctor, an architecture that mm has no code for' unserved
older() { headed 8 '\x07' 48 '\x5a\x05' && diagnoses 0 "$(lines headed.cubin: "$loaded sm_90 (free)")" headed.cubin; }
it 'mmdoctor, a cubin of CUDA 12' older
strange() { headed 16 '\x07\x00' && diagnoses 0 "$(lines headed.cubin: 'images that cannot be looked into: 1')" headed.cubin; }
it 'mmdoctor, a cubin of a type that is not known' strange
it 'mmdoctor, another agreement, object' another
broken() {
    head -c 3000 one.o > broken.o && head -c 3000 ours.a > broken.a &&
        diagnoses 0 "$(lines broken.o: 'no device code' broken.a: 'no device code')" broken.o broken.a
}
it 'mmdoctor, half a file' broken
closed() {
    sed 's/\x28\xb5\x2f\xfd/\x28\xb5\x2f\xfe/g' zstd.o > closed.o &&
        diagnoses 0 "$(lines closed.o: 'images that cannot be looked into: 2')" closed.o
}
it 'mmdoctor, what it cannot open' closed
it 'mmdoctor, an unknown option' says 2 "mmdoctor: unknown option '--tea'; see mmdoctor --help" "${doctor[@]}" --tea
doctor_help() { local said; said=$("${doctor[@]}" --help) && has "$said" 'usage: mmdoctor [FILE...]'; }
it 'mmdoctor --help' doctor_help

# has_wrong STATUS LINE COMMAND...: expects that exit status, and that line in the output
has_wrong() {
    local said got=0
    said=$("${@:3}" 2>&1) || got=$?
    has $'\n'"$said"$'\n' $'\n'"$2"$'\n' && same "$got" "$1"
}
# sick COMMAND: makes a copy of the installation and damages it by COMMAND
sick() { rm -rf sick && cp -r "$prefix" sick && (cd sick/lib/mm && eval "$1"); }
no_run_time() {
    sick 'rm libmm.so.1' && has_wrong 1 "wrong: $out/sick/lib/mm/libmm.so.1 is not there; install mm again" sick/bin/mmdoctor
}
it 'mmdoctor without libmm.so.1' no_run_time
old_run_time() {
    sick "sed -i 's/mm_heap_v$abi/mm_heap_v$abi_of_others/' libmm.so.1" &&
        has_wrong 1 "wrong: $out/sick/lib/mm/libmm.so.1 has agreement version $abi_of_others, the rest of mm $abi; install mm again" sick/bin/mmdoctor
}
it 'mmdoctor, a libmm.so.1 of another agreement' old_run_time
no_hook() { sick 'rm mmhook.o' && has_wrong 1 "wrong: $out/sick/lib/mm/mmhook.o is not there; install mm again" sick/bin/mmdoctor; }
it 'mmdoctor without mmhook.o' no_hook
give_it='give it a toolkit by CUDA_HOME, MM_NVCC or PATH'
it 'mmdoctor, no toolkit' has_wrong 1 \
    "wrong: mmnvcc: CUDA_HOME is '/nowhere'; expected bin/nvcc and bin/nvcc.profile in it; $give_it" env CUDA_HOME=/nowhere "${doctor[@]}"
old_toolkit() {
    mkdir -p old/bin && : > old/bin/nvcc.profile && printf '#!/bin/sh\necho release 11.8,\n' > old/bin/nvcc && chmod 755 old/bin/nvcc &&
        has_wrong 0 "$(lines toolkit "$out/old, release 11.8: too old for mm, which needs 12.0")" env PATH="$PATH:$out/old/bin" "${doctor[@]}" &&
        has_wrong 1 "wrong: mmnvcc: '$out/old/bin/nvcc' is of release 11.8; mm needs CUDA toolkit 12.0 or later; $give_it" \
            env CUDA_HOME="$out/old" "${doctor[@]}"
}
it 'mmdoctor, an old toolkit' old_toolkit
bad_compiler() {
    mkdir -p bad && printf '%s\n' '#!/bin/sh' '[ "$1" != --version ] || exec g++ --version' 'echo "#error -- unsupported" >&2' 'exit 1' > bad/g++ &&
        chmod 755 bad/g++ && has_wrong 1 \
        'wrong: nvcc does not go with its host compiler: #error -- unsupported; name another by -ccbin or NVCC_CCBIN' env NVCC_CCBIN="$out/bad/g++" "${doctor[@]}"
}
it 'mmdoctor, a host compiler that will not do' bad_compiler
# gpu LINE: makes an nvidia-smi that reports that GPU
gpu() { mkdir -p gpu && printf '#!/bin/sh\necho "%s"\n' "$1" > gpu/nvidia-smi && chmod 755 gpu/nvidia-smi; }
with_gpu() {
    gpu 'NVIDIA H200, 580.1.2, 9.0' &&
        has_wrong 0 "$(lines GPU 'NVIDIA H200 (sm_90), driver 580.1.2')" env PATH="$out/gpu:$PATH" "${doctor[@]}"
}
it 'mmdoctor, a GPU' with_gpu
old_gpu() {
    gpu 'Tesla V100, 535.1, 7.0' && has_wrong 1 \
        "wrong: mm has no code for sm_70 (there: $(cd "$lib/ptx" && echo mm_*.ptx)); build mm with it in ARCHS" \
        env PATH="$out/gpu:$PATH" "${doctor[@]}"
}
it 'mmdoctor, an old GPU' old_gpu
no_gpu() {
    gpu 'No devices' && echo 'exit 6' >> gpu/nvidia-smi &&
        has_wrong 0 "$(lines GPU 'no GPU here')" env PATH="$out/gpu:$PATH" "${doctor[@]}"
}
it 'mmdoctor, no GPU' no_gpu
it 'mmdoctor, MM_OFF' has_wrong 0 "$(lines MM_OFF '1: mmnvcc is nvcc, and mmrun preloads nothing')" env MM_OFF=1 "${doctor[@]}"
it 'mmdoctor, a bad MM_OFF' has_wrong 1 "wrong: MM_OFF is 'yes'; set it to 0 or 1" env MM_OFF=yes "${doctor[@]}"
moved() {
    local status=0
    mv "$lib/libmm.so.1" "$lib/kept" && has_wrong 1 \
        "wrong: whole: looks for $lib/libmm.so.1, which is not there; link it again with mmnvcc, or start it with mmrun" \
        "${doctor[@]}" whole || status=1
    mv "$lib/kept" "$lib/libmm.so.1"
    return "$status"
}
it 'mmdoctor, a run time that was moved' moved

# shellcheck source=tests/install/selftest.sh
source "$root/tests/install/selftest.sh"

# ---- manual pages --------------------------------------------------------------------------------

lint_clean() { says 0 '' mandoc -T lint -W warning "$prefix/share/man/$1"; }
for page in man1/mmnvcc.1 man1/mmrun.1 man1/mmbench.1 man1/mmdoctor.1 man7/mm.7; do
    it "$page" lint_clean $page
    it "version of $page" has "$(mandoc -T ascii "$prefix/share/man/$page")" "mm $version"
done
# options PAGE PROGRAM: the manual page describes exactly the options that --help lists
options() {
    same "$(sed -n 's/^\.It Fl -\([a-z-]*\).*/--\1/p; s/^\.Fl h | -help | V | -version$/--help\n--version/p' "$prefix/share/man/man1/$1.1" | sort)" \
        "$("$bin/$1" --help | grep -oE '^  (-[hV], )?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sort)"
}
for program in mmrun mmbench mmdoctor; do it "options in $program.1" options $program; done
variables() {
    same "$(sed -n 's/^\.It Ev \(MM_[A-Z_]*\)$/\1/p' "$prefix/share/man/man7/mm.7" | sort)" \
        "$(sed -n '/^#define MM_HOST_VARIABLES/,/[^\\]$/p' "$root/mmconfig.h" | grep -oE '"[A-Z_]+"' | tr -d '"' | sort)"
}
it 'variables in mm.7' variables

# ---- for other tools -----------------------------------------------------------------------------

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
it 'mm.pc, version' says 0 "$version" pkg-config --modversion mm
it 'mm.pc, mmnvcc' eval '[[ $(pkg-config --variable=mmnvcc mm) -ef $bin/mmnvcc ]]'
# hooked FILE COMMAND...: the command makes the file, and the file holds the path of the run time
hooked() { rm -f "$1" && "${@:2}" && has "$("$lib/mmimages" "$1")" "hook $lib/libmm.so.1"; }
by_pkg_config() {
    local flags
    read -ra flags < <(pkg-config --libs mm)
    hooked pc g++ one.o -L"$CUDA_HOME/lib64" -lcudart_static "${flags[@]}" -lpthread -ldl -lrt -o pc
}
it 'mm.pc links' by_pkg_config
printf '#include <mm.h>\nint main(void) { struct mm_statistics s; s.struct_bytes = sizeof s; return mm_get_statistics(&s) != MM_ERROR_NO_HEAP || mm_reset() != MM_ERROR_NO_HEAP; }\n' > own.c
cp own.c own.cpp && cp own.c own.cu
header() { rm -f own && "$@" -o own && ./own; }
header_by_pkg_config() {
    local flags
    read -ra flags < <(pkg-config --cflags --libs mm)
    header gcc -std=c11 -Wpedantic -Werror own.c "${flags[@]}" -ldl
}
it 'mm.h, by mm.pc' header_by_pkg_config
for file in own.c own.cpp own.cu; do it "mm.h, mmnvcc, $file" header timeout 300 "$bin/mmnvcc" "$file"; done
it 'mm.h, from include' header gcc -I"$prefix/include" own.c -L"$lib" -lmm -ldl
printf '%s\n' '#include <mm.h>' '__global__ void k(void **o) {' '#if CALL == 1' '*(size_t *)o = mm_usable_size(o);' '#elif CALL == 2' \
    '*o = mm_realloc(*o, 9);' '#else' '*o = mm_calloc(2, 3);' '#endif' '}' 'int main(void) { return 0; }' > kernel.cu
# unresolved TEXT OPTION...: plain nvcc fails with the text of docs/how-to/troubleshooting.md; mmnvcc succeeds
unresolved() {
    local said call
    for call in 1 2; do
        ! said=$("$nvcc" -arch=sm_90 -I"$prefix/include" -DCALL=$call "${@:2}" kernel.cu -o kernel 2>&1) && has "$said" "$1" &&
            grep -qF "| \`$1" "$root/docs/how-to/troubleshooting.md" && timeout 300 "$bin/mmnvcc" -arch=sm_90 -DCALL=$call "${@:2}" kernel.cu -o kernel || return
    done
}
it 'a kernel that uses mm.h, by a plain nvcc' unresolved "ptxas fatal   : Unresolved extern function 'mm_usable_size'"
it 'the same, relocatable' unresolved "nvlink error   : Undefined reference to 'mm_usable_size' in '" -rdc=true
it 'mm_calloc by a plain nvcc' "$nvcc" -arch=sm_90 -I"$prefix/include" -DCALL=3 kernel.cu -o kernel
own_comes_first() { mkdir -p theirs && printf '#define THEIRS\n' > theirs/mm.h && printf '#include <mm.h>\n#ifndef THEIRS\n#error\n#endif\n' > theirs.cu &&
    timeout 300 "$bin/mmnvcc" -isystem theirs -c theirs.cu -o theirs.o; }
it "a mm.h of the program's comes first" own_comes_first
# project FIND LINE...: a CMake project that calls find_package(mm FIND), followed by these lines
project() {
    rm -rf project && mkdir project &&
        printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(p C CXX)' "find_package(mm $1)" "${@:2}" > project/CMakeLists.txt &&
        (cd project && env -u CUDACXX cmake -S . -B build -DCMAKE_PREFIX_PATH="${cmake_prefix:-$prefix}" -Wno-dev 2>&1)
}
by_cmake() {
    hooked project/build/app eval 'project "'"$version"' REQUIRED" "add_executable(app ../host.c '"$out"'/one.o)" \
        "set_target_properties(app PROPERTIES LINKER_LANGUAGE CXX)" \
        "target_link_libraries(app PRIVATE mm::mm '"$CUDA_HOME"'/lib64/libcudart_static.a pthread rt)" && cmake --build project/build'
}
sed -i 's/main/other/' host.c
it 'CMake links' by_cmake
header_by_cmake() {
    project "$version REQUIRED" "add_executable(app ../own.c)" 'target_link_libraries(app PRIVATE mm::mm)' && cmake --build project/build && project/build/app
}
it 'mm.h, by CMake' header_by_cmake
by_cmake_nvcc() { local said; said=$(project "$1" 'message(STATUS "<${mm_FOUND} ${mm_VERSION} ${MM_NVCC}>")') && has "$said" "$2"; }
it 'CMake finds mmnvcc' by_cmake_nvcc "" "<1 $version $bin/mmnvcc>"
it 'CMake, an older version asked for' by_cmake_nvcc "${version%%.*}.0.1" "<1 $version "
it 'CMake, a newer version asked for' by_cmake_nvcc "${version%%.*}.999" "<0  >"
it 'CMake, another first number asked for' by_cmake_nvcc "$((${version%%.*} + 1))" "<0  >"
it 'CMake, exactly another asked for' by_cmake_nvcc "${version%%.*}.0.1 EXACT" "<0  >"
it 'CMake, exactly this asked for' by_cmake_nvcc "$version EXACT" "<1 $version "
elsewhere() {
    rm -rf 'a b' && cp -r "$prefix" 'a b' &&
        cmake_prefix="$out/a b" by_cmake_nvcc "" "<1 $version $out/a b/bin/mmnvcc>"
}
it 'CMake, after a move' elsewhere
# CMake wraps its messages, at places that depend on the length of the paths in them.
one_line() { tr -s ' \n' ' '; }
# half FOLDER
half() {
    sick 'rm mmhook.o' && rm -rf "half" && mkdir half && mv sick "half/$1" && cmake_prefix=$out/half/$1 &&
        by_cmake_nvcc "" "<0 $version " && has "$(project "" 2>&1 | one_line)" "'$out/half/$1/lib/mm/mmhook.o' is not there"
}
it 'CMake, half an installation' half short
it 'CMake, half an installation with a long path' half "$(printf 'a-long-name-%.0s' {1..12})"
it 'CMake, half an installation whose path has spaces' half "$(printf 'long name %.0s' {1..12})end"

# completes WORDS... : prints the words that bash offers for the last of WORDS
completes() {
    env PATH="$bin:$PATH" bash --norc -c 'source "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
        function=$(complete -p "$1" | sed "s/.*-F \([^ ]*\).*/\1/") && "$function" && echo ${COMPREPLY[*]-}' "$prefix/share/bash-completion/completions/$1" "$@"
}
offers() { same "$(completes "${@:2}")" "$1"; }
it 'completion of mmnvcc --mm-' offers '--mm-allocator= --mm-show --mm-version --mm-help' mmnvcc --mm-
it 'completion of mmnvcc --mm-allocator=circular-m' offers 'circular-multi circular-multi-fused' mmnvcc --mm-allocator = circular-m
it 'completion of mmnvcc -std' offers '-std=c++14 -std=c++17 -std=c++20' mmnvcc -c -std
it 'completion of mmnvcc x.cu --mm-' offers '' mmnvcc x.cu --mm-
# long_options PROGRAM: its long options, from its help
long_options() { "$bin/$1" --help | grep -oE '^  (-[hV], )?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sort; }
run_options() { same "$(completes mmrun -- | tr ' ' '\n' | tr -d '=' | sort)" "$(long_options mmrun)"; }
it 'completion of mmrun --' run_options
it 'completion of mmrun -' eval 'has " $(completes mmrun -) " " -h " && has " $(completes mmrun -) " " -V "'
it 'completion of mmrun --check --' eval 'has " $(completes mmrun --check --) " " --fill= "'
# bash splits --fill=zero into three words
it 'completion of mmrun --fill=' offers 'zero junk none' mmrun --fill =
it 'completion of mmrun --allocator=' offers 'mm cuda gallatin random-walk random-walk-bitmap random-walk-coop random-walk-runs atomic aw circular circular-fused circular-multi circular-multi-fused ouroboros-s-p ouroboros-va-p ouroboros-vl-p ouroboros-s-c ouroboros-va-c ouroboros-vl-c' mmrun --allocator =
it 'completion of mmrun --trace=' eval 'has " $(completes mmrun --trace = ow) " " own.c "'
it 'completion of mmrun --profile=' eval 'has " $(completes mmrun --profile = ow) " " own.c "'
it 'completion of mmrun --map-series=' eval 'has " $(completes mmrun --map-series = ow) " " own.c "'
it 'completion of mmrun --fail=' offers '1/1000 1 kernel:' mmrun --fail =
it 'completion of mmrun --pool=' offers 'off small keep async' mmrun --pool =
it 'completion of mmrun --fill=j' offers 'junk' mmrun --fill = j
it 'completion of mmrun --stats=' offers 'text json csv' mmrun --check --stats =
it 'completion of mmrun --heap-map=' eval 'has " $(completes mmrun --heap-map = ow) " " own.c "'
it 'completion of mmrun --fill=junk bas' eval 'has " $(completes mmrun --fill = junk bas) " " bash "'
it 'completion of mmrun --check -- -' eval 'lacks " $(completes mmrun --check -- --st) " " --stats "'
it 'completion behind the command of mmrun' offers '' mmrun --check true --st
it 'completion of mmrun bas' eval 'has " $(completes mmrun bas) " " bash "'
it 'completion of mmdoctor -' offers '--selftest --help --version -h -V' mmdoctor -
it 'completion of mmbench --allocators' offers 'all mm builtin random-walk random-walk-bitmap random-walk-coop random-walk-runs atomic aw circular circular-fused circular-multi circular-multi-fused ouroboros-s-p ouroboros-va-p ouroboros-vl-p ouroboros-s-c ouroboros-va-c ouroboros-vl-c pool-tlsf pool-segregated pool-bitmask pool-first pool-next pool-best' mmbench --allocators ''
# as its help says
bench_pools() { same "$(completes mmbench --allocators pool- | tr ' ' '\n')" "$("$bin/mmbench" --help | grep -oE 'pool-[a-z]+')"; }
it 'completion of mmbench --allocators pool-' bench_pools
it 'completion of mmbench --cases sing' offers 'single single_cold' mmbench --cases sing
it 'completion of mmbench --plot DIR' offers '' mmbench --plot dir --
it 'completion of mmbench --claims' offers '' mmbench --claims --
bench_options() { same "$(completes mmbench -- | tr ' ' '\n' | sort)" "$(long_options mmbench)"; }
it 'completion of mmbench --' bench_options

# ---- uninstall -----------------------------------------------------------------------------------

# The contents of a folder, without standard folders that other packages use, too.
listing() {
    (cd "$1" && find . ! -type d &&
        find . -type d | grep -v -x -E '\.(/(bin|include|lib|share|pkgconfig|cmake|man|man[17]|doc|bash-completion|completions))*')
}
it 'DESTDIR' makes install DESTDIR="$out/dest" PREFIX=/opt/mm
what_is_there() {
    local file
    for file in bin/{mmnvcc,mmrun,mmbench,mmdoctor} lib/mm/{libmm.so.1,libmm.so,mmhook.o,mmimages,path/nvcc,toolkit/bin/nvcc,include/mm.h,selftest/mmselftest,selftest/selftest} include/mm.h lib/pkgconfig/mm.pc \
        lib/cmake/mm/{mmConfig,mmConfigVersion}.cmake share/man/man1/{mmnvcc,mmrun,mmbench,mmdoctor}.1 share/man/man7/mm.7 share/doc/mm/{LICENSE,NOTICES,examples/{graph.cu,lists.cu,table.cu,strings.cu,factors.py}} \
        share/bash-completion/completions/{mmnvcc,mmrun,mmbench,mmdoctor}; do
        [[ -e dest/opt/mm/$file ]] || { echo "$file is missing" && return 1; }
    done
    same "$(find dest -mindepth 1 -maxdepth 2)" $'dest/opt\ndest/opt/mm' && same "$(grep -rl -F "$out" dest --include='*.pc' --include='*.cmake')" ''
}
it 'what is installed' what_is_there
uninstalls() {
    mkdir -p dest/opt/mm/share/man/man1 && : > dest/opt/mm/include/other.h && : > dest/opt/mm/bin/other && : > dest/opt/mm/share/man/man1/other.1 &&
        : > dest/opt/mm/lib/pkgconfig/other.pc && : > dest/opt/mm/share/bash-completion/completions/other &&
        makes uninstall DESTDIR="$out/dest" PREFIX=/opt/mm &&
        same "$(listing dest/opt/mm | sort)" \
            "$(printf '%s\n' ./bin/other ./include/other.h ./lib/pkgconfig/other.pc ./share/bash-completion/completions/other ./share/man/man1/other.1)"
}
it 'uninstall takes what install brought, and nothing else' uninstalls
again() { local said; said=$(makes uninstall DESTDIR="$out/dest" PREFIX=/opt/mm 2>&1) && lacks "$said" ignored && lacks "$said" "No such"; }
it 'uninstall of nothing' again
# refuses WHAT ARGUMENT: make prints one line and does nothing
refuses() {
    local said
    ! said=$(makes install "$2" 2>&1) && has "$said" "$1 has characters that make or a run path cannot carry" && same "$(grep -c . <<< "$said")" 1
}
it 'a PREFIX with a space' refuses "PREFIX: \"$out/a b\"" PREFIX="$out/a b"
it 'a DESTDIR with a space' refuses "DESTDIR: \"$out/a b\"" DESTDIR="$out/a b"

# ---- dist ----------------------------------------------------------------------------------------

commits() { git -C "$root" rev-parse -q --verify HEAD > /dev/null 2>&1; }
archive() {
    makes dist && (cd "$root/build" && sha256sum --check --strict "mm-$version.tar.gz.sha256") && tar -xzf "$root/build/mm-$version.tar.gz" && same "$(cd "mm-$version" && find . ! -type d | sed 's|^\./||' | sort)" \
        "$(git -C "$root" ls-tree -r --name-only HEAD | sort)" && "$MAKE" -n -C "mm-$version" all > dist.log
}
no_git() {
    local said
    mkdir -p bare && cp -r "$root"/{Makefile,setup.mk,mmconfig.h,tools} bare &&
        ! said=$(GIT_CEILING_DIRECTORIES=$out "$MAKE" --no-print-directory -C bare dist 2>&1) &&
        has "$said" "mm: make dist: \"$out/bare\" is no git checkout; expected one, since the archive is of what is committed"
}
changed() {
    cp "$root/build/mm-$version.tar.gz"{,.sha256} . && sha256sum --check --strict "mm-$version.tar.gz.sha256" && printf x >> "mm-$version.tar.gz" &&
        ! sha256sum --check --strict "mm-$version.tar.gz.sha256"
}
if commits; then
    it 'make dist, and make in what it made' archive
    it 'its checksum finds a changed archive' changed
fi
it 'make dist without git' no_git

it_ends
