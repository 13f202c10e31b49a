#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh MMBENCH [plot]: tests mmbench with children whose answers the tests determine (child.sh): here options, table and CSV, then failures.sh, cases.sh,
# rows.sh and traces.sh; or, with plot, the pictures that it draws from CSV files (plot.sh).
# The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329
set -u
here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit
program=$(readlink -f "${1:?usage: run.sh MMBENCH [plot]}") || exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
export FAKE_LOG=$work/log FAKE='' LC_ALL=C
export PATH=$work/fake:$PATH

# An installation of mmbench, with other children, and with an nvidia-smi that reports a driver version.
mkdir -p "$work"/{bin,lib/bench,fake}
cp "$program" "$work/bin/mmbench"
cp "$here/child.sh" "$work/lib/bench/mmbench-mm"
cp "$here/child.sh" "$work/lib/bench/mmbench-builtin"
cp "$here/child.sh" "$work/lib/bench/mmbench-random-walk-bitmap" # the longest name
printf '%s\n' '#!/bin/sh' 'echo 580.1.2' >"$work/fake/nvidia-smi"
chmod 755 "$work"/lib/bench/* "$work/fake/nvidia-smi"

# shellcheck source=tests/it.sh
source "$here/../it.sh" bench
before() { rm -f "$work"/{log,out,err,csv}; }

if [[ ${2-} == plot ]]; then # only the pictures, which need matplotlib
    # shellcheck source=tests/bench/plot.sh
    source "$here/plot.sh"
    suite=plot
    it_ends
    exit
fi

# bench STATUS OPTION...: runs mmbench and expects that exit status; sets out, err, csv and log.
bench() {
    local got=0
    timeout 60 "$work/bin/mmbench" --csv "$work/csv" "${@:2}" >"$work/out" 2>"$work/err" </dev/null || got=$?
    out=$(<"$work/out") err=$(<"$work/err")
    csv=$(grep -v '^#' "$work/csv" 2>/dev/null | tail -n +2)
    log=$(cat "$work/log" 2>/dev/null)
    same "$got" "$1" || { cat "$work/err"; false; }
}
# Rows of the CSV without their numbers: allocator,case,size,threads,op,status.
marks() { cut -d, -f1-5,16 <<<"$csv" | grep -v ',floor'; }

# refused LINE OPTION...: expects one line, status 2, and that no child was started.
refused() { bench 2 "${@:2}" && same "$err" "mmbench: $1" && same "$out$log" ''; }
it 'an unknown option' refused 'option: "--fast"; expected one of mmbench --help' --fast
it 'a word' refused 'option: "single"; expected one of mmbench --help' single
it 'an option that begins like another' refused 'option: "--runsx"; expected one of mmbench --help' --runsx 12
it 'an option without its value' refused '--runs: ""; expected a value' --runs
it 'few runs' refused '--runs: "9"; expected 10 to 1000' --runs 9
it 'many runs' refused '--runs: "1001"; expected 10 to 1000' --runs=1001
it 'runs that are none' refused '--runs: "12x"; expected 10 to 1000' --runs 12x
it 'negative runs' refused '--runs: "-12"; expected 10 to 1000' --runs -12
it 'more runs than a number holds' refused '--runs: "99999999999999999999"; expected 10 to 1000' \
    --runs 99999999999999999999
it 'no time' refused '--timeout: "0"; expected 1 to 3600 seconds' --timeout 0
names='names of mmbench --list, with commas between them'
it 'an unknown case' refused '--cases: "simple"; expected '"$names" --cases single,simple
it 'half a case' refused '--cases: "sing"; expected '"$names" --cases sing
it 'an empty case' refused '--cases: ""; expected '"$names" --cases single,
it 'an unknown allocator' refused '--allocators: "mm,cuda"; expected all, or names of mmbench --help, with commas between them' --allocators mm,cuda
it 'a small heap' refused '--heap: "255M"; expected 256M to 1T, such as 8G' --heap 255M
it 'a large heap' refused '--heap: "1025G"; expected 256M to 1T, such as 8G' --heap 1025G
it 'a heap with two units' refused '--heap: "8GB"; expected 256M to 1T, such as 8G' --heap 8GB
it 'a heap beyond 64 bits' refused '--heap: "18446744073709551615T"; expected 256M to 1T, such as 8G' \
    --heap 18446744073709551615T
it 'a file that cannot be' refused "--csv: \"$work/no/csv\" cannot be written: No such file or directory" \
    --csv "$work/no/csv"

it 'too many minutes' refused '--minutes: "1441"; expected 0 to 1440 minutes' --minutes 1441
it 'nothing to compare with' refused "--compare: \"$work/no.csv\" cannot be read: No such file or directory" --compare "$work/no.csv"
no_file_to_go_on_with() {
    "$work/bin/mmbench" --resume >"$work/out" 2>"$work/err"
    same $? 2 && same "$(<"$work/err")" 'mmbench: --resume: ""; expected --csv FILE, which it goes on with'
}
it 'going on without a file' no_file_to_go_on_with

help() { bench 0 --help && has "$out" 'usage: mmbench' && same "$err$log" ''; }
it '--help' help
same_as() { bench 0 "$1" && local short=$out && bench 0 "$2" && same "$out" "$short" && same "$err$log" ''; }
it '-h' same_as -h --help
it '-V' same_as -V --version
list() {
    bench 0 --list && same "$log" '' && same "$(cut -d' ' -f1 <<<"$out" | tr '\n' ' ')" \
        'single mixed mixedu scaling warp churn large util frag init single_cold mixedu_cold endurance latency latency_cold footprint pinned converged graph graph_cold graph_lesmis ad acd p ad_cold acd_cold p_cold half write write_cold workgen workgen_cold registers kdtree kdtree_tight kdtree_cold join join_zipf join_cold join_counter join_scan probes probes_large pagerank triangles pagerank_cold triangles_cold malloc_large hostlog multistream '
}
it '--list' list

no_gpu() {
    echo precious >"$work/csv"
    FAKE='* start=nogpu' bench 1 && same "$out" '' && same "$(<"$work/csv")" precious &&
        same "$err" 'mmbench: no GPU here (no CUDA-capable device is detected)'
}
it 'no GPU: one line, and the old file is as it was' no_gpu
not_there() {
    rm "$work/lib/bench/mmbench-builtin"
    bench 1
    local status=$?
    cp "$here/child.sh" "$work/lib/bench/mmbench-builtin"
    ((status == 0)) && same "$err" "mmbench: mmbench-builtin is neither in $work/lib/mm/bench nor in $work/lib/bench"
}
it 'a child that is not there' not_there
liar() {
    FAKE='mm identify=liar' bench 1 &&
        same "$err" 'mmbench: the child for mm is called mm, and its allocator is builtin; expected mm'
}
it 'a child with the other allocator in it' liar
mute_gpu() {
    FAKE='* identify=hang' bench 1 --timeout 1 &&
        same "$err" 'mmbench: the child for mm did not answer within 1 s; expected a GPU that does'
}
it 'a GPU that does not answer' mute_gpu

exact() {
    bench 0 --cases single --quick --runs 10 || return
    same "$(sed '1s/mm [^ ]*$/mm COMMIT/' <<<"$out")" "A GPU of paper, driver 580.1.2, CUDA 13.0, mm COMMIT
Median [least..most]; x floor: over what the hardware needs for the least an allocator could do.

single: one size for all threads; every allocation is made, then every one freed
      size   threads                     unit                            mm  x floor                     builtin  x floor  builtin/mm
        16   1000000  malloc             us                 100 [90.5..120]      4.7      100000 [90000..120000]   4651.2        1000
        16   1000000  free               us                 100 [90.5..120]      8.7      100000 [90000..120000]   8695.7        1000
       256   1000000  malloc             us                 100 [90.5..120]      4.7      100000 [90000..120000]   4651.2        1000
       256   1000000  free               us                 100 [90.5..120]      8.7      100000 [90000..120000]   8695.7        1000
        8K   1000000  malloc             us                 100 [90.5..120]      4.7      100000 [90000..120000]   4651.2        1000
        8K   1000000  free               us                 100 [90.5..120]      8.7      100000 [90000..120000]   8695.7        1000" &&
        same "$err" "[1/6] mm single 16, 1000000 threads: ok
[2/6] mm single 256, 1000000 threads: ok
[3/6] mm single 8K, 1000000 threads: ok
[4/6] builtin single 16, 1000000 threads: ok
[5/6] builtin single 256, 1000000 threads: ok
[6/6] builtin single 8K, 1000000 threads: ok" &&
        same "$(grep -v '^# mm: ' "$work/csv" | sed '1s/20[-0-9]* [0-9:]* UTC/DATE/')" "# mmbench, DATE
# GPU: A GPU of paper
# driver: 580.1.2 (CUDA 13.1)
# CUDA toolkit: 13.0
# options: heap default, runs 10, quick
# floor: what the hardware needs, in the row's unit, same process; of malloc: load a block pointer, one atomic per warp;\
 of free: one atomic per warp on a bitmap; of latency: one atomic. ratio: median/floor.
# status: ok; null, corrupt (no time is told); crash, hung, skipped after a failure of the series, toolarge: no result.
allocator,case,size,threads,op,unit,median,min,max,runs,floor,ratio,null_count,corrupt_count,checked,status
mm,single,16,1000000,malloc,us,100,90.5,120,10,21.5,4.651,0,0,nonnull aligned,ok
mm,single,16,1000000,free,us,100,90.5,120,10,11.5,8.696,0,0,nonnull aligned,ok
mm,single,256,1000000,malloc,us,100,90.5,120,10,21.5,4.651,0,0,nonnull aligned,ok
mm,single,256,1000000,free,us,100,90.5,120,10,11.5,8.696,0,0,nonnull aligned,ok
mm,single,8192,1000000,malloc,us,100,90.5,120,10,21.5,4.651,0,0,nonnull aligned,ok
mm,single,8192,1000000,free,us,100,90.5,120,10,11.5,8.696,0,0,nonnull aligned,ok
builtin,single,16,1000000,malloc,us,100000,90000.5,120000,10,21.5,4651,0,0,nonnull aligned,ok
builtin,single,16,1000000,free,us,100000,90000.5,120000,10,11.5,8696,0,0,nonnull aligned,ok
builtin,single,256,1000000,malloc,us,100000,90000.5,120000,10,21.5,4651,0,0,nonnull aligned,ok
builtin,single,256,1000000,free,us,100000,90000.5,120000,10,11.5,8696,0,0,nonnull aligned,ok
builtin,single,8192,1000000,malloc,us,100000,90000.5,120000,10,21.5,4651,0,0,nonnull aligned,ok
builtin,single,8192,1000000,free,us,100000,90000.5,120000,10,11.5,8696,0,0,nonnull aligned,ok
mm,floor,0,1000000,store,us,1.5,1,2,2,,,0,0,,ok
mm,floor,0,1000000,bitmap,us,11.5,11,12,2,,,0,0,,ok
mm,floor,0,1000000,atomic,us,21.5,21,22,2,,,0,0,,ok
mm,floor,0,1000000,latency,cycles,500,500,500,2,,,0,0,,ok
builtin,floor,0,1000000,store,us,1.5,1,2,2,,,0,0,,ok
builtin,floor,0,1000000,bitmap,us,11.5,11,12,2,,,0,0,,ok
builtin,floor,0,1000000,atomic,us,21.5,21,22,2,,,0,0,,ok
builtin,floor,0,1000000,latency,cycles,500,500,500,2,,,0,0,,ok" &&
        same "$log" "mm started heap=268435456 seconds=20 MM_HEAP_SIZE=268435456 LD_PRELOAD=
mm identify
mm end
builtin started heap=268435456 seconds=20 MM_HEAP_SIZE= LD_PRELOAD=
builtin identify
builtin end
mm started heap=8589934592 seconds=20 MM_HEAP_SIZE=8589934592 LD_PRELOAD=
mm floor 1000000 0
mm run single 16 1000000 10
mm run single 256 1000000 10
mm run single 8192 1000000 10
mm floor 1000000 0
mm end
builtin started heap=8589934592 seconds=20 MM_HEAP_SIZE= LD_PRELOAD=
builtin floor 1000000 0
builtin run single 16 1000000 10
builtin run single 256 1000000 10
builtin run single 8192 1000000 10
builtin floor 1000000 0
builtin end"
}
it 'table, progress, CSV and requests, to the letter' exact

# shellcheck source=tests/bench/failures.sh
source "$here/failures.sh" || exit
# shellcheck source=tests/bench/cases.sh
source "$here/cases.sh" || exit
# shellcheck source=tests/bench/rows.sh
source "$here/rows.sh" || exit
# shellcheck source=tests/bench/traces.sh
source "$here/traces.sh" || exit

it_ends
