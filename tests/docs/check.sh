#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check.sh BUILD: checks the documents against the project. Commands are listed in commands.txt and behave as described there; relative links
# and anchors have a target; paths exist; variables, options, targets and messages are mm's; all variables and targets are documented.
# ROOT: a tree whose README.md, docs/, man/ and tests/docs/commands.txt are checked instead (mutants.sh). ONLY: the only command to run or
# check. From the root of the tree, after `make all`. Ends with "docs: N passed, N failed".
set -u
MAKE=${MAKE:-make}
build=$(realpath "$1") || exit
documents=${ROOT:-$PWD}
list=$documents/tests/docs/commands.txt
export LC_ALL=C
unset MAKEFLAGS MAKELEVEL MFLAGS MM_OFF MM_NVCC LD_PRELOAD
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit
passed=0 failed=0
pass() { ((++passed)); }
fail() { # WHERE WHAT
    ((++failed))
    printf 'docs: FAILED: %s: %s\n' "$1" "$2"
}

(cd "$documents" && find ./*.md docs man tests/model -name '*.md' -o -name '*.[17]' | sort | xargs awk -f "$OLDPWD/tests/docs/extract.awk") >"$work/said" || exit
# The project's files; in an unpacked archive, all files.
if [[ -e .git ]]; then git ls-files; else find . -type f ! -path './build/*' | sed 's,^\./,,'; fi >"$work/files"
# those PATTERN [GREP'S OPTION...]
those() { grep -E "${@:2}" -- "$1" "$work/files"; }
# of KIND: prints the lines of that kind as WHERE and TEXT, each text once
of() { awk -F '\t' -v kind="$1" '$1 == kind && !seen[$3]++ {print $2 "\t" $3}' "$work/said"; }
words_of() { sed -n "s/^$1: //p" "$list"; }

# ---- commands ------------------------------------------------------------------------------------

declare -A how listed
order=()
while IFS= read -r line; do
    [[ $line == *' :: '* && $line != '#'* ]] || continue
    how[${line%% :: *}]=${line#* :: }
    order+=("${line%% :: *}")
done <"$list"
programs=" $(words_of program) "

# command_is_listed WHERE TEXT: each command in TEXT must be listed
command_is_listed() {
    local text=$2 part
    text=${text%% #*}
    while [[ $text == *' ' ]]; do text=${text% }; done
    while [[ $text ]]; do
        part=${text%% && *}
        [[ $text == *' && '* ]] && text=${text#* && } || text=
        part=${part#sudo }
        if [[ ${how[$part]+set} ]]; then
            listed[$part]=1
            pass
        else
            fail "$1" "'$part' is no command of tests/docs/commands.txt (output and pictures stand between \`\`\`text and \`\`\`)"
        fi
    done
}
is_command() { # a span
    local word=$1
    while [[ $word =~ ^[A-Z_]+=[^\ ]*\ (.*) ]]; do word=${BASH_REMATCH[1]}; done
    [[ ${how[$1]+set} || ($word == *' '* && $programs == *" ${word%% *} "*) ]]
}
while IFS=$'\t' read -r where text; do command_is_listed "$where" "$text"; done < <(of command)
while IFS=$'\t' read -r where text; do
    ! is_command "$text" || command_is_listed "$where" "$text"
done < <(of span)

# Input for the commands.
mkdir "$work/run"
cat >"$work/run/app.cu" <<'C'
__global__ void k(void) { free(malloc(100)); }
int main(void) { k<<<1, 1>>>(); cudaDeviceSynchronize(); return 0; }
C
runs() { (cd "$work/run" && PATH=$build/bin:$PATH eval "$1") >"$work/out" 2>&1 </dev/null; }
[[ ${ONLY+set} ]] || runs 'mmnvcc -arch=sm_90 -shared -Xcompiler -fPIC app.cu -o libsolver.so' || fail "$list" "no library: $(tail -n 1 "$work/out")"
# Programs in documents are complete, and compile.
for file in README.md docs/tutorial.md; do
    awk '/^```cuda$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$documents/$file" >"$work/run/example.cu"
    if [[ ${ONLY+set} ]]; then :; elif runs 'mmnvcc -arch=sm_90 example.cu -o example'; then pass; else fail "$file" "its program does not compile: $(grep -m 1 error "$work/out")"; fi
done
# make's targets and variables. Not by make -n for each goal, because a line with $(MAKE) is run even then.
"$MAKE" -pn clean >"$work/database" 2>/dev/null
prerequisites_of() { sed -n "s|^$1: *||p" "$work/database" | tr ' ' '\n'; }
# makes COMMAND: its goals and variables exist.
makes() {
    local name
    eval "set -- ${1#make}"
    for name; do
        if [[ $name == *=* ]]; then
            grep -qE "^${name%%=*} *[?:]?=" "$work/database" || { echo "no variable ${name%%=*}" >"$work/out" && return 1; }
        else
            grep -q "^$name:" "$work/database" || { echo "no target $name" >"$work/out" && return 1; }
        fi
    done
}
# has_options COMMAND PROGRAM
has_options() {
    local option help
    help=$("$build/bin/$2" --help 2>&1)
    for option in $1; do
        [[ $option != --* ]] || grep -qE -- "(^|[ ,])$option( |$)" <<<"$help" || { echo "$2 --help has no $option" >"$work/out" && return 1; }
    done
}
# does COMMAND HOW
does() {
    local word file
    read -r word file <<<"${2%%: *}"
    : >"$work/out"
    case $2 in
    run) runs "$1" ;;
    make) makes "$1" ;;
    'options '*': '?*) has_options "$1" "$file" ;;
    'test '*': '?*) grep -qF -- "${2#*: }" "$file" ;;
    'not: '?*) ;;
    *) echo "$word is not understood" >"$work/out" && false ;;
    esac
}
for command in ${order[@]+"${order[@]}"}; do
    what=${how[$command]}
    [[ ${listed[$command]+set} ]] || fail "$list" "'$command' is in no document"
    [[ ! ${ONLY+set} || $ONLY == "$command" ]] || continue
    if does "$command" "$what"; then pass; else fail "$list" "'$command', $what: $(tail -n 1 "$work/out")"; fi
done

# ---- links and paths -----------------------------------------------------------------------------

awk -F '\t' '$1 == "anchor" {print $2 "#" $3}' "$work/said" >"$work/anchors"
while IFS=$'\t' read -r where link; do
    [[ $link != *://* ]] || continue
    file=${where%:*} target=${link%%#*}
    if [[ $target ]]; then target=$(realpath -m --relative-to="$documents" "$documents/$(dirname "$file")/$target"); else target=$file; fi
    if [[ ! -e $documents/$target && ! -e $target ]]; then
        fail "$where" "the link $link leads nowhere"
    elif [[ $link == *#* ]] && ! grep -qxF "$target#${link#*#}" "$work/anchors"; then
        fail "$where" "there is no heading for the link $link"
    else
        pass
    fi
done < <(awk -F '\t' '$1 == "link" {print $2 "\t" $3}' "$work/said")

rooms=$(sed -n 's,/.*,,p' "$work/files" | sort -u | tr '\n' '|')build
while IFS=$'\t' read -r where path; do
    if [[ $path == build/* ]]; then
        if [[ -e $path ]] || grep -q "^$path:" "$work/database"; then pass; else fail "$where" "$path is not there, and nothing makes it"; fi
    elif compgen -G "$path" >"$work/out" || compgen -G "$documents/$path" >"$work/out"; then
        pass
    else
        fail "$where" "$path is not there"
    fi
done < <(awk -F '\t' -v rooms="^(${rooms%|})/" '$1 == "span" || $1 == "prose" {
        gsub(/\]\([^()]*\)/, " ", $3)
        n = split($3, word, /[^A-Za-z0-9_.\/*-]+/)
        for (i = 1; i <= n; i++) {
            sub(/\.$/, "", word[i])
            if (word[i] ~ rooms && word[i] !~ /\/$/ && !seen[word[i]]++) print $2 "\t" word[i]
        }
    }' "$work/said" | grep -v "$(printf '\t')include/mm.h\$")

# ---- variables -----------------------------------------------------------------------------------

# The lists of mmconfig.h.
variables=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' mmconfig.h | sed -n 's/^#define MM_HOST_VARIABLES[A-Z_]* //p' | tr -d '",')
those '^(tests|docs|man)/|\.md$' -v | xargs grep -hoE '\bMM_[A-Z0-9_]+' | sort -u >"$work/names"
while IFS=$'\t' read -r where name; do
    if grep -qxF "$name" "$work/names"; then pass; else fail "$where" "nothing is called $name"; fi
done < <(awk -F '\t' '{
        n = split($3, word, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n; i++) if (word[i] ~ /^MM_[A-Z0-9_]*[A-Z0-9]$/ && !seen[word[i]]++) print $2 "\t" word[i]
    }' "$work/said")
# NAME=VALUE: an environment variable, and a word that it accepts.
while IFS=$'\t' read -r where name value; do
    if [[ " ${variables//$'\n'/ } " != *" $name "* ]]; then
        fail "$where" "$name is no variable of mm's; those are ${variables//$'\n'/ }"
    elif [[ $value =~ ^[a-z]+$ ]] && ! those '^(runtime/host|interpose/preload)/' | xargs grep -qF "\"$value\""; then
        fail "$where" "no $value is known for $name"
    else
        pass
    fi
done < <(awk -F '\t' '{
        rest = $3
        while (match(rest, /(^|[^A-Za-z0-9_])MM_[A-Z0-9_]+=[A-Za-z0-9]*/)) {
            at = substr(rest, RSTART, RLENGTH)
            sub(/^[^M]/, "", at)
            rest = substr(rest, RSTART + RLENGTH)
            if (at !~ /=VALUE$/ && !seen[at]++) print $2 "\t" substr(at, 1, index(at, "=") - 1) "\t" substr(at, index(at, "=") + 1)
        }
    }' "$work/said")
for name in $variables; do
    if grep -q "^span	[^	]*\.md:[0-9]*	$name\(=.*\)\?$" <(grep -v '	docs/explanation/' "$work/said"); then pass; else fail README.md "no document tells of the variable $name"; fi
done

# ---- targets -------------------------------------------------------------------------------------

# Targets that are in no list are prerequisites of others, or internal (inner).
targets=$(prerequisites_of .PHONY | sort -u)
parts=$({ for name in $targets; do prerequisites_of "$name"; done && words_of inner | tr ' ' '\n'; } | sort -u)
list_of_targets=$(awk -F '\t' '$1 == "span" && $2 ~ /^CONTRIBUTING/ && $3 ~ /^all install /{print $3}' "$work/said" | tr ' ' '\n' | sort -u)
[[ $list_of_targets ]] || fail CONTRIBUTING.md 'there is no list of targets'
while read -r name; do
    if grep -qxF -- "$name" <<<"$targets"; then pass; else fail CONTRIBUTING.md "the list of targets has $name, which is none"; fi
done <<<"$list_of_targets"
for name in $targets; do
    if grep -qxF -- "$name" <<<"$list_of_targets"$'\n'"$parts"; then pass; else fail CONTRIBUTING.md "the list of targets lacks $name"; fi
done

# ---- words and citations ---------------------------------------------------------------------------

# The words that the glossary's last column refuses: whole words, singular or plural, in any case.
refused=$(awk -F ' *\\| *' '/^\|/ && !/---/ && $(NF - 1) != "" && $(NF - 1) != "not" {print $(NF - 1)}' "$documents/docs/reference/glossary.md" | sed 's/, /\n/g' | sort -u)
[[ $refused ]] || fail docs/reference/glossary.md 'it refuses no word'
while IFS=$'\t' read -r where text; do
    # shellcheck disable=SC2016
    found=$(sed 's/`[^`]*`//g; s/([^()]*\.md[^()]*)//g' <<<"$text" | grep -oiwE "($(paste -sd '|' <<<"$refused"))s?" | head -n 1)
    if [[ -z $found ]]; then pass; else fail "$where" "'$found' is refused by the glossary (docs/reference/glossary.md)"; fi
done < <(awk -F '\t' '($1 == "prose") && $2 !~ /glossary\.md/ {print $2 "\t" $3}' "$work/said" | grep -iwE "($(paste -sd '|' <<<"$refused"))s?")
pass # the words were looked for
# No document cites anything that is not in the tree.
while IFS= read -r where; do fail "${where%%:*}" "cites what is not in the tree: ${where#*:}"; done < <(
    cd "$documents" && grep -rnoE '\bDESIGN (section|F)[ 0-9]*|\b(issue|CONTRACT|SEEDS|STYLE)\.md|\bshared/[a-z]+|\bcases/[a-z-]+' README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs man --include='*.md' --include='*.[17]')
pass
lines=$(grep -c '' "$documents/README.md")
if ((lines <= 90)); then pass; else fail README.md "it has $lines lines, 90 at most"; fi

# ---- messages ------------------------------------------------------------------------------------

# The programs' messages, in one line: C strings joined as by the compiler, scripts' text verbatim; each placeholder becomes a line break.
{
    those '\.(c|h|cu)$' | grep -v '^tests/' | xargs cat | tr '\n' ' ' | sed 's/" *"//g; s/\\"/"/g'
    those '^(interpose|tools)/' | grep -vE '\.(c|h|cu|mk)$' | xargs cat
} | sed 's/%[-+0-9.*]*[a-z]*[dsuxf]/\n/g; s/%%/%/g; s/\$[A-Za-z_]*/\n/g' >"$work/messages"
theirs=$(words_of theirs)
filled=$(words_of filled | tr '\n' '|')
# Capitals, numbers and dots in a document stand for placeholders; the rest must match, in any case.
while IFS=$'\t' read -r where text; do
    grep -qxF -- "$text" <<<"$theirs" && continue
    missing=$(sed -E -e 's/^(mm|mmnvcc|mmrun|mmdoctor|mmbench|wrong): //' -e "s/NAME=VALUE|; |${filled%|}/\n/g" \
        -e 's/\b(MM_[A-Z_]*|CUDA(_[A-Z_]*)?|PATH|PTX|NULL|ARCHS|GPU)\b/\L&/g; s/(_|\b)[A-Z]+\b|[0-9.]*[0-9]|\.\.\./\n/g' <<<"$text" |
        while IFS= read -r part; do
            part=${part#"${part%%[![:space:]:]*}"} part=${part%"${part##*[![:space:]:]}"}
            ((${#part} < 3)) || grep -qiF -- "$part" "$work/messages" || printf '%s' "$part"
        done)
    if [[ -z $missing ]]; then pass; else fail "$where" "no program says '$missing'"; fi
done < <(awk -F '\t' '$1 == "span" && !seen[$3]++ && $3 !~ /free\(/ && ($3 ~ /^(mm|mmnvcc|mmrun|mmdoctor|mmbench|wrong): ./ ||
        ($2 ~ /troubleshooting/ && $3 ~ /^[A-Za-z].* .* .* /)) {print $2 "\t" $3}' "$work/said" |
    while IFS=$'\t' read -r where text; do is_command "$text" || printf '%s\t%s\n' "$where" "$text"; done)

printf 'docs: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
