#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check.sh COMMAND...: runs make, with one job per processor unless -j was given, and prints at the end, in one line, which targets
# failed. With the default jobs the output of each suite stays in one piece.
set -u
[[ " ${MAKEFLAGS-} " == *' -j'* || " ${MAKEFLAGS-} " == *' --jobserver'* ]] ||
    set -- "$@" -j"$(nproc)" --output-sync=target
log=$(mktemp) && trap 'rm -f "$log"' EXIT || exit
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
failed=$(sed -nE 's/^g?make(\[[0-9]+\])?: \*\*\* \[([^]]*: )?([^]: ]+)\] .*/\3/p' "$log" | awk '!seen[$0]++' | paste -sd ' ')
((status == 0)) || printf 'make check: failed: %s\n' "${failed:-(it did not begin)}"
exit "$status"
