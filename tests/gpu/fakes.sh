#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# fakes.sh: without a GPU: the scripts that run programs on one fail if a program fails, whichever it is. A stand-in for mmrun prints what the programs of
# failing.sh print. Ends with "gpu scripts: N passed, M failed". From the root of the tree.
# The functions are called by name through "it".
# shellcheck disable=SC2016,SC2317,SC2329
set -u
# shellcheck source=tests/it.sh
source tests/it.sh 'gpu scripts'
build=$(mktemp -d) && trap 'rm -rf "$build"' EXIT || exit
mkdir "$build/bin"
cat >"$build/bin/mmrun" <<'FAKE'
#!/bin/sh
# Fails if the name of the program is $BROKEN; all: any program.
[ "${1##*/}" != "$BROKEN" ] && [ "$BROKEN" != all ] || exit 1
each=655360 make=0 other=0
case $MM_FAIL in
1/1024*) make=1000 other=280 ;;
1/1) make=$each other=$each ;;
1 | 1000 | 1310720) make=1 ;;
kernel:make) make=$each ;;
kernel:other | kernel:_ZN5inner5otherEPj) other=$each ;;
esac
echo "failing: make $make, other $other of $each each"
[ "$MM_FAIL" = 0 ] || echo "mm: device 0: MM_FAIL=$MM_FAIL: $((make + other)) of $((2 * each)) requests failed"
[ -z "${MM_CHECK-}" ] || echo 'mm: device 0: checked: 0 leaks of 0 bytes, 0 writes past the end, 0 writes after free, 0 misuses of free'
FAKE
printf '#!/bin/sh\nexit 1\n' >"$build/bin/mmbench"
chmod +x "$build/bin/"*

# ends STATUS BROKEN SCRIPT: the script ends with that status
ends() {
    local status
    BROKEN=$2 "tests/gpu/$3.sh" "$build" >"$build/said" 2>&1
    status=$?
    ((status == $1)) || { echo "status $status, expected $1: $(tail -n 3 "$build/said")" && false; }
}
it 'failing.sh: all is well' ends 0 none failing
it 'failing.sh: each setting of each program is counted' eval 'grep -q ": 54 passed, 0 failed$" "$build/said" || { cat "$build/said" && false; }'
for program in failing failing_rdc failing_ptx failing_plain; do it "failing.sh: $program fails" ends 1 "$program" failing; done
# counts SCRIPT PASSED FAILED: every program fails, and the script goes on to its end
counts() { ends 1 all "$1" && { grep -q "^$1: $2 passed, $3 failed\$" "$build/said" || { tail -n 3 "$build/said" && false; }; }; }
it 'trace.sh: every program fails' counts trace 6 32
it 'profile.sh: every program fails' counts profile 14 44
it_ends
