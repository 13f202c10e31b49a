/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Makes fat binaries and cubins field by field, independently of the code that reads them. */
#ifndef MM_TESTS_LOAD_MADE_H
#define MM_TESTS_LOAD_MADE_H

#include <elf.h>
#include <lz4.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { STORED = 0, LZ4 = 0x2000, ZSTD = 0x8000, SCRAMBLED = 0x10000, ARCH_A = 0x100000, ARCH_F = 0x200000 };
enum { PTX = 1, ELF = 2, LTO = 8, GROUP = 0x100 };

/* A new container, entry or member is appended. */
struct made {
    unsigned char at[16384];
    size_t bytes;
    size_t container, entry; /* where the last of each begins */
};

static inline size_t made_round(size_t bytes) { return (bytes + 7) / 8 * 8; }
static inline void made_put(struct made *m, const void *data, size_t bytes) {
    if (bytes > sizeof m->at - m->bytes) abort();
    if (bytes) memcpy(m->at + m->bytes, data, bytes);
    m->bytes += bytes;
}
static inline void made_u16(struct made *m, size_t at, unsigned value) { memcpy(m->at + at, &(uint16_t){(uint16_t)value}, 2); }
static inline void made_u32(struct made *m, size_t at, uint32_t value) { memcpy(m->at + at, &value, 4); }
static inline void made_u64(struct made *m, size_t at, uint64_t value) { memcpy(m->at + at, &value, 8); }
static inline void made_pad(struct made *m) { made_put(m, "\0\0\0\0\0\0\0", made_round(m->bytes) - m->bytes); }

static inline void made_container(struct made *m) {
    m->container = m->bytes;
    made_put(m, "\x50\xed\x55\xba\1\0\x10\0\0\0\0\0\0\0\0\0", 16);
}

/* A header of 64 bytes, then name and options, in the format of fatbinary. */
static inline void made_header(struct made *m, unsigned kind, unsigned arch, uint64_t flags, const char *name, const char *options) {
    const size_t at = m->entry = m->bytes;
    made_put(m, (const char[64]){0}, 64);
    made_u16(m, at, kind);
    made_u16(m, at + 2, 0x101);
    made_u16(m, at + 24, kind == ELF ? 8 : 0);
    made_u16(m, at + 26, kind == ELF ? 1 : 9);
    made_u32(m, at + 28, arch);
    made_u64(m, at + 40, flags | 0x11);
    if (name) {
        made_u32(m, at + 32, 64);
        made_u32(m, at + 36, (uint32_t)strlen(name));
        made_put(m, name, strlen(name) + 1);
        made_pad(m);
    }
    if (options) {
        const uint32_t record = (uint32_t)(m->bytes - at);
        made_u32(m, at + 20, record);
        made_put(m, (const char[8]){0}, 8);
        made_u32(m, at + record, record + 8);
        made_u32(m, at + record + 4, (uint32_t)strlen(options));
        made_put(m, options, strlen(options) + 1);
        made_pad(m);
    }
}

/* Appends the payload of the header at m->entry. */
static inline void made_payload(struct made *m, const void *payload, size_t bytes, uint64_t flags) {
    static char packed[16384];
    size_t stored = bytes;
    made_u32(m, m->entry + 4, (uint32_t)(m->bytes - m->entry));
    if (flags & (LZ4 | ZSTD)) {
        stored =
            flags & LZ4 ? (size_t)LZ4_compress_default(payload, packed, (int)bytes, sizeof packed) : ZSTD_compress(packed, sizeof packed, payload, bytes, 3);
        if (!stored || stored > sizeof packed) abort();
        payload = packed;
        made_u32(m, m->entry + 16, (uint32_t)stored);
        made_u64(m, m->entry + 56, bytes);
    }
    made_u64(m, m->entry + 8, made_round(stored));
    made_put(m, payload, stored);
    made_pad(m);
    made_u64(m, m->container + 8, m->bytes - m->container - 16);
}

static inline void made_entry(struct made *m, unsigned kind, unsigned arch, uint64_t flags, const char *name, const char *options, const void *payload,
                              size_t bytes) {
    made_header(m, kind, arch, flags, name, options);
    made_payload(m, payload, bytes, flags);
}

/* A group of two members: PTX for sm_90 with name and options, and an ELF for sm_80 with a name. */
static inline void made_group(struct made *m, uint64_t flags, const char *text, const void *elf, size_t elf_bytes) {
    static char stream[16384];
    const size_t text_bytes = made_round(strlen(text) + 1), begin = m->bytes;
    if (text_bytes + elf_bytes > sizeof stream) abort();
    memset(stream, 0, text_bytes);
    memcpy(stream, text, strlen(text));
    memcpy(stream + text_bytes, elf, elf_bytes);
    made_header(m, GROUP, 0, flags, NULL, NULL);
    made_put(m, (const char[8]){0}, 8);
    made_header(m, PTX, 90, 0, "twice.cu", "-O1 -g 1"); /* 8 characters each: with the terminating zero they take 16 bytes */
    made_u64(m, m->entry + 8, text_bytes);
    made_header(m, ELF, 80, 0, "eight.cu", NULL);
    made_u32(m, m->entry + 4, (uint32_t)text_bytes);
    made_u64(m, m->entry + 8, elf_bytes);
    made_u32(m, begin + 20, 64);
    made_u32(m, begin + 64, 2);
    made_u32(m, begin + 68, (uint32_t)(m->bytes - begin - 64));
    m->entry = begin;
    made_payload(m, stream, text_bytes + elf_bytes, flags);
}

/* A cubin that has symbols only: those of `defined` are in section 1, those of `undefined` in none. NULL ends each list. Returns its length in bytes. */
static inline size_t made_cubin(unsigned char *to, const char *const *defined, const char *const *undefined) {
    char names[512] = "";
    size_t names_bytes = 1, count = 1;
    Elf64_Sym symbols[16];
    memset(symbols, 0, sizeof symbols);
    for (int list = 0; list < 2; list++)
        for (const char *const *name = list ? undefined : defined; *name; name++, count++) {
            if (count == 16 || names_bytes + strlen(*name) + 1 > sizeof names) abort();
            symbols[count].st_name = (Elf64_Word)names_bytes;
            symbols[count].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
            symbols[count].st_shndx = list ? SHN_UNDEF : 1;
            memcpy(names + names_bytes, *name, strlen(*name) + 1);
            names_bytes += strlen(*name) + 1;
        }
    const size_t symbols_at = sizeof(Elf64_Ehdr) + made_round(names_bytes), sections_at = symbols_at + count * sizeof *symbols;
    Elf64_Ehdr head = {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x33, 7},
                       ET_EXEC,
                       EM_CUDA,
                       EV_CURRENT,
                       0,
                       0,
                       sections_at,
                       0,
                       sizeof head,
                       0,
                       0,
                       sizeof(Elf64_Shdr),
                       3,
                       1};
    Elf64_Shdr sections[3];
    memset(sections, 0, sizeof sections);
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = sizeof head;
    sections[1].sh_size = names_bytes;
    sections[2].sh_type = SHT_SYMTAB;
    sections[2].sh_offset = symbols_at;
    sections[2].sh_size = count * sizeof *symbols;
    sections[2].sh_link = 1;
    memset(to, 0, sections_at);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, names, names_bytes);
    memcpy(to + symbols_at, symbols, count * sizeof *symbols);
    memcpy(to + sections_at, sections, sizeof sections);
    return sections_at + sizeof sections;
}

#endif
