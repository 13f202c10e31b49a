# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# Tests of mmbench --plot. Part of run.sh, which defines "it" and other helpers. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

root=$here/../..
own=$(grep -v '^#' "$root/bench/h200-2026-11-30-registers.csv" | head -1)
peers=$(grep -v '^#' "$root/bench/peers-h200-2026-11-20.csv" | head -1)
pictures='free-mixed.svg free-size.svg free-threads.svg malloc-mixed.svg malloc-size.svg malloc-threads.svg'
cp "$root/tools/mmbench/plot.py" "$work/lib/bench/plot"
# Finds a python3 with matplotlib: a distribution's package works only with the distribution's own python3.
for python in "$(type -P python3)" /usr/bin/python3; do
    "$python" -c 'import matplotlib' 2>/dev/null && ln -sfn "$python" "$work/fake/python3" && break
done

# plot STATUS FILE...: draws into $work/pictures. Sets err to the error output and svg to the contents of malloc-size.svg.
plot() {
    local got=0
    timeout 100 "$work/bin/mmbench" --plot "$work/pictures" "${@:2}" >"$work/out" 2>"$work/err" </dev/null || got=$?
    out=$(<"$work/out") err=$(<"$work/err") svg=$(cat "$work/pictures/malloc-size.svg" 2>/dev/null)
    same "$got $out" "$1 " || { cat "$work/err"; false; }
}
# rows FILE HEADER LINE...
rows() { printf '%s\n' "${@:2}" >"$work/$1"; }
ours() { rows a.csv "$own" "$@"; }
theirs() { rows b.csv "$peers" "$@"; }
# row ALLOCATOR SIZE MEDIAN [STATUS]: a row of mmbench, case single, malloc.
row() { echo "$1,single,$2,1000000,malloc,us,$3,${3:+1},${3:+1e9},12,,,0,0,,${4:-ok}"; }
# path NAME: the path of an allocator's line in $svg, without its numbers: M where the line starts or starts again, L where it continues.
path() { awk -v id="<g id=\"line-$1\">" 'index($0, id) {on = 1} on && /<path d=/ {line = 1} on && line {print} on && line && /clip-path/ {exit}' <<<"$svg" | tr -cd 'ML'; }

# ---- committed measurements ------------------------------------------------------------------------

committed() {
    plot 0 "$root"/bench/{h200-2026-11-30-registers,peers-h200-2026-11-20}.csv || return
    same "$(ls -A "$work/pictures")" "${pictures// /$'\n'}" || return
    local file name
    for file in $pictures; do
        python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/pictures/$file" || return
        svg=$(<"$work/pictures/$file")
        for name in mm builtin gallatin ouro_pva; do has "$svg" "id=\"line-$name\"" || return; done
        has "$svg" 'NVIDIA H200, driver 580.159.04 (CUDA 13.0), 2026-11-30, 2026-11-20' && has "$(<"$root/docs/pictures/$file")" '2026-11-30, 2026-11-20' || return
    done
    has "$(<"$work/pictures/malloc-size.svg")" 'mallocmc_flatter, 8K: NULL results' # it took 431 ms, and 17,920 calls failed
}
it 'pictures of what is committed' committed
every_file() {
    local file
    for file in "$root"/bench/h*.csv; do
        ! grep -qE '^[a-z]+,(single|mixed|scaling),' "$file" || plot 0 "$file" || return
    done
}
it 'each file alone' every_file

# The papers' cases have a floor of their own, which is a line.
papers() {
    ours mm,ad,16,8192,time,us,100,90,120,12,50,2,0,0,x,ok mm,ad,16,960,time,us,7,7,7,12,5,2,0,0,x,ok builtin,ad,16,8192,time,us,900,900,900,12,60,2,0,0,x,ok \
        mm,ad,64,8192,time,us,110,90,120,12,,,0,0,x,ok mm,workgen,64,32,time,us,10,9,12,12,200,.05,0,0,x,ok mm,join,16384,1,warp,us,10,9,12,12,8,1.2,0,0,x,ok \
        mm,join,16384,1,thread,us,20,20,20,12,8,2.5,0,0,x,ok
    rm -rf "$work/pictures"
    plot 0 "$work/a.csv" && same "$(cd "$work/pictures" && echo ./*)" './ad.svg ./join.svg ./workgen.svg' || return
    svg=$(<"$work/pictures/ad.svg")
    same "$(path mm) $(path floor) $(path builtin)" 'ML M M' && has "$svg" 'ad, 8,192 threads' && lacks "$svg" 960 &&
        has "$(<"$work/pictures/join.svg")" 'tuples of each relation' && has "$(<"$work/pictures/workgen.svg")" 'workgen, 64 bytes by each thread'
}
it "the papers' cases, and their floors" papers

# ---- lines and failures ----------------------------------------------------------------------------

planted() {
    theirs slow,single_malloc,16,1000000,1,1,1,0 slow,single_malloc,32,1000000,0.001,0.001,0.001,5 \
        slow,single_malloc,64,1000000,2,2,2,0 slow,single_malloc,128,1000000,3,3,3,0 &&
        plot 0 "$work/b.csv" && same "$(path slow)" MML && has "$svg" 'Failed: slow, 32: NULL results' && lacks "$svg" 'µs'
}
it 'a planted failure, fast: named below, a gap in the line, and the axis does not know it' planted
statuses() {
    ours "$(row a 16 5)" "$(row a 32 '' null)" "$(row a 64 7 corrupt)" "$(row a 96 '' crash)" "$(row a 128 '' hung)" \
        "$(row a 256 '' skipped)" "$(row a 512 '' toolarge)" &&
        theirs b,single_malloc,16,1000000,nan,nan,nan,-1 b,single_malloc,32,1000000,nan,nan,nan,-2 b,single_malloc,128,1000000,0.004,nan,nan,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && has "$(tr '\n' ' ' <<<"$svg" | sed 's/<[^>]*>//g; s/  */ /g')" \
        'Failed: a, 32: NULL results; a, 64: wrong results; a, 96: crash; a, 128: no answer in time; a, 512: more than the heap; b, 16: no answer in time; b, 32: crash'
}
it 'every kind of failure' statuses
nothing_failed() { ours "$(row a 16 5)" && plot 0 "$work/a.csv" && lacks "$svg" Failed; }
it 'nothing failed, and nothing is said of it' nothing_failed
all_failed() { ours "$(row a 16 5)" "$(row b 16 '' crash)" && plot 0 "$work/a.csv" && has "$svg" 'b, 16: crash' && lacks "$svg" 'line-b"'; }
it 'an allocator that only failed has no line' all_failed
merged() {
    ours "$(row builtin 16 100)" "$(row builtin 32 200)" && theirs cuda,single_malloc,32,1000000,9,9,9,0 cuda,single_malloc,64,1000000,3,3,3,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && same "$(path builtin)" MLL && lacks "$svg" cuda && has "$svg" 'builtin (CUDA)' || return
    local first=$svg
    plot 0 "$work/b.csv" "$work/a.csv" && [[ $svg != "$first" ]]
}
it 'cuda is builtin; of two rows the first stands' merged
same_again() { ours "$(row mm 16 5)" "$(row mm 32 6)" && plot 0 "$work/a.csv" && before=$svg && sed -i 's/$/\r/' "$work/a.csv" && plot 0 "$work/a.csv" && same "$svg" "$before"; }
it 'the same picture each time, and of lines that end in CR LF' same_again
places() { # one row: only the picture that it belongs to is written
    rm -rf "$work/pictures" && rows b.csv "$peers" "x,$1" && plot 0 "$work/b.csv" && same "$(cd "$work/pictures" && echo *)" "$2"
}
it 'single_free' places single_free,64,1000000,1,1,1,0 free-size.svg
it 'mixed_malloc' places mixed_malloc,64,1000000,1,1,1,0 malloc-mixed.svg
it 'scaling_free' places scaling_free,64,4,1,1,1,0 free-threads.svg
nowhere() { rm -rf "$work/pictures" && theirs "x,$1,1,1,1,${2:-0}" && plot 1 "$work/b.csv" && same "$err" "$nothing" && [[ ! -e $work/pictures ]]; }
nothing='mmbench: --plot: nothing to draw; expected times of the cases acd, ad, join, kdtree, mixed, p, scaling, single, workgen, write'
it 'other sizes of the threads' nowhere scaling_malloc,16,4
it 'other threads of the sizes' nowhere single_malloc,16,4
it 'another case' nowhere churn,512,131072
it 'a cold heap' nowhere single_malloc_cold,16,1000000
it 'only failures' nowhere single_malloc,16,1000000 5
said() {
    rows a.csv '# mmbench, 2026-01-02 03:04:05 UTC' '# GPU: Paper & Ink' '# driver: 5 (CUDA 13.1)' '# note: x_*: is <odd>' '# note: w: is not here' \
        '# late, 2026-09-09' "$own" "$(row x_1 16 5)" "$(row y 16 5)" && rows b.csv '# More, 2026-01-03' '# GPU: Slate' "$peers" z,single_malloc,16,1000000,1,1,1,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && has "$svg" 'Paper &amp; Ink, driver 5 (CUDA 13.1), 2026-01-02' && has "$svg" 'Slate, 2026-01-03' &&
        has "$svg" '>x_1 †<' && has "$svg" '>y<' && has "$svg" '† x_*: is &lt;odd&gt;' && lacks "$svg" 'not here'
}
it 'machines, dates, notes' said

# ---- errors ------------------------------------------------------------------------------------------

# wrong TEXT HEADER LINE...: expects exactly this line, status 1, and no pictures; the file with HEADER is the second of two.
wrong() {
    rm -rf "$work/pictures"
    ours "$(row mm 16 5)" && rows b.csv "${@:2}" && plot 1 "$work/a.csv" "$work/b.csv" &&
        same "$err" "mmbench: $work/b.csv:$1" && [[ ! -e $work/pictures ]]
}
fields=allocator,case,size,threads
known="does not name the fields; expected $fields,op,unit,median,min,max,status or $fields,median_ms,min_ms,max_ms,failed_count among them"
it 'fields that nobody knows' wrong "1: \"a,b\" $known" a,b
it 'rows before their fields' wrong "2: \"$(row mm 16 5 | cut -c1-60)\" $known" '# x' "$(row mm 16 5)"
it 'a field too few' wrong '3: 7 fields; expected 8' '# x' "$peers" x,single_malloc,16,1,1,1,1
it 'a field too many' wrong '2: 17 fields; expected 16' "$own" "$(row mm 16 5),"
it 'no name' wrong '2: allocator: ""; expected a name' "$own" "$(row '' 16 5)"
it 'a size that is none' wrong '2: size: "16x"; expected a number above 0' "$own" "$(row mm 16x 5)"
it 'a size of nothing' wrong '2: size: "0"; expected a number above 0' "$own" "$(row mm 0 5)"
it 'negative threads' wrong '2: threads: "-1"; expected a number above 0' "$peers" x,single_malloc,16,-1,1,1,1,0
it 'a median that is none' wrong '2: median: "fast"; expected a number' "$own" "$(row mm 16 fast)"
it 'a negative median' wrong '2: median_ms: "-1"; expected a number' "$peers" x,single_malloc,16,1,-1,1,1,0
it 'an endless one' wrong '2: max_ms: "inf"; expected a number' "$peers" x,single_malloc,16,1,1,1,inf,0
it 'no median' wrong '2: median: ""; expected a time where nothing failed' "$own" "$(row mm 16 '')"
it 'no time at all' wrong '2: median: "0"; expected a time where nothing failed' "$peers" x,single_malloc,16,1,0,0,0,0
it 'a median below the least' wrong '2: the median is not between the least and the most' "$peers" x,single_malloc,16,1,1,2,3,0
it 'a median above the most' wrong '2: the median is not between the least and the most' "$peers" x,single_malloc,16,1,4,2,3,0
it 'another unit' wrong '2: unit: "ms"; expected us' "$own" mm,single,16,1000000,malloc,ms,5,1,9,12,,,0,0,,ok
it 'a status that is none' wrong '2: status: "fine"; expected ok, null, corrupt, crash, hung, skipped, toolarge' "$own" "$(row mm 16 5 fine)"
it 'a count that is none' wrong '2: failed_count: ""; expected a number' "$peers" x,single_malloc,16,1,1,1,1,
it 'a count that means nothing' wrong '2: failed_count: "-5"; expected a number' "$peers" x,single_malloc,16,1,1,1,1,-5

# unreadable TEXT FILE: expects exactly this line, and status 1.
unreadable() { plot 1 "$2" && same "$err" "mmbench: --plot: \"$2\" $1" && [[ ! -e $work/pictures ]]; }
rm -rf "$work/pictures"
it 'a file that is not there' unreadable 'cannot be read: No such file or directory' "$work/no.csv"
it 'a file that is a directory' unreadable 'cannot be read: Is a directory' "$work"
it 'an empty file' unreadable 'has no rows; expected a file of mmbench --csv' /dev/null
printf '# only\n\n' >"$work/only"
it 'only comments' unreadable 'has no rows; expected a file of mmbench --csv' "$work/only"

# misused TEXT ARGUMENT...: expects exactly this line, and status 2.
misused() {
    local got=0
    err=$("$work/bin/mmbench" "${@:2}" 2>&1 </dev/null) || got=$?
    same "$err" "mmbench: --plot: $1" && same "$got" 2
}
ours "$(row mm 16 5)"
cp "$work/a.csv" "$work/fine"
it 'no directory' misused '""; expected a directory' --plot
it 'an empty one' misused '""; expected a directory' --plot= "$work/fine"
it 'no file' misused '"there"; expected files of mmbench --csv behind it' --plot there
it 'an option among the files' misused '"--quick"; expected files of mmbench --csv, and no other option' --plot there "$work/fine" --quick
it 'an option before it' misused '"--quick"; expected no other option before it' --quick --plot there "$work/fine"
it 'a directory in one that is not there' misused "\"$work/no/there\" cannot be written: No such file or directory" \
    --plot "$work/no/there" "$work/fine"
it 'a directory that is a file' misused "\"$work/fine/malloc-size.svg\" cannot be written: Not a directory" --plot "$work/fine" "$work/fine"

whole() {
    mkdir -p "$work/pictures" && echo precious >"$work/pictures/malloc-size.svg" && rows b.csv "$peers" x,y &&
        plot 1 "$work/fine" "$work/b.csv" && same "$svg" precious && same "$(ls -A "$work/pictures")" malloc-size.svg
}
it 'what stood there stays where a file is malformed' whole
no_rest() {
    mkdir -p "$work/pictures/malloc-size.svg" &&
        misused "\"$work/pictures/malloc-size.svg\" cannot be written: Is a directory" --plot "$work/pictures" "$work/fine" &&
        same "$(ls -A "$work/pictures")" malloc-size.svg
}
rm -rf "$work/pictures"
it 'nothing is left of a picture that cannot be put in its place' no_rest
joined() { "$work/bin/mmbench" "--plot=$work/joined" "$work/fine" && (umask 027 && "$work/bin/mmbench" "--plot=$work/private" "$work/fine") &&
    same "$(stat -c %a "$work"/{joined,private}/malloc-size.svg)" $'644\n640'; }
umask 022
it '--plot=DIR, and files that others may read as the umask says' joined
