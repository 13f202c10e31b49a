#!/bin/bash
# Plants one fault at a time in a copy of the core (mutants.txt) and expects the explorer to find it.
# mutants.sh BUILD SECONDS BOUND [ONLY]: BUILD/model holds the sizes; SECONDS and BOUND for each scenario; only mutants whose
# name holds ONLY. Prints those that survive, then "N mutants killed, K survived". CC from the environment.
set -u
build=$1 seconds=$2 bound=$3 only=${4-}
here=tests/model
work=$build/model/mutants
killed=0 survived=0

# Plants the fault of one line of mutants.txt; succeeds if the explorer finds it. What it said is in $work/out.
try() {
    local name file dir program part preemptions text from to i fields=()
    while [[ $1 == *" @@ "* ]]; do
        fields+=("${1%% @@ *}")
        set -- "${1#* @@ }"
    done
    fields+=("$1")
    name=${fields[0]} file=${fields[2]} dir=$work/core
    rm -rf "$dir"
    mkdir -p "$dir/runtime"
    cp -r runtime/core runtime/port.h "$dir/runtime/" || return
    text=$(<"runtime/core/$file")
    for ((i = 3; i < ${#fields[@]}; i += 2)); do
        from=${fields[i]//'\n'/$'\n'} to=${fields[i + 1]//'\n'/$'\n'}
        if [[ $text != *"$from"* ]]; then
            echo "mutants.sh: $file no longer holds: ${fields[i]}" >&2
            return 1
        fi
        text=${text/"$from"/"$to"}
    done
    printf '%s\n' "$text" >"$dir/runtime/core/$file"
    read -r program part preemptions <<<"${fields[1]}"
    local sources=("$here/${program#*/}_model.c" "$here/explore.c")
    [[ $program == */tree ]] || sources+=("$here/world.c")
    if ! "${CC:-cc}" -std=c11 -O1 -w -I"$here/include" -I"$build/model/${program%/*}" -I"$here" -I"$dir" -I. "${sources[@]}" \
        -o "$work/mutant"; then
        echo "mutants.sh: does not compile: $name" >&2
        return 1
    fi
    MODEL_QUIET=1 "$work/mutant" "$part" "$seconds" "${preemptions:-$bound}" >"$work/out" 2>&1
    grep -q '^model: ' "$work/out"
}

mkdir -p "$work"
while IFS= read -r line; do
    [[ $line == "#"* || ${line%% @@ *} != *"$only"* ]] && continue
    if try "$line"; then
        killed=$((killed + 1))
        [[ -n ${MODEL_VERBOSE-} ]] && echo "${line%% @@ *}: $(grep -m 1 '^model: ' "$work/out")"
    else
        survived=$((survived + 1))
        echo "mutants.sh: survived: ${line%% @@ *}"
    fi
done <"$here/mutants.txt"
echo "$killed mutants killed, $survived survived"
((survived == 0))
