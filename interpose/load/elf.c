/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/elf.h"

#include <string.h>

Elf64_Shdr mm_elf_section(const struct mm_elf *e, unsigned i) {
    Elf64_Shdr s;
    memcpy(&s, e->base + e->head.e_shoff + (size_t)i * sizeof s, sizeof s);
    return s;
}

void mm_elf_put_section(const struct mm_elf *e, unsigned i, const Elf64_Shdr *s) { memcpy(e->base + e->head.e_shoff + (size_t)i * sizeof *s, s, sizeof *s); }

char *mm_elf_contents(const struct mm_elf *e, const Elf64_Shdr *s) {
    if (s->sh_type == SHT_NOBITS || s->sh_type == MM_ELF_SHARED || s->sh_type == SHT_NULL) return NULL;
    return s->sh_offset <= e->bytes && s->sh_size <= e->bytes - s->sh_offset ? e->base + s->sh_offset : NULL;
}

const char *mm_elf_name(const struct mm_elf *e, const Elf64_Shdr *s) { return s->sh_name < e->names_bytes ? e->names + s->sh_name : ""; }

/* The strings of section i, zero-terminated; NULL if it has none. */
static const char *strings(const struct mm_elf *e, unsigned i, uint64_t *bytes) {
    if (i >= e->sections) return NULL;
    const Elf64_Shdr s = mm_elf_section(e, i);
    const char *text = mm_elf_contents(e, &s);
    *bytes = s.sh_size;
    return text && s.sh_size && !text[s.sh_size - 1] ? text : NULL;
}

bool mm_elf_try_open(struct mm_elf *e, const void *image, size_t bytes) {
    memset(e, 0, sizeof *e);
    e->base = (char *)(uintptr_t)image;
    e->bytes = bytes;
    if (!image || bytes < sizeof e->head) return false;
    memcpy(&e->head, image, sizeof e->head);
    if (memcmp(e->head.e_ident, ELFMAG, SELFMAG) != 0 || e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_ident[EI_DATA] != ELFDATA2LSB ||
        e->head.e_machine != EM_CUDA || e->head.e_shentsize != sizeof(Elf64_Shdr) || e->head.e_shoff > bytes || bytes - e->head.e_shoff < sizeof(Elf64_Shdr))
        return false;
    const Elf64_Shdr first = mm_elf_section(e, 0); /* holds the number of sections if it does not fit in e_shnum */
    const uint64_t sections = e->head.e_shnum ? e->head.e_shnum : first.sh_size;
    if ((bytes - e->head.e_shoff) / sizeof(Elf64_Shdr) < sections) return false;
    e->sections = (unsigned)sections;
    e->names = strings(e, e->head.e_shstrndx == SHN_XINDEX ? first.sh_link : e->head.e_shstrndx, &e->names_bytes);
    return e->names != NULL;
}

bool mm_elf_try_symbols(const struct mm_elf *e, const Elf64_Shdr *s, struct mm_elf_symbols *t) {
    t->at = mm_elf_contents(e, s);
    t->count = s->sh_size / sizeof(Elf64_Sym);
    t->names = t->at ? strings(e, s->sh_link, &t->names_bytes) : NULL;
    return t->names != NULL;
}

Elf64_Sym mm_elf_symbol(const struct mm_elf_symbols *t, uint64_t i) {
    Elf64_Sym s;
    memcpy(&s, t->at + i * sizeof s, sizeof s);
    return s;
}

bool mm_elf_defines(const void *image, size_t bytes, const char *name) {
    struct mm_elf e;
    struct mm_elf_symbols t;
    if (!mm_elf_try_open(&e, image, bytes)) return false;
    for (unsigned i = 0; i < e.sections; i++) {
        const Elf64_Shdr s = mm_elf_section(&e, i);
        if (s.sh_type != SHT_SYMTAB || !mm_elf_try_symbols(&e, &s, &t)) continue;
        for (uint64_t k = 0; k < t.count; k++) {
            const Elf64_Sym symbol = mm_elf_symbol(&t, k);
            if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < t.names_bytes && strcmp(t.names + symbol.st_name, name) == 0) return true;
        }
    }
    return false;
}
