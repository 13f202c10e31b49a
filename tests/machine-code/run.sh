#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# run.sh MMUNYIELD LIB OUT [PART]: checks that the machine code in LIB/device contains no YIELD and no NANOSLEEP, and tests the program MMUNYIELD.
# CUDA_HOME in the environment. PART (for mutants.sh): "tool" or "libraries" only; then the first failure ends the run, and the machine code that ptxas
# makes of the allocator is kept in LIB/assembled.
set -u
mmunyield=$(realpath "$1") lib=$(realpath "$2") bin=$CUDA_HOME/bin part=${4-} parts=${4:-tool libraries}
rm -rf "$3" && mkdir -p "$3" && cd "$3" || exit
count=0 failed=0

fail() {
    printf 'machine-code: %s\n' "$*" >&2
    failed=$((failed + 1))
    [[ ! $part ]] || exit 1
}

# fragment ARCH OUT: assembles the allocator's PTX for ARCH with ptxas
fragment() {
    local kept=$lib/assembled/$1.cubin
    if [[ $part && -f $kept ]]; then
        cp "$kept" "$2"
        return
    fi
    "$bin/ptxas" -c -arch="sm_$1" -maxrregcount 32 "$lib/ptx/mm_$1.ptx" -o "$2" || fail "ptxas of mm_$1.ptx"
    [[ ! $part ]] || { mkdir -p "${kept%/*}" && cp "$2" "$kept"; }
}

# same NAME FOUND EXPECTED
same() {
    count=$((count + 1))
    [[ $2 == "$3" ]] || fail "$1: found" $'\n'"$2"$'\n'"  expected" $'\n'"$3"
}

# refuses NAME LINE FILE: replacing and counting both end with this one line (a pattern) and do not change the file
refuses() {
    local said status option
    cp "$3" as-it-was
    for option in "" -n; do
        said=$("$mmunyield" ${option:+"$option"} "$3" 2>&1)
        status=$?
        count=$((count + 1))
        # shellcheck disable=SC2053 # a pattern
        if [[ $status != 2 || $said != "mmunyield: $3: "$2 || $said == *$'\n'* ]] || ! cmp -s "$3" as-it-was; then
            fail "$1 $option: status $status, said '$said', expected '$2'"
        fi
    done
}

# The file in pieces of an instruction's length, to which code sections are aligned: each piece as two hexadecimal halves, the lower one first.
pieces() { od -An -v -tx8 -w16 "$1" | awk '{print $1, NF == 2 ? $2 : "-"}'; }
# A YIELD as written by ptxas: the opcode is at the end of the lower half; the operand in the upper half is predicate PT.
# shellcheck disable=SC2016 # awk's
yield='$1 ~ /946$/ && substr($2, 10, 2) == "38"'

# Prints how two files differ, except where a YIELD became a NOP; then the number of those.
# shellcheck disable=SC2016 # awk's
differences() {
    paste <(pieces "$1") <(pieces "$2") | awk '
        $1 == $3 && $2 == $4 {next}
        '"$yield"' && $3 == substr($1, 1, 13) "918" && $4 == substr($2, 1, 9) "00" substr($2, 12) {n++; next}
        {print "at", 16 * (NR - 1) ": " $0}
        END {print n + 0}'
}

# For each architecture: mmunyield replaces all YIELDs; their number is counted here by other means.
replaced() {
    local arch n
    for arch in "${archs[@]}"; do
        fragment "$arch" before.cubin
        cp before.cubin after.cubin
        n=$(pieces before.cubin | awk "$yield"' {n++} END {print n + 0}')
        same "sm_$arch has YIELDs before" $((n > 0)) 1
        same "sm_$arch before" "$("$mmunyield" -n before.cubin; echo $?)" "sm_$arch: $n YIELD, 0 NANOSLEEP"$'\n'1
        same "sm_$arch" "$("$mmunyield" after.cubin)" "mmunyield: after.cubin: sm_$arch: $n YIELD replaced"
        same "differences of sm_$arch" "$(differences before.cubin after.cubin)" "$n"
        same "sm_$arch after" "$("$mmunyield" -n after.cubin; echo $?)" "sm_$arch: 0 YIELD, 0 NANOSLEEP"$'\n'0
        cp after.cubin twice.cubin
        same "sm_$arch once more" "$("$mmunyield" twice.cubin; cmp after.cubin twice.cubin)" "mmunyield: twice.cubin: sm_$arch: 0 YIELD replaced"
    done
}

# poke FILE OFFSET BYTE...: in octal
poke() {
    local file=$1 offset=$2
    shift 2
    # shellcheck disable=SC2059
    printf "$(printf '\\%s' "$@")" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}

# Malformed files. `good` is a cubin with a YIELD.
refusals() {
    local good=$1 bytes table section text offset length
    bytes=$(stat -c %s "$good")
    table=$(od -An -tu8 -j 40 -N 8 "$good" | tr -d ' ')
    section=$(LC_ALL=C readelf -SW "$good" 2>/dev/null | sed -n 's/^ *\[ *\([0-9]*\)\] \.text\..*/\1/p' | head -1)
    text=$((table + 64 * section))
    # broken NAME LINE OFFSET BYTE...: a copy of the good cubin with these bytes is refused with this line
    broken() {
        local name=$1 line=$2
        shift 2
        cp "$good" "$name.cubin"
        poke "$name.cubin" "$@"
        refuses "$name" "$line" "$name.cubin"
    }
    broken volta "machine code for sm_70, whose encoding is not known" 49 106
    broken between "machine code for sm_81, whose encoding is not known" 49 121
    broken later "machine code for sm_130, whose encoding is not known" 49 202
    broken no-sections "no table of sections" 60 0 0
    broken odd-sections "no table of sections" 58 50
    broken table-beyond "the table of sections lies beyond the end of the file" 43 177
    broken table-far-beyond "the table of sections lies beyond the end of the file" 40 360 377 377 377 377 377 377 377
    broken too-many-sections "the table of sections lies beyond the end of the file" 60 377 377
    broken no-bits "section $section is code of an unknown type" $((text + 4)) 10
    broken code-beyond "section $section lies beyond the end of the file" $((text + 24 + 3)) 177
    broken code-too-long "section $section lies beyond the end of the file" $((text + 32 + 3)) 177
    broken code-wraps "section $section lies beyond the end of the file" $((text + 32)) 360 377 377 377 377 377 377 377
    broken code-in-halves "section $section is code and no multiple of 16 bytes" $((text + 32)) 10
    offset=$(($(pieces "$good" | awk "$yield"' {print NR - 1; exit}') * 16))
    broken unknown-yield "a YIELD with operands of an unknown kind (opcode 0xb46)" $((offset + 1)) 173
    for length in 16 19 63; do
        head -c "$length" "$good" >"cut$length.cubin"
        refuses "the first $length bytes" "the ELF header is cut off" "cut$length.cubin"
    done
    for length in 64 1000 $((bytes / 2)) $((bytes - 1)); do
        head -c "$length" "$good" >"cut$length.cubin"
        refuses "the first $length bytes" "*" "cut$length.cubin"
    done
    : >empty.cubin && refuses "an empty file" "th*" empty.cubin
    cp "$lib/ptx/mm_${archs[0]}.ptx" text.cubin && refuses "text" "th*" text.cubin
    cp "$lib/device/driver.fatbin" packed.cubin && refuses "a compressed container" "th*" packed.cubin
    { cat text.cubin && head -c 1000 "$good"; } >inside.cubin && same "a broken cubin inside" \
        "$("$mmunyield" -n inside.cubin 2>&1; echo $?)" "mmunyield: inside.cubin: the table of sections lies beyond the end of the file"$'\n'2
    cat text.cubin "$good" >behind.cubin && cp behind.cubin as-it-was
    same "replaced behind text" "$("$mmunyield" behind.cubin 2>&1; echo $?; cmp behind.cubin as-it-was)" "mmunyield: behind.cubin: this is no cubin"$'\n'2
    same "no file" "$("$mmunyield" nowhere 2>&1; echo $?)" "mmunyield: nowhere: cannot read it: No such file or directory"$'\n'2
    same "no name" "$("$mmunyield" 2>&1; echo $?)" "usage: mmunyield [-n] FILE"$'\n'2
    same "a strange option" "$("$mmunyield" -x "$good" 2>&1; echo $?)" "usage: mmunyield [-n] FILE"$'\n'2
}

# NANOSLEEP has no substitute. Cubins of CUDA 12 have their architecture in another place, and a file may hold several cubins.
others() {
    local good=$1 sleeper=$2 n at asleep
    n=$(pieces "$good" | awk "$yield"' {n++} END {print n}')
    asleep="sm_${archs[0]}: $(pieces "$sleeper" | awk "$yield"' {n++} END {print n}') YIELD, 1 NANOSLEEP"
    cp "$sleeper" sleeps.cubin
    same "a NANOSLEEP" "$("$mmunyield" sleeps.cubin 2>&1; echo $?; cmp "$sleeper" sleeps.cubin)" \
        "mmunyield: sleeps.cubin: 1 NANOSLEEP, which nothing can stand for: the source must not sleep"$'\n'2
    same "a NANOSLEEP, counted" "$("$mmunyield" -n sleeps.cubin; echo $?)" "$asleep"$'\n'1
    cp "$sleeper" only.cubin # its YIELDs are replaced here, not by mmunyield
    for at in $(pieces "$sleeper" | awk "$yield"' {print NR - 1}'); do poke only.cubin $((16 * at)) 030; done
    same "a NANOSLEEP and no YIELD" "$("$mmunyield" -n only.cubin; echo $?)" "sm_${archs[0]}: 0 YIELD, 1 NANOSLEEP"$'\n'1
    cp "$good" cuda12.cubin
    poke cuda12.cubin 8 7
    poke cuda12.cubin 48 132 005 132 # sm_90: 5a
    same "of CUDA 12" "$("$mmunyield" cuda12.cubin)" "mmunyield: cuda12.cubin: sm_90: $n YIELD replaced"
    cp "$good" replaced.cubin && "$mmunyield" replaced.cubin >said
    cat "$lib/ptx/mm_${archs[0]}.ptx" "$sleeper" replaced.cubin "$good" >several
    same "several" "$("$mmunyield" --check several; echo $?)" \
        "$asleep"$'\n'"sm_${archs[0]}: 0 YIELD, 0 NANOSLEEP"$'\n'"sm_${archs[0]}: $n YIELD, 0 NANOSLEEP"$'\n'1
    cat replaced.cubin "$sleeper" >several
    same "one that sleeps" "$("$mmunyield" -n several | tail -1; echo "${PIPESTATUS[0]}")" "$asleep"$'\n'1
}

# Sources: a function with a YIELD, one with a NANOSLEEP, and a kernel that calls all functions of the libraries.
# ptx ARCH BODY
ptx() {
    sed -n "s/^\.version .*/&/p" "$lib/ptx/mm_$1.ptx"
    printf '.target sm_%s\n.address_size 64\n%s\n' "$1" "$2"
}
loads='.visible .func (.param .b64 was) f(.param .b64 at) {
    .reg .b64 %at, %was;
    ld.param.u64 %at, [at];
    ld.volatile.u64 %was, [%at];
    st.param.b64 [was], %was;
    ret;
}'
sleeps='.visible .func g() {
    nanosleep.u32 100;
    ret;
}'
caller='.extern .func (.param .b64 p) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func (.param .b64 p) __cuda_syscall_aligned_malloc(.param .b64 n, .param .b64 align);
.extern .func (.param .b64 n) mm_usable_size(.param .b64 p);
.visible .entry k(.param .u64 at) {
    .param .b64 a, b, c, d;
    .reg .b64 %at;
    ld.param.u64 %at, [at];
    st.param.b64 [a], %at;
    call (b), malloc, (a);
    call free, (b);
    st.param.b64 [c], %at;
    st.param.b64 [d], 64;
    call (b), __cuda_syscall_aligned_malloc, (c, d);
    call (b), mm_usable_size, (a);
    ret;
}'

# library NAME ARCH FILE [TARGET]: links FILE by nvlink, for TARGET of ARCH's family, and checks the result
library() {
    local target=${4:-$2}
    "$bin/nvlink" -m64 --arch="sm_$target" "caller$2.cubin" "$3" -o linked.cubin || fail "$1, sm_$2: nvlink"
    same "$1, sm_$2 for sm_$target" "$("$mmunyield" -n linked.cubin; echo $?)" "sm_$target: 0 YIELD, 0 NANOSLEEP"$'\n'0
}

# The libraries are compressed. A kernel that calls all their functions, linked with them, is not.
libraries() {
    local arch
    cp "$lib/device/mm32.a" "$lib/device/mm24.a" "$lib/device/driver.fatbin" .
    for arch in "${archs[@]}"; do
        ptx "$arch" "$caller" >caller.ptx
        "$bin/ptxas" -c -arch="sm_$arch" caller.ptx -o "caller$arch.cubin" || fail "ptxas of the caller, sm_$arch"
        library mm32.a "$arch" mm32.a
        library mm24.a "$arch" mm24.a
        library driver.fatbin "$arch" driver.fatbin
    done
}

# The allocator that is part of libmm.so.1; it comes from the same container as mm24.a.
built_in() {
    local arch
    cp "$lib/../device/linked" linked.fatbin
    for arch in "${archs[@]}"; do library linked "$arch" linked.fatbin; done
}

# From sm_100 on, nvlink and drivers can translate a cubin's second form into machine code for another architecture of the family.
family() {
    local pair arch
    for pair in "100 103" "120 121"; do
        arch=${pair% *}
        [[ -f $lib/ptx/mm_$arch.ptx ]] || continue
        fragment "$arch" family.cubin
        ptx "$arch" "$caller" >caller.ptx
        "$bin/ptxas" -c -arch="sm_$arch" caller.ptx -o "caller$arch.cubin" || fail "ptxas of the caller, sm_$arch"
        "$mmunyield" family.cubin >/dev/null
        library "a cubin" "$arch" family.cubin "${pair#* }"
    done
}

mapfile -t archs < <(cd "$lib/ptx" && printf '%s\n' mm_*.ptx | sed 's/mm_\(.*\)\.ptx/\1/' | sort -n)
if [[ $parts == *tool* ]]; then
    ptx "${archs[0]}" "$loads" >loads.ptx
    ptx "${archs[0]}" "$loads$sleeps" >sleeps.ptx
    for name in loads sleeps; do
        "$bin/ptxas" -c -arch="sm_${archs[0]}" $name.ptx -o $name-first.cubin || fail "ptxas of $name.ptx"
        same "a YIELD in $name.ptx" "$(pieces $name-first.cubin | awk "$yield"' {print "yes"; exit}')" yes
    done
    refusals loads-first.cubin
    others loads-first.cubin sleeps-first.cubin
    replaced
    family
fi
[[ $parts != *libraries* ]] || libraries
[[ $parts != *libraries* || ! -f $lib/../device/linked ]] || built_in
printf 'machine-code: %d passed, %d failed\n' $((count > failed ? count - failed : 0)) "$failed"
[[ $failed == 0 && $count != 0 ]]
