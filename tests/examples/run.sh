#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh BUILD: tests the programs in examples/, which are built: they have mm, their heads say how to build them, and their logic is right on
# the CPU. What they do on a GPU is tested by tests/gpu/examples.sh. From the root of the tree; ARCHS in the environment.
# The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329
set -u
root=$PWD build=$(realpath "$1") || exit
# shellcheck source=tests/it.sh
source "$root/tests/it.sh" examples
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || exit
cd "$out" || exit
first=${ARCHS%% *}
export PATH=$build/bin:$PATH

# The head's commands, run as they are; the program itself needs a GPU.
builds() {
    local lines line
    mapfile -t lines < <(sed -n 's/^ \*   \(.* && .*\)$/\1/p' "$root/examples/$1.cu")
    same "${#lines[@]}" 2 && has "${lines[0]}" " && ./$1" && has "${lines[1]}" " && mmrun ./$1" && cp "$root/examples/$1.cu" . || return
    for line in "${lines[@]}"; do
        rm -f "$1"
        if ! eval "${line% && *}" || [[ ! -x $1 ]]; then echo "$line" && return 1; fi
    done
}
has_mm() { has "$(mmdoctor "$build/examples/$1")" 'built with mm, agreement version'; }
taken_over() { has "$(mmdoctor "$build/examples/plain_$1")" 'taken over when it is loaded under mm'; }
# Of at most 100 lines, and without mm's own functions.
plain() { (($(wc -l <"$1") <= 100)) && lacks "$(<"$1")" 'mm.h'; }
for file in "$root"/examples/*.cu; do
    name=${file##*/} name=${name%.cu}
    it "$name: its commands" builds "$name"
    it "$name by mmnvcc" has_mm "$name"
    it "$name by nvcc" taken_over "$name"
    it "$name on the CPU" "$root/tests/examples/on_cpu.sh" "$file" "$out"
    it "$name, its length" plain "$file"
done

# The Python program: without CuPy and a GPU, its kernels can be compiled.
python() {
    python3 -m py_compile "$root/examples/factors.py" && python3 - "$root/examples/factors.py" >factors.cu <<'CODE' &&
import ast, sys
for node in ast.parse(open(sys.argv[1]).read()).body:
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SOURCE":
        print(ast.literal_eval(node.value))
CODE
        mmnvcc -arch="sm_$first" -cubin factors.cu -o factors.cubin && has "$(mmdoctor factors.cubin)" 'built with mm' &&
        has "$(<"$root/examples/factors.py")" 'mmrun python factors.py'
}
export PYTHONPYCACHEPREFIX=$out
it 'factors.py' python
it 'five examples' same "$(find "$root/examples" -type f | wc -l)" 5
it_ends
