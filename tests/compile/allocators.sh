#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# allocators.sh MMNVCC IMAGES OUT SIBLING...: mmnvcc --mm-allocator. SIBLING: a folder with the texts and libraries of another allocator, for sm_90 only. Programs are built
# with the first one; the size of all libraries is bounded.
# CUDA_HOME names the toolkit. To be run from the root of the tree.
set -u
mmnvcc=$(realpath "$1") images=$(realpath "$2") siblings=$(realpath "$4")
name=${siblings##*/}
rm -rf "$3" && mkdir -p "$3" && out=$(realpath "$3") || exit 1
mapfile -t libraries < <(realpath "${@:4}")
src=$PWD/tests/programs
cd "$out" || exit 1
export XDG_CACHE_HOME=$out/cache
lib=$(dirname "$(readlink -f "$mmnvcc")")
passed=0 failed=0

# it WHAT FOUND EXPECTED
it() {
    if [[ $2 == "$3" ]]; then
        passed=$((passed + 1))
    else
        printf 'allocators: FAILED: %s: found\n%s\n  expected\n%s\n' "$1" "$2" "$3" >&2
        failed=$((failed + 1))
    fi
}
said() { "$@" 2>&1; echo "status $?"; }
variables() { readelf -sW "$1" 2> /dev/null | awk '$NF ~ /^mm_heap_v/ {print $NF}' | sort -u; }

# Bytes that a library has at most, for one architecture (docs/reference/allocators.md).
for folder in "${libraries[@]}"; do
    library_most=$((60 * 1024))
    [[ ${folder##*/} != ouroboros-* ]] || library_most=$((76 * 1024))
    for library in mm32.a mm24.a; do
        bytes=$(stat -c %s "$folder/$library")
        it "$library of ${folder##*/} ($bytes bytes) has at most $library_most" $((0 < bytes && bytes <= library_most)) 1
    done
done

known=$(awk -F'"' '/^ +X."/ {print $2}' "$lib/mmconfig.h" | paste -sd, | sed 's/,/, /g')
it 'an unknown name' "$(said "$mmnvcc" --mm-allocator=none -c none.cu)" \
    "mmnvcc: unknown allocator 'none'; expected one of $known"$'\nstatus 2'
it 'no name' "$(said "$mmnvcc" --mm-allocator= -c none.cu)" \
    "mmnvcc: unknown option '--mm-allocator='; expected --mm-show, --mm-allocator=NAME, --mm-version or --mm-help, or one of nvcc's"$'\nstatus 2'

# A copy of mm, with the allocator's folder.
mkdir copy && cp -a "$lib" copy/lib && rm -rf copy/lib/allocators && mkdir copy/bin && ln -s ../lib/mmnvcc copy/bin/mmnvcc &&
    ln -s ../lib/mmnvcc "copy/bin/mmnvcc-$name" || exit 1
copy=$out/copy/bin/mmnvcc
it 'an allocator that is not built' "$(said "$copy" "--mm-allocator=$name" -c none.cu)" \
    "mmnvcc: allocator '$name' is not built in '$out/copy/lib/allocators'; build it by make allocators"$'\nstatus 1'
mkdir copy/lib/allocators && cp -r "$siblings" copy/lib/allocators || exit 1

suffix=_${name//-/_}
build() { # OUTPUT COMMAND...
    local to=$1
    shift
    "$@" -arch=sm_90 -cubin -o "$to.cubin" "$src/one.cu" > "$to.log" 2>&1 || cat "$to.log" >&2
}
build default "$copy"
build gallatin "$copy" --mm-allocator=gallatin
build sibling "$copy" "--mm-allocator=$name"
build called "$copy-$name"
default=$(variables default.cubin)
it 'the default' "${default/[0-9]*/N}" mm_heap_vN
it 'the default by its name' "$(variables gallatin.cubin)" "$default"
it 'another allocator' "$(variables sibling.cubin)" "$default$suffix"
it "mmnvcc-$name" "$(variables called.cubin)" "$default$suffix"
"$copy" "--mm-allocator=$name" -arch=sm_90 -rdc=true -o linked "$src/one.cu" > linked.log 2>&1 || cat linked.log >&2
it 'a device link' "$("$images" linked | sed 's/ .*undefined=/ undefined=/' | sort -u)" 'elf undefined= heap=1'
it 'mmdoctor of a device link' "$("$lib/mmdoctor" linked | sed -n 's/^linked: *allocator //p')" "$name"
it 'mmdoctor' "$("$lib/mmdoctor" sibling.cubin | sed -n 's/^sibling.cubin: *allocator //p')" "$name"
# PTX says which allocator it was compiled for, and is assembled with that of the mmnvcc that assembles it.
"$copy" "--mm-allocator=$name" -arch=sm_90 -ptx -o sibling.ptx "$src/one.cu" > ptx.log 2>&1 || cat ptx.log >&2
"$copy" -arch=sm_90 -ptx -o default.ptx "$src/one.cu" > ptx.log 2>&1 || cat ptx.log >&2
calls() { grep -o 'mm_call[a-z_]*' "$1" | sort -u; }
it 'PTX' "$(calls sibling.ptx)" "$(calls default.ptx | sed "s/mm_call/mm_call$suffix/")"
it 'PTX of the default' "$(calls default.ptx | grep -c free)" 1
"$copy" "--mm-allocator=$name" -gencode arch=compute_90,code=compute_90 -fatbin -o sibling.fatbin "$src/one.cu" > ptx.log 2>&1 || cat ptx.log >&2
it 'mmdoctor of PTX' "$("$lib/mmdoctor" sibling.fatbin | sed -n 's/^sibling.fatbin: *allocator //p')" "$name"
"$copy" -arch=sm_90 -cubin -o assembled.cubin sibling.ptx > ptx.log 2>&1 || cat ptx.log >&2
it 'PTX that another mmnvcc assembles' "$(variables assembled.cubin)" "$default"
view=$("$copy" "--mm-allocator=$name" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=\(.*\)/bin$|\1|p')
echo nothing > "$view/allocator"
it 'a damaged view' "$("$copy" "--mm-allocator=$name" -arch=sm_90 -ptx -o damaged.ptx "$src/one.cu" 2>&1; echo "status $?, $(ls damaged.ptx 2> /dev/null)")" \
    "mmnvcc: '$view/bin/../cicc/../allocator' names no allocator of mm; remove the folder that it is in"$'\nstatus 1, '
rm -rf "$view"
identity() { objcopy -O binary --only-section=.mm_device --set-section-flags .mm_device=alloc "$1" identity && cat identity; }
view=$("$copy" "--mm-allocator=$name" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=\(.*\)/bin$|\1|p')
it "a view with its own ptxas, for sccache" "$(identity "$view/bin/ptxas")" "$(cat copy/lib/allocators/"$name"/mm*.a | cksum)"
touch -d '1 hour' "copy/lib/allocators/$name/driver.fatbin"
view=$("$copy" "--mm-allocator=$name" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=\(.*\)/bin$|\1|p')
it 'a view that follows the libraries' "$(grep -cxF "$(stat -L -c 'device %s %Y' "copy/lib/allocators/$name/driver.fatbin")" "$view/mm-view")" 1
touch -d '2 hours' copy/lib/mmptxas
view=$("$copy" "--mm-allocator=$name" --dryrun -c none.cu 2>&1 | sed -n 's|^#\$ _HERE_=\(.*\)/bin$|\1|p')
it 'a view that follows what it has copied' "$(grep -cxF "$(stat -L -c 'device %s %Y' copy/lib/mmptxas)" "$view/mm-view")" 1
echo "allocators: $passed passed, $failed failed"
exit $((failed != 0))
