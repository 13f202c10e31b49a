#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Whole programs that allocate in kernels, each built by plain nvcc and by mmnvcc: runs both builds on this machine's GPU
# and compares what they print and how long they take. Usage: run.sh DIR [PROGRAM...] (default: all of DIR)
#
#   DIR/lib/libmm.so.1                      mm's run time, preloaded: the builds may come from another machine and path
#   DIR/PROGRAM/nvcc/, DIR/PROGRAM/mmnvcc/  the two builds
#   DIR/PROGRAM/data/                       input of both builds, if any
#   DIR/PROGRAM/case.sh                     functions; each is called in a fresh, empty directory:
#     run        one run; starts each executable by `go "$dir/NAME" ARGUMENT...` ($dir is one of the builds, $data
#                the data) and prints the output to compare, including files that were written
#     normalise  (optional) filter: keeps the part that must be equal, so no times and no addresses
#     seconds    (optional) filter: the program's own timing in seconds; without it, the wall time of run
#
# RUNS=5 timed runs of each build, alternating, after one that is not timed; TIMEOUT=120 seconds for each executable.
# All runs must print the same, the warm-up too. Exit status: 0 all same, 1 something differs or failed, 2 bad usage.
set -u
export LC_ALL=C

if [ ! -d "${1-}" ]; then
    echo "usage: run.sh DIR [PROGRAM...]" >&2
    exit 2
fi
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || for case in "$out"/*/case.sh; do
    [ ! -e "$case" ] || set -- "$@" "$(basename "$(dirname "$case")")"
done
[ $# -gt 0 ] || {
    echo "run.sh: no program (DIR/PROGRAM/case.sh) in $out" >&2
    exit 2
}
runs=${RUNS:-5} limit=${TIMEOUT:-120}
[[ $runs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] || {
    echo "run.sh: RUNS=$runs TIMEOUT=$limit: expected positive whole numbers" >&2
    exit 2
}
case $out in
*[:\ ]*)
    echo "run.sh: LD_PRELOAD cannot hold the path '$out' (space or colon)" >&2
    exit 2
    ;;
esac
[ -f "$out/lib/libmm.so.1" ] || {
    echo "run.sh: no $out/lib/libmm.so.1" >&2
    exit 2
}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

launch=(env) # on both sides, as it takes time
go() { timeout -k 5 "$limit" "${launch[@]}" "$@"; }

# Runs build $2 of program $1 once; writes $work/{raw,err,shown,time}. Returns run's status.
once() (
    dir=$out/$1/$2 data=$out/$1/data
    [ "$2" = nvcc ] || launch=(env "LD_PRELOAD=$out/lib/libmm.so.1")
    normalise() { cat; }
    # shellcheck source=/dev/null
    . "$out/$1/case.sh" || exit
    rm -rf "$work/cwd" && mkdir "$work/cwd" && cd "$work/cwd" || exit
    export dir data
    start=$EPOCHREALTIME
    run >"$work/raw" 2>"$work/err"
    status=$?
    end=$EPOCHREALTIME
    normalise <"$work/raw" >"$work/shown" # may leave nothing, which the caller sees
    if declare -F seconds >/dev/null; then
        seconds <"$work/raw" >"$work/time"
        echo own >"$work/clock"
    else
        awk -v a="$start" -v b="$end" 'BEGIN {printf "%.6f\n", b - a}' >"$work/time"
        echo wall >"$work/clock"
    fi
    exit "$status"
)

# Prints median, minimum and maximum of the numbers in file $1, one per line.
spread() {
    sort -g "$1" | awk '{t[NR] = $1}
        END {m = int((NR + 1) / 2); printf "%.4g %.4g %.4g\n", NR % 2 ? t[m] : (t[m] + t[m + 1]) / 2, t[1], t[NR]}'
}

# Runs both builds of program $1, alternating. Prints its row, then what was wrong. Returns 0 if all is the same.
program() {
    local name=$1 wrong='' build round status clock='' a b
    [ -f "$out/$name/case.sh" ] || {
        printf '%-22s no %s\n' "$name" "$out/$name/case.sh"
        return 1
    }
    : >"$work/nvcc.times" && : >"$work/mmnvcc.times" && : >"$work/said"
    rm -f "$work/expected"
    for ((round = 0; round <= runs && ${#wrong} == 0; round++)); do
        for build in nvcc mmnvcc; do
            rm -f "$work/raw" "$work/err" "$work/shown" "$work/time"
            once "$name" "$build"
            status=$?
            # A report of mm (a double free, say) is of interest even if the outputs are the same.
            [ "$build" = nvcc ] || grep -h '^mm' "$work/err" >>"$work/said" 2>/dev/null
            if [ "$status" -ne 0 ]; then
                wrong="$build, run $round: status $status"$'\n'$(tail -n 5 "$work/raw" "$work/err" 2>&1)
            elif [ ! -s "$work/shown" ]; then
                wrong="$build, run $round: nothing to compare"
            elif [ ! -e "$work/expected" ]; then
                mv "$work/shown" "$work/expected"
            elif ! cmp -s "$work/expected" "$work/shown"; then
                wrong="$build, run $round, against nvcc's run 0:"$'\n'$(diff "$work/expected" "$work/shown" |
                    cut -c1-160 | head -n 10)
            fi
            if [ -z "$wrong" ] && ! grep -Eqx '[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?' "$work/time"; then
                wrong="$build, run $round: no time: '$(head -c 80 "$work/time")'"
            fi
            [ -z "$wrong" ] || break
            clock=$(cat "$work/clock")
            [ "$round" -eq 0 ] || cat "$work/time" >>"$work/$build.times"
        done
    done
    if [ -z "$wrong" ]; then
        read -ra a <<<"$(spread "$work/nvcc.times")"
        read -ra b <<<"$(spread "$work/mmnvcc.times")"
        printf '%-22s %-10s %9s %9s %8s  %-4s %s..%s %s..%s\n' "$name" same "${a[0]}" "${b[0]}" \
            "$(awk -v a="${a[0]}" -v b="${b[0]}" 'BEGIN {if (b > 0) printf "%.3g", a / b; else printf "-"}')" \
            "$clock" "${a[1]}" "${a[2]}" "${b[1]}" "${b[2]}"
    else
        printf '%-22s %s\n' "$name" DIFFERENT
        printf '    %s\n' "${wrong//$'\n'/$'\n    '}"
    fi
    sort "$work/said" | uniq -c | sed 's/^ *\([0-9]*\) /    mm said, \1 times: /'
    [ -z "$wrong" ]
}

printf '%-22s %-10s %9s %9s %8s  %-4s %s\n' program output 'nvcc, s' 'mmnvcc, s' ratio time 'least..largest of each'
failed=()
for name; do
    program "$name" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
    printf '%d of %d programs differ or failed: %s\n' "${#failed[@]}" $# "${failed[*]}"
    exit 1
fi
printf '%d programs, all same, %d timed runs of each build\n' $# "$runs"
