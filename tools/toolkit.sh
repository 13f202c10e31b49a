# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash disable=SC2034  # the variables are used by the scripts that source this file
# Finds the CUDA toolkit. setup.sh and check-options.sh both source this file, so that they give the same answer.

# The oldest release that mm is tested with.
MM_CUDA_MIN=13.0

mm_die() { printf 'mm: %s\n' "$1" >&2; exit "${2:-1}"; }

# mm_toolkit_version DIR: "13.0" for a toolkit directory; fails if its nvcc cannot be run.
mm_toolkit_version() {
    local text
    text=$("$1/bin/nvcc" --version 2>/dev/null) || return 1
    [[ $text =~ release\ ([0-9]+\.[0-9]+) ]] && printf '%s\n' "${BASH_REMATCH[1]}"
}

# mm_version_ok VERSION: true if it is MM_CUDA_MIN or newer.
mm_version_ok() {
    local have=("${1%%.*}" "${1#*.}") min=("${MM_CUDA_MIN%%.*}" "${MM_CUDA_MIN#*.}")
    ((have[0] > min[0] || (have[0] == min[0] && have[1] >= min[1])))
}

# mm_toolkit_of_path: prints the toolkit of the nvcc in PATH. That nvcc may be a wrapper (ccache, mmnvcc under the name nvcc) or a
# link to another place, so its location proves nothing; its --dryrun prints the toolkit.
mm_toolkit_of_path() {
    local line
    while IFS= read -r line; do
        [[ $line == '#$ TOP='* ]] || continue
        CDPATH='' cd "${line#*=}" 2>/dev/null && pwd
        return
    done < <(nvcc --dryrun -x cu /dev/null 2>&1)
    return 1
}

# mm_toolkit_find OWN: sets mm_toolkit to the first toolkit that is new enough: CUDA_HOME (taken unchecked: it is the user's
# choice), that of PATH, the usual place, OWN (the one that setup.sh fetches). If there is none, it fails, and
# mm_toolkit_passed says which one was too old, if any. Tests set MM_CUDA_USUAL.
mm_toolkit_find() {
    local dir version
    mm_toolkit=${CUDA_HOME-} mm_toolkit_passed=
    [[ -z $mm_toolkit ]] || return 0
    for dir in "$(mm_toolkit_of_path)" "${MM_CUDA_USUAL-/usr/local/cuda}" "$1"; do
        [[ -n $dir ]] || continue
        version=$(mm_toolkit_version "$dir") || continue
        if mm_version_ok "$version"; then
            mm_toolkit=$dir
            return 0
        fi
        mm_toolkit_passed="CUDA $version in $dir is older than $MM_CUDA_MIN"
    done
    return 1
}
