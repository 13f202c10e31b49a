/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200809L
#include "interpose/runtime/image.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/splice/fatbin.h"
#include "interpose/splice/text.h"

bool mm_image_is_ptx(const char *p) {
    for (;;) {
        if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p + 2, "*/");
            if (!p) return false;
            p += 2;
        } else {
            return strncmp(p, ".version", 8) == 0;
        }
    }
}

bool mm_image_try_read(const char *path, struct mm_splice_text *text) {
    char piece[16384];
    struct stat is;
    ssize_t n = -1;
    memset(text, 0, sizeof *text);
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode))
        while ((n = read(fd, piece, sizeof piece)) > 0) {
            if (!text->bytes && !strchr("\177P./ \t\r\n\v\f", *piece)) n = 0; /* neither ELF nor fat binary nor text */
            if (n == 0 || mm_text_add(text, piece, (size_t)n)) break;
        }
    if (fd >= 0) close(fd);
    if (n == 0 && mm_text_add(text, "", 0) == 0) return true;
    mm_splice_text_free(text);
    return false;
}

/* ---- cubins --------------------------------------------------------------------------------------- */

/* An ELF file as far as it is needed; the section table is the last of it that we look at. */
struct cubin {
    const char *base;
    const Elf64_Shdr *sections;
    unsigned count;
    const Elf64_Sym *symbols;
    uint64_t symbol_count;
    const char *names;
    uint64_t names_bytes;
};

static const void *section_data(const struct cubin *c, unsigned i, unsigned alignment, uint64_t *bytes) {
    const uint64_t end = (uint64_t)((const char *)c->sections - c->base);
    if (i >= c->count || c->sections[i].sh_offset > end || c->sections[i].sh_size > end - c->sections[i].sh_offset) return NULL;
    if (c->sections[i].sh_offset % alignment) return NULL;
    *bytes = c->sections[i].sh_size;
    return c->base + c->sections[i].sh_offset;
}

static bool try_open(struct cubin *c, const void *image) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    if ((uintptr_t)image % 8) return false;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != EM_CUDA ||
        head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff < sizeof *head || head->e_shoff % 8)
        return false;
    c->base = (const char *)image;
    c->sections = (const Elf64_Shdr *)(const void *)(c->base + head->e_shoff);
    c->count = head->e_shnum;
    for (unsigned i = 0; i < c->count; i++) {
        uint64_t bytes = 0;
        if (c->sections[i].sh_type != SHT_SYMTAB) continue;
        c->symbols = (const Elf64_Sym *)section_data(c, i, 8, &bytes);
        c->symbol_count = bytes / sizeof(Elf64_Sym);
        c->names = (const char *)section_data(c, c->sections[i].sh_link, 1, &c->names_bytes);
        return c->symbols && c->names && c->names_bytes && c->names[c->names_bytes - 1] == 0;
    }
    return false;
}

static const char *symbol_name(const struct cubin *c, uint64_t i) {
    return c->symbols[i].st_name < c->names_bytes ? c->names + c->symbols[i].st_name : "";
}

/* The service that a symbol is if the driver has to provide it, or NULL. */
static const char *outside_service(const struct cubin *c, uint64_t i) {
    if (i >= c->symbol_count || c->symbols[i].st_shndx != SHN_UNDEF) return NULL;
    for (int s = 0; s < MM_SPLICE_SERVICES; s++)
        if (strcmp(symbol_name(c, i), mm_splice_service[s]) == 0) return mm_splice_service[s];
    return NULL;
}

/* .nv.callgraph is pairs of indices of symbols, caller and callee; some callees are no symbols but marks. */
static bool find_in(const struct cubin *c, const uint32_t *pairs, uint64_t count, struct mm_image_call *call) {
    enum { KERNEL = 0x10 }; /* in st_other */
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t caller = pairs[2 * i];
        call->service = outside_service(c, pairs[2 * i + 1]);
        if (!call->service || caller >= c->symbol_count) continue;
        call->caller = symbol_name(c, caller);
        call->is_kernel = (c->symbols[caller].st_other & KERNEL) != 0;
        return true;
    }
    return false;
}

bool mm_image_find_call(const void *image, struct mm_image_call *call) {
    struct cubin c;
    uint64_t names_bytes = 0, bytes = 0;
    memset(&c, 0, sizeof c);
    if (!try_open(&c, image)) return false;
    const char *names = (const char *)section_data(&c, ((const Elf64_Ehdr *)image)->e_shstrndx, 1, &names_bytes);
    if (!names || !names_bytes || names[names_bytes - 1] != 0) return false;
    for (unsigned i = 0; i < c.count; i++) {
        if (c.sections[i].sh_name >= names_bytes || strcmp(names + c.sections[i].sh_name, ".nv.callgraph") != 0) continue;
        const uint32_t *pairs = (const uint32_t *)section_data(&c, i, 4, &bytes);
        return pairs && find_in(&c, pairs, bytes / 8, call);
    }
    return false;
}

/* ---- fat binaries --------------------------------------------------------------------------------- */

/* The container that the image is, or that it refers to; NULL if neither. */
static const char *container_of(const void *image) {
    struct {
        uint32_t magic, version;
        const char *container;
    } w;
    memcpy(&w.magic, image, sizeof w.magic);
    if (w.magic == MM_FATBIN_MAGIC) return (const char *)image;
    if (w.magic != MM_FATBIN_WRAPPER_MAGIC) return NULL;
    memcpy(&w, image, sizeof w);
    return w.version == MM_FATBIN_WRAPPER_VERSION ? w.container : NULL;
}

bool mm_image_is_fatbin(const void *image) { return container_of(image) != NULL; }

bool mm_image_holds_fatbin(const void *image, size_t bytes) {
    if (bytes < MM_FATBIN_HEADER_BYTES || container_of(image) != image) return false;
    const uint64_t entries = mm_fatbin_bytes((const char *)image);
    return entries && entries <= bytes - MM_FATBIN_HEADER_BYTES;
}

/* Machine code runs on later devices of its major version, PTX on all later ones. */
static bool fits(const struct mm_fatbin_entry *e, unsigned arch) {
    if (e->is_exact || e->arch >= arch) return e->arch == arch;
    return e->kind == MM_FATBIN_PTX || e->arch / 10 == arch / 10;
}

char *mm_image_try_ptx(const void *image, int arch) {
    const char *at = container_of(image), *const forced = getenv("CUDA_FORCE_PTX_JIT");
    const bool is_forced = forced && strcmp(forced, "1") == 0;
    struct mm_fatbin_entry e, best;
    memset(&best, 0, sizeof best);
    if (!at) return NULL;
    uint64_t bytes = mm_fatbin_bytes(at);
    at += MM_FATBIN_HEADER_BYTES;
    for (; mm_fatbin_read(at, bytes, &e); at += e.header_bytes + e.body_bytes, bytes -= e.header_bytes + e.body_bytes) {
        if (!fits(&e, (unsigned)arch)) continue;
        if (e.kind == MM_FATBIN_ELF && !is_forced) return NULL;
        if (e.kind == MM_FATBIN_PTX && e.arch >= best.arch) best = e;
    }
    if (!best.body) return NULL;
    return mm_fatbin_is_packed(&best) ? mm_fatbin_unpack(&best) : strndup(best.body, best.body_bytes);
}
