/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by suites load, make and wants: exact copies of bytes, a fat binary with entries of all kinds, reading of files. */
#ifndef MM_TESTS_LOAD_SUPPORT_H
#define MM_TESTS_LOAD_SUPPORT_H

#include <check.h>
#include <stdio.h>

#include "interpose/load/fatbin.h"
#include "tests/load/made.h"

#define TEXT ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kernel() {\n ret;\n}\n"

/* A copy in an allocation of exactly that length. */
static inline unsigned char *exactly(const void *data, size_t bytes) {
    unsigned char *const at = malloc(bytes + !bytes);
    ck_assert(at);
    memcpy(at, data, bytes);
    return at;
}

static inline size_t cubin(unsigned char *to) { return made_cubin(to, (const char *const[]){"kernel", NULL}, (const char *const[]){"malloc", NULL}); }

/* Entries of all kinds: stored, LZ4, zstd, with and without name and options; a second container; zeros between and after them. */
static inline void make_all(struct made *m) {
    unsigned char elf[2048];
    const size_t elf_bytes = cubin(elf);
    memset(m, 0, sizeof *m);
    made_container(m);
    made_entry(m, ELF, 75, STORED, NULL, NULL, elf, elf_bytes);
    made_entry(m, ELF, 90, LZ4 | ARCH_A, "k.cu", NULL, elf, elf_bytes);
    made_entry(m, ELF, 100, ZSTD | ARCH_F, NULL, "\2\11", elf, elf_bytes);
    made_put(m, (const char[24]){0}, 24);
    made_container(m);
    made_entry(m, PTX, 90, STORED, "12345678", "-O1", TEXT, sizeof TEXT);
    made_entry(m, PTX, 90, LZ4, NULL, "-g --x ", TEXT, sizeof TEXT);
    made_entry(m, LTO, 90, ZSTD | SCRAMBLED, NULL, "-fmad=1", TEXT, sizeof TEXT);
    made_entry(m, 0x77, 12, STORED, NULL, NULL, "opaque", 6);
    made_group(m, ZSTD, TEXT, elf, elf_bytes);
    made_put(m, (const char[5]){0}, 5);
}
enum { ALL = 9 };

/* Reads all entries; expects no error. */
static inline size_t read_all(const void *at, size_t bytes, struct mm_fatbin_entry *entries, size_t room) {
    struct mm_fatbin_walk w;
    struct mm_fatbin_entry e;
    size_t count = 0;
    for (mm_fatbin_walk_begin(&w, at, bytes); mm_fatbin_walk_next(&w, &e); count++)
        if (count < room) entries[count] = e;
    ck_assert_msg(!w.is_failed, "%s", w.error.message);
    return count;
}

static inline unsigned char *read_file(const char *folder, const char *name, size_t *bytes) {
    static unsigned char room[1 << 22];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const f = fopen(path, "rb");
    ck_assert_msg(f, "%s cannot be read", path);
    *bytes = fread(room, 1, sizeof room, f);
    ck_assert(*bytes < sizeof room);
    fclose(f);
    return exactly(room, *bytes);
}

#endif
