/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memfd_create */
#include "interpose/devlink.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose/shim.h"

struct mm_attempt mm_attempt_run(const char *program, int argc, char **argv, char *more) {
    struct mm_attempt a = {1, {NULL, NULL}};
    for (int i = 0; i < 2; i++) {
        const int fd = memfd_create("mmnvcc", MFD_CLOEXEC);
        a.said[i] = fd < 0 ? NULL : fdopen(fd, "w+");
    }
    char **arguments = (char **)malloc(((size_t)argc + 2) * sizeof *arguments);
    if (!a.said[0] || !a.said[1] || !arguments) {
        mm_shim_complain("cannot keep the output of a program: %s", strerror(errno));
        exit(1);
    }
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = more;
    arguments[argc + 1] = NULL;
    a.status = mm_shim_run_into(program, arguments, fileno(a.said[0]), fileno(a.said[1]));
    free(arguments);
    return a;
}

/* That our library is machine code is no news to the user; nor, if `of_stacks` is not asked for, how large stacks are. */
static int is_news(const char *line, int of_stacks) {
    if (!of_stacks && strstr(line, "Stack size for entry function") && strstr(line, "cannot be statically determined")) return 0;
    return !strstr(line, "/device/") || !strstr(line, "not built for LTO");
}

void mm_attempt_repeat(const struct mm_attempt *a, int of_stacks) {
    FILE *const to[2] = {stdout, stderr};
    char *line = NULL;
    size_t room = 0;
    for (int i = 0; i < 2; i++) {
        rewind(a->said[i]);
        for (ssize_t n; (n = getline(&line, &room, a->said[i])) > 0;)
            if (is_news(line, of_stacks)) fwrite(line, 1, (size_t)n, to[i]);
        fflush(to[i]);
    }
    free(line);
}

int mm_attempt_lacks(const struct mm_attempt *a) {
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    for (int i = 0; i < 2 && a->status != 0; i++) {
        rewind(a->said[i]);
        while (getline(&line, &room, a->said[i]) > 0) found |= strstr(line, "Undefined reference to 'mm_usable_size'") != NULL;
    }
    free(line);
    return found;
}

static const char *service_of(const char *name) {
    for (int i = 0; i < MM_SPLICE_SERVICES; i++)
        if (strcmp(name, mm_splice_service[i]) == 0) return mm_splice_service[i];
    return NULL;
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
            if (service_of(name)) return service_of(name);
        }
    }
    return NULL;
}

const char *mm_devlink_lacks(const char *path) {
    struct mm_splice_text elf;
    if (mm_shim_read(path, &elf)) {
        mm_shim_complain("cannot read '%s': %s", path, strerror(errno));
        exit(1);
    }
    const char *missing = undefined_service(&elf);
    mm_splice_text_free(&elf);
    return missing;
}
