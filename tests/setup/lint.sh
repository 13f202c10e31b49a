#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs shellcheck on every shell file of the project, cppcheck on every C file, and clang-format on every C and CUDA C file; checks that every
# source names its licence, and that no files of the product include each other in a circle (name.c and name.h are one).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

shell=() c=() formatted=() status=0
# The project's files: those that git knows or would add; in an unpacked archive, all but what was built.
files() { git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -path ./build -prune -o -path ./.git -prune -o -type f -printf '%P\0'; }
while IFS= read -r -d '' file; do
    [[ -f $file && ! -L $file ]] || continue
    case $file in
    *.[ch] | *.cu | *.cpp | *.sh | *.mk | *.py | *.awk | *.cmake | man/* | */CMakeLists.txt | Makefile)
        head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception' ||
            { echo "lint: $file: no SPDX line among its first two"; status=1; } ;;
    esac
    case $file in
    *.[ch] | *.cu | *.cpp) formatted+=("$file") ;;
    esac
    case $file in
    *.c) c+=("$file") ;;
    *.sh) shell+=("$file") ;;
    *)
        first=
        IFS= read -r first <"$file" 2>/dev/null || true
        [[ ! $first =~ ^'#!'.*[/\ ](ba)?sh(\ |$) ]] || shell+=("$file")
        ;;
    esac
done < <(files)

((${#shell[@]} == 0)) || shellcheck -x "${shell[@]}" || status=1
# -U__CUDACC__: a kernel's launch is no C. Suppressed, because they are not findings: a newer cppcheck's note on how many branches it analysed, and an #error that the build's definitions prevent.
((${#c[@]} == 0)) || cppcheck --quiet --std=c11 -U__CUDACC__ -I. -j "$(nproc)" --inline-suppr --error-exitcode=1 \
    --enable=warning,performance,portability \
    --suppress=normalCheckLevelMaxBranches --suppress=preprocessorErrorDirective "${c[@]}" || status=1
# For tsort: the name of a file without its suffix, and that of one that it includes. tsort prints the names of each circle.
# shellcheck disable=SC2016 # awk's
circles=$(printf '%s\n' "${formatted[@]}" | grep -v '^tests/' | xargs awk '/^#include "/ {
        from = FILENAME; to = $2; gsub(/"/, "", to); sub(/\.[a-z]*$/, "", from); sub(/\.[a-z]*$/, "", to)
        if (from != to) print from, to
    }' | LC_ALL=C tsort 2>&1 >/dev/null) || { printf 'lint: these include each other:\n%s\n' "$circles"; status=1; }
((${#formatted[@]} == 0)) || clang-format-14 --dry-run --Werror --ferror-limit=1 "${formatted[@]}" || status=1
printf 'lint: %d shell files, %d C files, %d formatted files\n' "${#shell[@]}" "${#c[@]}" "${#formatted[@]}"
exit "$status"
