# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash disable=SC2016,SC2154,SC2317,SC2329
# Tests of mmdoctor --selftest; run.sh sources this file. First without a GPU; then with a copy of the installation whose parts are stand-ins,
# so that a test determines the report, failures and hangs. FAKE: "PART=HOW ..." with fail, crash, hang, path.

fake_parts() {
    printf '%s\n' '#!/bin/bash' 'name=${1-}' '[[ ${0##*/} != mmbench ]] || name=bench' \
        '[[ ${1-} != --version ]] || { echo "mmbench (mm) 0, commit abc123"; exit; }' 'echo "$$" > "$FAKE_LOG.$name"' \
        'echo "$name: $*" >> "$FAKE_LOG"' 'how=ok; for rule in ${FAKE-}; do [[ ${rule%%=*} != "$name" ]] || how=${rule#*=}; done' \
        'case $how in' 'hang) exec sleep 300 ;;' 'crash) kill -SEGV $$ ;;' 'nogpu) echo "no GPU: none" >&2 && exit 3 ;;' \
        'path) echo "mm: cannot write statistics to $HOME/a b/file, /etc/secret: \"$PWD/x\"" ;;' 'esac' \
        '[[ $name != look ]] || { echo "mm: a remark" && echo "A GPU of paper, sm_90, ${FAKE_MB:-24000} MB, 2 multiprocessors; CUDA of the driver 13.0, of this build 13.0"; }' \
        'echo "ok      figure of $name  12.5 ms"' '[[ $how != fail ]]' > fake_part
    chmod 755 fake_part
    sick 'cp ../../../fake_part selftest/mmselftest && cp ../../../fake_part ../../bin/mmbench && cp selftest/selftest selftest/whole'
}
# hurried PART STATUS FAKE: like selftest, with a limit of one second for PART. All other parts keep their limit, so that they pass on a busy machine.
hurried() {
    local here=sick/lib/mm/selftest
    sed -i "s/\[$1\]=[0-9]*/[$1]=1/" $here/selftest && selftest "${@:2}" && cp $here/whole $here/selftest
}
# selftest STATUS FAKE: runs the stand-ins; sets said, report and log.
selftest() {
    local got=0
    rm -rf sent && mkdir sent && export FAKE_LOG=$out/fake.log && rm -f fake.log*
    said=$(cd sent && FAKE=$2 timeout 60 ../sick/bin/mmdoctor "${report_to:---selftest}" 2>&1) || got=$?
    report=$(cat sent/* 2> /dev/null) log=$(cat fake.log 2> /dev/null)
    same "$got" "$1" || { printf '%s\n' "$said" && return 1; }
}
gone() { # gone PART: waits until the process of the part has ended
    local i
    for ((i = 0; i < 50; i++)); do
        [[ $(cat "/proc/$(< "fake.log.$1")/stat" 2> /dev/null) == *') '[^Z]' '* ]] || return 0
        sleep 0.1
    done
    echo "$1 is still there" && return 1
}

without_gpu() {
    local said got=0
    rm -rf sent && mkdir sent && said=$(cd sent && CUDA_VISIBLE_DEVICES='' timeout 60 "$bin/mmdoctor" --selftest 2>&1) || got=$?
    same "$got" 1 && same "$(grep -cE '^mmdoctor: no GPU here \(.+\); --selftest needs one$' <<< "$said") $(grep -c . <<< "$said")" '1 1' &&
        same "$(ls sent)" ''
}
it 'mmdoctor --selftest without a GPU' without_gpu
fake_parts
it 'the same, by a part that says so' eval 'selftest 1 look=nogpu && same "$said" "mmdoctor: no GPU here (none); --selftest needs one" && same "$report" ""'
passes() {
    local part
    MM_HEAP_MAX=50% SECRET_TOKEN=12345 selftest 0 '' && same "$(head -n 1 <<< "$report" | cut -d, -f1)" 'mm self-test' &&
        has "$report" "$(printf 'mm         %s, agreement version %s, commit abc123' "$version" "$abi")" && has "$report" 'GPU        A GPU of paper, sm_90, 24000 MB' &&
        has "$report" 'environ    MM_HEAP_MAX=50%' && has "$report" 'toolkit    release ' && has "$report" "$(uname -srm)" && lacks "$report" 12345 || return
    for part in core stress conv footprint bench; do
        has "$report" "== $part: passed, " && has "$report" "figure of $part  12.5 ms" && has "$said" "$(printf '%-10s passed, ' $part)" || return
    done
    has "$log" 'bench: --quick --timeout 3 --heap 2G --cases' && has "$said" '5 of 5 parts passed' && has "$said" "the report is in $(ls sent);"
}
it 'a report of all parts' passes
small_gpu() { FAKE_MB=4096 selftest 0 '' && has "$log" '--heap 1G'; }
it 'a GPU with little memory' small_gpu
fails() {
    selftest 1 'conv=fail core=crash' && has "$report" '== conv: FAILED: status 1, ' && has "$report" 'figure of conv' && has "$report" '== core: FAILED: status 139, ' &&
        has "$report" '== bench: passed' && has "$said" '3 of 5 parts passed'
}
it 'parts that fail' fails
hangs() { # the limit is 1 s; the reported time depends on how busy the machine is
    hurried stress 1 stress=hang && grep -qE '^== stress: FAILED: ended after [0-9]+ s, its limit is 1 s$' <<< "$report" &&
        has "$report" '== bench: passed' && gone stress
}
it 'a part that hangs' hangs
look_hangs() { hurried look 1 look=hang && same "$said" 'mmdoctor: the GPU does not answer within 1 s; --selftest needs one that does' && gone look; }
it 'a GPU that hangs' look_hangs
bench_is_gone() { mv sick/bin/mmbench sick/kept && selftest 1 '' && has "$report" '== bench: FAILED: status 127, ' && mv sick/kept sick/bin/mmbench; }
it 'a part that is not there' bench_is_gone
private() {
    HOME="/home/jane doe" MM_STATS_FILE=/home/jane/stats MM_NVCC=$out/nvcc selftest 0 'core=path' && has "$report" 'mm: cannot write statistics to PATH' &&
        has "$report" 'environ    MM_STATS_FILE=PATH' && has "$report" 'environ    MM_NVCC=PATH' && lacks "$report" jane && lacks "$report" doe && lacks "$report" secret &&
        lacks "$report" "$out" && ! grep -w -- "$(uname -n)" <<< "$report" && ! grep -w -- "$(id -un)" <<< "$report"
}
it 'nothing private in the report' private
it 'a place of its own' eval 'report_to=--selftest=mine.txt selftest 0 "" && same "$(ls sent)" mine.txt && has "$report" "== core: passed"'
it 'a place that cannot be written' eval 'report_to=--selftest=/nowhere/mine selftest 2 "" &&
    same "$said" "mmdoctor: cannot write '\''/nowhere/mine'\''; --selftest=FILE names another place"'
it '--selftest and a file' says 2 "mmdoctor: --selftest looks at no files; give 'whole' to mmdoctor alone" "${doctor[@]}" --selftest whole
interrupted() {
    local got=0 i pid
    rm -rf sent fake.log* && mkdir sent && export FAKE_LOG=$out/fake.log
    (cd sent && FAKE=conv=hang exec ../sick/bin/mmdoctor --selftest=report > /dev/null 2>&1) &
    pid=$!
    for ((i = 0; i < 200; i++)); do [[ ! -s fake.log.conv ]] || break; sleep 0.1; done
    kill -TERM "$pid" && { wait "$pid" || got=$?; }
    same "$got" 130 && gone conv && has "$(< sent/report)" '== stress: passed' && same "$(tail -n 1 sent/report)" interrupted
}
it 'interrupted' interrupted
