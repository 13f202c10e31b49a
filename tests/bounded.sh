# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# For the scripts that plant faults: they run programs that may hang or crash.

# bounded LOG COMMAND...: runs COMMAND with its output in LOG, including the shell's "Segmentation fault" after a crash. A program that
# hangs is ended after BOUNDED_SECONDS of processor time; a limit of elapsed time would also end sound programs on a busy
# machine. BOUNDED_CLOCK, a much larger limit of elapsed time, ends programs that wait for ever.
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

# untried NAME WHY: prints the last line if the suites fail without a fault, so that nothing was planted.
untried() {
    printf '%s: the suites fail without a fault: %s\n' "$1" "$2" >&2
    printf '%s: 0 killed, 0 survived, none planted\n' "$1"
    exit 1
}
