/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/wants.h"

#include <string.h>

#include "interpose/load/elf.h"

enum { SERVICES = 4 };
static const struct {
    const char *name;
    unsigned bit;
} service[SERVICES] = {
    {"malloc", MM_WANTS_MALLOC}, {"free", MM_WANTS_FREE}, {"__cuda_syscall_aligned_malloc", MM_WANTS_ALIGNED}, {"mm_usable_size", MM_WANTS_USABLE_SIZE}};

static unsigned services_of(const struct mm_elf_symbols *t) {
    unsigned wanted = 0;
    for (uint64_t k = 0; k < t->count; k++) {
        const Elf64_Sym symbol = mm_elf_symbol(t, k);
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= t->names_bytes) continue;
        for (int i = 0; i < SERVICES; i++)
            if (strcmp(t->names + symbol.st_name, service[i].name) == 0) wanted |= service[i].bit;
    }
    return wanted;
}

unsigned mm_wants_of_elf(const void *cubin, size_t bytes) {
    struct mm_elf_symbols t;
    struct mm_elf e;
    unsigned wanted = 0;
    if (!mm_elf_try_open(&e, cubin, bytes)) return MM_WANTS_UNREADABLE;
    for (unsigned i = 0; i < e.sections; i++) {
        const Elf64_Shdr s = mm_elf_section(&e, i);
        if (s.sh_type != SHT_SYMTAB) continue;
        if (!mm_elf_try_symbols(&e, &s, &t)) return MM_WANTS_UNREADABLE;
        wanted |= services_of(&t);
    }
    return wanted;
}

const char *mm_wants_name(unsigned wanted) {
    for (int i = 0; i < SERVICES; i++)
        if (wanted & service[i].bit) return service[i].name;
    return NULL;
}
