# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# For the scripts that plant faults: they run programs that may hang or crash.

# bounded LOG COMMAND...: runs COMMAND with its output in LOG, including the shell's "Segmentation fault" after a crash. A program that
# hangs is ended after BOUNDED_SECONDS of processor time; a limit of elapsed time would also end sound programs on a busy
# machine. BOUNDED_CLOCK, a much larger limit of elapsed time, ends programs that wait for ever.
bounded() {
    local log=$1
    shift
    {
        (
            ulimit -c 0 -t "${BOUNDED_SECONDS:-300}"
            CK_TIMEOUT_MULTIPLIER=20 exec timeout "${BOUNDED_CLOCK:-3600}" "$@"
        )
    } >"$log" 2>&1
}

# untried NAME WHY: prints the last line if the suites fail without a fault, so that nothing was planted.
untried() {
    printf '%s: the suites fail without a fault: %s\n' "$1" "$2" >&2
    printf '%s: 0 killed, 0 survived, none planted\n' "$1"
    exit 1
}

# A line of a list is: name @@ file @@ text @@ what it becomes @@ if it survives: why (\n: line break).
# plant LINE SOURCE TARGET: sets name, file, from, to and why, and writes the file, which is in the folder SOURCE, to TARGET with the first occurrence of the text
# replaced. Prints a line and returns 1 if there is none.
plant() {
    local text
    IFS=$'\t' read -r name file from to why <<<"${1// @@ /$'\t'}"
    from=${from//'\n'/$'\n'} to=${to//'\n'/$'\n'}
    text=$(<"$2/$file")
    [[ $text == *"$from"* ]] || { echo "stale     $name: $file has no longer: $from"; return 1; }
    mkdir -p "$(dirname "$3/$file")" && printf '%s\n' "${text/"$from"/"$to"}" >"$3/$file"
}

# verdict KILLER: prints the line of that fault. KILLER: what failed; empty: nothing; or why it does not compile.
verdict() {
    if [[ $1 == "does not"* ]]; then echo "stale     $name: $1"
    elif [[ $1 ]]; then echo "killed    $name: $1"
    else echo "survived  $name${why:+ ($why)}"; fi
}

# plant_all TITLE LIST WORK ONLY...: runs "try NUMBER LINE" for each line of LIST whose name contains one of ONLY (none: for all), JOBS at once (default: processors).
# Prints their lines, then "TITLE: N killed, M survived". Returns whether none survived.
plant_all() {
    local title=$1 list=$2 work=$3 number=0 line only wanted killed survived
    shift 3
    while IFS= read -r line; do
        [[ $line == "#"* || -z $line ]] && continue
        wanted=$(($# == 0))
        for only; do [[ ${line%% @@ *} == *"$only"* ]] && wanted=1; done
        ((wanted)) || continue
        ((number >= ${JOBS:-$(nproc)})) && wait -n
        ((++number))
        try "$number" "$line" >"$work/result.$number" &
    done <"$list"
    wait
    cat "$work"/result.* | sort
    killed=$(cat "$work"/result.* | grep -c '^killed')
    survived=$(cat "$work"/result.* | grep -vc '^killed')
    echo "$title: $killed killed, $survived survived"
    ((survived == 0))
}
