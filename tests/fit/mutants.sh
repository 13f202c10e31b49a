#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh OUT [ONLY]: plants one fault at a time (mutants.txt) in a copy of runtime/host/fit and expects suite fit, check or memory (under AddressSanitizer) to fail; for
# names that begin with "steps:", suite steps. ONLY: those whose name contains it. From the root of the tree; CC from the environment; JOBS: how many
# at once (default: processors). Prints a line for each, then "fit mutants: N killed, M survived".
set -u
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
out=$1 only=${2-}
read -r -a check < <(pkg-config --cflags --libs check)
flags=(-std=c11 -O1 -w -I. -D_GNU_SOURCE=)
declare -A variant=([fit]='' [check]='' [memory]='-include tests/fit/failing.h -fsanitize=address' [steps]='-DMM_FIT_COUNTS')
declare -A seconds=([fit]=10 [check]=10 [memory]=20 [steps]=60) # of processor time; without a fault: 2, 1, 2, 20

# compile SOURCE SUITE OBJECT LOG
compile() {
    local extra
    read -r -a extra <<<"${variant[$2]}"
    "${CC:-cc}" "${flags[@]}" "${extra[@]}" -c "$1" -o "$3" 2>"$4"
}

# passes FOLDER SUITE [FILE]: runs a suite with the object of FILE, a source of the books, in FOLDER instead of the correct one.
passes() {
    local dir=$1 suite=$2 file=${3-} object objects=("$out/test_$2.o" "$out/pair.o")
    for object in "$out/$suite"/*.o; do
        [[ ${object##*/} != "${file%.c}.o" ]] || object=$dir/$suite.o
        objects+=("$object")
    done
    [[ $suite != memory ]] || objects+=(-fsanitize=address)
    "${CC:-cc}" "${objects[@]}" -o "$dir/test_$suite" "${check[@]}" -lm || exit
    CK_FORK=no CK_VERBOSITY=silent BOUNDED_SECONDS=${seconds[$suite]} bounded "$dir/log" "$dir/test_$suite"
}

# One line of mutants.txt.
try() {
    local dir=$out/$1 name file from to why suite suites=(fit check memory)
    plant "$2" runtime/host/fit "$dir" || return
    [[ $name != steps:* ]] || suites=(steps)
    for suite in "${suites[@]}"; do
        if ! compile "$dir/$file" "$suite" "$dir/$suite.o" "$dir/log"; then
            verdict "does not compile: $(grep -m 1 error: "$dir/log")"
            return
        elif ! passes "$dir" "$suite" "$file"; then
            verdict "$suite"
            rm -rf "$dir"
            return
        fi
    done
    verdict ''
}

rm -rf "$out" && mkdir -p "$out" || exit
compile tests/fit/pair.c fit "$out/pair.o" "$out/log" || untried 'fit mutants' "$(grep -m 1 error: "$out/log")"
for suite in "${!variant[@]}"; do
    mkdir "$out/$suite" || exit
    compile "tests/fit/test_$suite.c" "$suite" "$out/test_$suite.o" "$out/log" || untried 'fit mutants' "$(grep -m 1 error: "$out/log")"
    # Only the books have memory that fails.
    [[ $suite != memory ]] || compile "tests/fit/test_$suite.c" fit "$out/test_$suite.o" "$out/log" || exit
    for source in runtime/host/fit/*.c; do
        compile "$source" "$suite" "$out/$suite/$(basename "$source" .c).o" "$out/log" || untried 'fit mutants' "$(grep -m 1 error: "$out/log")"
    done
    passes "$out" "$suite" || untried 'fit mutants' "$suite: $(tail -n 1 "$out/log")"
done

plant_all 'fit mutants' tests/fit/mutants.txt "$out" "$only"
