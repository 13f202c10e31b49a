#!/bin/bash
# models.sh BUILD SECONDS BOUND PROGRAM...: explores every scenario of the programs, SECONDS for each at most, with BOUND
# preemptions (empty: what the scenario asks for), then plants the mutants. The last line says how that went; fails if a
# scenario is violated, goes on for ever, or a mutant survives. A scenario that runs out of time is reported, no more.
set -u
build=$1 seconds=$2 bound=$3
shift 3
scenarios=0 bad=0
for program; do
    MODEL_QUIET=1 "$program" "" "$seconds" ${bound:+"$bound"} >"$build/model/log" || [[ $? -eq 2 ]] || bad=1
    grep -q 'TOO DEEP' "$build/model/log" && bad=1
    cat "$build/model/log"
    scenarios=$((scenarios + $(cut -d ' ' -f 1 "$build/model/log" | sort -u | wc -l)))
done
mutants=$(tests/model/mutants.sh "$build" 5 "${bound:-2}") || bad=1
[[ $mutants == *$'\n'* ]] && printf '%s\n' "${mutants%$'\n'*}"
echo "model: $scenarios scenarios, ${mutants##*$'\n'}"
exit "$bad"
