#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plants one fault at a time (mutants.txt) in a copy of a source file, and expects a scenario of the stand-in driver to fail. The unchanged
# tree must pass first, or no fault is planted.
# mutants.sh BUILD [ONLY]: BUILD must be built; ONLY selects mutants whose name contains it. Prints a line for each, then "hook mutants:
# N killed, M survived". From the environment: CUDA_HOME.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
build=$(readlink -f "${1:?usage: mutants.sh BUILD [ONLY]}") only=${2-}
work=$build/mutants-hooks killed=0 survived=0
abi=$(awk '$2 == "MM_ABI_VERSION" {print $3}' mmconfig.h)
flags=(-std=c11 -O1 -w -I. -fPIC -fvisibility=hidden -isystem "${CUDA_HOME:-/usr/local/cuda}/include"
    "-DMM_KERNELS_FATBIN=\"$build/device/maintain.fatbin\""
    "-DMM_LINKED=\"$build/device/linked\"")

read -r -a check < <(pkg-config --cflags --libs check)
suites=(check_memory check_trim check_tables check_rounds)
sources=(runtime/host/*.c runtime/host/fit/*.c runtime/host/pool/*.c interpose/preload/*.c interpose/load/*.c interpose/load/ptx/*.c)

# scenario LINES SETTING ARGUMENTS...: expects status 0 and LINES (a pattern) lines on standard error, counting those with $with if set.
scenario() {
    local lines=$1 setting=$2 err
    shift 2
    err=$(cd "$build/tests/hooks" && env "$setting" LD_LIBRARY_PATH=. LD_PRELOAD="$work/libmm.so.1" timeout 100 ./client v2-legacy "$@" \
        2>&1 >"$work/out") || return 1
    # shellcheck disable=SC2053 # a pattern
    [[ $(grep -c "${with:-.}" <<<"$err") == $lines ]]
}
# ordered WORDS SETTING WAY ARGUMENTS...: expects status 0 and WORDS (a pattern) as the first words of the lines on standard error.
ordered() {
    local words=$1 setting=$2 err
    shift 2
    err=$(cd "$build/tests/hooks" && env "$setting" LD_LIBRARY_PATH=. LD_PRELOAD="$work/libmm.so.1" timeout 100 ./client "$@" 2>&1 >"$work/out") ||
        return 1
    # shellcheck disable=SC2053
    [[ $(awk '{printf "%s ", $1 == "mm:" ? $4 : $1}' <<<"$err") == $words ]]
}
# Prints the first failing scenario of the pool.
first_failing_of_pool() {
    local mode of
    for of in check_tables check_rounds; do BOUNDED_CLOCK=100 bounded "$work/out" "$work/$of" || { echo "$of"; return; }; done
    for of in pairs order many wrong captured pressure scarce questions contexts devices devices-ending devices-captured devices-released anchoring; do
        for mode in keep async; do scenario 0 "MM_POOL=$mode" "pool-$of" || { echo "pool-$of, $mode"; return; }; done
    done
    for of in magazines batches; do scenario 0 MM_POOL=async "pool-$of" || { echo "pool-$of"; return; }; done
    scenario 1 MM_POOL=async pool-shared || { echo pool-shared; return; }
    scenario 0 MM_POOL=small pool-small || { echo pool-small; return; }
    for of in 1 2 3; do scenario 0 MM_POOL=async pool-fuzz 20000 "$of" || { echo "pool-fuzz 20000 $of"; return; }; done
    (cd "$build/tests/hooks" && timeout 300 ./check_pool "$work" "$build/bin") >"$work/out" 2>&1 || { echo check_pool; return; }
}
# Prints the first failing suite of reports and files.
first_failing_of_report() {
    local of
    for of in check_report check_files; do
        (cd "$build/tests/hooks" && timeout 300 "./$of" "$work" "$build/bin") >"$work/out" 2>&1 || { echo "$of"; return; }
    done
}
# Prints the first failing suite of traces, with this source changed.
first_failing_of_traces() {
    local source list=()
    for source in runtime/host/{trace_write,events}.c tools/mmbench/child/{trace,replay_plan}.c; do
        if [[ $source == "$1" ]]; then list+=("$work/planted/$1"); else list+=("$source"); fi
    done
    "${CC:-cc}" "${flags[@]}" -D_GNU_SOURCE= -pthread tests/bench/test_trace.c "${list[@]}" "${check[@]}" -o "$work/test_trace" 2>"$work/log" || { echo 'does not compile'; return; }
    BOUNDED_CLOCK=100 bounded "$work/out" "$work/test_trace" || { echo test_trace; return; }
    [[ $1 == tools/* ]] || first_failing_of_report
}
# Prints the first failing suite of mmbench's memory accounts, with this source changed.
first_failing_of_accounts() {
    local source of list=()
    for source in tools/mmbench/child/{account,footprint,latency,replay_case,replay_plan,trace}.c; do
        if [[ $source == "$1" ]]; then list+=("$work/planted/$1"); else list+=("$source"); fi
    done
    for of in test_account test_footprint; do
        "${CC:-cc}" "${flags[@]}" "tests/bench/$of.c" "${list[@]}" "${check[@]}" -o "$work/$of" 2>"$work/log" || { echo 'does not compile'; return; }
        BOUNDED_CLOCK=300 bounded "$work/out" "$work/$of" || { echo "$of"; return; }
    done
}
# Prints the first failing suite of profiles and series of maps, with this source changed.
first_failing_of_profiles() {
    local source of list=()
    for source in runtime/host/{events,profile*,map,map_series,say,svg}.c; do
        if [[ $source == "$1" ]]; then list+=("$work/planted/$1"); else list+=("$source"); fi
    done
    for of in check_profile check_series; do
        "${CC:-cc}" "${flags[@]}" -D_GNU_SOURCE= -pthread "tests/hooks/$of.c" "${list[@]}" "${check[@]}" -o "$work/$of" 2>"$work/log" || { echo 'does not compile'; return; }
        BOUNDED_CLOCK=100 bounded "$work/out" "$work/$of" || { echo "$of"; return; }
    done
    first_failing_of_report
}
# Prints the first failing scenario or suite; short ones run first.
first_failing() {
    scenario 0 MM_NVCC=x jit || { echo jit; return; }
    scenario 1 MM_NVCC=x jit-names || { echo jit-names; return; }
    scenario 1 MM_NVCC=x jit-names _random_walk_coop || { echo 'jit-names, an allocator that is there'; return; }
    scenario 2 MM_NVCC=x jit-names _random_walk_runs || { echo 'jit-names, another allocator'; return; }
    scenario 0 MM_NVCC=x prepared-for-another || { echo prepared-for-another; return; }
    scenario 1 MM_RUN_ALLOCATOR=random-walk-coop prepared-for-another || { echo 'prepared-for-another, asked'; return; }
    scenario 1 MM_ALLOW_UNSAFE=1 siblings "other ${abi}_aw" mm || { echo 'siblings unsafe'; return; }
    scenario 1 MM_NVCC=x siblings mm "other ${abi}_aw" refused || { echo 'siblings not allowed'; return; }
    scenario 1 MM_RUN_ALLOCATOR=gallatin siblings mm "other ${abi}_random_walk_coop" || { echo 'siblings asked'; return; }
    scenario 2 MM_CHECK=1 siblings "other ${abi}_random_walk_coop" mm || { echo 'siblings MM_CHECK'; return; }
    scenario 4 MM_TRIM=1 two-heaps "other ${abi}_random_walk_coop" mm || { echo 'two-heaps, ours second'; return; }
    scenario 4 MM_TRIM=1 two-heaps mm "other ${abi}_random_walk_coop" || { echo two-heaps; return; }
    for name in cubins cubin-damaged cubin-links prepared prepared-later prepared-fails; do
        scenario 0 MM_NVCC=x "$name" || { echo "$name"; return; }
    done
    for name in links device changed unfinished refused; do
        scenario 1 MM_NVCC=x cubin-kept "$name" || { echo "cubin-kept $name"; return; }
    done
    scenario 1 MM_NVCC=x cubin-fails || { echo cubin-fails; return; }
    for name in jit-names cubins cubin-links; do
        scenario 0 MM_OFF=1 "$name" || { echo "$name off"; return; }
    done
    for name in architecture refused; do
        scenario 1 MM_NVCC=x jit-kept "$name" || { echo "jit-kept $name"; return; }
    done
    scenario 0 MM_OFF=1 jit-kept off || { echo "jit-kept off"; return; }
    scenario 1 MM_NVCC=x jit-errors || { echo jit-errors; return; }
    for name in link-options link-fails link-objects link-library link-limits fatbin fatbin-code; do
        scenario 1 MM_NVCC=x "$name" || { echo "$name"; return; }
    done
    for name in link-threads link-never; do scenario 0 MM_NVCC=x "$name" || { echo "$name"; return; }; done
    scenario 0 MM_OFF=1 fatbin || { echo "fatbin off"; return; }
    scenario 0 MM_RUN_ALLOCATOR=cuda cudas || { echo cudas; return; }
    scenario 1 MM_RUN_ALLOCATOR=cuda fatbin-cudas || { echo fatbin-cudas; return; }
    scenario 0 MM_RUN_ALLOCATOR=cuda jit-names || { echo "jit-names cuda"; return; }
    scenario 0 MM_OFF=1 link-never || { echo "link-never off"; return; }
    for name in check_memory check_trim; do BOUNDED_CLOCK=100 bounded "$work/out" "$work/$name" || { echo "$name"; return; }; done
    scenario 16 MM_NVCC=x statistics || { echo statistics; return; }
    for name in v2-legacy v2-ptsz; do
        ordered 'invalid context invalid stream invalid event ' MM_NVCC=x "$name" misuse 0 || { echo "misuse $name"; return; }
    done
    scenario 36 MM_NVCC=x misuse 300 || { echo "misuse 300"; return; }
    scenario 3 MM_ON_MISUSE=ignore misuse 300 || { echo "misuse ignored"; return; }
    ordered 'invalid * invalid 41 reset invalid released ' MM_NVCC=x v2-legacy misuse-context-ends || { echo misuse-context-ends; return; }
    ordered 'invalid later ' MM_NVCC=x v2-legacy misuse-idle || { echo misuse-idle; return; }
    with=' bytes, by' scenario 3 MM_SPACING=16 misuse-kinds || { echo misuse-kinds; return; }
    killer=$(first_failing_of_report)
    [[ ! $killer ]] || { echo "$killer"; return; }
    scenario '*' MM_HEAP_MAX=1G reset-all || { echo reset-all; return; }
    scenario 0 MM_NVCC=x reset-races || { echo reset-races; return; }
    scenario 0 MM_HEAP_SIZE=64M reset-fixed 64 || { echo reset-fixed; return; }
    for name in held metadata others green green-last detach; do
        scenario 0 MM_NVCC=x "$name" || { echo "$name"; return; }
    done
    scenario 0 MM_NVCC=x lookups || { echo lookups; return; }
    scenario 1 MM_NVCC=x alignment || { echo alignment; return; }
    scenario 0 MM_TRIM=idle graph || { echo graph; return; }
    scenario 0 MM_NVCC=x thread || { echo thread; return; }
    scenario 0 MM_HEAP_MAX=7G grow || { echo grow; return; }
    scenario 1 MM_NVCC=x runs || { echo runs; return; }
    scenario 1 MM_NVCC=x exhausted 300000000 || { echo exhausted; return; }
    scenario 1 MM_NVCC=x exhausted 900000000 || { echo exhausted; return; }
    scenario 1 MM_GROW_WAIT_MS=5 blocked || { echo blocked; return; }
    scenario 0 MM_GROW_WAIT_MS=20000 ending || { echo ending; return; }
    scenario 1 MM_HEAP_MAX=1G capped || { echo capped; return; }
    scenario 0 MM_NVCC=x full || { echo full; return; }
    scenario 0 MM_NVCC=x pressure || { echo pressure; return; }
    scenario 0 MM_TRIM=idle idle || { echo idle; return; }
    scenario 0 MM_TRIM=1 decay || { echo decay; return; }
    scenario 0 MM_TRIM=off kept || { echo kept; return; }
    scenario 0 MM_HEAP_SIZE=50% size || { echo size; return; }
    scenario 0 MM_HEAP_SIZE=16M size 8589934592 0 9000000000 || { echo "size without virtual memory"; return; }
    scenario 0 MM_NVCC=x limit || { echo limit; return; }
    for k in 1 2 3 4 5 6 7 8 9 10 11 12; do
        scenario '[01]' MM_NVCC=x fault-grow grow "$k" 2 || { echo "fault $k"; return; }
    done
}

# compile SOURCE OBJECT: returns 1, with the reason on standard output, if it fails.
compile() {
    "${CC:-cc}" "${flags[@]}" -c "$1" -o "$2" 2>"$work/log" && return
    echo "does not compile: $(grep -m 1 error: "$work/log")"
    return 1
}
# Links the suites of the host's objects, host.
link_suites() {
    local suite
    for suite in "${suites[@]}"; do
        "${CC:-cc}" -o "$work/$suite" "$work/$suite.o" "${host[@]}" "${check[@]}" -lpthread || return
    done
}
# link FILE: links what the scenarios run, with mutant.o instead of this source.
link() {
    local source host=() rest=() object
    for source in "${sources[@]}"; do
        object=$work/${source//\//-}.o
        [[ $source != "$1" ]] || object=$work/mutant.o
        if [[ $source == runtime/host/* ]]; then host+=("$object"); else rest+=("$object"); fi
    done
    "${CC:-cc}" -shared -Wl,-soname,libmm.so.1 -Wl,-Bsymbolic -Wl,-z,nodelete -o "$work/libmm.so.1" "${host[@]}" "${rest[@]}" \
        -l:liblz4.a -l:libzstd.a -ldl -lpthread 2>"$work/log" &&
        link_suites 2>"$work/log" && return
    echo "does not link: $(head -n 1 "$work/log")"
    return 1
}
rm -rf "$work" && mkdir -p "$work/allocators/random-walk-coop" && ln -s "$build/lib/ptx" "$work/ptx" || exit # the suites look what mm was built for
cp "$build/device/linked" "$work/allocators/random-walk-coop" || exit # any machine code of mm
{
    for suite in "${suites[@]}"; do compile "tests/hooks/$suite.c" "$work/$suite.o" || break; done &&
        for source in "${sources[@]}"; do compile "$source" "$work/${source//\//-}.o" || break; done && link none
} >"$work/why" || untried 'hook mutants' "$(<"$work/why")"
killer=$(first_failing_of_pool)
case $only in
pool:*) ;;
fail:*) killer=$(first_failing_of_report) ;;
trace:*) killer=$(first_failing_of_traces none) ;;
profile:*) killer=$(first_failing_of_profiles none) ;;
account:*) killer=$(first_failing_of_accounts none) ;;
*) [[ $killer ]] || killer=$(first_failing) ;;
esac
[[ ! $killer ]] || untried 'hook mutants' "$killer"
while IFS= read -r line; do
    [[ $line == "#"* || ${line%% @@ *} != *"$only"* ]] && continue
    if plant "$line" . "$work/planted" >"$work/say"; then
        if killer=$(compile "$work/planted/$file" "$work/mutant.o" && link "$file"); then
            case $name in
            pool:*) killer=$(first_failing_of_pool) ;;
            fail:*) killer=$(first_failing_of_report) ;;
            trace:*) killer=$(first_failing_of_traces "$file") ;;
            profile:*) killer=$(first_failing_of_profiles "$file") ;;
            account:*) killer=$(first_failing_of_accounts "$file") ;;
            *) killer=$(first_failing) ;;
            esac
        fi
        verdict "$killer" >"$work/say"
    fi
    cat "$work/say"
    if [[ $(<"$work/say") == killed* ]]; then killed=$((killed + 1)); else survived=$((survived + 1)); fi
done <tests/hooks/mutants.txt
printf 'hook mutants: %d killed, %d survived\n' "$killed" "$survived"
((survived == 0 && killed > 0)) # ONLY may name none
