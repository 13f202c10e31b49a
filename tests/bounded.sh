# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# For the scripts that plant faults: runs of programs that may hang or crash.

# bounded LOG COMMAND...: runs it with what it says in LOG, a crash's "Segmentation fault" too. What hangs is ended after
# BOUNDED_SECONDS of processor time, since a bound of the clock's would be met by what is sound on a busy machine; the clock's is for
# what waits without end, and far away.
bounded() {
    local log=$1
    shift
    {
        (
            ulimit -c 0 -t "${BOUNDED_SECONDS:-300}"
            CK_TIMEOUT_MULTIPLIER=20 exec timeout "${BOUNDED_CLOCK:-3600}" "$@"
        )
    } >"$log" 2>&1
}

# untried NAME WHY: the last line, if nothing was planted since the suites fail as it is.
untried() {
    printf '%s: the suites fail without a fault: %s\n' "$1" "$2" >&2
    printf '%s: 0 killed, 0 survived, none planted\n' "$1"
    exit 1
}
