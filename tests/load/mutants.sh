#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh OUT [ONLY]: plants one fault at a time (mutants.txt) in a copy of interpose/load and expects suite load, make or wants
# to fail on hand-made input alone. ONLY: those whose name contains it. From the root of the tree; CC, LOAD_FLAGS, LOAD_LIBS from the
# environment. Prints a line for each, then "load mutants: N killed, M survived".
set -u
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
out=$1 only=${2-} killed=0 survived=0 suites=(test_load test_make test_wants)
read -r -a flags <<<"$LOAD_FLAGS"
read -r -a libs <<<"$LOAD_LIBS $(pkg-config --cflags --libs check)"
compile() { "${CC:-cc}" "${flags[@]}" -w -c "$1" -o "$2" 2>"$out/log"; }

# passes MUTANT: runs the suites with this object instead of the correct one; their quick part first.
passes() {
    local objects=("$out"/{elf,fatbin,unpack,wants}.o) object suite case
    for object in "${!objects[@]}"; do [[ ${objects[object]} != "$1" ]] || objects[object]=$out/mutant.o; done
    for suite in "${suites[@]}"; do
        "${CC:-cc}" "${flags[@]}" "$out/$suite.o" "${objects[@]}" -o "$out/$suite" "${libs[@]}" || exit
    done
    for case in 'made by hand' 'every byte'; do
        for suite in "${suites[@]}"; do
            CK_RUN_CASE=$case CK_VERBOSITY=silent BOUNDED_SECONDS=60 bounded "$out/log" "$out/$suite" || return
        done
    done
}

rm -rf "$out" && mkdir -p "$out" || exit
for source in "${suites[@]/#/tests/load/}" interpose/load/{elf,fatbin,unpack,wants}; do
    compile "$source.c" "$out/${source##*/}.o" || untried 'load mutants' "$(grep -m 1 error: "$out/log")"
done
passes none || untried 'load mutants' "$(head -n 1 "$out/log")"

while IFS= read -r line; do
    [[ $line == "#"* || ${line%% @@ *} != *"$only"* ]] && continue
    if plant "$line" interpose/load "$out/planted" >"$out/say"; then
        killer=
        if ! compile "$out/planted/$file" "$out/mutant.o"; then killer="does not compile: $(grep -m 1 error: "$out/log")"
        elif ! passes "$out/${file%.c}.o"; then killer='a suite'; fi
        verdict "$killer" >"$out/say"
    fi
    cat "$out/say"
    if [[ $(<"$out/say") == killed* ]]; then killed=$((killed + 1)); else survived=$((survived + 1)); fi
done <tests/load/mutants.txt
printf 'load mutants: %d killed, %d survived\n' "$killed" "$survived"
((survived == 0))
