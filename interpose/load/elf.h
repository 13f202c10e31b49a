/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reads the tables of a cubin, an ELF file of 64 bits, within its bytes whatever is in them. Structures are copied: an image may lie at any
 * address. */
#ifndef MM_LOAD_ELF_H
#define MM_LOAD_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MM_ELF_SHARED = 0x7000000a }; /* sh_type of shared memory in images that can be linked */

/* An image of which the header and the table of sections are within bounds. */
struct mm_elf {
    char *base;
    size_t bytes;
    Elf64_Ehdr head;
    unsigned sections; /* how many there are */
    const char *names; /* of sections; the last byte is 0 */
    uint64_t names_bytes;
};

/* Returns false if it is no cubin, or a damaged one. The image may be written to through `e` if the caller may. */
bool mm_elf_try_open(struct mm_elf *e, const void *image, size_t bytes);

/* i < e->sections */
Elf64_Shdr mm_elf_section(const struct mm_elf *e, unsigned i);
void mm_elf_put_section(const struct mm_elf *e, unsigned i, const Elf64_Shdr *s);
const char *mm_elf_name(const struct mm_elf *e, const Elf64_Shdr *s);

/* What a section has in the file, s->sh_size bytes; NULL if nothing, or not all of it. */
char *mm_elf_contents(const struct mm_elf *e, const Elf64_Shdr *s);

struct mm_elf_symbols {
    char *at;
    uint64_t count, names_bytes;
    const char *names; /* the last byte is 0 */
};

/* s: a table of symbols. Returns false if it, or its names, are not there. k < t->count. */
bool mm_elf_try_symbols(const struct mm_elf *e, const Elf64_Shdr *s, struct mm_elf_symbols *t);
Elf64_Sym mm_elf_symbol(const struct mm_elf_symbols *t, uint64_t k);

/* Whether a table of symbols has this name, and not as undefined. False also if the image is damaged. */
bool mm_elf_defines(const void *image, size_t bytes, const char *name);

#endif
