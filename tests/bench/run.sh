#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh MMBENCH [plot]: tests mmbench with children whose answers the tests determine (child.sh): options, watchdog, marks, table, CSV; or,
# with plot, the pictures that it draws from CSV files (plot.sh).
# The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329
set -u
here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit
program=$(readlink -f "${1:?usage: run.sh MMBENCH [plot]}") || exit
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
passed=0 failed=0
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

# it WHAT COMMAND...: runs one test; if the command fails, so does the test, and its output is printed.
it() {
    local what=$1 said
    shift
    rm -f "$work"/{log,out,err,csv}
    if said=$("$@" 2>&1); then
        ((++passed))
    else
        ((++failed))
        printf 'bench: FAILED: %s\n%s\n' "$what" "$said"
    fi
}

same() { [[ $1 == "$2" ]] || { diff <(printf '%s\n' "$2") <(printf '%s\n' "$1"); false; }; }
has() { [[ $1 == *"$2"* ]] || { printf 'got:      %s\nwithout:  %s\n' "$1" "$2"; return 1; }; }
lacks() { [[ $1 != *"$2"* ]] || { printf 'got:   %s\nwith:  %s\n' "$1" "$2"; return 1; }; }

if [[ ${2-} == plot ]]; then # only the pictures, which need matplotlib
    # shellcheck source=tests/bench/plot.sh
    source "$here/plot.sh"
    printf 'plot: %d passed, %d failed\n' "$passed" "$failed"
    exit $((failed > 0))
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
        'single mixed mixedu scaling warp churn large util frag init single_cold mixedu_cold endurance latency footprint pinned converged graph graph_cold graph_lesmis ad acd p ad_cold acd_cold p_cold half write write_cold workgen workgen_cold registers kdtree kdtree_tight kdtree_cold join join_zipf join_cold join_counter join_scan probes probes_large pagerank triangles pagerank_cold triangles_cold malloc_large hostlog multistream '
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

everything() {
    bench 0 --quick && same "$(cut -d, -f16 <<<"$csv" | sort | uniq -c | tr -s ' ')" $' 767 ok\n 37 toolarge' &&
        has "$log" 'mm run endurance 4096 783371 50' && has "$log" 'mm run init 8589934592 1 12' &&
        has "$log" 'mm run graph 1048576 65536 12' && has "$csv" 'mm,graph,65536,512,range,us,100,' &&
        has "$log" 'builtin floor 32768 5' && has "$csv" 'mm,floor_warp,0,32768,store,us'
}

# failing HOW MARK REMARK: the built-in allocator fails at 256 bytes; its larger size is skipped, and mm is not affected.
failing() {
    FAKE="builtin run single 256 *=$1" bench 0 --cases single,churn --quick --timeout 3 &&
        same "$(marks)" "mm,single,16,1000000,malloc,ok
mm,single,16,1000000,free,ok
mm,single,256,1000000,malloc,ok
mm,single,256,1000000,free,ok
mm,single,8192,1000000,malloc,ok
mm,single,8192,1000000,free,ok
builtin,single,16,1000000,malloc,ok
builtin,single,16,1000000,free,ok
builtin,single,256,1000000,malloc,$2
builtin,single,256,1000000,free,$2
builtin,single,8192,1000000,malloc,skipped
builtin,single,8192,1000000,free,skipped
mm,churn,512,131072,churn,ok
builtin,churn,512,131072,churn,ok" &&
        has "$err" "[5/8] builtin single 256, 1000000 threads: $2$3" &&
        has "$csv" "builtin,single,256,1000000,malloc,us,,,,0,,," &&
        has "$csv" "builtin,single,16,1000000,malloc,us,100000,90000.5,120000,12,2" &&
        lacks "$log" 'builtin run single 8192'
}
it 'a child that dies' failing crash crash ': killed by signal 11'
it 'a child that ends' failing exit crash ': exit status 7'
it 'a child that CUDA fails' failing fatal crash ': CUDA: an illegal memory access was encountered'
it 'what a child said last is told' failing remark crash ': mm: the driver refuses memory'
it 'a child that hangs' failing hang hung ''
it 'a child that says things but does not answer' failing drip hung ': still there'
repeats() { FAKE='mm run *=repeat' bench 3 --cases churn --allocators mm --timeout 3 && same "$(marks)" mm,churn,512,131072,churn,hung; }
it 'a child that never comes to an end of its rows' repeats
it 'a child that says too much' failing flood hung ': xxx'
it 'NULLs' failing null null ''
it 'corruption' failing corrupt corrupt ''
it 'numbers that are none' failing nonsense crash ': said "row malloc us fast'
it 'an operation that the case does not have' failing other-op crash ': said "row realloc'
it 'a status that is not for a child to tell' failing status crash ': said "row malloc us 1 1 1 3 - 0 0 hung'
it 'an answer without rows' failing mute crash ''

counts() {
    FAKE='builtin run single 256 *=null;mm run single 256 *=corrupt' bench 3 --cases single --quick &&
        has "$csv" 'builtin,single,256,1000000,malloc,us,,,,0,,,17,0,nonnull aligned,null' &&
        has "$csv" 'mm,single,256,1000000,free,us,,,,0,,,0,3,nonnull aligned,corrupt' &&
        has "$out" '                     3 CORRUPT        -                     17 NULL        -'
}
it 'NULLs and corruption are counted, and mm'"'"'s are the exit status' counts
span() {
    FAKE='builtin run frag 16 *=null' bench 0 --cases frag --quick &&
        has "$csv" 'builtin,frag,16,1000000,span,ratio,100000,90000.5,120000,12,,,17,0,nonnull aligned,null' &&
        has "$out" '100000 [90000..120000], 17 NULL'
}
it 'values that are no times stand next to the NULLs' span
# Rows of operations on a part of the graph have the size and the threads of that part.
graph() {
    bench 0 --cases graph,graph_lesmis --allocators mm && same "$(marks | grep -v '134217728\|8388608')" "mm,graph,16777216,1048576,init,ok
mm,graph,1048576,1048576,insert,ok
mm,graph,1048576,1048576,delete,ok
mm,graph,1048576,8192,range,ok
mm,graph,16777216,1048576,free,ok
mm,graph,16777216,1048576,lists,ok
mm,graph,16777216,1048576,taken,ok
mm,graph,16777216,1048576,taken_over,ok
mm,graph_lesmis,508,77,init,ok
mm,graph_lesmis,31,77,insert,ok
mm,graph_lesmis,31,77,delete,ok
mm,graph_lesmis,31,9,range,ok
mm,graph_lesmis,508,77,free,ok
mm,graph_lesmis,508,77,lists,ok
mm,graph_lesmis,508,77,taken,ok
mm,graph_lesmis,508,77,taken_over,ok" && same "$(grep 'run graph' <<<"$log")" 'mm run graph 16777216 1048576 12
mm run graph 134217728 2097152 12
mm run graph 134217728 4194304 12
mm run graph_lesmis 508 77 12' && has "$log" 'mm started heap=0 seconds=60' && lacks "$log" floor && has "$csv" 'mm,graph,8388608,32768,range,us,100,' &&
        has "$out" '        1M      8192  range              us                 100 [90.5..120]        -'
}
it 'a graph, and its parts' graph
graph_nulls() {
    FAKE='builtin run graph *=null' bench 0 --cases graph --quick &&
        has "$csv" 'builtin,graph,65536,512,range,us,,,,0,,,17,0,nonnull aligned,null' &&
        has "$csv" 'mm,graph,65536,512,range,us,100,90.5,120,12,,,0,0,nonnull aligned,ok'
}
it 'NULLs in the graph' graph_nulls
half() {
    FAKE='mm run single 256 *=half' bench 3 --cases single --quick --allocators mm &&
        has "$csv" 'mm,single,256,1000000,malloc,us,100,90.5,120,12,21,4.762,0,0,nonnull aligned,ok' &&
        has "$csv" 'mm,single,256,1000000,free,us,,,,0,,,,,,crash' && lacks "$csv" builtin && lacks "$out" builtin
}
it 'rows that came before the crash stand, over the floor of the begin' half
few() { FAKE='builtin run *=few' bench 0 --cases churn && has "$csv" ',churn,us,100000,90000.5,120000,3,,,0,0,'; }
it 'fewer runs are said' few
chatty() { FAKE='* *=chatty' bench 0 --cases churn && lacks "$err" word && has "$csv" 'mm,churn,512,131072,churn,us,100,'; }
it 'remarks do no harm' chatty
by_threads() {
    FAKE='mm run scaling 16 4096 *=crash' bench 3 --cases scaling --quick --allocators mm &&
        same "$(marks | grep malloc)" "mm,scaling,16,1,malloc,ok
mm,scaling,16,4096,malloc,crash
mm,scaling,16,8388608,malloc,skipped
mm,scaling,512,1,malloc,ok
mm,scaling,512,4096,malloc,ok
mm,scaling,512,8388608,malloc,ok
mm,scaling,8192,1,malloc,ok
mm,scaling,8192,4096,malloc,ok
mm,scaling,8192,8388608,malloc,ok" && has "$csv" 'mm,scaling,512,1,malloc,us,100,90.5,120,12,22.5,' && has "$log" "mm started heap=8589934592 seconds=20 MM_HEAP_SIZE=8589934592 LD_PRELOAD=
mm floor 1 0
mm floor 4096 0
mm floor 8388608 0
mm run scaling 512 1 12"
}
it 'a series by threads ends, the next begins' by_threads
# An item that would nearly fill the heap gets a larger one. Here: 1 M, 4 M and 8 M of 8 KiB; the GPU has no room for the last.
fits() {
    FAKE_MEMORY=70000000000 bench 0 --cases scaling --allocators mm && same "$(grep -o 'started heap=[0-9]*\|run scaling 8192 [0-9]*' <<<"$log" | tail -n 6)" \
        "run scaling 8192 65536
run scaling 8192 262144
started heap=9663676416
run scaling 8192 1048576
started heap=38654705664
run scaling 8192 4194304" && has "$csv" 'mm,scaling,8192,8388608,malloc,us,,,,0,,,,,,toolarge' &&
        same "$(cut -d, -f2-4 <<<"$csv" | grep -c '^scaling,')" 104 # 13 threads, 4 sizes, 2 operations
}
it 'a heap that an item fits' fits
fits_not() {
    bench 0 --cases scaling --allocators mm --heap 8G && same "$(grep -c 'started heap=8589934592' <<<"$log")" 1 &&
        has "$log" 'run scaling 8192 1048576' && lacks "$log" 'run scaling 8192 4194304'
}
it 'a heap that is given is what it is' fits_not
# requests CASE OPTION...: checks how the children of each allocator are started, and which runs are requested.
requests() { bench 0 --cases "$@" && same "$(grep -E 'started|run' <<<"$log" | tail -n +3)" "$expected"; }
paired='mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run latency 16 1 CALLS
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run latency 16 32 CALLS
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run latency 16 1024 CALLS
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run latency 16 262144 CALLS
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run latency 4096 262144 CALLS'
other=${paired//mm /builtin } expected="$paired"$'\n'"${other//heap=0/heap=8589934592}"
calls=$expected
expected=${calls//CALLS/10000000}
it 'single calls: mm grows' requests latency
expected=${calls//CALLS/1000000}
it 'single calls, fewer of them' requests latency --quick
footprint() {
    bench 0 --cases footprint "$@" && same "$(marks | grep 'builtin.*taken,' | cut -d, -f3,4,6)" "16,1,ok
4096,1000,ok
65536,10000,toolarge
64,100000,ok
1024,100000,toolarge
512,1000000,toolarge
8192,1000000,toolarge
1000000,10000,toolarge" && same "$(grep -c 'mm started heap=0 seconds=240 MM_HEAP_SIZE= ' <<<"$log")" 8 &&
        same "$(grep 'builtin started' <<<"$log" | uniq -c | tail -n 1)" '      3 builtin started heap=8388608 seconds=240 MM_HEAP_SIZE= LD_PRELOAD=' &&
        same "$(grep 'mm run' <<<"$log")" "mm run footprint 16 1 $late
mm run footprint 4096 1000 $late
mm run footprint 65536 10000 $late
mm run footprint 64 100000 $late
mm run footprint 1024 100000 $late
mm run footprint 512 1000000 $late
mm run footprint 8192 1000000 $late
mm run footprint 1000000 10000 $late"
}
late=30
it 'the memory of eight workloads, each in its own process' footprint
late=2
it 'the same, looked at sooner' footprint --quick --heap 1G
# With NULLs, the row of a workload's memory still has numbers, next to the count of NULLs. A wrong account makes the row fail.
account() {
    FAKE='mm run footprint 64 *=account;mm run footprint 1024 *=null' bench 3 --cases footprint --allocators mm &&
        has "$err" 'footprint 64, 100000 threads: crash: the heap'"'"'s account: 5 bytes are mapped' &&
        has "$csv" 'mm,footprint,64,100000,taken,MiB,,,,0,,,,,,crash' &&
        has "$csv" 'mm,footprint,1024,100000,taken,MiB,100,90.5,120,30,,,17,0,nonnull aligned,null'
}
it 'an account that the device does not confirm' account
expected='mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run pinned 64 4194304 12
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run pinned 1024 262144 12
mm started heap=0 seconds=40 MM_HEAP_SIZE= LD_PRELOAD=
mm run pinned 4096 65536 12'
other=${expected//mm /builtin } expected+=$'\n'${other//heap=0/heap=1073741824}
it 'objects that stay' requests pinned
no_series() {
    FAKE='mm run util 16 *=hang' bench 3 --cases util --quick --allocators mm --timeout 3 &&
        same "$(marks | grep 'share,')" "mm,util,16,65536,share,hung
mm,util,1000,65536,share,ok
mm,util,8192,65536,share,ok" && same "$(grep -c 'mm started heap=2147483648 seconds=6' <<<"$log")" 3
}
it 'a case without a series, in fresh processes, with more patience' no_series
heaps() {
    bench 0 --cases large --allocators mm --heap 1G && same "$(grep -o 'mm started heap=[0-9]*\|run.*' <<<"$log" | tail -n +2)" \
        "mm started heap=1073741824
run large 1048576 256 12
mm started heap=21474836480
run large 16777217 256 12
run large 67108864 256 12"
}
it 'another heap is another process' heaps
tree_heaps() {
    bench 0 --cases kdtree_tight --allocators mm && same "$(grep -o 'started heap=[0-9]*\|run.*' <<<"$log" | tail -n +2)" "started heap=67108864
run kdtree_tight 20000 1 12
run kdtree_tight 283000 1 12
started heap=134217728
run kdtree_tight 1100000 1 12
started heap=603979776
run kdtree_tight 7200000 1 12" && has "$csv" 'mm,kdtree_tight,20000,1,kdtree,us,100,90.5,120,12,50,2,0,0,nonnull aligned,ok'
}
it 'a heap that follows from the size, and a row with its own floor' tree_heaps
too_large() {
    FAKE_MEMORY=12000000000 bench 0 --cases single,large --quick --allocators mm --heap 1G &&
        same "$(marks | grep malloc)" "mm,single,16,1000000,malloc,ok
mm,single,256,1000000,malloc,ok
mm,single,8192,1000000,malloc,toolarge
mm,large,1048576,256,malloc,ok
mm,large,16777217,256,malloc,toolarge
mm,large,67108864,256,malloc,toolarge" && has "$out" 'too large' && lacks "$log" 'run single 8192'
}
it 'more than the heap, and a heap larger than the GPU' too_large
no_start() {
    FAKE='builtin start=crash' bench 1 && has "$err" 'mmbench: the child for builtin: killed by signal 11; expected a GPU'
}
it 'a child that does not start' no_start
floors_fail() {
    FAKE='mm floor 131072 *=crash;mm floor 1000000 *=hang' bench 3 --cases single --allocators mm --quick --timeout 3 &&
        same "$(marks)" "mm,single,16,1000000,malloc,hung
mm,single,16,1000000,free,hung
mm,single,256,1000000,malloc,skipped
mm,single,256,1000000,free,skipped
mm,single,8192,1000000,malloc,skipped
mm,single,8192,1000000,free,skipped"
}
it 'a child that cannot measure its floors' floors_fail
slow_end() {
    FAKE='mm end=hang' bench 0 --timeout 3 --cases churn --allocators mm && # mmbench waits for less time than the child hangs
        same "$(marks)" mm,churn,512,131072,churn,ok
}
it 'a child that does not end' slow_end
# interrupt SIGNAL STATUS: sends the signal while the child of the built-in allocator hangs in the second case.
interrupt() {
    FAKE='builtin run churn *=hang' "$work/bin/mmbench" --csv "$work/csv" --cases warp,churn >/dev/null 2>"$work/err" &
    local pid=$! got=0 child i
    for ((i = 0; i < 1200; i++)); do
        grep -q 'builtin run churn' "$work/log" 2>/dev/null && break
        sleep 0.05
    done
    child=$(<"$work/log.pid")
    kill -"$1" "$pid"
    wait "$pid" || got=$?
    csv=$(grep -v '^#' "$work/csv")
    for ((i = 0; i < 1200; i++)); do
        [[ $(cat "/proc/$child/stat" 2>/dev/null) == *') '[^Z]' '* ]] || break
        sleep 0.05
    done
    ((i < 1200)) && same "$got" "$2" && has "$csv" 'builtin,warp,65536'
}
term() { interrupt TERM 130 && has "$csv" 'mm,churn,512' && has "$(<"$work/err")" 'mmbench: interrupted'; }
it 'interrupted: what is known is written, the child is gone' term
it 'killed: the child goes too' interrupt KILL 137
siblings() {
    bench 0 --cases churn --quick --allocators random-walk-bitmap,mm && same "$(marks)" "mm,churn,512,131072,churn,ok
random-walk-bitmap,churn,512,131072,churn,ok" && has "$out" random-walk-bitmap && lacks "$out" builtin/mm && has "$log" 'random-walk-bitmap started heap=' || return
    FAKE='random-walk-bitmap run *=crash' bench 3 --cases churn --quick --allocators random-walk-bitmap || return
    FAKE='random-walk-bitmap identify=liar' bench 1 --allocators random-walk-bitmap && bench 1 --allocators all &&
        same "$err" "mmbench: mmbench-random-walk is neither in $work/lib/mm/bench nor in $work/lib/bench; make allocators builds it"
}
it 'other allocators' siblings
# Threads take at most 90 % of the free units.
some_only() {
    bench 0 --cases probes,probes_large,churn --quick --allocators mm,random-walk-bitmap && same "$(grep ' run ' <<<"$log")" "mm run churn 512 131072 12
random-walk-bitmap run churn 512 131072 12
random-walk-bitmap run probes 524288 4096 12
random-walk-bitmap run probes 524288 65536 12
random-walk-bitmap run probes 10485 4096 12
random-walk-bitmap run probes 5242 4096 12
random-walk-bitmap run probes_large 16777216 4096 12
random-walk-bitmap run probes_large 16777216 65536 12
random-walk-bitmap run probes_large 16777216 1048576 12
random-walk-bitmap run probes_large 335544 4096 12
random-walk-bitmap run probes_large 335544 65536 12
random-walk-bitmap run probes_large 167772 4096 12
random-walk-bitmap run probes_large 167772 65536 12" && has "$err" '[13/13] random-walk-bitmap probes_large' && lacks "$out" 'not reached' &&
        has "$out" '      size   threads                     unit            random-walk-bitmap  x floor
      512K      4096  probes             count' && same "$(grep -c bitmap,probes, <<<"$csv")" 32
}
it 'a case of some allocators only' some_only
it 'a case of other allocators than those chosen' refused '--cases: "probes"; expected --allocators random-walk,random-walk-bitmap,random-walk-coop' \
    --allocators mm,random-walk-runs --cases single,probes
it 'every case' everything

# shellcheck source=tests/bench/rows.sh
source "$here/rows.sh"

# ---- traces ---------------------------------------------------------------------------------------

trace="$work/app.trace"
printf '%s\n' 'mm-trace 1' 'k 0' 'm 1048576 0 17' 'n 100 0 18' 'k 2' 'f 0 3 0' 'end 1 1 1 5' >"$trace"
trace_line="$trace: 1 mallocs, 1 NULLs, 1 frees in 3 launches; 1.0 MiB live at most; 5 events dropped"
# replay STATUS OPTION...: runs mmbench, without --csv; sets out, err and log.
replay() {
    local got=0
    timeout 60 "$work/bin/mmbench" "${@:2}" >"$work/out" 2>"$work/err" </dev/null || got=$?
    out=$(<"$work/out") err=$(<"$work/err")
    log=$(cat "$work/log" 2>/dev/null)
    same "$got" "$1" || { cat "$work/err"; false; }
}
checks() { replay 0 --check-trace "$trace" && same "$out" "$trace_line" && same "$err$log" '' && replay 0 --check-trace="$trace" && same "$out" "$trace_line"; }
it 'a trace is checked' checks
# refuses LINE OPTION...: one line, status 2, no child.
refuses() { replay 2 "${@:2}" && same "$err" "mmbench: $1" && same "$out$log" ''; }
it 'a trace that is not there' refuses "--check-trace: \"$work/no.trace\": No such file or directory" --check-trace "$work/no.trace"
it 'no trace' refuses '--check-trace: ""; expected one trace by mmrun --trace, and no other option' --check-trace
it 'two traces' refuses "--check-trace: \"$trace\"; expected one trace by mmrun --trace, and no other option" --check-trace "$trace" "$trace"
it 'a trace behind an option' refuses '--check-trace: "--quick"; expected no other option before it' --quick --check-trace "$trace"
head -n 5 "$trace" >"$work/short.trace"
sed 's/m 1048576/m 9223372036854775808/' "$trace" >"$work/huge.trace"
it 'half a trace' refuses "--check-trace: \"$work/short.trace\": line 5: the file ends without a line with end" --check-trace "$work/short.trace"
it 'a size of 2^63' refuses "--check-trace: \"$work/huge.trace\": line 3: expected bytes, up to 2^40 unless it got NULL" --check-trace "$work/huge.trace"
it 'a folder' refuses "--check-trace: \"$work\": line 0: the file cannot be read" --check-trace "$work"
it 'half a trace, replayed' refuses "--replay: \"$work/short.trace\": line 5: the file ends without a line with end" --replay "$work/short.trace"
it 'a replay of no file' refuses '--replay: ""; expected a trace by mmrun --trace' --replay ''
others='expected no other options than --allocators, --heap, --runs and --timeout'
it 'a replay and cases' refuses "--replay: \"$trace\"; $others" --replay "$trace" --cases single
it 'a replay and a file for rows' refuses "--replay: \"$trace\"; $others" --csv "$work/csv" --replay "$trace"
it 'a replay, quick' refuses "--replay: \"$trace\"; $others" --replay "$trace" --quick
long=$work/$(printf 'x%.0s' {1..200})/$(printf 'y%.0s' {1..240})/$(printf 'z%.0s' {1..240})
it 'a name that is too long' refuses "--check-trace: \"$long\": expected a name below 480 bytes, of one line" --check-trace "$long"
table() {
    replay 0 --replay "$trace" && has "$out" "$trace_line" &&
        has "$out" 'A GPU of paper                ms      least       most   runs    taken MiB  over live      NULLs' &&
        has "$out" 'mm                         1.500      1.250      1.750     12          2.0       2.00          0' && has "$out" 'builtin  ' &&
        has "$log" "mm replay 12 $trace" && has "$log" 'builtin started heap=8589934592' && has "$log" 'mm started heap=0 seconds=20'
}
it 'a replay' table
chosen() {
    replay 0 --replay "$trace" --allocators random-walk-bitmap --heap 1G --runs 20 --timeout 9 && lacks "$out" builtin &&
        has "$log" "random-walk-bitmap replay 20 $trace" && has "$log" 'random-walk-bitmap started heap=1073741824 seconds=9'
}
it 'a replay with other options' chosen
with_nulls() { FAKE='mm replay*=nulls' replay 0 --replay "$trace" && has "$out" '2.00          3'; }
it 'a replay with NULLs' with_nulls
is_corrupt() { FAKE='mm replay*=damaged' replay 3 --replay "$trace" && has "$out" '  corrupt'; }
it 'a replay that finds damage' is_corrupt
crashes() { FAKE='mm replay*=fatal' replay 3 --replay "$trace" && has "$out" 'mm                    failed: CUDA: an illegal memory access' && has "$out" 'builtin                    1.500'; }
it 'a replay that fails' crashes
others_crash() { FAKE='builtin replay*=exit' replay 0 --replay "$trace" && has "$out" 'builtin               failed: exit status 7'; }
it 'a replay that fails with another allocator' others_crash
is_silent() { FAKE='mm replay*=hang' replay 3 --replay "$trace" --timeout 1 && has "$out" 'mm                    failed: did not answer in time (--timeout)'; }
it 'a replay that hangs' is_silent
is_nonsense() { FAKE='mm replay*=nonsense' replay 3 --replay "$trace" && has "$out" 'mm                    failed: said what is no answer'; }
it 'an answer that is none' is_nonsense
no_gpu() { FAKE='* start=nogpu' replay 1 --replay "$trace" && has "$err" 'mmbench: no GPU here'; }
it 'a replay without a GPU' no_gpu

printf 'bench: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
