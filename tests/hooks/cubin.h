/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A handmade linked image, for programs and links: a kernel, an allocation function that may be undefined, a variable. */
#ifndef MM_TEST_CUBIN_H
#define MM_TEST_CUBIN_H

#include <elf.h>
#include <stddef.h>
#include <string.h>

enum { CUBIN_EXTENSIBLE = 0xff00 /* e_type of an image that can be linked */ };

struct cubin {
    Elf64_Ehdr head;
    Elf64_Sym symbols[4]; /* 1: the kernel, 2: the allocation function, 3: the variable */
    char names[96], section_names[64], text[64];
    Elf64_Shdr sections[5];
};

/* Marks in the unused bytes of e_ident: made by hand, or by a link. */
#define CUBIN_BY_HAND "by hand"
#define CUBIN_OF_LINK "linked!"
static inline int cubin_is(const void *image, const char *mark) {
    return memcmp(image, ELFMAG, SELFMAG) == 0 && memcmp((const char *)image + EI_PAD, mark, EI_NIDENT - EI_PAD - 1) == 0;
}

/* The name of a symbol. */
static inline char *cubin_name(struct cubin *c, int symbol) { return c->names + c->symbols[symbol].st_name; }

/* service: the undefined function; NULL: none. */
static inline void cubin_make(struct cubin *c, const char *service) {
    memset(c, 0, sizeof *c);
    memcpy(c->head.e_ident, ELFMAG, SELFMAG);
    c->head.e_ident[EI_CLASS] = ELFCLASS64;
    c->head.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(c->head.e_ident + EI_PAD, CUBIN_BY_HAND, EI_NIDENT - EI_PAD - 1);
    c->head.e_type = ET_EXEC;
    c->head.e_machine = EM_CUDA;
    c->head.e_shentsize = sizeof *c->sections;
    c->head.e_shnum = 5;
    c->head.e_shstrndx = 3;
    c->head.e_shoff = offsetof(struct cubin, sections);
    strcpy(c->names + 1, "kernel");
    strcpy(c->names + 10, service ? service : "nothing");
    strcpy(c->names + 50, "plain");
    c->symbols[1] = (Elf64_Sym){.st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 4};
    c->symbols[2] = (Elf64_Sym){.st_name = 10, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = service ? SHN_UNDEF : 4};
    c->symbols[3] = (Elf64_Sym){.st_name = 50, .st_info = ELF64_ST_INFO(STB_WEAK, STT_OBJECT), .st_shndx = 4};
    memcpy(c->section_names, "\0.text.kernel", 14);
    memset(c->text, 0x47, sizeof c->text);
#define CUBIN_SECTION(i, kind, name, member, linked) \
    c->sections[i] = (Elf64_Shdr){.sh_type = kind, .sh_name = name, .sh_offset = offsetof(struct cubin, member), .sh_size = sizeof c->member, .sh_link = linked}
    CUBIN_SECTION(1, SHT_SYMTAB, 0, symbols, 2);
    CUBIN_SECTION(2, SHT_STRTAB, 0, names, 0);
    CUBIN_SECTION(3, SHT_STRTAB, 0, section_names, 0);
    CUBIN_SECTION(4, SHT_PROGBITS, 1, text, 1);
}

#endif
