# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# Tests of mmbench with rows of earlier runs and of other allocators: --resume, --minutes, --compare, --claims. Part of run.sh, which defines "it" and
# other helpers. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

# ---- going on, and limits of time -----------------------------------------------------------------

once() { same "$(cut -d, -f1-5 <<<"$csv" | grep -v ,floor | sort | uniq -d)" ''; }
goes_on() {
    term && rm "$work/log" || return
    bench 0 --cases warp,churn --resume && once && lacks "$log" 'run warp' && lacks "$log" 'mm run churn' &&
        has "$log" 'builtin run churn' && same "$(marks | wc -l)" 14 && has "$err" '[1/1] builtin churn' &&
        has "$out" 'churn              us                 100 [90.5..120]        -      100000 [90000..120000]'
}
it 'interrupted, then resumed: what is there is not measured again' goes_on
goes_on_anew() { bench 0 --cases churn --resume && has "$csv" builtin,churn && same "$(grep -c '^# mmbench' "$work/csv")" 1; }
it 'resumed without an earlier run' goes_on_anew
goes_on_after_failure() {
    FAKE='builtin run single 256 *=crash' bench 0 --cases single --quick && sed -i '/builtin,single,8192/d' "$work/csv" &&
        bench 0 --cases single --quick --resume && lacks "$log" 'builtin run single 8192' && has "$(marks)" builtin,single,8192,1000000,malloc,skipped
}
it 'resumed after a failure: the series stays ended' goes_on_after_failure
commit=$("$work/bin/mmbench" --version | sed 's/.*commit //')
# other_file LINE BY: resumes with a file in which LINE was replaced.
other_file() {
    bench 0 --cases churn || return
    sed -i "s|^$1.*|$2|" "$work/csv"
    local before
    before=$(<"$work/csv")
    bench 2 --cases churn,warp --resume && same "$(<"$work/csv")" "$before" && has "$err" "mmbench: --resume: $3"
}
it 'a file of another commit' other_file '# mm: ' '# mm: 0123' "commit of mm of \"$work/csv\": 0123; expected $commit"
it 'a file of another GPU' other_file '# GPU: ' '# GPU: Other' "GPU of \"$work/csv\": Other; expected A GPU of paper"
it 'a file of other options' other_file '# options: ' '# options: heap 2G, runs 20, quick' \
    "options of \"$work/csv\": heap 2G, runs 20, quick; expected heap default, runs 12"
it 'a file that does not say its options' other_file '# options: ' '# nothing' "options of \"$work/csv\": unknown; expected heap default, runs 12"
it 'a file with half a row' other_file 'mm,churn' 'mm,churn,512' "$work/csv:10: expected as many fields as its first line names"
it 'a file with a word for a number' other_file 'mm,churn' 'mm,churn,many,1,churn,us,1,1,1,12,,,0,0,,ok' "$work/csv:10: expected a row of mmbench --csv"
it 'a file of something else' other_file 'allocator,' 'a,b' "$work/csv:9: expected the fields of a file of mmbench --csv"
late() {
    bench 4 --minutes 0 --cases warp,churn && same "$(marks)" '' && lacks "$log" run &&
        same "$err" 'mmbench: the minutes are over; 8 measurements are left, and --resume goes on with them' &&
        bench 0 --minutes 5 --cases warp,churn --resume && same "$(marks | wc -l)" 14
}
it 'no minutes: nothing is measured, and it can go on' late

# ---- other rows -----------------------------------------------------------------------------------

published() { # writes a file of published rows
    printf '%s\n' '# a remark' 'allocator,case,size,threads,median_ms,min_ms,max_ms,failed_count' \
        'ouro_ps,single_malloc,16,1000000,0.05,0.04,0.06,0' 'gallatin_paper,single_malloc,16,1000000,0.2,0.1,0.3,0' \
        'halloc,single_malloc,16,1000000,0.01,0.01,0.01,3' 'ouro_ps,single_free,8192,1000000,nan,nan,nan,-2' \
        'ouro_ps,warp_malloc,64,1048576,0.4,0.4,0.4,0' 'ouro_ps,util,16,100000,0.5,nan,nan,17' 'ouro_ps,single_align,16,1000000,16,nan,nan,0' >"$work/published.csv"
}
compares() {
    published
    bench 0 --cases single,warp,util --quick --compare "$work/published.csv" && has "$(head -n 5 <<<"$out")" 'builtin/mm   published mm/publ.' &&
        has "$out" '      4.7      100000 [90000..120000]   4651.2        1000        50.0      2.00  ouro_ps' &&
        has "$out" '     4.7      100000 [90000..120000]   4651.2        1000         400     0.250  ouro_ps' &&
        has "$out" '-      100000 [90000..120000]        -        1000       0.500       200  ouro_ps' &&
        same "$(grep -c ouro_ps <<<"$out")" 3
}
it 'published rows stand next to those of mm' compares
claimed() { "$work/bin/mmbench" --claims "$work/csv" "$work/published.csv" >"$work/claims" && grep "^$1" "$work/claims" | tr -s ' ' | grep -F "$2"; }
claims() {
    published
    bench 0 --cases single,graph --quick || return
    claimed 17 'Gallatin, malloc: over the authors'"'"' code - <= 1 0.5 1 pass' && claimed 17 'Gallatin, free: over the authors'"'"' code - <= 1 - 0 not measured' &&
        claimed ' 5' 'insertion: faster than CUDA'"'"'s malloc - >= 100 1e+03 1 pass' && claimed ' 5' 'memory taken over what the lists need - <= 1.5 100 1 missed' &&
        claimed ' 1' 'Ouroboros, chunks: faster than CUDA'"'"'s malloc 15 to 18 >= 15 - 0 not measured'
}
it 'claims' claims
# walked NAME OP VALUE THREADS: a row of the case probes_large.
walked() { printf '%s,probes_large,167772,%s,%s,ratio,%s,1,1,12,,,0,0,free,ok\n' "$1" "$4" "$2" "$3" >>"$work/csv"; }
walks() {
    published
    bench 0 --cases churn || return
    walked random-walk over 1.04 4096
    walked random-walk over .96 8192
    walked random-walk-bitmap over .84 4096
    walked random-walk-coop time 30 65536
    walked random-walk-coop time 35 131072
    walked random-walk-bitmap time 70 65536
    walked random-walk-bitmap time 69 131072
    claimed ' 6' '2^25 units: test-and-sets over the formula 1 1 +- 0.05 0.96 to 1.04 2 pass' &&
        claimed ' 6' '2^20 units: test-and-sets over the formula 1 1 +- 0.05 - 0 not measured' &&
        claimed ' 8' '2^25 units: words read over the formula 1 1 +- 0.15 0.84 1 missed' &&
        claimed ' 9' 'faster than bitmap, .5 % free 10 >= 2 1.97 1 missed' && claimed ' 9' 'longest over least time 1 flat 1.2 30 to 35 2 pass' || return
    walked random-walk over 1.06 16384
    walked random-walk warp_over 1.04 4096
    walked random-walk-coop time 29 4096
    claimed ' 6' '2^25 units: test-and-sets over the formula 1 1 +- 0.05 0.96 to 1.06 3 missed' &&
        claimed ' 7' '2^25 units: steps of a warp over the formula <= 1 <= 1.03 1.04 1 missed' &&
        claimed ' 9' 'longest over least time 1 flat 1.2 29 to 35 3 missed'
}
it 'claims of random walk' walks
no_claims() {
    "$work/bin/mmbench" --claims "$@" >"$work/out" 2>"$work/err"
    same $? 2
}
it 'claims without a file' no_claims
it 'claims, and another option' no_claims --quick
it 'claims of a file that is not there' no_claims "$work/none"
