/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memmem */
#include "interpose/load/wants.h"

#include <ctype.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SERVICES = 4 };
static const struct {
    const char *name;
    unsigned bit;
} service[SERVICES] = {{"malloc", MM_WANTS_MALLOC},
                       {"free", MM_WANTS_FREE},
                       {"__cuda_syscall_aligned_malloc", MM_WANTS_ALIGNED},
                       {"mm_usable_size", MM_WANTS_USABLE_SIZE}};

/* The cubin as far as it was found to be one. */
struct cubin {
    const unsigned char *at;
    size_t bytes;
    uint64_t sections_at, sections; /* offset of the section table, and how many there are */
};

static bool holds(const struct cubin *c, uint64_t at, uint64_t bytes) { return at <= c->bytes && bytes <= c->bytes - at; }

static void section_read(const struct cubin *c, uint64_t i, Elf64_Shdr *s) { memcpy(s, c->at + c->sections_at + i * sizeof *s, sizeof *s); }

static bool try_open(struct cubin *c) {
    Elf64_Ehdr head;
    Elf64_Shdr first;
    if (!holds(c, 0, sizeof head)) return false;
    memcpy(&head, c->at, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_CUDA) return false;
    if (!head.e_shoff) return true; /* no sections, whatever e_shnum says */
    c->sections_at = head.e_shoff;
    c->sections = head.e_shnum;
    if (head.e_shentsize != sizeof first || !holds(c, head.e_shoff, sizeof first)) return false;
    section_read(c, 0, &first);
    if (!c->sections) c->sections = first.sh_size; /* more than fit into e_shnum: here is the number */
    return c->sections <= (c->bytes - c->sections_at) / sizeof first;
}

static unsigned services_of(const struct cubin *c, const Elf64_Shdr *symbols, const Elf64_Shdr *names) {
    unsigned wanted = 0;
    Elf64_Sym symbol;
    for (uint64_t left = symbols->sh_size / sizeof symbol, at = symbols->sh_offset; left; left--, at += sizeof symbol) {
        memcpy(&symbol, c->at + at, sizeof symbol);
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= names->sh_size) continue;
        const unsigned char *const name = c->at + names->sh_offset + symbol.st_name;
        for (int i = 0; i < SERVICES; i++) {
            const size_t length = strlen(service[i].name) + 1;
            if (length <= names->sh_size - symbol.st_name && memcmp(name, service[i].name, length) == 0) wanted |= service[i].bit;
        }
    }
    return wanted;
}

unsigned mm_wants_of_elf(const void *cubin, size_t bytes) {
    struct cubin c = {(const unsigned char *)cubin, bytes, 0, 0};
    unsigned wanted = 0;
    Elf64_Shdr symbols, names;
    if (!try_open(&c)) return MM_WANTS_UNREADABLE;
    for (uint64_t i = 0; i < c.sections; i++) {
        section_read(&c, i, &symbols);
        if (symbols.sh_type != SHT_SYMTAB) continue;
        if (symbols.sh_link >= c.sections) return MM_WANTS_UNREADABLE;
        section_read(&c, symbols.sh_link, &names);
        if (names.sh_type == SHT_NOBITS) return MM_WANTS_UNREADABLE;
        if (!holds(&c, symbols.sh_offset, symbols.sh_size) || !holds(&c, names.sh_offset, names.sh_size)) return MM_WANTS_UNREADABLE;
        wanted |= services_of(&c, &symbols, &names);
    }
    return wanted;
}

const char *mm_wants_name(unsigned wanted) {
    for (int i = 0; i < SERVICES; i++)
        if (wanted & service[i].bit) return service[i].name;
    return NULL;
}

static bool is_of_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

/* Whether the name occurs on its own, not as a part of another. */
static bool names(const char *text, size_t bytes, const char *name) {
    const size_t length = strlen(name);
    const char *const end = text + bytes;
    for (const char *at = text; (at = (const char *)memmem(at, (size_t)(end - at), name, length)); at += length)
        if ((at == text || !is_of_name(at[-1])) && (at + length == end || !is_of_name(at[length]))) return true;
    return false;
}

unsigned mm_wants_of_ptx(const char *text, size_t bytes) {
    unsigned wanted = 0;
    for (int i = 0; i < SERVICES; i++)
        if (names(text, bytes, service[i].name)) wanted |= service[i].bit;
    return wanted;
}
