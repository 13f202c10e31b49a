#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check.sh COMMAND...: runs make, with as many jobs as there are processors unless it was given -j, and says behind all that it said which of
# its targets failed, in one line. Jobs at once: what each suite says stays in one piece.
set -u
[[ " ${MAKEFLAGS-} " == *' -j'* || " ${MAKEFLAGS-} " == *' --jobserver'* ]] ||
    set -- "$@" -j"$(nproc)" --output-sync=target
log=$(mktemp) && trap 'rm -f "$log"' EXIT || exit
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
failed=$(sed -nE 's/^g?make(\[[0-9]+\])?: \*\*\* \[([^]]*: )?([^]: ]+)\] .*/\3/p' "$log" | awk '!seen[$0]++' | paste -sd ' ')
((status == 0)) || printf 'make check: failed: %s\n' "${failed:-(it did not begin)}"
exit "$status"
