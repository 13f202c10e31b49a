#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# matrix.sh MMNVCC IMAGES OUT: builds a program in every combination of mode, linkage and architecture below, by mmnvcc and by nvcc with the
# same arguments, and compares. Both have images for the same architectures. Images of mmnvcc leave no service to the driver, and have one heap
# variable each (none if the program does not allocate). They contain each function of nvcc's images, with the same code and parameters byte for
# byte, the same shared memory, and the same number of registers, or mm's 32 or 24 if that is more. The host's malloc is that of libc. The run time
# exists at the path in the program. Where there is a GPU, both programs are run if they have code for it, and both must get memory. Elsewhere
# nvcc makes only the images of its program if one command suffices for that, and links them once for all modes with the same images.
# matrix.sh --table: prints the combinations as the table of docs/how-to/building.md. CUDA_HOME names the toolkit. To be run from the root of the
# tree. Ends with "matrix: N combinations, M failed". ONLY in the environment: only combinations that match this pattern.
set -u

archs=(75 80 86 87 88 89 90 100 103 110 120 121 90a 100a 100f 103a 103f 110a 110f 120a 120f 121a 121f)
describe=(
    "whole|one file, whole program"
    "rdc|-rdc=true, two files"
    "dc|-dc, then a link"
    "dlink|-dc, -dlink, the last link by g++"
    "lib|-dc, -lib, a link with the library"
    "shared|-shared"
    "shared-rdc|-shared -rdc=true"
    "debug|-G -g"
    "debug-rdc|-G -g -rdc=true"
    "lineinfo|-g -lineinfo -O3"
    "fast|-use_fast_math -maxrregcount 24"
    "lto|-dlto"
    "ewp|-ewp"
    "threads|-t 0, three architectures"
    "several|-gencode twice, PTX of one"
    "all|-arch=all"
    "all-major|-arch=all-major"
    "ptx-only|PTX and no machine code"
    "keep|--keep"
    "options|-optf"
    "language|-x cu"
    "clang|-ccbin clang++"
    "std11|-std=c++11" "std14|-std=c++14" "std17|-std=c++17" "std20|-std=c++20"
    "spaces|spaces and quotes in paths and values"
    "depend|-MD -MF"
    "mixed|objects of nvcc and of mmnvcc, relocatable"
    "mixed-whole|objects of nvcc and of mmnvcc, whole programs"
    "own|a program that defines operators new and delete"
    "own-too|the same, which calls malloc too"
    "ptx|-ptx" "cubin|-cubin" "fatbin|-fatbin" "cubin-rdc|-cubin -rdc=true, then nvlink"
)

combinations() {
    local arch mode cudart
    for arch in "${archs[@]}"; do
        echo "whole static $arch"
        echo "rdc shared $arch"
    done
    for mode in dc dlink lib shared shared-rdc debug debug-rdc lineinfo fast lto; do
        printf "$mode static %s\n" 75 90 120
        echo "$mode shared 90"
    done
    for mode in ewp threads several ptx-only keep options language clang std11 std14 std17 std20 spaces depend mixed mixed-whole own own-too; do
        echo "$mode static 90"
    done
    printf '%s static -\n' all-major all
    for mode in ptx cubin fatbin cubin-rdc; do printf "$mode none %s\n" 75 90a; done
}

table() {
    local entry mode
    echo "| mode | | architectures, by the linkage of CUDA's runtime |"
    echo "| --- | --- | --- |"
    for entry in "${describe[@]}"; do
        mode=${entry%%|*}
        combinations | awk -v mode="$mode" -v what="${entry#*|}" '$1 == mode {
            if (!($2 in list)) order[++n] = $2
            list[$2] = list[$2] " " $3
        } END {
            for (i = 1; i <= n; i++) text = text (i > 1 ? "; " : "") order[i] ":" list[order[i]]
            printf "| %s | %s | %s |\n", mode, what, text
        }'
    done
}

# build COMPILER MODE CUDART ARCH [EXTRA]: builds the program in the current folder, as `program`. EXTRA: one more option.
build() {
    local compiler=$1 mode=$2 cudart=$3 arch=$4 flags=(-Xfatbin -compress=false ${5:+"$5"}) a=()
    [[ $arch == - ]] || a=(-arch="sm_$arch")
    [[ $cudart == none ]] || flags+=(-cudart "$cudart")
    local gencode=(-gencode "arch=compute_80,code=sm_80" -gencode "arch=compute_90,code=[sm_90,compute_90]")
    case $mode in
    whole) "$compiler" "${flags[@]}" "${a[@]}" "$src/all.cu" -o program ;;
    rdc) "$compiler" "${flags[@]}" "${a[@]}" -rdc=true "$src/part.cu" "$src/use.cu" -o program ;;
    dc)
        "$compiler" "${flags[@]}" "${a[@]}" -dc "$src/part.cu" "$src/use.cu" &&
            "$compiler" "${flags[@]}" "${a[@]}" part.o use.o -o program
        ;;
    dlink)
        "$compiler" "${flags[@]}" "${a[@]}" -dc "$src/part.cu" "$src/use.cu" &&
            "$compiler" "${flags[@]}" "${a[@]}" -dlink part.o use.o -o device.o &&
            g++ part.o use.o device.o -L"$CUDA_HOME/lib64" -lcudart"$([[ $cudart == static ]] && echo _static)" -ldl -lrt -lpthread -o program
        ;;
    lib)
        "$compiler" "${flags[@]}" "${a[@]}" -dc "$src/part.cu" "$src/use.cu" && "$compiler" "${a[@]}" -lib part.o -o libpart.a &&
            "$compiler" "${flags[@]}" "${a[@]}" use.o -L. -lpart -o program
        ;;
    shared) "$compiler" "${flags[@]}" "${a[@]}" -shared -Xcompiler -fPIC "$src/all.cu" -o program ;;
    shared-rdc) "$compiler" "${flags[@]}" "${a[@]}" -shared -Xcompiler -fPIC -rdc=true "$src/part.cu" "$src/use.cu" -o program ;;
    debug) "$compiler" "${flags[@]}" "${a[@]}" -G -g "$src/all.cu" -o program ;;
    debug-rdc) "$compiler" "${flags[@]}" "${a[@]}" -G -g -rdc=true "$src/all.cu" -o program ;;
    lineinfo) "$compiler" "${flags[@]}" "${a[@]}" -g -lineinfo -O3 "$src/all.cu" -o program ;;
    fast) "$compiler" "${flags[@]}" "${a[@]}" -use_fast_math -maxrregcount 24 "$src/one.cu" -o program ;;
    lto) "$compiler" "${flags[@]}" "${a[@]}" -dlto "$src/part.cu" "$src/use.cu" -o program ;;
    ewp) "$compiler" "${flags[@]}" "${a[@]}" -ewp "$src/one.cu" -o program ;;
    threads) "$compiler" "${flags[@]}" "${gencode[@]}" -gencode arch=compute_75,code=sm_75 -t 0 "$src/all.cu" -o program ;;
    several) "$compiler" "${flags[@]}" "${gencode[@]}" "$src/all.cu" -o program ;;
    all | all-major) "$compiler" "${flags[@]}" -arch="$mode" "$src/one.cu" -o program ;;
    ptx-only) "$compiler" "${flags[@]}" -gencode arch=compute_90,code=compute_90 "$src/all.cu" -o program ;;
    keep) "$compiler" "${flags[@]}" "${a[@]}" --keep "$src/all.cu" -o program ;;
    options) printf '%s\n' "${a[@]}" -O3 >options && "$compiler" "${flags[@]}" -optf options "$src/all.cu" -o program ;;
    language) cp "$src/all.cu" all.cpp && cp "$src/run.h" . && "$compiler" "${flags[@]}" "${a[@]}" -x cu all.cpp -o program ;;
    clang) "$compiler" "${flags[@]}" "${a[@]}" -ccbin clang++ "$src/all.cu" -o program ;;
    std*) "$compiler" "${flags[@]}" "${a[@]}" -std="c++${mode#std}" "$src/one.cu" -o program ;;
    spaces)
        mkdir "a folder" && cp "$src/one.cu" "a folder/a file.cu" && cp "$src/run.h" "a folder" &&
            "$compiler" "${flags[@]}" "${a[@]}" -DTEXT='"a \"text\""' -I"a folder" "a folder/a file.cu" -o "a program" && mv "a program" program
        ;;
    depend) "$compiler" "${flags[@]}" "${a[@]}" -MD -MF program.d "$src/one.cu" -o program && grep -q one.cu program.d ;;
    mixed)
        "$CUDA_HOME/bin/nvcc" "${flags[@]}" "${a[@]}" -dc "$src/part.cu" && "$compiler" "${flags[@]}" "${a[@]}" -dc "$src/use.cu" &&
            "$compiler" "${flags[@]}" "${a[@]}" part.o use.o -o program
        ;;
    mixed-whole)
        "$CUDA_HOME/bin/nvcc" "${flags[@]}" "${a[@]}" -Dmain=other_main -Dk=other_kernel -c "$src/none.cu" && "$compiler" "${flags[@]}" "${a[@]}" -c "$src/one.cu" &&
            "$compiler" "${flags[@]}" "${a[@]}" none.o one.o -o program
        ;;
    own) "$compiler" "${flags[@]}" "${a[@]}" -I"$src" "$src/own.cu" -o program ;;
    own-too) "$compiler" "${flags[@]}" "${a[@]}" -DGLOBAL_TOO -I"$src" "$src/own.cu" -o program ;;
    ptx | cubin | fatbin) "$compiler" "${flags[@]}" "${a[@]}" "-$mode" "$src/all.cu" -o program ;;
    cubin-rdc)
        "$compiler" "${a[@]}" -cubin -rdc=true "$src/part.cu" "$src/use.cu" &&
            "$("$compiler" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=||p')/nvlink" -m64 --arch="sm_$arch" part.cubin use.cubin -o program
        ;;
    esac
}

# linked_images ARCH: makes `program`, the images that nvcc links from part.cu and use.cu.
linked_images() {
    local nvcc=$CUDA_HOME/bin/nvcc arch=$1
    "$nvcc" -arch="sm_$arch" -cubin -rdc=true "$src/part.cu" "$src/use.cu" &&
        "$CUDA_HOME/bin/nvlink" -m64 --arch="sm_$arch" part.cubin use.cubin -o linked.cubin &&
        "$CUDA_HOME/bin/fatbinary" -64 -compress=false --create=program "--image3=kind=elf,sm=$arch,file=linked.cubin"
}

# build_plain MODE CUDART ARCH: makes `plain/program` by nvcc with the same arguments.
build_plain() {
    local mode=$1 arch=$3 shared=$out/linked/$3
    mkdir plain
    case $mode${gpu:+ to be run} in
    rdc | dc | dlink | lib | shared-rdc | mixed)
        mkdir -p "$shared"
        (
            flock 9
            cd "$shared" && { [[ -s program ]] || linked_images "$arch"; }
        ) 9>"$shared.lock" && cp "$shared/program" plain
        ;;
    whole | shared | debug | lineinfo | fast | threads | several | all | all-major | ptx-only | keep | options | language | clang | std* | \
        spaces | own | own-too) (cd plain && build "$CUDA_HOME/bin/nvcc" "$@" -fatbin) ;;
    *) (cd plain && build "$CUDA_HOME/bin/nvcc" "$@") ;;
    esac
}

# In slim installations nvlink does not find libnvvm (-dlto). For these, makes a toolkit of links, with libnvvm in the place where nvlink searches.
complete_toolkit() {
    local file
    [[ ! -e $CUDA_HOME/nvvm/lib64/libnvvm.so && -e $CUDA_HOME/lib64/libnvvm.so || ! -e $CUDA_HOME/nvvm/lib64 ]] || return
    mkdir -p "$out"/toolkit/{bin,nvvm/lib64}
    ln -s "$CUDA_HOME"/bin/* "$out/toolkit/bin"
    for file in "$CUDA_HOME"/nvvm/*; do [[ ${file##*/} == lib64 ]] || ln -s "$file" "$out/toolkit/nvvm"; done
    for file in "$CUDA_HOME"/*; do [[ ${file##*/} == bin || ${file##*/} == nvvm ]] || ln -s "$file" "$out/toolkit"; done
    for file in "$CUDA_HOME"/{nvvm/lib64,lib64}/libnvvm.so*; do
        [[ ! -e $file || -e $out/toolkit/nvvm/lib64/${file##*/} ]] || ln -s "$file" "$out/toolkit/nvvm/lib64"
    done
    [[ -e $out/toolkit/nvvm/lib64/libnvvm.so ]] || ln -s libnvvm.so.4 "$out/toolkit/nvvm/lib64/libnvvm.so"
    CUDA_HOME=$out/toolkit
}

# changed MODE: prints the first function of nvcc's program that differs in ours, in one line; fails if there is none. LTO is left out,
# because it compiles everything anew.
changed() {
    local said
    [[ $1 != lto ]] || return
    "$images" -k plain/program >plain.functions
    "$images" -k ours/program >ours.functions
    ! grep -q registers=-1 plain.functions ours.functions || { echo "no registers are known"; return; }
    said=$(awk 'function value(text) { sub(/.*=/, "", text); return text }
        NR == FNR { registers[$1, $2] = value($3); rest[$1, $2] = $4 " " $5 " " $6; next }
        !(($1, $2) in rest) { print "is missing: " $0; exit }
        rest[$1, $2] != $4 " " $5 " " $6 { print "has changed: " $0 ", ours " rest[$1, $2]; exit }
        { was = value($3); now = registers[$1, $2] }
        now != was && !(now > was && (now == 32 || now == 24)) { print "has other registers: " $0 ", ours " now; exit }' ours.functions plain.functions)
    [[ $said ]] && echo "a function $said"
}

# judge MODE CUDART: prints one line about what is wrong with our program, compared with nvcc's; nothing if they agree.
judge() {
    local mode=$1 cudart=$2 ours plain runtime
    plain=$("$images" plain/program 2>&1 | sed 's/undefined=$/& heap=0/; s/undefined=[a-z_,]\{2,\} heap=0/undefined= heap=1/' | sort)
    ours=$("$images" ours/program 2>&1 | sort)
    [[ -n $ours && $ours == *heap=* ]] || { echo "no images: $ours"; return; }
    [[ $ours == "$plain" ]] || { echo "images: ${ours//$'\n'/; }, expected: ${plain//$'\n'/; }"; return; }
    [[ $mode == own || $ours == *heap=1* ]] || { echo "no image allocates"; return; }
    changed "$mode" && return
    [[ $cudart != none ]] || return
    [[ $(nm -D ours/program | awk '$NF ~ /^(malloc|free)(@|$)/ && $(NF-1) != "U"') ]] && echo "it defines malloc"
    [[ $(nm ours/program | awk '$NF ~ /^(malloc|free)$/ && $(NF-1) ~ /[TW]/') ]] && echo "it defines malloc"
    [[ $mode == dlink || $(nm -D ours/program | awk '$NF == "dlsym" {print $(NF-1)}') == $([[ $mode == shared* ]] || echo W) ]] || {
        echo "dlsym is exported where it should not be, or not where it should"
        return
    }
    [[ $mode != dlink ]] || { [[ ! $gpu ]] || runs "$mode" "$3"; return; }
    runtime=$(strings -a ours/program | sed -n "s/.*mm's run time: //p" | head -1)
    [[ -f $runtime ]] || { echo "its run time is not there: '$runtime'"; return; }
    [[ ! $gpu ]] || runs "$mode" "$3"
}

# has_code ARCH: true if this GPU can run code for that architecture: its machine code, or the PTX next to it.
has_code() {
    local number=${1%[af]}
    case $1 in
    -) return 0 ;;
    *a) ((number == gpu)) ;;
    *f) ((number / 10 == gpu / 10 && number <= gpu)) ;;
    *) ((number <= gpu)) ;;
    esac
}

# Runs both programs. A program whose device link was separate (dlink) has no run time, so it runs under mmrun.
runs() {
    local ours plain with=()
    [[ $1 != shared* ]] || return
    [[ $1 != dlink ]] || with=("$mmrun")
    timeout 60 plain/program >plain.log 2>&1
    plain=$?
    timeout 60 "${with[@]}" ours/program >ours.log 2>&1
    ours=$?
    case "$plain $ours" in
    "0 0") echo >>"$out/ran" ;;
    "1 1") has_code "$2" && echo "does not run, by nvcc neither: $(head -1 plain.log)" ;;
    *) echo "runs with status $ours, by nvcc $plain: $(cat ours.log plain.log | head -2)" ;;
    esac
}

one() {
    local name="$1 $2 $3" wrong
    mkdir -p "$out/${name// /.}/ours"
    cd "$out/${name// /.}" || exit
    if ! build_plain "$@" >plain.log 2>&1; then
        wrong="nvcc itself fails: $(grep -m1 -iE 'error|fatal' plain.log)"
    elif ! (cd ours && build "$mmnvcc" "$@") >ours.log 2>&1; then
        wrong="mmnvcc fails: $(grep -m1 -iE 'error|fatal|mm' ours.log)"
    else
        wrong=$(judge "$@")
    fi
    [[ -z $wrong ]] && echo "ok    $name" || echo "FAIL  $name: $wrong"
    [[ -n $wrong ]] || rm -rf "${out:?}/${name// /.}"
}

if [[ ${1-} == --table ]]; then
    table
    exit
elif [[ ${1-} == --one ]]; then
    shift
    one "$@"
    exit
fi
mmnvcc=$(realpath "$1") mmrun=$(realpath -s "${1%/*}/mmrun") images=$(realpath "$2") src=$PWD/tests/programs
rm -rf "$3" && mkdir -p "$3" && out=$(realpath "$3") || exit
: >"$out/ran"
XDG_CACHE_HOME=$out/cache
docs=$PWD/docs/how-to/building.md
complete_toolkit
gpu=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
export gpu mmrun mmnvcc images src out CUDA_HOME XDG_CACHE_HOME
# has_archs MODE ARCH: true if mm was built for all architectures of the combination
has_archs() {
    local arch needed=("${2%[af]}")
    case $1 in
    threads) needed=(75 80 90) ;;
    several) needed=(80 90) ;;
    all | all-major) needed=(75 80 86 87 88 89 90 100 103 110 120 121) ;;
    esac
    for arch in "${needed[@]}"; do [[ -f $ptx/mm_$arch.ptx ]] || return; done
}
ptx=$(dirname "$(readlink -f "$mmnvcc")")/ptx left_out=0
while read -r mode cudart arch; do
    if has_archs "$mode" "$arch"; then echo "$mode $cudart $arch"; else left_out=$((left_out + 1)); fi
done < <(combinations | grep -E "${ONLY:-.}") >"$out/combinations"
((left_out == 0)) || printf 'matrix: %d combinations left out: they are for architectures that ARCHS lacks\n' "$left_out"
xargs -r -P "$(nproc)" -L 1 "$(realpath "${BASH_SOURCE[0]}")" --one <"$out/combinations" >"$out/results"
grep -v '^ok' "$out/results"
failed=$(grep -vc '^ok' "$out/results")
if table | grep -vxFf "$docs"; then
    echo "FAIL  these lines are not in $docs (matrix.sh --table)"
    failed=$((failed + 1))
fi
[[ ! $gpu ]] || printf '%d programs ran on the GPU, as those by nvcc do\n' "$(grep -c '' "$out/ran")"
printf 'matrix: %d combinations, %d failed\n' "$(grep -c . "$out/results")" "$failed"
[[ $failed == 0 && -s $out/results ]] # ONLY may match nothing
