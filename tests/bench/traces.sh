# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# Tests of mmbench with traces: --check-trace, --replay. Part of run.sh, which
# defines "it" and other helpers. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

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
