/* Stands in for the toolkit's nvlink: runs the real one with the same arguments and libmm.a behind
 * them, then looks whether that did serve: nvlink passes over a library that has no code for its
 * architecture without an error, and the program would run on the built-in allocator. (-lmm would not do:
 * nvlink takes a libmm.so for it, and stands before libcudadevrt, whose own calls of malloc count too.) Of
 * nvlink's options only -o is looked at.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/shim.h"

static int is_service(const char *name) {
    for (int i = 0; i < MM_SPLICE_SERVICES; i++)
        if (strcmp(name, mm_splice_service[i]) == 0) return 1;
    return 0;
}

/* First undefined service in a linked cubin; NULL if there is none, or this is no linked cubin. */
static const char *undefined_service(const struct mm_splice_text *elf) {
    Elf64_Ehdr head;
    Elf64_Shdr table, strings;
    Elf64_Sym symbol;
    if (elf->bytes < sizeof head) return NULL;
    memcpy(&head, elf->data, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_EXEC) return NULL;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        const size_t at = head.e_shoff + i * sizeof table;
        if (at > elf->bytes || elf->bytes - at < sizeof table) return NULL;
        memcpy(&table, elf->data + at, sizeof table);
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= head.e_shnum) continue;
        memcpy(&strings, elf->data + head.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        if (table.sh_offset > elf->bytes || elf->bytes - table.sh_offset < table.sh_size ||
            strings.sh_offset > elf->bytes || elf->bytes - strings.sh_offset < strings.sh_size)
            return NULL;
        for (size_t s = 0; s + sizeof symbol <= table.sh_size; s += sizeof symbol) {
            memcpy(&symbol, elf->data + table.sh_offset + s, sizeof symbol);
            if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= strings.sh_size) continue;
            const char *name = elf->data + strings.sh_offset + symbol.st_name; /* the text ends in a zero */
            if (is_service(name)) return name;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *output = NULL, *missing;
    struct mm_splice_text elf;
    char real[4096], library[4096];
    if (mm_shim_path(real, sizeof real, "real/nvlink") || mm_shim_path(library, sizeof library, "libmm.a")) return 1;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "-o") == 0) output = argv[i + 1];
    char **arguments = (char **)malloc(((size_t)argc + 2) * sizeof *arguments);
    if (!arguments) return mm_shim_complain("no memory");
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = argc > 1 ? library : NULL;
    arguments[argc + 1] = NULL;
    const int status = mm_shim_run(real, arguments);
    free(arguments);
    if (status || !output) return status;
    if (mm_shim_read(output, &elf)) {
        mm_splice_text_free(&elf);
        return mm_shim_complain("cannot read '%s': %s", output, strerror(errno));
    }
    missing = undefined_service(&elf);
    if (missing) {
        mm_shim_complain("the device link leaves '%s' undefined: libmm.a has no code for this architecture; "
                         "build mm with it in ARCHS", missing);
        unlink(output);
    }
    mm_splice_text_free(&elf);
    return missing ? 1 : 0;
}
