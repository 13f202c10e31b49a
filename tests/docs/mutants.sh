#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh BUILD: plants one mistake at a time in the documents; check.sh must report each.
# From the root of the tree. Ends with "docs-mutants: N passed, N failed".
# Backquoted text is for sed.
# shellcheck disable=SC2016
set -u
export LC_ALL=C
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
passed=0 failed=0
mkdir -p "$work/right/tests/docs" "$work/right/tests/model"
cp -r ./*.md docs man bench "$work/right" && cp tests/docs/commands.txt "$work/right/tests/docs" && cp tests/model/*.md "$work/right/tests/model" || exit

# says TREE ONLY: prints check.sh's failures for that tree
says() { ROOT=$work/$1 ONLY=$2 tests/docs/check.sh "$build" | grep -v ' passed, ' | sed "s,$work/$1/,,"; }
build=$1
says right nothing >"$work/before"

# it FILE EXPRESSION MESSAGE [COMMAND]: after sed's EXPRESSION in FILE, check.sh reports MESSAGE, which it does not for the unchanged documents
it() {
    local said
    rm -rf "$work/wrong" && cp -r "$work/right" "$work/wrong" || exit
    for file in $1; do sed -i "$2" "$work/wrong/$file" || exit; done
    if diff -rq "$work/right" "$work/wrong" >/dev/null; then
        said='(the expression changes nothing)'
    else
        said=$(says wrong "${4-nothing}" | grep -vxF -f "$work/before")
    fi
    if [[ $said == *"$3"* ]]; then
        ((++passed))
    else
        ((++failed))
        printf 'docs-mutants: FAILED: %s in %s: expected %s\n%s\n' "$2" "$1" "$3" "$said"
    fi
}

it README.md 's,docs/how-to/tuning.md,docs/tunning.md,' 'the link docs/tunning.md leads nowhere'
it docs/how-to/tuning.md 's/#mmh)/#mmhh)/' 'there is no heading for the link ../reference/contract.md#mmhh'
it docs/reference/limits.md 's/^## Misuse/## Misuses/' 'there is no heading for the link ../reference/limits.md#misuse'
it docs/how-to/tuning.md 's/^    mmbench --list/    mmbench --lists/' "'mmbench --lists' is no command"
it docs/how-to/tuning.md '$a\\n    rm -rf build' "'rm -rf build' is no command"
it CONTRIBUTING.md 's/`make bench`/`make branch now`/' "'make branch now' is no command"
it man/mmrun.1 's/^\.Dl MM_VERBOSE=1 mmrun/.Dl MM_VERBOSE=1 mmrum/' "'MM_VERBOSE=1 mmrum ./app' is no command"
it tests/docs/commands.txt '$a\make tea :: not: there is none' "'make tea' is in no document"
it 'docs/how-to/tuning.md tests/docs/commands.txt' 's/mmbench --allocators/mmbench --alocators/' 'mmbench --help has no --alocators' \
    'mmbench --alocators mm --cases single,mixedu,churn'
it 'README.md tests/docs/commands.txt' 's/make demo/make dema/' 'no target dema' 'make dema'
it 'CONTRIBUTING.md tests/docs/commands.txt' 's/fuzz FUZZ_SECONDS/fuzz FUZZ_SECOND/' 'no variable FUZZ_SECOND' 'make fuzz FUZZ_SECOND=60'
it 'README.md tests/docs/commands.txt' 's/mmnvcc --mm-show/mmnvcc --mm-shew/' 'unknown option' 'mmnvcc --mm-shew'
it tests/docs/commands.txt 's/: "$cache" "/: "$cache" \x27/' "ccache mmnvcc" 'ccache mmnvcc'
it docs/explanation/design.md 's,`runtime/core/tree.h`,`runtime/core/trees.h`,' 'runtime/core/trees.h is not there'
it docs/how-to/tuning.md 's/`MM_SPACING`/`MM_SPACINGS`/' 'nothing is called MM_SPACINGS'
it docs/how-to/tuning.md 's/MM_TRIM/MM_TRIM=idly/' 'no idly is known for MM_TRIM'
it docs/how-to/tuning.md 's/MM_TRIM/MM_TREE=1/' 'MM_TREE is no variable of mm'
it 'README.md docs/reference/environment.md docs/how-to/tuning.md docs/reference/contract.md docs/how-to/troubleshooting.md docs/reference/limits.md docs/explanation/design.md' 's/`MM_GROW_WAIT_MS\(=[^`]*\)\?`/it/g' \
    'no document tells of the variable MM_GROW_WAIT_MS'
it CONTRIBUTING.md 's/bench demo faults/bench faults/' 'the list of targets lacks demo'
it CONTRIBUTING.md 's/bench demo faults/bench tea demo faults/' 'the list of targets has tea, which is none'
it docs/how-to/troubleshooting.md 's/cannot be linked to the machine code/cannot be joined to the machine code/' "no program says 'the allocator cannot be joined to the machine code"
it docs/how-to/troubleshooting.md 's/MM_HEAP_MAX sets that/MM_HEAP_MAX says that/' "no program says 'mm_heap_max says that'"
it docs/tutorial.md '$a\\nThis is told beside the table.' "'told' is refused by the glossary"
it docs/reference/contract.md '$a\\nSee DESIGN F9.' 'cites what is not in the tree'
it README.md 's/$/\n/' 'it has 1'

printf 'docs-mutants: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
