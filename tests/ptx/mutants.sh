#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh OUT TEXT PTX... -- PTX...: plants one fault at a time in the PTX reader and expects suite ptx to fail, or suite counts for the files
# of counts.h.
# From the root of the tree; CC and CHECK_FLAGS (of Check) from the environment.
set -eu
# shellcheck source=tests/bounded.sh
source tests/bounded.sh
out=$1
shift
read -r -a check <<< "$CHECK_FLAGS"
texts=() counts=()
while [[ $1 != -- ]]; do
    texts+=("$1")
    shift
done
counts=("${@:2}")

# file, original text, replacement
mutants=(
    'names.c' '"malloc", "free", "__cuda_syscall_aligned_malloc"' '"malloc", "free", "__cuda_syscall_aligned"'
    'names.c' '? NAMES : index_of' '? -1 : index_of'
    'names.c' 'declared |= 1 << name' 'declared = 1 << name'
    'names.c' 'if (!mm_token_is(&t, ".func")) continue;' ''
    'names.c' '!mm_token_is(&t, ")")' 'false'
    'names.c' ' && !memmem(text, bytes, "usable_size", 11)' ''
    'names.c' '|| !(mask >> name & 1)' ''
    'names.c' 'copied = t.at + t.length;' 'copied = t.at;'
    'names.c' 'if (name >= 0 && *allocator < 0)' 'if (name >= 0)'
    'names.c' 'MM_NAMES_PREFIX suffix "_free"' 'MM_NAMES_PREFIX "_free"'
    'names.c' 'i >= 0 && *name && strcmp(name, known[i]) != 0' 'i > 0 && *name && strcmp(name, known[i]) != 0'
    'token.c' "c == '_' || c == '\$'; }" "c == '_'; }"
    'token.c' "c == '/' && next == '/'" 'false'
    'token.c' "c == '/' && next == '*'" 'false'
    'token.c' "*p == '\\\\\\\\' && p + 1 < r->end" 'false'
    'token.c' "c && strchr" "strchr"
    'module.c' "depth += (*p->now.at == open) - (*p->now.at == close);" "depth -= *p->now.at == close;"
    'module.c' 'while (at(p, ","));' 'while (0);'
    'module.c' '!strchr("af", kind)' 'false'
    'module.c' 'item->kind = MM_ITEM_FUNC_DEFINED' 'item->kind = MM_ITEM_ENTRY'
    'module.c' 'if (item.linkage.kind != MM_TOKEN_END) return false;' ''
    'module.c' 'if (at_end(p) || p->now.kind == MM_TOKEN_DIRECTIVE) return false;' 'if (at_end(p)) return false;'
    'module.c' 'p->module->items[i].end = p->past;' ';'
    'module.c' 'return !p->reader.message;' 'return true;'
    'counts.c' 'COUNT_BYTES = 8 ' 'COUNT_BYTES = 16 '
    'counts.c' 'at.number + offset == -COUNT_BYTES' 'offset == -COUNT_BYTES'
    'counts.c' 'at.kind == ARRAY && at' 'at'
    'counts.c' 'if (!mm_line_parts_are(l, &i, parts)) return forget_slots(f), false;' ''
    'counts.c' '? NONE : MANY, 0);' '? NONE : ARRAY, 0);'
    'counts.c' 'callee.kind == FUNCTION && is_allocator(f, &callee.name)' 'true'
    'counts.c' 'r->block == f->block ? r->here : r->value' 'r->value'
    'counts.c' 'r->block == f->block ? r->here : r->value' 'r->here'
    'counts.c' 'r->here = f->is_conditional ? here : *v' 'r->here = *v'
    'counts.c' 'if (join(&r->value, v)) f->changed = true' 'join(&r->value, v)'
    'counts.c' '*into = into->kind == NONE ? *v : value_of(MANY, 0);' '*into = *v;'
    'counts.c' '(unsigned long long)sign * ' ''
    'counts.c' 'if (!quiet[k]) forget_slots(f);' ''
    'counts.c' 'define_unknown(f, l);
        while' 'while'
    'counts.c' 'define_unknown(f, l);
    f->call_result' 'f->call_result'
    'counts.c' 'forget_slots(f);
    const struct value at' 'const struct value at'
    'counts.c' 'forget_slots(f);
    define_unknown(f, l);
    f->call_result' 'define_unknown(f, l);
    f->call_result'
    'counts.c' 'f->slots[i].offset > offset - 8' 'f->slots[i].offset == offset'
    'counts.c' "if (*t.at == '}') f->call_result.length = 0;" ''
    'counts.c' 'f->block++;' ''
    'counts.c' 'mm_token_is(&t, ".loc")) begin_block(f)' 'mm_token_is(&t, ".loc")) f->block++'
    'counts.c' 'f.returned.kind == ARRAY && f.returned.number == 0' 'f.returned.kind != NONE'
    'counts.c' 'f.returned.number == 0' 'true'
    'counts.c' 'mm_token_is(&m->items[i].linkage, ".extern") && ' ''
    'counts.c' '} while (count > before);' '} while (false);'
    'counts.c' 'if (*c != '"'\\\\n'"')' ''
    'counts.c' '"malloc", "__cuda_syscall_aligned_malloc"' '"malloc", "malloc"'
    'counts.c' 'f->regs[i].value.kind != NONE' 'true'
    'counts.c' 'static const char *const parts[] = {".weak", ".global", ' 'static const char *const parts[] = {".weak", '
    'counts.c' '{".to", ".global", ".u64", NULL}' '{".u64", NULL}'
    'line.c' 'mm_line_is(l, 1, "!") ? 3 : 2' '2'
    'line.c' 'sign ? 0 - n : n' 'n'
    'line.c' 'if (mm_line_is(l, at, "+")) at++;' 'at++;'
)

# compile SOURCE OBJECT
compile() { "$CC" -std=c11 -w -I. -c "$1" -o "$2"; }
rm -rf "$out" && mkdir -p "$out"
objects=()
for source in tests/ptx/test_{ptx,counts}.c interpose/compile/shim.c interpose/load/ptx/*.c; do
    object=$out/$(basename "$source" .c).o
    compile "$source" "$object"
    [[ $source == tests/* ]] || objects+=("$object")
done
survived=0
for ((i = 0; i < ${#mutants[@]}; i += 3)); do
    source=interpose/load/ptx/${mutants[i]}
    text=$(< "$source")
    from=${mutants[i + 1]//\\\\/\\}
    changed=${text/"$from"/"${mutants[i + 2]}"}
    if [[ $changed == "$text" ]]; then
        echo "mutants.sh: ${mutants[i]} no longer holds: $from" >&2
        exit 1
    fi
    printf '%s\n' "$changed" > "$out/mutant.c"
    compile "$out/mutant.c" "$out/mutant.o"
    case ${mutants[i]} in
    counts.c | line.c) suite=test_counts arguments=("${counts[@]}") ;;
    *) suite=test_ptx arguments=("${texts[@]}") ;;
    esac
    "$CC" "$out/$suite.o" "${objects[@]/#"$out/${mutants[i]%.c}.o"/"$out/mutant.o"}" -o "$out/mutant" "${check[@]}"
    # No process per test is needed: a crash or a hang is detected as well.
    if CK_FORK=no BOUNDED_SECONDS=20 bounded "$out/log" "$out/mutant" "${arguments[@]}"; then
        echo "mutants.sh: the suite did not notice: ${mutants[i]}: ${mutants[i + 2]} for $from" >&2
        survived=1
    fi
done
((survived == 0)) && echo "mutants: $((${#mutants[@]} / 3)) planted, all noticed"
