# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# Tests of mmbench with children that fail, hang or do not end, and of an interrupted mmbench. Part of run.sh, which
# defines "it" and other helpers. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

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
