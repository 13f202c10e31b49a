#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Plants one fault at a time in a copy of the core (mutants.txt) and expects the explorer to find it.
# mutants.sh BUILD SECONDS BOUND [ONLY]: BUILD/model holds the sizes, and the explorer compiled for each; SECONDS and BOUND for each scenario; only mutants whose
# name contains ONLY. Prints those that survive, then "model: N mutants killed, K survived". From the environment: CC; MODEL_ROOT, where
# runtime is; MODEL_JOBS at a time (2); MODEL_VERBOSE: prints what found each.
set -u
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
build=$1 seconds=$2 bound=$3 only=${4-}
here=tests/model root=${MODEL_ROOT:-.}
work=$build/model/mutants
total=0 running=0

# try WORK LINE: plants the fault of one line of mutants.txt; leaves WORK/killed if the explorer finds it, and any output
# in WORK/say.
try() {
    local work=$1 name file program part preemptions text from to i fields=() sources queue
    shift
    while [[ $1 == *" @@ "* ]]; do
        fields+=("${1%% @@ *}")
        set -- "${1#* @@ }"
    done
    fields+=("$1")
    name=${fields[0]} file=${fields[2]}
    mkdir -p "$work/runtime"
    cp -r "$root"/runtime/{core,gallatin,listed,random_walk,regeff,ouroboros,check.h} "$root/runtime/heap.h" "$root/runtime/maintain.h" "$root/runtime/port.h" "$work/runtime/" || return
    text=$(<"$root/runtime/$file")
    for ((i = 3; i < ${#fields[@]}; i += 2)); do
        from=${fields[i]//'\n'/$'\n'} to=${fields[i + 1]//'\n'/$'\n'}
        if [[ $text != *"$from"* ]]; then
            echo "mutants.sh: survived: $name: $file no longer holds: ${fields[i]}" >"$work/say"
            return
        fi
        text=${text/"$from"/"$to"}
    done
    printf '%s\n' "$text" >"$work/runtime/$file"
    read -r program part preemptions <<<"${fields[1]}"
    sources=("$here/${program#*/}_model.c" "$build/model/${program%/*}"/explore*.o)
    [[ $program == */tree ]] || sources+=(-include "$here/world.c") # so that the core is read once
    [[ $program != walk/* ]] || sources+=(-DMM_ALLOCATOR=random_walk)
    [[ $program != ring/* ]] || sources+=(-DMM_ALLOCATOR=regeff)
    read -r -a queue <<<"${program//[_\/]/ }" # ouro s c ouro; queue va queue
    case $program in
    ouro_*) sources+=(-DMM_ALLOCATOR=ouroboros "-DMM_OURO_QUEUE=MM_OURO_${queue[1]^^}" -DMM_OURO_ENTRY="$([[ ${queue[2]} == p ]] && echo MM_OURO_PAGES || echo MM_OURO_CHUNKS)") ;;
    queue_*) sources+=(-DMM_ALLOCATOR=ouroboros "-DMM_OURO_QUEUE=MM_OURO_${queue[1]^^}") ;;
    esac
    if ! "${CC:-cc}" -std=c11 -O0 -w -I"$here/include" -I"$build/model/${program%/*}" -I"$here" -I"$work" -I. "${sources[@]}" \
        -o "$work/mutant"; then
        echo "mutants.sh: survived: $name: does not compile" >"$work/say"
        return
    fi
    MODEL_QUIET=1 bounded "$work/out" "$work/mutant" "$part" "$seconds" "${preemptions:-$bound}"
    case $? in
    0 | 2) ;; # 2: out of time
    1) ;;
    *) echo "model: it crashes" >>"$work/out" ;;
    esac
    grep -q 'TOO DEEP' "$work/out" && echo "model: a schedule without end" >>"$work/out"
    if grep -q '^model: ' "$work/out"; then
        : >"$work/killed"
        [[ -z ${MODEL_VERBOSE-} ]] || echo "$name: $(grep -m 1 '^model: ' "$work/out")" >"$work/say"
    else
        echo "mutants.sh: survived: $name" >"$work/say"
    fi
    rm -rf "$work/runtime" "$work/mutant"
}

rm -rf "$work"
while IFS= read -r line; do
    [[ $line == "#"* || ${line%% @@ *} != *"$only"* ]] && continue
    if ((running == ${MODEL_JOBS:-2})); then
        wait -n
        running=$((running - 1))
    fi
    total=$((total + 1))
    running=$((running + 1))
    try "$work/$(printf %03d "$total")" "$line" &
done <"$here/mutants.txt"
wait
cat "$work"/*/say 2>/dev/null
killed=$(find "$work" -name killed | wc -l)
echo "model: $killed mutants killed, $((total - killed)) survived"
((killed == total))
