/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reads the tables of a cubin, a 64-bit ELF file, without leaving its bytes, whatever they contain. Structures are copied: an image needs no
 * alignment. */
#ifndef MM_LOAD_ELF_H
#define MM_LOAD_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MM_ELF_SHARED = 0x7000000a }; /* sh_type of shared memory in linkable images */

/* An image whose header and section table are within bounds. */
struct mm_elf {
    char *base;
    size_t bytes;
    Elf64_Ehdr head;
    unsigned sections; /* how many there are */
    const char *names; /* of sections; the last byte is 0 */
    uint64_t names_bytes;
};

/* Returns false if it is no cubin, or a damaged one. `e` may be used to write to the image if the image is writable. */
bool mm_elf_try_open(struct mm_elf *e, const void *image, size_t bytes);

/* i < e->sections */
Elf64_Shdr mm_elf_section(const struct mm_elf *e, unsigned i);
void mm_elf_put_section(const struct mm_elf *e, unsigned i, const Elf64_Shdr *s);
const char *mm_elf_name(const struct mm_elf *e, const Elf64_Shdr *s);

/* The section's contents, s->sh_size bytes; NULL if the file has none, or only a part. */
char *mm_elf_contents(const struct mm_elf *e, const Elf64_Shdr *s);

struct mm_elf_symbols {
    char *at;
    uint64_t count, names_bytes;
    const char *names; /* the last byte is 0 */
};

/* s: a symbol table. Returns false if it or its names are missing. k < t->count. */
bool mm_elf_try_symbols(const struct mm_elf *e, const Elf64_Shdr *s, struct mm_elf_symbols *t);
Elf64_Sym mm_elf_symbol(const struct mm_elf_symbols *t, uint64_t k);

/* Whether a symbol table defines this name. False also if the image is damaged. */
bool mm_elf_defines(const void *image, size_t bytes, const char *name);

#endif
