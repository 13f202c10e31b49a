#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# models.sh SECONDS BOUND PROGRAM...: explores every scenario of the programs, SECONDS for each at most, with as many
# preemptions as the scenario asks for (BOUND empty), or BOUND at most (-BOUND). MODEL_JOBS programs at a time (2). The last line
# is the summary; fails if a scenario is violated or never ends. A scenario that runs out of time is
# only reported.
set -u
seconds=$1 bound=$2
shift 2
scenarios=0 bad=0 running=0 violated=()
for program; do
    if ((running == ${MODEL_JOBS:-2})); then
        wait -n
        running=$((running - 1))
    fi
    (
        MODEL_QUIET=1 "$program" "" "$seconds" ${bound:+"$bound"} >"$program.log" 2>&1
        echo "$?" >"$program.status"
    ) &
    running=$((running + 1))
done
wait
for program; do
    if [[ $(<"$program.status") != [02] ]] || grep -q 'TOO DEEP' "$program.log"; then
        bad=1
        name=$(grep -m 1 -E '^model: |TOO DEEP' "$program.log" | sed -E 's/^model: //; s/[: ].*//') # none: the program crashed
        violated+=("$program '${name:+$name=}'")
    fi
    cat "$program.log"
    scenarios=$((scenarios + $(cut -d ' ' -f 1 "$program.log" | sort -u | wc -l)))
done
((bad == 0)) || printf 'model: violated; this prints the schedule: %s 60 0\n' "${violated[@]}"
echo "model: $scenarios scenarios"
exit "$bad"
