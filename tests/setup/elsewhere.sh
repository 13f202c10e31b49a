#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# elsewhere.sh TARGET...: runs make TARGET as on another machine: in a copy of the tree in a folder with a long name, and with a PATH
# that has no program of a CUDA toolkit. Also, make must refuse a folder whose name has a space, in one line. CUDA_HOME, CC,
# ARCHS and MAKE from the environment; ARCHS (75 90) need not be all. Files that git ignores are not copied.
set -u
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit
unset MAKEFLAGS MAKELEVEL MFLAGS
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
long=$work/a-folder-whose-name-is-long-enough-for-programs-that-break-the-lines-of-what-they-say-when-a-path-is-in-it
programs='nvcc|ptxas|nvlink|fatbinary|cuobjdump|nvdisasm|nvprune|cicc|cudafe++|bin2c|mmnvcc|mmrun|mmdoctor|mmbench'

mkdir -p "$long/mm" "$work/bin" "$work/home" || exit
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"; done |
    xargs -0 cp -P --parents -t "$long/mm") || exit
IFS=: read -ra folders <<<"$PATH"
for folder in "${folders[@]}"; do
    for program in "$folder"/*; do
        name=${program##*/}
        [[ $name =~ ^($programs)$ || ! -x $program || -d $program || -L $work/bin/$name ]] || ln -s "$program" "$work/bin/$name"
    done
done

# elsewhere FOLDER ARGUMENT...: runs make in FOLDER with the environment of that machine
elsewhere() {
    env -i PATH="$work/bin" HOME="$work/home" TMPDIR="$work" LC_ALL=C ${MM_JOBS:+MAKEFLAGS="-k -j$MM_JOBS"} \
        "${MAKE:-make}" --no-print-directory -C "$1" CUDA_HOME="$CUDA_HOME" CC="${CC:-cc}" ARCHS="${ARCHS:-75 90}" "${@:2}"
}

status=0 passed=0
cp -r "$long" "$work/a folder" || exit
said=$(elsewhere "$work/a folder/mm" all 2>&1)
if [[ $said == *'has characters that make or a run path cannot carry; expected '* && $said != *$'\n'* && ! -e $work/a\ folder/mm/build ]]; then
    passed=1
else
    printf 'elsewhere: FAILED: in a folder with a space make said\n%s\n' "$said"
    status=1
fi
printf 'elsewhere: %d passed, %d failed\n' "$passed" $((1 - passed))
elsewhere "$long/mm" "$@" || status=1
exit "$status"
