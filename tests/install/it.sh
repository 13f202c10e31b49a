# shellcheck shell=bash disable=SC2154  # root is the caller's
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# it.sh SUITE: how the suites of this folder test and count; to be sourced, with `root`, the tree, and MAKE in the environment.
suite=$1 passed=0 failed=0

# it WHAT COMMAND...: one test; the command's failure is a failure, with what it said.
it() {
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then
        ((++passed))
    else
        ((++failed))
        printf '%s: FAILED: %s\n%s\n' "$suite" "$what" "$said"
    fi
}
same() { [[ $1 == "$2" ]] || { diff <(printf '%s\n' "$2") <(printf '%s\n' "$1"); false; }; }
has() { [[ $1 == *"$2"* ]] || { printf 'got:      %s\nwithout:  %s\n' "$1" "$2"; return 1; }; }
lacks() { [[ $1 != *"$2"* ]] || { printf 'got:   %s\nwith:  %s\n' "$1" "$2"; return 1; }; }
# says STATUS TEXT COMMAND...: the command ends with that status and says exactly that.
says() {
    local said got=0
    said=$("${@:3}" 2>&1) || got=$?
    same "$said" "$2" && same "$got" "$1"
}
makes() { "$MAKE" --no-print-directory -C "$root" "$@"; }
number_of() { awk -v name="$1" '$2 == name {gsub(/"/, "", $3); print $3}' "$root/mmconfig.h"; }
# The suite's last line, and status.
it_ends() {
    printf '%s: %d passed, %d failed\n' "$suite" "$passed" "$failed"
    ((failed == 0))
}
