#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plants one fault at a time in a copy of the core (mutants.txt) and reports the faults that no suite detects.
# Prints a line for each, then "mutants: N killed, M survived". Argument: only faults whose name contains it. JOBS: how many at
# once (default: processors).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
work=build/mutants
read -r -a check < <(pkg-config --cflags --libs check)
flags=(-std=c11 -O1 -Wc++-compat -I. -D_GNU_SOURCE= -pthread)
suites=(class tree segment word table make tickets retire null run run_search span grow heap report usage guard fill fail trace cookie twice claims suspended lanes lanes_small shortage shortage_small sweep sweep_small narrow interleave schedule malloc warps_small warps stress tsan walk walk_listed_usage walk_warps walk_stress walk_probes probes_rw probes_bm ring ring_listed_usage ring_warps ring_stress bump bump_listed_usage ouro_vac ouro_sp ouro_sc ouro_vlp ouro_vac_queues ouro_sc_queues ouro_sp_queues ouro_vlp_queues ouro_vlp_semaphore ouro_sp_full_queues ouro_vac_full_queues ouro_vlp_full_queues ouro_sc_hints ouro_vac_listed_usage ouro_sp_warps ouro_sp_first ouro_sp_first_warps ouro_vap_first ouro_vlp_first ouro_vap_queues ouro_vap_warps)

# Builds and runs the suites of the tree in directory $1, beginning with $2; prints the first one that fails, or nothing.
first_failing() {
    local suite source face extra list=("$2")
    cd "$1" || exit
    for suite in "${suites[@]}"; do [[ $suite == "$2" ]] || list+=("$suite"); done
    for suite in "${list[@]}"; do
        source=$suite extra=()
        case $suite in
        interleave | schedule | suspended) extra=(-include tests/unit/small.h) ;;
        *_small) source=${suite%_small} extra=(-include tests/unit/small.h) ;;
        walk | walk_*) source=${suite#walk_} extra=(-DUNIT_FEW -DMM_ALLOCATOR=random_walk) ;;
        probes_*) source=probes face=${suite#probes_} && extra=(-DUNIT_FEW -DMM_ALLOCATOR=random_walk "-DMM_WALK_FACE=MM_WALK_${face^^}") ;;
        bump | bump_* | ring | ring_*) source=${suite#ring_} source=${source#bump_} extra=(-DUNIT_FEW -DMM_ALLOCATOR=regeff) ;;&
        bump | bump_*) extra+=(-DMM_REGEFF_FACE=MM_REGEFF_ATOMIC) ;;
        ouro_*)
            source=ouroboros extra=(-DUNIT_FEW -DMM_ALLOCATOR=ouroboros)
            [[ $suite != *_listed_usage ]] || source=listed_usage
            [[ $suite != *_warps ]] || source=warps
            [[ $suite != *_queues ]] || source=queues
            [[ $suite != *_full_queues ]] || source=full_queues
            [[ $suite != *_semaphore ]] || source=semaphore
            [[ $suite != *_hints ]] || source=hints
            [[ $suite != *_first ]] || source=first
            [[ $suite != *_first_warps ]] || source=first_warps
            case $suite in
            ouro_vac*) extra+=(-DMM_OURO_QUEUE=MM_OURO_VA -DMM_OURO_ENTRY=MM_OURO_CHUNKS) ;;
            ouro_sc*) extra+=(-DMM_OURO_QUEUE=MM_OURO_S -DMM_OURO_ENTRY=MM_OURO_CHUNKS) ;;
            ouro_sp*) extra+=(-DMM_OURO_QUEUE=MM_OURO_S) ;;
            ouro_vlp*) extra+=(-DMM_OURO_QUEUE=MM_OURO_VL) ;;
            esac
            ;;
        tsan) source=stress extra=(-DUNIT_FEW -fsanitize=thread -include tests/unit/jitter.h) ;;
        esac
        if ! "${CC:-cc}" "${flags[@]}" "${extra[@]}" "tests/unit/test_$source.c" runtime/cpu/*.c "${check[@]}" \
            -lm -o "test_$suite" 2>log; then
            echo "does not compile: $(grep -m 1 error: log)"
            return
        fi
        if ! TSAN_OPTIONS=halt_on_error=1 CK_VERBOSITY=silent bounded log "./test_$suite"; then
            echo "$suite"
            return
        fi
    done
}

# One mutant, as a line of mutants.txt.
try() {
    local dir=$work/$1 name file from to why first
    cp -r "$work/base" "$dir" && plant "$2" "$work/base" "$dir" || return
    case ${name%%:*} in # the room's own suite first
    order) first=tsan ;;
    none) first=class ;;
    *) first=${name%%:*} ;;
    esac
    verdict "$(first_failing "$dir" "$first")"
    rm -rf "$dir"
}

rm -rf "$work" && mkdir -p "$work/base/runtime" "$work/base/tests" && cp -r mmconfig.h "$work/base" &&
    cp -r runtime/*.h runtime/{core,gallatin,listed,random_walk,regeff,ouroboros,checked,cpu} "$work/base/runtime" && cp -r tests/unit tests/runner.h "$work/base/tests" &&
    cp --parents tools/kernels.h tools/mmbench/child/papers/probes* "$work/base" || exit
try_none=$(try 0 "none @@ mmconfig.h @@ #define @@ #define")
[[ $try_none == survived* ]] || untried mutants "$try_none"
plant_all mutants "$work/base/tests/unit/mutants.txt" "$work" "$@"
