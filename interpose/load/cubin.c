/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/cubin.h"

#include <string.h>

#include "interpose/load/elf.h"

enum {
    TYPE_EXTENSIBLE = 0xff00,          /* e_type */
    SECTION_SYMBOLS_MERC = 0x70000085, /* symbols of the code's other form (.nv.merc), sm_100 and later */
    SYMBOL_CUDA_OBJECT = 13,           /* type of data symbols in linkable images */
    RESERVED_SHARED = 1024,            /* bytes that the system reserves in each CTA, sm_90 and later */
    INSTRUCTION = 16,
    WAR_VARIABLE_ALIGNMENT = 16,
    NOTE_CUINFO = 1000 /* n_type */
};
#define NOTE_OWNER "NVIDIA Corp"
#define RESERVED_SHARED_SECTION ".nv.shared.reserved.0"
#define WAR_VARIABLE "__nv_reservedSMEM_gb10b_war_var"

enum mm_cubin_kind mm_cubin_kind(const void *image, size_t bytes) {
    struct mm_elf v;
    if (!mm_elf_try_open(&v, image, bytes)) return MM_CUBIN_NONE;
    switch (v.head.e_type) {
    case ET_EXEC: return MM_CUBIN_WHOLE;
    case ET_REL: return MM_CUBIN_PART;
    case TYPE_EXTENSIBLE: return MM_CUBIN_EXTENSIBLE;
    default: return MM_CUBIN_OTHER;
    }
}

size_t mm_cubin_bytes(const void *image) {
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head.e_ident);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    memcpy(&head, image, sizeof head);
    if (head.e_machine != EM_CUDA || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr)) return 0;
    size_t end = head.e_shoff + (size_t)head.e_shnum * sizeof(Elf64_Shdr);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, (const char *)image + head.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (s.sh_type == SHT_NOBITS || s.sh_type == MM_ELF_SHARED || s.sh_type == SHT_NULL) continue;
        if (s.sh_offset + s.sh_size > end) end = s.sh_offset + s.sh_size;
    }
    const size_t segments = head.e_phoff + (size_t)head.e_phnum * sizeof(Elf64_Phdr);
    return head.e_phnum && segments > end ? segments : end;
}

/* ---- symbols --------------------------------------------------------------------------------------- */

/* The link leaves data symbols with the type of linkable images, which the loader refuses: sets STT_OBJECT. */
static void settle_symbols(const struct mm_elf *v) {
    struct mm_elf_symbols t;
    for (unsigned i = 0; i < v->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(v, i);
        if (s.sh_type != SHT_SYMTAB || !mm_elf_try_symbols(v, &s, &t)) continue;
        for (uint64_t k = 0; k < t.count; k++) {
            Elf64_Sym its = mm_elf_symbol(&t, k);
            if (ELF64_ST_TYPE(its.st_info) != SYMBOL_CUDA_OBJECT) continue;
            its.st_info = (unsigned char)ELF64_ST_INFO(ELF64_ST_BIND(its.st_info), STT_OBJECT);
            memcpy(t.at + k * sizeof its, &its, sizeof its);
        }
    }
}

/* In linkable images, the value of this variable is its alignment (sm_110); nvlink divides by it. */
static void align_war_variable(const struct mm_elf *v, const Elf64_Shdr *s) {
    struct mm_elf_symbols t;
    if (!mm_elf_try_symbols(v, s, &t)) return;
    for (uint64_t k = 0; k < t.count; k++) {
        Elf64_Sym its = mm_elf_symbol(&t, k);
        if (its.st_value || its.st_name >= t.names_bytes || strcmp(t.names + its.st_name, WAR_VARIABLE) != 0) continue;
        its.st_value = WAR_VARIABLE_ALIGNMENT;
        memcpy(t.at + k * sizeof its, &its, sizeof its);
    }
}

/* ---- before the link ------------------------------------------------------------------------------- */

/* A linker refuses images from a newer toolkit than its own, even from a later minor version with the same ABI: the driver of 13.0 loads
 * machine code of 13.5, but does not link it. So this sets the image's toolkit to the first release of its major version. */
static void lower_toolkit(const struct mm_elf *v, const Elf64_Shdr *s) {
    struct {
        Elf64_Nhdr head;
        char owner[sizeof NOTE_OWNER];
        uint16_t form, arch;
        uint32_t toolkit; /* 10 * major + minor */
    } note;
    char *const at = mm_elf_contents(v, s);
    if (!at || s->sh_size < sizeof note) return;
    memcpy(&note, at, sizeof note);
    if (note.head.n_type != NOTE_CUINFO || note.head.n_namesz != sizeof note.owner || memcmp(note.owner, NOTE_OWNER, sizeof note.owner) != 0) return;
    note.toolkit -= note.toolkit % 10;
    memcpy(at, &note, sizeof note);
}

/* .nv.shared.KERNEL */
static bool is_shared(const struct mm_elf *v, const Elf64_Shdr *s) {
    const char *name = mm_elf_name(v, s);
    return s->sh_type == SHT_NOBITS && strncmp(name, ".nv.shared.", 11) == 0 && strcmp(name, RESERVED_SHARED_SECTION) != 0;
}

static bool has_section(const struct mm_elf *v, const char *name) {
    for (unsigned i = 0; i < v->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(v, i);
        if (strcmp(mm_elf_name(v, &s), name) == 0) return true;
    }
    return false;
}

bool mm_cubin_open(void *image, size_t bytes) {
    struct mm_elf v;
    if (!mm_elf_try_open(&v, image, bytes) || v.head.e_type != ET_EXEC) return false;
    const uint64_t reserved = has_section(&v, RESERVED_SHARED_SECTION) ? RESERVED_SHARED : 0;
    for (unsigned i = 0; i < v.sections; i++) {
        const Elf64_Shdr s = mm_elf_section(&v, i);
        if (is_shared(&v, &s) && s.sh_size < reserved) return false;
    }
    for (unsigned i = 0; i < v.sections; i++) {
        Elf64_Shdr s = mm_elf_section(&v, i);
        if (s.sh_type == SECTION_SYMBOLS_MERC) align_war_variable(&v, &s);
        if (s.sh_type == SHT_NOTE) lower_toolkit(&v, &s);
        if (!is_shared(&v, &s)) continue;
        s.sh_type = MM_ELF_SHARED;
        s.sh_size -= reserved;
        mm_elf_put_section(&v, i, &s);
    }
    v.head.e_type = TYPE_EXTENSIBLE;
    memcpy(v.base, &v.head, sizeof v.head);
    return true;
}

/* ---- after the link -------------------------------------------------------------------------------- */

/* Index of the section with that name, searched from `from` on, since linkers mostly keep the order; v->sections if there is none. */
static unsigned find(const struct mm_elf *v, const char *name, unsigned from) {
    for (unsigned n = 0; n < v->sections; n++) {
        const unsigned i = (from + n) % v->sections;
        const Elf64_Shdr s = mm_elf_section(v, i);
        if (strcmp(mm_elf_name(v, &s), name) == 0) return i;
    }
    return v->sections;
}

/* Whether section `text` has a relocation in the instruction at `offset`: the linker may have written an address there. */
static bool is_relocated(const struct mm_elf *v, unsigned text, uint64_t offset) {
    for (unsigned i = 0; i < v->sections; i++) {
        const Elf64_Shdr s = mm_elf_section(v, i);
        const char *const at = (s.sh_type == SHT_RELA || s.sh_type == SHT_REL) && s.sh_info == text ? mm_elf_contents(v, &s) : NULL;
        const size_t size = s.sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        for (uint64_t k = 0; at && k < s.sh_size / size; k++) {
            uint64_t where;
            memcpy(&where, at + k * size, sizeof where); /* r_offset is the first of both */
            if (where / INSTRUCTION == offset / INSTRUCTION) return true;
        }
    }
    return false;
}

static bool same_text(const struct mm_elf *was, unsigned text, const char *a, const char *b, uint64_t bytes) {
    if (memcmp(a, b, bytes) == 0) return true;
    for (uint64_t at = 0; at < bytes; at += INSTRUCTION) {
        const uint64_t n = bytes - at < INSTRUCTION ? bytes - at : INSTRUCTION;
        if (memcmp(a + at, b + at, n) != 0 && !is_relocated(was, text, at)) return false;
    }
    return true;
}

/* Returns NULL if the linked image has section i of the original as it must be, else what is wrong. *next: where the search begins. */
static const char *settle_section(const struct mm_elf *v, const struct mm_elf *was, unsigned i, const char **where, unsigned *next) {
    const Elf64_Shdr old = mm_elf_section(was, i);
    const char *const name = mm_elf_name(was, &old);
    const bool is_text = strncmp(name, ".text.", 6) == 0, is_variables = strcmp(name, ".nv.constant3") == 0;
    *where = name;
    if (!is_shared(was, &old) && !is_text && !is_variables && strncmp(name, ".nv.constant0.", 14) != 0) return NULL;
    const unsigned k = find(v, name, *next);
    if (k == v->sections) return "is missing";
    *next = k + 1;
    Elf64_Shdr s = mm_elf_section(v, k);
    if (is_shared(was, &old)) {
        if (s.sh_type != SHT_NOBITS) return "is no shared memory";
        s.sh_size = old.sh_size;
        mm_elf_put_section(v, k, &s);
        return NULL;
    }
    const char *const a = mm_elf_contents(was, &old), *const b = mm_elf_contents(v, &s);
    if (!a || !b || (is_variables ? s.sh_size < old.sh_size : s.sh_size != old.sh_size)) return "has another size";
    return (is_text ? same_text(was, i, a, b, old.sh_size) : memcmp(a, b, old.sh_size) == 0) ? NULL : "has changed";
}

/* Kernels without shared memory of their own get size 0, not the bytes that the system reserves. */
static void settle_empty(const struct mm_elf *v, const struct mm_elf *was) {
    for (unsigned i = 0; i < v->sections; i++) {
        Elf64_Shdr s = mm_elf_section(v, i);
        if (!is_shared(v, &s) || find(was, mm_elf_name(v, &s), i) != was->sections) continue;
        s.sh_size = 0;
        mm_elf_put_section(v, i, &s);
    }
}

const char *mm_cubin_settle(void *image, size_t bytes, const void *original, size_t original_bytes, const char **where) {
    struct mm_elf v, was;
    const char *wrong = NULL;
    unsigned next = 0;
    *where = "";
    if (!mm_elf_try_open(&v, image, bytes) || v.head.e_type != ET_EXEC) return "the link made no finished image";
    settle_symbols(&v);
    if (!original) return NULL;
    if (!mm_elf_try_open(&was, original, original_bytes)) return "the program's image is damaged";
    for (unsigned i = 0; !wrong && i < was.sections; i++) wrong = settle_section(&v, &was, i, where, &next);
    if (!wrong) settle_empty(&v, &was);
    return wrong;
}
