#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# models.sh SECONDS BOUND PROGRAM...: explores every scenario of the programs, SECONDS for each at most, with as many
# preemptions as the scenario asks for (BOUND empty), or BOUND at most (-BOUND). MODEL_JOBS programs at a time (2). The last line
# is the summary; fails if a scenario is violated or never ends. A scenario that runs out of time is
# only reported.
set -u
seconds=$1 bound=$2
shift 2
scenarios=0 bad=0 running=0
for program; do
    if ((running == ${MODEL_JOBS:-2})); then
        wait -n
        running=$((running - 1))
    fi
    (
        MODEL_QUIET=1 "$program" "" "$seconds" ${bound:+"$bound"} >"$program.log"
        echo "$?" >"$program.status"
    ) &
    running=$((running + 1))
done
wait
for program; do
    [[ $(<"$program.status") == [02] ]] || bad=1
    grep -q 'TOO DEEP' "$program.log" && bad=1
    cat "$program.log"
    scenarios=$((scenarios + $(cut -d ' ' -f 1 "$program.log" | sort -u | wc -l)))
done
echo "model: $scenarios scenarios"
exit "$bad"
