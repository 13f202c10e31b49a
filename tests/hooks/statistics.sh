#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# statistics.sh BUILD: the JSON of MM_STATS=json matches docs/statistics.schema.json, and changed JSON does not. Prints "N passed, M failed".
set -u
build=$(readlink -f "${1:?usage: statistics.sh BUILD}") passed=0 failed=0
docs=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../docs")
schema=$docs/statistics.schema.json
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit

# valid FILE: each of its lines is valid, and there is at least one.
valid() {
    python3 - "$schema" "$1" <<'PYTHON'
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
kind = jsonschema.validators.validator_for(schema)  # an older library takes its newest
kind.check_schema(schema)
lines = open(sys.argv[2]).read().splitlines()
for line in lines:
    kind(schema).validate(json.loads(line))
sys.exit(not lines)
PYTHON
}
check() { # NAME EXPECTED STATUS
    if [[ $2 == "$3" ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: status %s, expected %s\n' "$1" "$3" "$2"
    fi
}

# Every member that a schema describes is required: the writer leaves none out.
for one in "$schema" "$docs/pool-statistics.schema.json"; do
    python3 - "$one" <<'PYTHON'
import json, sys
def complete(s):
    own = "properties" not in s or sorted(s.get("required", [])) == sorted(s["properties"])
    if not own: print("not required:", sorted(set(s["properties"]) - set(s.get("required", []))))
    inner = [*s.get("properties", {}).values(), *s.get("$defs", {}).values(), s.get("items")]
    return own & all([complete(x) for x in inner if isinstance(x, dict)])
sys.exit(not complete(json.load(open(sys.argv[1]))))
PYTHON
    check "all members of $one are required" 0 $?
done
cd "$build/tests/hooks" || exit
for setting in MM_HEAP_SIZE=28M MM_HEAP_SIZE=1G MM_SPACING=128 LC_ALL=de_DE.UTF-8; do
    for end in end reset release; do
        env "$setting" MM_STATS=json MM_STATS_FILE="$work/$setting.$end" LD_LIBRARY_PATH=. LD_PRELOAD="$build/lib/libmm.so.1" MM_ON_MISUSE=ignore \
            ./client v2-legacy usage "$end" >"$work/out" || check "$setting $end runs" 0 1
        valid "$work/$setting.$end"
        check "$setting $end" 0 $?
    done
done
for change in 's/"live_objects":1011/"live_objects":-1/' 's/"runs":1,//' 's/"asked_bytes":null/"asked_bytes":"not counted"/' 's/"device"/"gpu"/'; do
    sed "$change" "$work/MM_HEAP_SIZE=28M.end" >"$work/changed"
    valid "$work/changed" 2>/dev/null
    check "after $change" 1 $?
done
schema=$docs/pool-statistics.schema.json
for scenario in pool-pairs pool-order pool-contexts; do
    env MM_POOL=async MM_STATS=json MM_STATS_FILE="$work/$scenario" LC_ALL=de_DE.UTF-8 LD_LIBRARY_PATH=. LD_PRELOAD="$build/lib/libmm.so.1" ./client v2-legacy "$scenario" >"$work/out" ||
        check "$scenario runs" 0 1
    valid "$work/$scenario"
    check "$scenario" 0 $?
done
for change in 's/"hits":/"hit":/' 's/"live_bytes":/"live_bytes":-/' 's/"fit":"tlsf"/"fit":""/'; do
    sed "$change" "$work/pool-order" >"$work/changed"
    valid "$work/changed" 2>/dev/null
    check "after $change" 1 $?
done
echo "statistics: $passed passed, $failed failed"
((failed == 0))
