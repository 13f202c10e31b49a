/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmimages FILE: prints facts about a file for mmdoctor, one line each:
 *
 *     file linked                              the kind: linked, object, archive, cubin, fatbin or other
 *     hook /usr/local/lib/mm/libmm.so.1        the path of the run time in a mmhook.o that is part of the file
 *     rpath $ORIGIN/../lib                     DT_RPATH of a linked file; runpath: DT_RUNPATH
 *     final elf sm_90 heap=2 undefined=        a device image that can be loaded; heap=2_random_walk: of another allocator than the default
 *     part ptx sm_90 heap= undefined=malloc    a device image that must be linked first
 *     closed elf sm_90                         a device image that is damaged, scrambled or not understood
 *
 * heap= is the version in the name of the image's heap variable, with the name's end that says the allocator; for PTX it is this mm's version, if the PTX calls
 * the allocator by mm's names. undefined= lists the services that the image leaves undefined: libmm.so.1 links them at load time, otherwise CUDA provides them.
 *
 * FILE may be any file: content that lies outside of it or is malformed is skipped.
 */
#define _GNU_SOURCE /* memmem */
#include <elf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/fatbin.h"
#include "interpose/load/wants.h"
#include "interpose/compile/shim.h"
#include "interpose/load/cubin.h"
#include "interpose/load/ptx/names.h"
#include "interpose/load/ptx/token.h"
#include "mmconfig.h"

enum { CUDA_MACHINE = 190 };

struct span {
    const char *at;
    size_t bytes;
};

static bool holds(struct span s, uint64_t offset, uint64_t bytes) { return offset <= s.bytes && bytes <= s.bytes - offset; }
static struct span part_of(struct span s, uint64_t offset, uint64_t bytes) {
    return holds(s, offset, bytes) ? (struct span){s.at + offset, bytes} : (struct span){s.at, 0};
}

/* ---- one image ----------------------------------------------------------------------------------- */

struct findings {
    char heap[40];      /* digits, and an allocator's suffix */
    unsigned undefined; /* MM_WANTS_... */
};

static void note_defined(struct findings *f, const char *name) {
    static const char heap[] = MM_HEAP_REF_PREFIX;
    if (strncmp(name, heap, sizeof heap - 1) != 0) return;
    const char *digits = name + sizeof heap - 1;
    const char *suffix = digits + strspn(digits, "0123456789");
    const bool is_named = *suffix == '_' && suffix[1] && !suffix[strspn(suffix, "abcdefghijklmnopqrstuvwxyz_")];
    if (suffix != digits && (*suffix == 0 || is_named)) snprintf(f->heap, sizeof f->heap, "%s", digits);
}

static Elf64_Ehdr elf_head(struct span elf) {
    Elf64_Ehdr head;
    memcpy(&head, elf.at, sizeof head);
    return head;
}

/* The architecture, for example 90. Its place depends on the ABI version, which changed with CUDA 13. */
static unsigned arch_of(Elf64_Ehdr head) { return (head.e_ident[EI_ABIVERSION] < 8 ? head.e_flags : head.e_flags >> 8) & 0xff; }

/* Section i of an ELF file; false if there is no such section. */
static bool try_section(struct span elf, unsigned i, Elf64_Shdr *section, struct span *content) {
    if (elf.bytes < sizeof(Elf64_Ehdr)) return false;
    const Elf64_Ehdr head = elf_head(elf);
    const struct span table = part_of(elf, head.e_shoff, (uint64_t)head.e_shnum * sizeof *section);
    if (!holds(table, i * sizeof *section, sizeof *section)) return false;
    memcpy(section, table.at + i * sizeof *section, sizeof *section);
    *content = section->sh_type == SHT_NOBITS ? (struct span){elf.at, 0} : part_of(elf, section->sh_offset, section->sh_size);
    return true;
}

/* The string at an offset of a string table; "" if it does not end inside the table. */
static const char *string_at(struct span table, uint64_t offset) {
    return offset < table.bytes && memchr(table.at + offset, 0, table.bytes - offset) ? table.at + offset : "";
}

static bool is_elf(struct span s) { return s.bytes >= sizeof(Elf64_Ehdr) && memcmp(s.at, ELFMAG, SELFMAG) == 0 && s.at[EI_CLASS] == ELFCLASS64; }

static bool try_cubin(struct span elf, struct findings *f, bool *is_part) {
    Elf64_Shdr table, other;
    Elf64_Sym symbol;
    struct span symbols, names;
    f->undefined = mm_wants_of_elf(elf.at, elf.bytes);
    const enum mm_cubin_kind kind = mm_cubin_kind(elf.at, elf.bytes);
    if (f->undefined & MM_WANTS_UNREADABLE || kind == MM_CUBIN_OTHER) return false;
    *is_part = kind == MM_CUBIN_PART;
    for (unsigned i = 0; try_section(elf, i, &table, &symbols); i++) {
        if (table.sh_type != SHT_SYMTAB || !try_section(elf, table.sh_link, &other, &names)) continue;
        for (size_t s = 0; holds(symbols, s, sizeof symbol); s += sizeof symbol) {
            memcpy(&symbol, symbols.at + s, sizeof symbol);
            if (symbol.st_shndx != SHN_UNDEF) note_defined(f, string_at(names, symbol.st_name));
        }
    }
    return true;
}

#define SUFFIX(name, suffix) suffix,
static const char *const suffixes[] = {MM_ALLOCATORS(SUFFIX)};

/* Applies the rules of libmm.so.1: a service that is declared .extern, or called by mm's name. */
static bool try_ptx(struct span text, struct findings *f) {
    struct mm_token_reader r;
    struct mm_text shown;
    int allocator;
    while (text.bytes && !text.at[text.bytes - 1]) text.bytes--; /* padding */
    mm_token_start(&r, text.at, text.bytes);
    const struct mm_token first = mm_token_next(&r);
    f->undefined = (unsigned)mm_names_declared(text.at, text.bytes);
    if (mm_names_show(text.at, text.bytes, &allocator, &shown) > 0) snprintf(f->heap, sizeof f->heap, "%d%s", MM_ABI_VERSION, suffixes[allocator]);
    mm_text_free(&shown);
    return mm_token_is(&first, ".version");
}

static void tell(bool understood, bool is_part, const char *kind, unsigned arch, const struct findings *f) {
    const char *comma = "";
    if (!understood) {
        printf("closed %s sm_%u\n", kind, arch);
        return;
    }
    printf("%s %s sm_%u heap=%s undefined=", is_part ? "part" : "final", kind, arch, f->heap);
    for (unsigned left = f->undefined; left; left &= left - 1, comma = ",") printf("%s%s", comma, mm_wants_name(left)); /* the service of the lowest bit */
    putchar('\n');
}

/* ---- containers ---------------------------------------------------------------------------------- */

static void read_entry(const struct mm_fatbin_entry *e, struct mm_fatbin_payload *payload) {
    struct mm_fatbin_error error;
    struct findings f = {"", 0};
    bool is_part = e->options && memmem(e->options, e->options_bytes, "--compile-only", 14);
    if (e->kind != MM_FATBIN_PTX && e->kind != MM_FATBIN_ELF) return; /* for example LTO IR */
    bool understood = mm_fatbin_try_payload(payload, e, &error);
    const struct span body = {(const char *)payload->at, payload->bytes};
    if (understood) understood = e->kind == MM_FATBIN_ELF ? try_cubin(body, &f, &is_part) : try_ptx(body, &f);
    tell(understood, is_part, e->kind == MM_FATBIN_ELF ? "elf" : "ptx", e->arch, &f);
}

static size_t container_bytes(struct span at) { return at.bytes < MM_FATBIN_CONTAINER_BYTES ? 0 : mm_fatbin_total_bytes(at.at); }

/* Of a damaged container, reads the entries in front of the damage. */
static void read_containers(struct span all) {
    enum { ALIGNMENT = 8 };
    struct mm_fatbin_payload payload;
    struct mm_fatbin_entry e;
    struct mm_fatbin_walk w;
    memset(&payload, 0, sizeof payload);
    for (size_t at = 0; at < all.bytes;) {
        const struct span rest = {all.at + at, all.bytes - at};
        const size_t bytes = container_bytes(rest);
        if (!bytes || bytes > rest.bytes) { /* padding, or truncated */
            at += ALIGNMENT;
            continue;
        }
        for (mm_fatbin_walk_begin(&w, rest.at, bytes); mm_fatbin_walk_next(&w, &e);) read_entry(&e, &payload);
        at += bytes;
    }
    mm_fatbin_payload_free(&payload);
}

/* ---- files --------------------------------------------------------------------------------------- */

static void read_host_elf(struct span elf) {
    Elf64_Shdr names_section, section;
    struct span names, content;
    if (!try_section(elf, elf_head(elf).e_shstrndx, &names_section, &names)) return;
    for (unsigned i = 0; try_section(elf, i, &section, &content); i++) {
        const char *name = string_at(names, section.sh_name);
        if (strcmp(name, ".nv_fatbin") == 0 || strcmp(name, "__nv_relfatbin") == 0) read_containers(content);
    }
}

/* mmhook.o holds the path of libmm.so.1 after a mark. */
static void read_hook(struct span file) {
    static const char mark[] = "mm's run time: ";
    const char *at = file.at, *end = file.at + file.bytes;
    while ((at = (const char *)memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        at += sizeof mark - 1;
        if (at < end && *at == '/' && memchr(at, 0, (size_t)(end - at))) printf("hook %s\n", at);
    }
}

/* Prints the folders in which the loader searches for the libraries of a linked file. */
static void read_paths(struct span elf) {
    Elf64_Shdr section, other;
    struct span content, strings;
    Elf64_Dyn entry;
    for (unsigned i = 0; try_section(elf, i, &section, &content); i++) {
        if (section.sh_type != SHT_DYNAMIC || !try_section(elf, section.sh_link, &other, &strings)) continue;
        for (size_t at = 0; holds(content, at, sizeof entry); at += sizeof entry) {
            memcpy(&entry, content.at + at, sizeof entry);
            if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) continue;
            printf("%s %s\n", entry.d_tag == DT_RPATH ? "rpath" : "runpath", string_at(strings, entry.d_un.d_val));
        }
    }
}

static void read_archive(struct span all);

static void read_file(struct span file, bool is_member) {
    const bool elf = is_elf(file);
    const char *kind = "other";
    if (elf) kind = elf_head(file).e_machine == CUDA_MACHINE ? "cubin" : elf_head(file).e_type == ET_REL ? "object" : "linked";
    else if (container_bytes(file)) kind = "fatbin";
    else if (!is_member && file.bytes >= 8 && memcmp(file.at, "!<arch>\n", 8) == 0) kind = "archive";
    if (!is_member) printf("file %s\n", kind);
    if (strcmp(kind, "cubin") == 0) {
        struct findings f = {"", 0};
        bool is_part = false;
        const bool understood = try_cubin(file, &f, &is_part);
        tell(understood, is_part, "elf", arch_of(elf_head(file)), &f);
    } else if (elf) read_host_elf(file);
    else if (*kind == 'f') read_containers(file);
    else if (*kind == 'a') read_archive(file);
    if (strcmp(kind, "linked") == 0) {
        read_hook(file);
        read_paths(file);
    }
}

/* An archive's members: a header of 60 bytes with the size in decimal digits, then the content, at even offsets. */
static void read_archive(struct span all) {
    enum { MARK = 8, HEADER = 60, SIZE_AT = 48, SIZE_DIGITS = 10 };
    for (size_t at = MARK; holds(all, at, HEADER);) {
        char digits[SIZE_DIGITS + 1] = "";
        memcpy(digits, all.at + at + SIZE_AT, SIZE_DIGITS);
        const struct span content = part_of(all, at + HEADER, strtoull(digits, NULL, 10));
        char *aligned = content.bytes ? (char *)malloc(content.bytes + 1) : NULL; /* a copy, aligned like a file */
        if (aligned) {
            memcpy(aligned, content.at, content.bytes);
            aligned[content.bytes] = 0;
            read_file((struct span){aligned, content.bytes}, true);
            free(aligned);
        }
        at += HEADER + content.bytes + content.bytes % 2;
    }
}

int main(int argc, char **argv) {
    struct mm_text file;
    if (argc != 2) return fputs("usage: mmimages FILE\n", stderr), 2;
    if (mm_shim_read(argv[1], &file)) return fprintf(stderr, "%s\n", strerror(errno)), 1;
    read_file((struct span){file.data, file.bytes}, false);
    mm_text_free(&file);
    return fflush(stdout) ? 1 : 0;
}
