#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plants one fault at a time in a copy of the tree and reports those that neither the stress suites nor the fuzzer
# detect. Prints a line for each with what detected it, then "mutants: N killed, M survived".
#   mutants.sh [-l LIST] [NAME]...   LIST: its faults (default: mutants.txt here; tests/unit/mutants.txt has the same
#                                    format); NAME: only faults whose name contains one of them
# STRESS_OPS, FUZZ_SECONDS: how long each suite tries. CC, and CLANG for the fuzzer, from the environment.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
list=tests/stress/mutants.txt
if [[ ${1-} == -l ]]; then
    list=${2-}
    shift 2 || exit
fi
work=build/stress-mutants
ops=${STRESS_OPS:-2000000}
seconds=${FUZZ_SECONDS:-20}
read -r -a check < <(pkg-config --cflags --libs check)
flags=(-std=c11 -g -I. -D_GNU_SOURCE= -pthread)
core=(runtime/cpu/*.c)
suites=(fuzz plain-misuse plain-lives asan-lives tsan-lives tsan-misuse)

build_and_run() {
    local suite=$1 source=${1#*-}
    local sane=("-fsanitize=address,undefined" -fno-sanitize-recover=all)
    local test=(tests/stress/test_"$source".c tests/stress/world.c "${core[@]}" "${check[@]}" -o "$suite")
    case $suite in
    fuzz)
        "${CLANG:-clang}" "${flags[@]}" -O1 -fsanitize=fuzzer "${sane[@]}" \
            tests/fuzz/*.c "${core[@]}" -o "$suite" 2>log || return 3
        bounded log tests/fuzz/run.sh ./fuzz "$seconds" tests/fuzz/corpus 512
        return
        ;;
    plain-*) "${CC:-cc}" "${flags[@]}" -O2 "${test[@]}" 2>log || return 3 ;;
    asan-*) "${CC:-cc}" "${flags[@]}" -O1 "${sane[@]}" "${test[@]}" 2>log || return 3 ;;
    tsan-*)
        "${CC:-cc}" "${flags[@]}" -O2 -fsanitize=thread -include tests/unit/jitter.h \
            -DUNIT_JITTER_SHIFT=24 "${test[@]}" 2>log || return 3
        ;;
    esac
    STRESS_OPS=$ops TSAN_OPTIONS=halt_on_error=1 bounded log "./$suite"
}

# Runs the suites of the tree in directory $1; prints those that fail: the first, or all of them if ALL is set.
failing() {
    local suite
    cd "$1" || exit
    for suite in "${suites[@]}"; do
        build_and_run "$suite"
        case $? in
        0) ;;
        3)
            echo "does not compile: $(grep -m 1 error: log)"
            return
            ;;
        *)
            printf '%s ' "$suite"
            [[ ${ALL-} ]] || return
            ;;
        esac
    done
}

# One mutant, as a line of the list.
try() {
    local dir=$work/$1 name file from to why
    mkdir -p "$dir/runtime" "$dir/tests/unit"
    cp mmconfig.h "$dir" && cp -r runtime/*.h runtime/{core,gallatin,checked,cpu} "$dir/runtime" &&
        cp -r tests/stress tests/fuzz tests/runner.h "$dir/tests" && cp tests/unit/jitter.h "$dir/tests/unit" || exit
    rm -rf "$dir/tests/fuzz/known" # a fault that hides a known defect has not been noticed
    plant "$2" . "$dir" || return
    verdict "$(failing "$dir")"
    [[ ${KEEP-} ]] || rm -rf "$dir"
}

rm -rf "$work" && mkdir -p "$work" || exit
try_none=$(try 0 "none @@ mmconfig.h @@ #define @@ #define")
[[ $try_none == survived* ]] || untried mutants "$try_none"
plant_all mutants "$list" "$work" "$@"
