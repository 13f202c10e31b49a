/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/cookies.h"

#include <string.h>

#include "interpose/load/elf.h"
#include "mmconfig.h"

/* An instruction has 128 bits, from sm_75 to sm_121. Bits 0 to 8: the operation; 9 to 11: the kind of its operands. Depending on that kind, the
 * offset of a memory access is in bits 32 to 63 or 40 to 63; bit 63 is its sign in both. All found by disassembly. */
enum {
    INSTRUCTION_BYTES = 16,
    OPERATION_MASK = 0x1ff,
    STORE_GENERIC = 0x185,
    STORE_GLOBAL = 0x186,
    WIDTH_SHIFT = 73 - 64, /* in the upper half */
    WIDTH_MASK = 7,
    WIDTH_8_BYTES = 5,
    TARGET_SHIFT = 16, /* the register that gets the result */
    TARGET_MASK = 0xff,
    STACK_POINTER = 1,
    SECTION_PROTOTYPES = 0x70000002 /* sh_type of .nv.prototype: an array of these */
};
struct prototype {
    uint32_t symbol, text; /* index; in the names of the symbols */
};
static const uint32_t minus_8 = UINT32_C(0xfffffff8); /* in bits 32 to 63 */

static bool is_addition(unsigned operation) { /* IADD3, IADD.64, VIADD, IMAD, IMAD.WIDE, MOV */
    return operation == 0x010 || operation == 0x035 || operation == 0x036 || operation == 0x024 || operation == 0x025 || operation == 0x002;
}

static bool has_store(const char *code, uint64_t bytes, bool is_for_debugging) {
    for (uint64_t at = 0; at + INSTRUCTION_BYTES <= bytes; at += INSTRUCTION_BYTES) {
        uint64_t half[2];
        memcpy(half, code + at, sizeof half);
        const unsigned operation = half[0] & OPERATION_MASK;
        if (operation == STORE_GENERIC || operation == STORE_GLOBAL) {
            if (half[0] >> 63 && (half[1] >> WIDTH_SHIFT & WIDTH_MASK) == WIDTH_8_BYTES) return true;
        } else if (is_for_debugging && half[0] >> 32 == minus_8 && is_addition(operation) && (half[0] >> TARGET_SHIFT & TARGET_MASK) != STACK_POINTER) {
            return true;
        }
    }
    return false;
}

bool mm_cookies_may_be_stored(const void *cubin, size_t bytes) {
    struct mm_elf e;
    bool is_for_debugging = false;
    if (!mm_elf_try_open(&e, cubin, bytes)) return false;
    for (unsigned i = 0; i < e.sections; i++) {
        const Elf64_Shdr s = mm_elf_section(&e, i);
        is_for_debugging |= strcmp(mm_elf_name(&e, &s), ".debug_info") == 0 && s.sh_size;
    }
    for (unsigned i = 0; i < e.sections; i++) {
        const Elf64_Shdr s = mm_elf_section(&e, i);
        const char *const code = s.sh_flags & SHF_EXECINSTR ? mm_elf_contents(&e, &s) : NULL;
        if (code && has_store(code, s.sh_size, is_for_debugging)) return true;
    }
    return false;
}

/* ---- names ----------------------------------------------------------------------------------------- */

static const struct {
    const char *from, *to; /* `to` is no longer than `from` */
} renamed[] = {{"malloc", MM_LINKED_NEW}, {"__cuda_syscall_aligned_malloc", MM_LINKED_ALIGNED_NEW}};

/* Whether only undefined symbols with exactly this name use these bytes for their name or a part of it. */
static bool is_alone(const struct mm_elf *e, const struct mm_elf_symbols *t, uint64_t at, size_t length) {
    struct mm_elf_symbols other;
    if (at == 0 || t->names[at - 1]) return false;
    for (unsigned i = 0; i < e->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(e, i);
        if (s.sh_type != SHT_SYMTAB || !mm_elf_try_symbols(e, &s, &other) || other.names != t->names) continue;
        for (uint64_t k = 0; k < other.count; k++) {
            const Elf64_Sym its = mm_elf_symbol(&other, k);
            if ((its.st_name > at && its.st_name < at + length) || (its.st_name == at && its.st_shndx != SHN_UNDEF)) return false;
        }
    }
    return true;
}

/* Offset in t->names of this name of an undefined symbol, or 0. */
static uint64_t find(const struct mm_elf_symbols *t, const char *name) {
    for (uint64_t k = 0; k < t->count; k++) {
        const Elf64_Sym its = mm_elf_symbol(t, k);
        if (its.st_shndx == SHN_UNDEF && its.st_name < t->names_bytes && strcmp(t->names + its.st_name, name) == 0) return its.st_name;
    }
    return 0;
}

/* After a device link, each undefined function has a prototype. malloc's is "#ll|12p4r20...": a 64-bit result, a 64-bit argument, and what a
 * system function leaves unchanged. mm's function has "#ll", and a linker allows the difference only for functions that it knows. Cuts the
 * prototype at the bar. */
static void cut_prototypes(const struct mm_elf *e, const struct mm_elf_symbols *t, unsigned table, uint64_t name) {
    for (unsigned i = 0; i < e->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(e, i);
        const char *const entries = s.sh_type == SECTION_PROTOTYPES && s.sh_link == table ? mm_elf_contents(e, &s) : NULL;
        for (uint64_t at = 0; entries && at + sizeof(struct prototype) <= s.sh_size; at += sizeof(struct prototype)) {
            struct prototype its;
            memcpy(&its, entries + at, sizeof its);
            if (its.symbol >= t->count || its.text >= t->names_bytes || mm_elf_symbol(t, its.symbol).st_name != name) continue;
            char *const text = e->base + (t->names - e->base) + its.text;
            if (*text == '#') text[strcspn(text, "|")] = 0;
        }
    }
}

static bool try_each(const struct mm_elf *e, bool is_to_write) {
    struct mm_elf_symbols t;
    for (unsigned i = 0; i < e->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(e, i);
        if (s.sh_type != SHT_SYMTAB) continue;
        if (!mm_elf_try_symbols(e, &s, &t)) return false;
        for (size_t n = 0; n < sizeof renamed / sizeof *renamed; n++) {
            const uint64_t at = find(&t, renamed[n].from);
            if (!at) continue;
            if (!is_alone(e, &t, at, strlen(renamed[n].from))) return false;
            if (!is_to_write) continue;
            cut_prototypes(e, &t, i, at);
            memcpy(e->base + (t.names - e->base) + at, renamed[n].to, strlen(renamed[n].to) + 1);
        }
    }
    return true;
}

bool mm_cookies_try_make_room(void *cubin, size_t bytes) {
    struct mm_elf e;
    return mm_elf_try_open(&e, cubin, bytes) && try_each(&e, false) && try_each(&e, true);
}
