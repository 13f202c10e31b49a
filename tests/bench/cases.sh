# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# Tests of mmbench's cases: the children that are started, their heaps, the runs that are requested, the rows. Part of run.sh, which
# defines "it" and other helpers. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

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
everything() {
    bench 0 --quick && same "$(cut -d, -f16 <<<"$csv" | sort | uniq -c | tr -s ' ')" $' 847 ok\n 37 toolarge' &&
        has "$log" 'mm run endurance 4096 783371 50' && has "$log" 'mm run init 8589934592 1 12' &&
        has "$log" 'mm run graph 1048576 65536 12' && has "$csv" 'mm,graph,65536,512,range,us,100,' &&
        has "$log" 'builtin floor 32768 5' && has "$csv" 'mm,floor_warp,0,32768,store,us'
}
it 'every case' everything
