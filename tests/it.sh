# shellcheck shell=bash disable=SC2154  # the sourcing script sets root
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# it.sh SUITE: functions that run and count tests. To be sourced; needs `root` (the tree), and MAKE in the environment.
suite=$1 passed=0 failed=0

# What comes before each test, for scripts to define anew.
before() { :; }
# it WHAT COMMAND...: runs one test; if the command fails, so does the test, and its output is printed.
it() {
    local what=$1 said
    shift
    if said=$({ before && "$@"; } 2>&1); then
        ((++passed))
    else
        ((++failed))
        printf '%s: FAILED: %s\n%s\n' "$suite" "$what" "$said"
    fi
}
same() { [[ $1 == "$2" ]] || { diff <(printf '%s\n' "$2") <(printf '%s\n' "$1"); false; }; }
has() { [[ $1 == *"$2"* ]] || { printf 'got:      %s\nwithout:  %s\n' "$1" "$2"; return 1; }; }
lacks() { [[ $1 != *"$2"* ]] || { printf 'got:   %s\nwith:  %s\n' "$1" "$2"; return 1; }; }
# says STATUS TEXT COMMAND...: expects that exit status, and exactly that output.
says() {
    local said got=0
    said=$("${@:3}" 2>&1) || got=$?
    same "$said" "$2" && same "$got" "$1"
}
makes() { "$MAKE" --no-print-directory -C "$root" "$@"; }
number_of() { awk -v name="$1" '$2 == name {gsub(/"/, "", $3); print $3}' "$root/mmconfig.h"; }
# Prints the suite's last line and returns its status.
it_ends() {
    printf '%s: %d passed, %d failed\n' "$suite" "$passed" "$failed"
    ((failed == 0))
}
