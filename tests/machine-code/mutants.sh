#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mutants.sh LIB OUT: plants one fault at a time in mmunyield and expects the suite to fail; likewise if a device library is made with a
# mmunyield that leaves one YIELD. From the root of the tree; CC and CUDA_HOME from the environment.
set -eu
lib=$(realpath "$1")
rm -rf "$2" && mkdir -p "$2" && out=$(realpath "$2")
read -r -a cc <<<"$CC"
arch=$(printf '%s\n' "$lib"/ptx/mm_*.ptx | sed 's/.*mm_\(.*\)\.ptx/\1/' | sort -n | tail -1)

# original text, replacement
leaves_one=('half[0] = (half[0] & ~opcode_mask) | e->nop;' 'if (i->yields++ == 0) continue;
        half[0] = (half[0] & ~opcode_mask) | e->nop;')
mutants=(
    "${leaves_one[@]}"
    'at += INSTRUCTION_BYTES' 'at += 2 * INSTRUCTION_BYTES'
    'half[0] = (half[0] & ~opcode_mask) | e->nop;' 'half[0] = e->nop;'
    'half[0] = (half[0] & ~opcode_mask) | e->nop;' 'half[0] = (half[0] & ~opcode_mask) | 0x919;'
    'half[1] &= ~operand_mask;' ''
    'half[1] &= ~operand_mask;' 'half[1] = 0;'
    'i->yields++;' ''
    '(half[0] & opcode_mask) != e->yield' 'false'
    'i->nanosleeps += ' 'i->nanosleeps += 0 * '
    'if (i.nanosleeps)' 'if (false)'
    'i.yields + i.nanosleeps;' 'i.yields;'
    'return counts_only && left != 0;' 'return 0;'
    '!is_within(i, 0, sizeof head)' 'false'
    'head.e_shnum == 0 ||' ''
    '|| head.e_shentsize != sizeof section' ''
    '!is_within(i, head.e_shoff, (uint64_t)head.e_shnum * sizeof section)' 'false'
    '!is_within(i, section.sh_offset, section.sh_size)' 'section.sh_offset + section.sh_size > i->bytes'
    '!is_within(i, section.sh_offset, section.sh_size)' 'false'
    'section.sh_type != SHT_PROGBITS' 'false'
    'section.sh_size % INSTRUCTION_BYTES' 'false'
    '{75, 75, ' '{70, 75, '
    '{86, 89, ' '{81, 89, '
    '{120, 121, ' '{120, 130, '
    '? head.e_flags >> 8 : head.e_flags)' '? head.e_flags >> 8 : head.e_flags >> 8)'
    'if (left < machine + 2 || ' 'if (left >= machine + 2 && '
    'from = (size_t)(i.data - data) + 1' 'from = bytes'
    'if (images == 0) die' 'if (false) die'
    'if (!counts_only && i.data != data) break;' ''
)

# plant FROM TO: mmunyield with a fault, in $out/mmunyield
plant() {
    local text changed
    text=$(<interpose/compile/mmunyield.c)
    changed=${text/"$1"/"$2"}
    if [[ $changed == "$text" && $1 != "$2" ]]; then
        echo "mutants.sh: mmunyield.c no longer holds: $1" >&2
        exit 1
    fi
    printf '%s\n' "$changed" >"$out/mmunyield.c"
    "${cc[@]}" -std=c11 -O1 -w -fsanitize=address -I. "$out/mmunyield.c" -o "$out/mmunyield"
}

# A library of one architecture is enough.
mkdir -p "$out/one/ptx" "$out/one/device"
cp "$lib/ptx/mm_$arch.ptx" "$out/one/ptx"
cp "$lib/devicelib.c" "$lib/mmconfig.h" "$out/one"
cp "$lib/device/driver.fatbin" "$out/one/device"
survived=0
plant int int
tests/machine-code/run.sh "$out/mmunyield" "$out/one" "$out/run" tool >/dev/null || { echo "mutants.sh: the suite fails without a fault" >&2; exit 1; }
for ((i = 0; i < ${#mutants[@]}; i += 2)); do
    plant "${mutants[i]}" "${mutants[i + 1]}"
    if tests/machine-code/run.sh "$out/mmunyield" "$out/one" "$out/run" tool >/dev/null 2>&1; then
        echo "mutants.sh: the suite did not notice: ${mutants[i + 1]} for ${mutants[i]}" >&2
        survived=1
    fi
done
make_library() { CC=$CC interpose/compile/mmdevice "$out/one/ptx" "$CUDA_HOME/bin" "$out/one/devicelib.c" "$out/one/device" "$arch"; }
check_library() { tests/machine-code/run.sh "$lib/mmunyield" "$out/one" "$out/run" libraries >/dev/null 2>&1; }
cp "$lib/mmunyield" "$out/one" && make_library
check_library || { echo "mutants.sh: a library without a fault fails" >&2; exit 1; }
plant "${leaves_one[@]}"
cp "$out/mmunyield" "$out/one" && make_library
! check_library || { echo "mutants.sh: the suite did not notice a library with a YIELD" >&2; survived=1; }
((survived == 0)) && echo "mutants: $((${#mutants[@]} / 2 + 1)) planted, all noticed"
