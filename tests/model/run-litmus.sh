#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Checks the orders between atomics (litmus/*.litmus) under RC11 with herd7: the outcome a test names must not happen, and must
# be possible with each weakening that the test lists ("weak:", a sed expression). Fails otherwise; says so if there is no herd7 (HERD7: the
# program with its options).
set -u
cd "$(dirname "$0")/litmus" || exit
read -ra herd <<<"${HERD7:-herd7}"
if ! command -v "${herd[0]}" >/dev/null; then
    echo "litmus: left out: no herd7 here"
    exit 0
fi
work=$(mktemp -d) tests=0 weakened=0 bad=0
trap 'rm -rf "$work"' EXIT

# A test without its weakenings; the last of them ends the comment.
plain() { sed -e 's/^ *weak:.*\*)$/*)/' -e '/^ *weak:/d'; }
# FILE's verdict: Never, Sometimes, Always, or nothing.
verdict() { "${herd[@]}" -model rc11.cat "$1" 2>"$work/err" | sed -n 's/^Observation [^ ]* \([A-Za-z]*\).*/\1/p'; }

for file in *.litmus; do
    tests=$((tests + 1))
    is=$(verdict "$file")
    if [[ $is != Never ]]; then
        echo "litmus: $file: ${is:-$(<"$work/err")}, expected: Never"
        bad=1
    fi
    while IFS= read -r weak; do
        weakened=$((weakened + 1))
        plain <"$file" | sed -e "$weak" >"$work/weak.litmus"
        is=$(verdict "$work/weak.litmus")
        if cmp -s "$work/weak.litmus" <(plain <"$file") || [[ $is != Sometimes ]]; then
            echo "litmus: $file: ${is:-$(<"$work/err")}, expected with \"$weak\": Sometimes"
            bad=1
        fi
    done < <(sed -n -e 's/ *\*)$//' -e 's/^ *weak: *//p' "$file")
done
echo "litmus: $tests orders hold, $weakened weakened ones do not$([[ $bad -eq 0 ]] || echo ': FAILED')"
exit "$bad"
