# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash disable=SC2016,SC2154
# Part of run.sh: how scripts that plant faults handle suites that crash, hang, or have to wait for the processor. The C compiler is a
# stand-in that produces the program in $suite.

# plants STATUS LAST PROGRAM: runs tests/unit/mutants.sh with one fault and one suite; expects that last line, and no message of bash.
plants() {
    local got=0 said
    mkdir -p "$work"/tree/{tests/unit,runtime/{core,gallatin,listed,random_walk,regeff,ouroboros,checked,cpu},tools/mmbench/child/papers} && cp "$root"/tests/{bounded.sh,runner.h} "$work/tree/tests" &&
        : >"$work/tree/runtime/port.h" && : >"$work/tree/runtime/cpu/a.c" &&
        : >"$work/tree/tools/kernels.h" && : >"$work/tree/tools/mmbench/child/papers/probes.h" && echo '#define GOOD' >"$work/tree/mmconfig.h" &&
        echo 'class: it @@ mmconfig.h @@ GOOD @@ BAD' >"$work/tree/tests/unit/mutants.txt" &&
        sed 's/^suites=.*/suites=(class)/' "$root/tests/unit/mutants.sh" >"$work/tree/tests/unit/mutants.sh" || return
    stub cc 'while [[ $1 != -o ]]; do shift; done' "printf '%s\n' '#!/bin/bash' '$3' >\"\$2\"" 'chmod 755 "$2"'
    said=$(PATH=$work/bin:/usr/bin:/bin BOUNDED_SECONDS=1 bash "$work/tree/tests/unit/mutants.sh" 2>&1) || got=$?
    same "${said##*$'\n'}" "$2" && same "$got" "$1" || return
    [[ $said != *line\ * ]] || { echo "$said"; return 1; }
}
it 'mutants: a suite that notices' plants 0 'mutants: 1 killed, 0 survived' 'grep -q GOOD mmconfig.h'
it 'mutants: a suite that does not' plants 1 'mutants: 0 killed, 1 survived' ':'
it 'mutants: a suite that fails anyway' plants 1 'mutants: 0 killed, 0 survived, none planted' 'false'
it 'mutants: a suite that hangs' plants 0 'mutants: 1 killed, 0 survived' 'grep -q GOOD mmconfig.h || while :; do :; done'
it 'mutants: a suite that crashes' plants 0 'mutants: 1 killed, 0 survived' 'grep -q GOOD mmconfig.h || kill -SEGV $$'
it 'mutants: a suite that waits for the processor' plants 1 'mutants: 0 killed, 1 survived' 'sleep 2'
