#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A child of mmbench that needs no GPU (tools/mmbench/protocol.h). FAKE determines its answers: "PATTERN=HOW;...", where a PATTERN
# is matched against "ALLOCATOR REQUEST", and the requests are start, identify, floor ..., run ..., end. The requests and
# the command line are appended to $FAKE_LOG.
set -u
preload=${LD_PRELOAD-}
unset LD_PRELOAD
allocator=${0##*mmbench-} identity=${0##*mmbench-}
[[ $allocator == mm || $allocator == builtin ]] || identity=sibling
factor=1
[[ $allocator == mm ]] || factor=1000
printf '%s started heap=%s seconds=%s MM_HEAP_SIZE=%s LD_PRELOAD=%s\n' "$allocator" "$1" "$2" "${MM_HEAP_SIZE-}" \
    "${preload##*/}" >>"$FAKE_LOG"
echo $$ >"$FAKE_LOG.pid"
floors=0 floor=-

# row OP UNIT NULLS CORRUPT STATUS: prints a row, with numbers unless it is a failed time.
row() {
    local numbers='- - - 0'
    [[ $5 != ok && $2 == us ]] || numbers="$((100 * factor)) $((90 * factor)).5 $((120 * factor)) $runs"
    echo "@row $1 $2 $numbers $floor $3 $4 $5 nonnull aligned"
}

rows() { # NULLS CORRUPT STATUS
    case $case in
    churn) floor=- row churn us "$@" ;;
    util) for op in share share_all; do floor=- row "$op" share "$@"; done ;;
    frag) floor=- row span ratio "$@" ;;
    converged)
        for op in plain lane all; do floor=- row "$op" cycles "$@"; done
        for op in lane_over all_over; do floor=- row "$op" ratio "$@"; done
        for op in lane_full all_full; do floor=- row "$op" share "$@"; done
        ;;
    latency | latency_cold)
        for op in malloc free; do
            floor=latency row "$op" cycles "$@"
            floor=- row "${op}_p99" cycles "$@"
            floor=- row "${op}_over" ratio "$@"
        done
        floor=- row grown calls "$@"
        floor=- row grown_longest cycles "$@"
        ;;
    footprint | pinned)
        for op in live taken beyond taken_end freed_1s; do floor=- row "$op" MiB "$@"; done
        floor=- row taken_over ratio "$@"
        [[ $case == pinned ]] || floor=- row freed_late MiB "$@"
        ;;
    init) for op in plain allocating plain_process allocating_process; do floor=- row "$op" ms "$@"; done ;;
    endurance)
        for op in malloc free; do floor=- row "$op" us "$@"; done
        for op in live footprint_early footprint_last; do floor=- row "$op" MiB "$@"; done
        ;;
    graph*)
        for op in init insert delete range free; do floor=- row "$op" us "$@"; done
        for op in lists taken; do floor=- row "$op" MiB "$@"; done
        floor=- row taken_over ratio "$@"
        ;;
    ad | acd | p | ad_cold | acd_cold | p_cold | workgen*) floor=25 row time us "$@" ;;
    half)
        floor=- row rounds count "$@"
        floor=- row share share "$@"
        floor=- row span ratio "$@"
        for op in malloc free; do floor=- row "$op" us "$@"; done
        ;;
    write*) for op in malloc write free; do floor=50 row "$op" us "$@"; done ;;
    malloc_large | hostlog)
        for op in malloc free async_malloc async_free; do floor=- row "$op" us "$@"; done
        for op in all async_all; do floor=- row "$op" ms "$@"; done
        for op in live taken; do floor=- row "$op" MiB "$@"; done
        ;;
    multistream)
        for op in one four async_one async_four; do floor=- row "$op" us "$@"; done
        for op in four_over async_four_over; do floor=- row "$op" ratio "$@"; done
        ;;
    join | join_zipf | join_cold) for op in thread thread_free warp warp_free; do floor=50 row "$op" us "$@"; done ;;
    join_*) floor=- row join us "$@" ;;
    pagerank*) for op in build rank free; do floor=50 row "$op" us "$@"; done ;;
    triangles*) for op in build count free; do floor=50 row "$op" us "$@"; done ;;
    probes*)
        for op in probes sets warp_steps; do floor=- row "$op" count "$@"; done
        for op in over over_words warp_over; do floor=- row "$op" ratio "$@"; done
        floor=- row beyond share "$@"
        floor=- row time us "$@"
        ;;
    kdtree*) floor=50 row kdtree us "$@" ;;
    registers)
        for op in plain malloc free pair; do floor=- row "$op" count "$@"; done
        for op in malloc free pair; do floor=- row "${op}_stack" bytes "$@"; done
        ;;
    *) floor=atomic row malloc us "$@" && floor=bitmap row free us "$@" ;;
    esac
}

usual() {
    case $1 in
    start) echo "@ready $allocator 13.0 13.1 ${FAKE_MEMORY:-150000000000} A GPU of paper" ;;
    identify) printf '@%s\n' "identity $identity" 'done' ;;
    floor*)
        ((++floors))
        printf '@%s\n' "floor store us $floors" "floor bitmap us 1${floors}" "floor atomic us 2${floors}" \
            "floor latency cycles 500" 'done'
        ;;
    run*) rows 0 0 ok && echo '@done' ;;
    replay*) printf '@%s\n' 'replay 1.5 1.25 1.75 12 2097152 0 0' 'done' ;;
    end) exit 0 ;;
    esac
}

answer() {
    local rule how=usual case='' runs=0 rules
    [[ $1 != run* ]] || read -r _ case _ _ runs <<<"$1"
    IFS=';' read -ra rules <<<"${FAKE-}"
    for rule in "${rules[@]}"; do
        # shellcheck disable=SC2053 # a pattern
        [[ "$allocator $1" != ${rule%%=*} ]] || how=${rule#*=}
    done
    case $how in
    usual) usual "$1" ;;
    crash) kill -SEGV $$ ;;
    exit) exit 7 ;;
    account) echo "@fatal the heap's account: 5 bytes are mapped" && exit 1 ;;
    fatal) echo '@fatal CUDA: an illegal memory access was encountered' && exit 1 ;;
    nogpu) echo '@fatal no GPU: no CUDA-capable device is detected' && exit 1 ;;
    remark) echo 'mm: the driver refuses memory' >&2 && exit 1 ;;
    hang) exec sleep 100 ;;
    drip) while sleep 0.1; do echo 'still there'; done ;;
    repeat) while sleep 0.1; do rows 0 0 ok; done ;;
    flood) exec tr '\0' x </dev/zero ;;
    null) rows 17 0 null && echo '@done' ;;
    corrupt) rows 0 3 corrupt && echo '@done' ;;
    half) rows 0 0 ok | head -n 1 && exit 1 ;;
    few) runs=3 && rows 0 0 ok && echo '@done' ;;
    nulls) printf '@%s\n' 'replay 1.5 1.25 1.75 12 2097152 3 0' 'done' ;;
    damaged) printf '@%s\n' 'replay 1.5 1.25 1.75 12 2097152 0 2' 'done' ;;
    nonsense) echo '@row malloc us fast - - 3 - 0 0 ok x' ;;
    other-op) echo '@row realloc us 1 1 1 3 - 0 0 ok x' ;;
    status) echo '@row malloc us 1 1 1 3 - 0 0 hung x' ;;
    mute) echo '@done' ;;
    chatty) echo 'a word' && echo 'another' >&2 && usual "$1" ;;
    liar) printf '@%s\n' 'identity builtin' 'done' ;;
    esac
}

answer start
while read -r request; do
    echo "$allocator $request" >>"$FAKE_LOG"
    answer "$request"
done
echo "$allocator end" >>"$FAKE_LOG"
answer end
