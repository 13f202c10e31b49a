# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# bash completion for mmnvcc, mmrun, mmbench and mmdoctor; one file under four names.

# _mm_words WORDS: offers those WORDS that begin with the typed text.
_mm_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}"); }

_mm_allocators='@ALLOCATORS@' # the default first
_mm_pools='pool-tlsf pool-segregated pool-bitmask pool-first pool-next pool-best'

# The common options of nvcc; any other word is completed as a file name.
_mm_mmnvcc() {
    local words='-arch= -gencode -O0 -O1 -O2 -O3 -g -G -lineinfo -c -dc -dlink -dlto -rdc=true -ptx -cubin -fatbin
        -lib -shared -E -M -MD -MF -o -std=c++14 -std=c++17 -std=c++20 -I -D -L -l -x -ccbin -Xcompiler -Xlinker -Xptxas
        -Xfatbin -Xnvlink -cudart -maxrregcount -use_fast_math --extended-lambda --expt-relaxed-constexpr -t -v --keep
        --dryrun --list-gpu-arch --version --help'
    COMPREPLY=()
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --mm-allocator && ${COMP_WORDS[COMP_CWORD]} == = ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$_mm_allocators")
    elif [[ $COMP_CWORD -gt 2 && ${COMP_WORDS[COMP_CWORD - 2]} == --mm-allocator ]]; then
        _mm_words "$_mm_allocators"
    fi
    [[ ${COMP_WORDS[COMP_CWORD]} == -* ]] || return 0
    [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[COMP_CWORD - 1]} != --mm-* ]] || words+=' --mm-allocator= --mm-show --mm-version --mm-help'
    _mm_words "$words"
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2> /dev/null
}

# The values of mmrun's options.
_mm_mmrun_value() {
    local typed=${COMP_WORDS[COMP_CWORD]#=}
    case $1 in
    --stats) mapfile -t COMPREPLY < <(compgen -W 'text json csv' -- "$typed") ;;
    --allocator) mapfile -t COMPREPLY < <(compgen -W "mm cuda $_mm_allocators" -- "$typed") ;;
    --fill) mapfile -t COMPREPLY < <(compgen -W 'zero junk none' -- "$typed") ;;
    --fail) mapfile -t COMPREPLY < <(compgen -W '1/1000 1 kernel:' -- "$typed") ;;
    --pool) mapfile -t COMPREPLY < <(compgen -W 'off small keep async' -- "$typed") ;;
    --stats-file | --heap-map | --map-series | --profile | --trace) mapfile -t COMPREPLY < <(compgen -f -- "$typed") ;;
    esac
}

# After the command, the command's own completion takes over. Bash splits --fill=zero into three words.
_mm_mmrun() {
    local at=1
    COMPREPLY=()
    while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == [-=]* || ${COMP_WORDS[at - 1]} == = ]]; do
        [[ ${COMP_WORDS[at++]} != -- ]] || break
    done
    if ((at < COMP_CWORD)); then
        [[ $(type -t _command_offset) != function ]] || _command_offset "$at"
    elif [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then
        _mm_mmrun_value "${COMP_WORDS[COMP_CWORD - 1]}"
    elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
        _mm_mmrun_value "${COMP_WORDS[COMP_CWORD - 2]}"
    elif [[ ${COMP_WORDS[COMP_CWORD]} == -* && ${COMP_WORDS[COMP_CWORD - 1]} != -- ]]; then
        _mm_words '--stats --stats-file= --heap-map= --map-series= --profile= --trace= --check --allocator= --fill= --fail= --pool= --help --version -h -V'
        [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2> /dev/null
    else
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    fi
    return 0
}

_mm_mmbench() {
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --csv) COMPREPLY=() ;;
    --cases) _mm_words "$("${COMP_WORDS[0]}" --list 2> /dev/null | cut -d' ' -f1)" ;;
    --allocators) _mm_words "all mm builtin ${_mm_allocators#* } $_mm_pools" ;;
    --heap) _mm_words '2G 8G 32G' ;;
    --runs | --timeout | --minutes) COMPREPLY=() ;;
    --plot) mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]}") ;;
    *)
        # --plot and --claims are followed by file names.
        COMPREPLY=()
        if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} != --plot* && ${COMP_WORDS[1]} != --claims ]]; then
            _mm_words '--csv --cases --allocators --quick --heap --runs --timeout --compare --minutes --resume --claims --plot --replay --check-trace --list --version --help -h -V'
        fi
        ;;
    esac
}

_mm_mmdoctor() {
    COMPREPLY=()
    [[ ${COMP_WORDS[COMP_CWORD]} != -* ]] || _mm_words '--selftest --help --version -h -V'
}

complete -o default -F _mm_mmnvcc mmnvcc
complete -o default -F _mm_mmrun mmrun
complete -o default -F _mm_mmbench mmbench
complete -o default -F _mm_mmdoctor mmdoctor
