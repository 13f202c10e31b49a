#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh OUT TEST...: runs suites load and make in OUT, with containers made by the toolkit in all its ways of compression; then lets nvlink, and
# cuobjdump if there is one, read a container made by suite make. CUDA_HOME in the environment; to be run from the root of the tree.
set -eu
out=$1 src=$PWD/tests/programs
shift
tests=$(realpath "$@") && mapfile -t tests <<<"$tests"
rm -rf "$out" && mkdir -p "$out" && cd "$out"
nvcc() { "$CUDA_HOME/bin/nvcc" "$@"; }
fatbinary() { "$CUDA_HOME/bin/fatbinary" -64 "$@"; }

nvcc -cubin -arch=sm_75 "$src/load_one.cu" -o 75.cubin
nvcc -cubin -arch=sm_90a "$src/load_one.cu" -o 90a.cubin
nvcc -ptx -arch=compute_75 "$src/load_one.cu" -o 75.ptx
images=('--image3=kind=elf,sm=75,file=75.cubin' '--image3=kind=elf,sm=90a,file=90a.cubin' '--image3=kind=ptx,sm=75,file=75.ptx')
ways=(-compress=true -compress=false -compress-all)
help=$(fatbinary --help)
if [[ $help == *--compress-mode* ]]; then
    for mode in default size speed balance none; do ways+=("-compress-mode=$mode"); done
fi
[[ $help != *--concat* ]] || ways+=(-concat)
for way in "${ways[@]}"; do fatbinary --create="mode_${way#-}.fatbin" "$way" "${images[@]}"; done
fatbinary --create=mode_named.fatbin --ident=one.cu -cmdline='-O1 -v' -compress-all "${images[@]}"
nvcc -fatbin -G -arch=sm_75 "$src/load_one.cu" -o nvcc_debug.fatbin
nvcc -fatbin -lineinfo -gencode arch=compute_75,code=compute_75 "$src/load_one.cu" -o nvcc_lines.fatbin
nvcc -fatbin -dc -gencode arch=compute_75,code=lto_75 "$src/load_one.cu" -o nvcc_lto.fatbin

for name in one two; do nvcc -cubin -dc -arch=sm_90 "$src/load_$name.cu" -o "$name.cubin"; done

for test in "${tests[@]}"; do "$test" .; done

link() { "$CUDA_HOME/bin/nvlink" --arch=sm_90 "$1" -o "$1.linked"; }
link after.fatbin && link two.cubin && cmp after.fatbin.linked two.cubin.linked
if cuobjdump=$(type -P "$CUDA_HOME/bin/cuobjdump" cuobjdump | head -n 1) && [[ $cuobjdump ]]; then
    "$cuobjdump" -xelf all after.fatbin >/dev/null && cmp after.1.sm_90.cubin two.cubin
fi
printf 'load: %d containers by the toolkit, nvlink%s: passed\n' "$(find . -name '*.fatbin' ! -name after.fatbin | wc -l)" "${cuobjdump:+, cuobjdump}"
