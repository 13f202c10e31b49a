# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# mmbench --plot: part of run.sh, which has "it" and the like. The functions are called by name through "it".
# shellcheck disable=SC2317,SC2329,SC2154

root=$here/../..
own=$(grep -v '^#' "$root/bench/h200-2026-11-23-mm.csv" | head -1)
peers=$(grep -v '^#' "$root/bench/peers-h200-2026-11-20.csv" | head -1)
pictures='free-mixed.svg free-size.svg free-threads.svg malloc-mixed.svg malloc-size.svg malloc-threads.svg'
cross='wrong or NULL results'

# plot STATUS FILE...: into $work/pictures, which is not there before; err is what it said, svg what malloc-size.svg holds.
plot() {
    local got=0
    timeout 60 "$work/bin/mmbench" --plot "$work/pictures" "${@:2}" >"$work/out" 2>"$work/err" </dev/null || got=$?
    out=$(<"$work/out") err=$(<"$work/err") svg=$(cat "$work/pictures/malloc-size.svg" 2>/dev/null)
    same "$got $out" "$1 " || { cat "$work/err"; false; }
}
# rows FILE HEADER LINE...
rows() { printf '%s\n' "${@:2}" >"$work/$1"; }
ours() { rows a.csv "$own" "$@"; }
theirs() { rows b.csv "$peers" "$@"; }
# row ALLOCATOR SIZE MEDIAN [STATUS]: of mmbench's, single malloc.
row() { echo "$1,single,$2,1000000,malloc,us,$3,${3:+1},${3:+1e9},12,,,0,0,,${4:-ok}"; }

# sound FILE: well-formed, by tags that close and by what "&" may begin; by xmllint too, where there is one.
sound() {
    awk 'BEGIN { RS = "<" } NR == 1 { next }
        { n = index($0, ">"); tag = substr($0, 1, n - 1); text = $0; gsub(/&(amp|lt|gt|quot);/, "", text)
          if (!n || index(substr($0, n + 1), ">") || text ~ /&/) { bad = 1; print FILENAME ": <" $0 } }
        tag ~ /^\?/ { next }
        tag ~ /^\// { if (stack[depth--] != substr(tag, 2)) { bad = 1; print FILENAME ": </" tag } next }
        tag !~ /\/$/ { split(tag, word, /[ \n]/); stack[++depth] = word[1] }
        END { exit bad || depth != 0 || NR < 9 }' "$1" || { echo "$1 is not well-formed"; return 1; }
    ! type -P xmllint >/dev/null || xmllint --noout "$1"
}
# titles: what marks are called in $svg; path NAME: the line of an allocator, without its numbers.
titles() { grep -o '<title>[^<]*, [^<]*: [^<]*' <<<"$svg" | cut -c8-; }
path() { sed -n "/^<g><title>$1</,/^<.g>/s/.* d=\"\(M[^\"]*\)\"\/>/\1/p" <<<"$svg" | tr -cd 'ML'; }

# ---- what was measured ----------------------------------------------------------------------------

committed() {
    plot 0 "$root"/bench/{h200-2026-11-23-mm,peers-h200-2026-11-20}.csv || return
    same "$(ls -A "$work/pictures")" "${pictures// /$'\n'}" || return
    local file name
    for file in $pictures; do
        sound "$work/pictures/$file" || return
        svg=$(<"$work/pictures/$file")
        for name in mm builtin $(grep -v '^#' "$root/bench/peers-h200-2026-11-20.csv" | sed 1d | cut -d, -f1 | sort -u); do
            [[ $name == cuda ]] || grep -qE "(>|: |, )$name( \(CUDA\))?( †)?(,|<)" <<<"$svg" || { echo "$file: no $name"; return 1; }
        done
        lacks "$svg" '>cuda' && lacks "$svg" '<script' && lacks "$svg" href && lacks "$svg" nan && lacks "$svg" inf &&
            same "$(grep -o 'http[^"]*' <<<"$svg")" http://www.w3.org/2000/svg &&
            has "$svg" '>NVIDIA H200, driver 580.159.04 (CUDA 13.0), 2026-11-23, 2026-11-20<' || return
    done
    has "$(<"$work/pictures/malloc-size.svg")" "<title>mallocmc_flatter, 8K: $cross" # took 431 ms, and 17,920 failed
}
it 'pictures of what is committed: well-formed, every allocator in each' committed
current() {
    plot 0 "$root"/bench/{h200-2026-11-23-mm,peers-h200-2026-11-20}.csv || return
    diff -rq -x heap-map.svg "$root/docs/pictures" "$work/pictures" && return
    echo 'make them anew: mmbench --plot docs/pictures bench/h200-2026-11-23-mm.csv bench/peers-h200-2026-11-20.csv'
    return 1
}
it 'those in docs/pictures are what mmbench draws of them' current
every_file() {
    local file
    for file in "$root"/bench/*.csv; do
        rm -rf "$work/pictures"
        plot 0 "$file" && for svg in "$work"/pictures/*; do sound "$svg" || return; done
    done
}
it 'each file alone' every_file

# ---- failures --------------------------------------------------------------------------------------

planted() {
    theirs slow,single_malloc,16,1000000,1,1,1,0 slow,single_malloc,32,1000000,0.001,0.001,0.001,5 \
        slow,single_malloc,64,1000000,2,2,2,0 slow,single_malloc,128,1000000,3,3,3,0 &&
        plot 0 "$work/b.csv" && sound "$work/pictures/malloc-size.svg" &&
        same "$(titles)" "slow, 16: 1 ms [1 ms..1 ms]
slow, 64: 2 ms [2 ms..2 ms]
slow, 128: 3 ms [3 ms..3 ms]
slow, 32: $cross" && same "$(path slow)" MML && lacks "$svg" 'µs' || return
    # Where it is on x, and below the names there.
    local mark name
    mark=$(sed -n "s/.*translate(\([0-9.]*\) \([0-9.]*\)).*32: $cross.*/\1 \2/p" <<<"$svg")
    name=$(sed -n 's/^<text x="\([0-9.]*\)" y="\([0-9.]*\)".*>32<.*/\1 \2/p' <<<"$svg")
    same "${mark% *}" "${name% *}" && awk "BEGIN { exit !(${mark##* } > ${name##* }) }"
}
it 'a planted failure, fast: marked below, in no line, and the axis does not know it' planted
statuses() {
    ours "$(row a 16 5)" "$(row a 32 '' null)" "$(row a 64 7 corrupt)" "$(row a 96 '' crash)" "$(row a 128 '' hung)" \
        "$(row a 256 '' skipped)" "$(row a 512 '' toolarge)" &&
        theirs b,single_malloc,16,1000000,nan,nan,nan,-1 b,single_malloc,32,1000000,nan,nan,nan,-2 \
            b,single_malloc,64,1000000,nan,nan,nan,-3 b,single_malloc,96,1000000,nan,nan,nan,-4 \
            b,single_malloc,128,1000000,0.004,nan,nan,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && sound "$work/pictures/malloc-size.svg" && same "$(titles)" "b, 128: 4 µs
a, 16: 5 µs [1 µs..1000 s]
a, 32: $cross
a, 64: $cross
a, 96: crash
a, 128: no answer in time
a, 256: not tried after a failure
a, 512: more than the heap
b, 16: no answer in time
b, 32: crash
b, 64: not tried after a failure
b, 96: more than the heap" && same "$(path a) $(path b)" 'M M' &&
        same "$(grep -c ">$cross<.text>" <<<"$svg")" 1
}
it 'every kind of failure' statuses
nothing_failed() { ours "$(row a 16 5)" && plot 0 "$work/a.csv" && lacks "$svg" Failed && lacks "$svg" "$cross"; }
it 'nothing failed, and nothing is said of it' nothing_failed
all_failed() {
    ours "$(row a 16 5)" "$(row b 16 '' crash)" && plot 0 "$work/a.csv" && has "$svg" 'b, 16: crash' && lacks "$svg" '<g><title>b<'
}
it 'an allocator that only failed has no line' all_failed

# ---- lines -------------------------------------------------------------------------------------------

merged() {
    ours "$(row builtin 16 100)" "$(row builtin 32 200)" "$(row mm 16 5)" &&
        theirs cuda,single_malloc,32,1000000,9,9,9,0 cuda,single_malloc,64,1000000,3,3,3,0 peer,single_malloc,64,1000000,1,1,1,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && same "$(titles)" "peer, 64: 1 ms [1 ms..1 ms]
builtin, 16: 100 µs [1 µs..1000 s]
builtin, 32: 200 µs [1 µs..1000 s]
builtin, 64: 3 ms [3 ms..3 ms]
mm, 16: 5 µs [1 µs..1000 s]" && same "$(path builtin)" MLL &&
        same "$(grep -c '<g><title>builtin<' <<<"$svg")" 1 && lacks "$svg" cuda && has "$svg" '>builtin (CUDA)<' || return
    plot 0 "$work/b.csv" "$work/a.csv" && has "$(titles)" 'builtin, 32: 9 ms'
}
it 'cuda is builtin; of two rows the first stands; mm is drawn last' merged
places() { # one row each, where it belongs: the others' files are not there
    rm -rf "$work/pictures" && rows b.csv "$peers" "x,$1" && plot 0 "$work/b.csv" && same "$(cd "$work/pictures" && echo *)" "$2"
}
it 'single_free' places single_free,64,1000000,1,1,1,0 free-size.svg
it 'mixed_malloc' places mixed_malloc,64,1000000,1,1,1,0 malloc-mixed.svg
it 'scaling_free' places scaling_free,64,4,1,1,1,0 free-threads.svg
nowhere() { theirs "x,$1,1,1,1,0" && plot 1 "$work/b.csv" && same "$err" "$nothing" && [[ ! -e $work/pictures ]]; }
nothing='mmbench: --plot: nothing to draw; expected times of the cases single, mixed or scaling'
rm -rf "$work/pictures"
it 'other sizes of the threads' nowhere scaling_malloc,16,4
it 'other threads of the sizes' nowhere single_malloc,16,4
it 'another case' nowhere churn,512,131072
it 'a cold heap' nowhere single_malloc_cold,16,1000000
it 'no time' nowhere single_align,16,1000000
only_failed() { theirs x,single_malloc,16,1000000,1,1,1,5 && plot 1 "$work/b.csv" && same "$err" "$nothing" && [[ ! -e $work/pictures ]]; }
it 'only failures' only_failed

no_spread() {
    theirs mm,single_malloc,16,1000000,1,nan,2,0 mm,single_malloc,32,1000000,1,nan,nan,0 &&
        plot 0 "$work/b.csv" && same "$(titles)" $'mm, 16: 1 ms\nmm, 32: 1 ms' && lacks "$svg" nan && lacks "$svg" inf
}
it 'no spread where none is told' no_spread
names() {
    ours "$(row 'a<b>&"c' 16 5)" && plot 0 "$work/a.csv" && sound "$work/pictures/malloc-size.svg" &&
        has "$svg" '<title>a&lt;b&gt;&amp;&quot;c, 16: 5 µs'
}
it 'names that mean something in XML' names
crowd() {
    local i lines=()
    for ((i = 0; i < 60; i++)); do lines+=("$(row "one$i" 16 5)"); done
    ours "${lines[@]}" && plot 0 "$work/a.csv" && sound "$work/pictures/malloc-size.svg" || return
    grep -E '>one[0-9]+</text>' <<<"$svg" | sed 's/.* y="\([0-9.]*\)".*/\1/' | sort -n |
        awk 'NR > 1 && $1 - last < 15.9 { exit 1 } { last = $1 } END { if (NR != 60) exit 1 }'
}
it 'sixty names at one place do not touch' crowd
said() {
    rows a.csv '# mmbench, 2026-01-02 03:04:05 UTC' '# GPU: Paper & Ink' '# driver: 5 (CUDA 13.1)' \
        '# note: x_*: is <odd>'$'\xff\x7f' '# note: w: is not here' '# late, 2026-09-09' \
        "$own" "$(row x_1 16 5)" "$(row y 16 5)" &&
        rows b.csv '# More, 2026-01-03' '# GPU: Slate' '# driver: 5 (CUDA 13.1)' "$peers" z,single_malloc,16,1000000,1,1,1,0 &&
        plot 0 "$work/a.csv" "$work/b.csv" && sound "$work/pictures/malloc-size.svg" &&
        has "$svg" '>Paper &amp; Ink, driver 5 (CUDA 13.1), 2026-01-02<' && has "$svg" '>Slate, driver 5 (CUDA 13.1), 2026-01-03<' &&
        has "$svg" '>x_1 †<' && has "$svg" '>y<' && has "$svg" '>† x_*: is &lt;odd&gt;??<' && lacks "$svg" 'not here' && has "$svg" '>Not measured here: mm, builtin<'
}
it 'machines, dates, notes' said
ends() {
    ours "$(row mm 16 5)" "$(row mm 32 6)" && plot 0 "$work/a.csv" && same "$(path mm)" ML || return
    local before=$svg
    sed -i 's/$/\r/' "$work/a.csv" && plot 0 "$work/a.csv" && same "$svg" "$before"
}
it 'lines that end in CR LF' ends
largest() {
    ours "$(row mm 18446744073709551615 5)" "$(row mm 1 5)" && plot 0 "$work/a.csv" &&
        sound "$work/pictures/malloc-size.svg" && same "$(grep -c '>1<.text>' <<<"$svg")" 1
}
it 'the largest size there is' largest

# ---- errors ------------------------------------------------------------------------------------------

# wrong TEXT HEADER LINE...: that one line, status 1, and nothing is written; the file is the second of two.
wrong() {
    rm -rf "$work/pictures"
    ours "$(row mm 16 5)" && rows b.csv "${@:2}" && plot 1 "$work/a.csv" "$work/b.csv" &&
        same "$err" "mmbench: $work/b.csv:$1" && [[ ! -e $work/pictures ]]
}
known="expected $own or $peers"
it 'fields that nobody knows' wrong "1: \"a,b\" names no fields that it knows; $known" a,b
it 'rows before their fields' wrong "2: \"$(row mm 16 5)\" names no fields that it knows; $known" '# x' "$(row mm 16 5)"
it 'a field too few' wrong '3: 7 fields; expected 8' '# x' "$peers" x,single_malloc,16,1,1,1,1
it 'a field too many' wrong '2: 17 fields; expected 16' "$own" "$(row mm 16 5),"
it 'a line that was cut' wrong '3: 4 fields; expected 16' "$own" "$(row mm 16 5)" mm,single,32,100
it 'no name' wrong '2: allocator: ""; expected a name of 31 characters at most' "$own" "$(row '' 16 5)"
long=abcdefghijklmnopqrstuvwxyz012345
it 'a long name' wrong "2: allocator: \"$long\"; expected a name of 31 characters at most" "$own" "$(row $long 16 5)"
it 'a size that is none' wrong '2: size: "16x"; expected a number' "$own" "$(row mm 16x 5)"
it 'a size of nothing' wrong '2: size: "0"; expected a number above 0' "$own" "$(row mm 0 5)"
it 'a size beyond 64 bits' wrong '2: size: "18446744073709551616"; expected a number' "$own" "$(row mm 18446744073709551616 5)"
it 'negative threads' wrong '2: threads: "-1"; expected a number' "$peers" x,single_malloc,16,-1,1,1,1,0
it 'no threads' wrong '2: threads: "0"; expected a number above 0' "$peers" x,single_malloc,16,0,1,1,1,0
it 'a median that is none' wrong '2: median: "fast"; expected a number that is not negative' "$own" "$(row mm 16 fast)"
it 'a negative median' wrong '2: median_ms: "-1"; expected a number that is not negative' "$peers" x,single_malloc,16,1,-1,1,1,0
it 'an endless one' wrong '2: max_ms: "inf"; expected a number that is not negative' "$peers" x,single_malloc,16,1,1,1,inf,0
it 'no median' wrong '2: median: ""; expected a number where nothing failed' "$own" "$(row mm 16 '')"
it 'nan' wrong '2: median_ms: "nan"; expected a number where nothing failed' "$peers" x,single_malloc,16,1,nan,nan,nan,0
it 'no time at all' wrong '2: median_ms: "0"; expected a time' "$peers" x,single_malloc,16,1,0,0,0,0
it 'more time than there is' wrong '2: median_ms: "1e300"; expected a time' "$peers" x,single_malloc,16,1,1e300,1,1e300,0
it 'a median below the least' wrong '2: median_ms: "1"; expected one between the least and the most' "$peers" \
    x,single_malloc,16,1,1,2,3,0
it 'a median above the most' wrong '2: median_ms: "4"; expected one between the least and the most' "$peers" \
    x,single_malloc,16,1,4,2,3,0
it 'another unit' wrong '2: unit: "ms"; expected us' "$own" mm,single,16,1000000,malloc,ms,5,1,9,12,,,0,0,,ok
it 'a status that is none' wrong '2: status: "fine"; expected ok, null, crash, hung or the like' "$own" "$(row mm 16 5 fine)"
it 'a status that no file has' wrong '2: status: "pending"; expected ok, null, crash, hung or the like' "$own" "$(row mm 16 5 pending)"
it 'a count that is none' wrong '2: failed_count: ""; expected a number from -4' "$peers" x,single_malloc,16,1,1,1,1,
it 'a count that means nothing' wrong '2: failed_count: "-5"; expected a number from -4' "$peers" x,single_malloc,16,1,1,1,1,-5

# unreadable TEXT FILE: that one line, status 1.
unreadable() { plot 1 "$2" && same "$err" "mmbench: --plot: \"$2\" $1" && [[ ! -e $work/pictures ]]; }
rm -rf "$work/pictures"
it 'a file that is not there' unreadable 'cannot be read: No such file or directory' "$work/no.csv"
it 'a file that is a directory' unreadable 'cannot be read: Is a directory' "$work"
it 'an empty file' unreadable 'has no rows; expected a file of mmbench --csv' /dev/null
printf '# only\n\n' >"$work/only"
it 'only comments' unreadable 'has no rows; expected a file of mmbench --csv' "$work/only"

# misused TEXT ARGUMENT...: that one line, status 2.
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
