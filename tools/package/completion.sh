# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# shellcheck shell=bash
# What bash offers behind mmnvcc, mmrun, mmbench and mmdoctor; one file under four names.

# _mm_words WORDS: those that begin like what was typed.
_mm_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}"); }

# nvcc's own options, the common ones; anything else is a file.
_mm_mmnvcc() {
    local words='-arch= -gencode -O0 -O1 -O2 -O3 -g -G -lineinfo -c -dc -dlink -dlto -rdc=true -ptx -cubin -fatbin
        -lib -shared -E -M -MD -MF -o -std=c++14 -std=c++17 -std=c++20 -I -D -L -l -x -ccbin -Xcompiler -Xlinker -Xptxas
        -Xfatbin -Xnvlink -cudart -maxrregcount -use_fast_math --extended-lambda --expt-relaxed-constexpr -t -v --keep
        --dryrun --list-gpu-arch --version --help'
    COMPREPLY=()
    [[ ${COMP_WORDS[COMP_CWORD]} == -* ]] || return 0
    [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[COMP_CWORD - 1]} != --mm-* ]] || words+=' --mm-show --mm-version'
    _mm_words "$words"
}

# Behind the command it is the command's own.
_mm_mmrun() {
    if ((COMP_CWORD > 1)); then
        COMPREPLY=()
        [[ $(type -t _command_offset) != function ]] || _command_offset 1
    elif [[ ${COMP_WORDS[1]} == -* ]]; then
        _mm_words '--help --version'
    else
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[1]}")
    fi
}

_mm_mmbench() {
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --csv) COMPREPLY=() ;;
    --cases) _mm_words "$("${COMP_WORDS[0]}" --list 2> /dev/null | cut -d' ' -f1)" ;;
    --only) _mm_words 'mm builtin' ;;
    --heap) _mm_words '2G 8G 32G' ;;
    --runs | --timeout) COMPREPLY=() ;;
    --plot) mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]}") ;;
    *)
        # Behind it there are files.
        COMPREPLY=()
        if ((COMP_CWORD == 1)) || [[ ${COMP_WORDS[1]} != --plot* ]]; then
            _mm_words '--csv --cases --only --quick --heap --runs --timeout --plot --list --version --help'
        fi
        ;;
    esac
}

_mm_mmdoctor() {
    COMPREPLY=()
    [[ ${COMP_WORDS[COMP_CWORD]} != -* ]] || _mm_words '--selftest --help --version'
}

complete -o default -F _mm_mmnvcc mmnvcc
complete -o default -F _mm_mmrun mmrun
complete -o default -F _mm_mmbench mmbench
complete -o default -F _mm_mmdoctor mmdoctor
