/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite wants: which services of the allocator hand-made cubins need; the same cubins truncated at every byte, and with every byte
 * changed. To be built with AddressSanitizer. */
#include <check.h>
#include <stdio.h>

#include "interpose/load/wants.h"
#include "tests/load/made.h"
#include "tests/load/support.h"
#include "tests/runner.h"

static unsigned wants(const unsigned char *elf, size_t bytes) {
    unsigned char *const at = exactly(elf, bytes);
    const unsigned wanted = mm_wants_of_elf(at, bytes);
    free(at);
    return wanted;
}

START_TEST(elf_wants) {
    unsigned char elf[4096];
    const char *const none[] = {NULL};
    const struct {
        const char *defined[4], *undefined[8];
        unsigned wanted;
    } cases[] = {{{"kernel"}, {"vprintf"}, 0},
                 {{"kernel"}, {"malloc"}, MM_WANTS_MALLOC},
                 {{"kernel"}, {"x", "free"}, MM_WANTS_FREE},
                 {{"kernel"}, {"__cuda_syscall_aligned_malloc"}, MM_WANTS_ALIGNED},
                 {{"kernel"}, {"mm_usable_size", "y"}, MM_WANTS_USABLE_SIZE},
                 {{"malloc", "free"}, {"mallo", "malloc_", "_free", "cudaMalloc"}, 0},
                 {{"free"}, {"free", "malloc"}, MM_WANTS_MALLOC | MM_WANTS_FREE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_uint_eq(wants(elf, made_cubin(elf, cases[i].defined, cases[i].undefined)), cases[i].wanted);
    ck_assert_uint_eq(wants(elf, made_cubin(elf, none, none)), 0);
    ck_assert_uint_eq(wants((const unsigned char *)TEXT, sizeof TEXT), MM_WANTS_UNREADABLE);
}
END_TEST

START_TEST(elf_many_sections) {
    unsigned char elf[4096];
    Elf64_Ehdr head;
    size_t bytes = cubin(elf);
    memcpy(&head, elf, sizeof head);
    /* The number of sections is stored in the first section, as if it did not fit in the header. */
    const uint64_t count = head.e_shnum;
    memcpy(elf + head.e_shoff + offsetof(Elf64_Shdr, sh_size), &count, sizeof count);
    memset(elf + offsetof(Elf64_Ehdr, e_shnum), 0, 2);
    ck_assert_uint_eq(wants(elf, bytes), MM_WANTS_MALLOC);
    /* The index of the section names is stored there, too. */
    const uint32_t names = head.e_shstrndx;
    memcpy(elf + offsetof(Elf64_Ehdr, e_shstrndx), &(uint16_t){SHN_XINDEX}, 2);
    memcpy(elf + head.e_shoff + offsetof(Elf64_Shdr, sh_link), &names, sizeof names);
    ck_assert_uint_eq(wants(elf, bytes), MM_WANTS_MALLOC);
    memset(elf + offsetof(Elf64_Ehdr, e_shoff), 0, 8);
    ck_assert_uint_eq(wants(elf, sizeof head), MM_WANTS_UNREADABLE);
}
END_TEST

START_TEST(elf_damaged) {
    unsigned char elf[4096];
    Elf64_Ehdr head;
    const size_t bytes = cubin(elf);
    memcpy(&head, elf, sizeof head);
    for (size_t cut = 0; cut < bytes; cut++) ck_assert_uint_eq(wants(elf, cut), MM_WANTS_UNREADABLE);
    const size_t symbols = head.e_shoff + 2 * sizeof(Elf64_Shdr), names = symbols - sizeof(Elf64_Shdr);
    const struct {
        size_t at, bytes;
        uint64_t value;
    } cases[] = {{0, 1, 0},
                 {EI_CLASS, 1, ELFCLASS32},
                 {offsetof(Elf64_Ehdr, e_machine), 2, EM_X86_64},
                 {offsetof(Elf64_Ehdr, e_shentsize), 2, 63},
                 {offsetof(Elf64_Ehdr, e_shoff), 8, bytes - 63},
                 {offsetof(Elf64_Ehdr, e_shoff), 8, ~0ull},
                 {offsetof(Elf64_Ehdr, e_shnum), 2, 4},
                 {offsetof(Elf64_Ehdr, e_shnum), 2, 2},
                 {symbols + offsetof(Elf64_Shdr, sh_link), 4, 3},
                 {symbols + offsetof(Elf64_Shdr, sh_offset), 8, bytes - 8},
                 {symbols + offsetof(Elf64_Shdr, sh_size), 8, bytes},
                 {symbols + offsetof(Elf64_Shdr, sh_size), 8, ~0ull},
                 {names + offsetof(Elf64_Shdr, sh_offset), 8, bytes + 1},
                 {names + offsetof(Elf64_Shdr, sh_size), 8, ~0ull}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bad[4096];
        memcpy(bad, elf, bytes);
        memcpy(bad + cases[i].at, &cases[i].value, cases[i].bytes);
        ck_assert_msg(wants(bad, bytes) == (cases[i].at == offsetof(Elf64_Ehdr, e_shnum) && cases[i].value == 2 ? 0 : MM_WANTS_UNREADABLE), "case %zu", i);
    }
    /* A name that extends beyond the end of the names. Then every byte is changed to every other value. */
    unsigned char bad[4096];
    memcpy(bad, elf, bytes);
    memcpy(bad + names + offsetof(Elf64_Shdr, sh_size), &(uint64_t){strlen("kernel") + 2 + strlen("malloc")}, 8);
    ck_assert_uint_eq(wants(bad, bytes), MM_WANTS_UNREADABLE);
    for (size_t i = 0; i < bytes; i++)
        for (unsigned change = 1; change < 256; change++) {
            unsigned char *const at = exactly(elf, bytes);
            at[i] = (unsigned char)(at[i] ^ change);
            mm_wants_of_elf(at, bytes);
            free(at);
        }
}
END_TEST

/* The names are at the end of the file, so that a wrong offset of a symbol's name is outside of it. */
START_TEST(elf_names_last) {
    unsigned char elf[4096];
    Elf64_Ehdr head;
    size_t bytes = cubin(elf);
    memcpy(&head, elf, sizeof head);
    memcpy(elf + bytes, "\0mall\0", 6);
    const size_t names = head.e_shoff + sizeof(Elf64_Shdr), symbols = head.e_shoff - 2 * sizeof(Elf64_Sym);
    memcpy(elf + names + offsetof(Elf64_Shdr, sh_offset), &(uint64_t){bytes}, 8);
    memcpy(elf + names + offsetof(Elf64_Shdr, sh_size), &(uint64_t){6}, 8);
    for (uint32_t name = 0; name < 16; name++) {
        for (int i = 0; i < 2; i++) memcpy(elf + symbols + (size_t)i * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_name), &name, 4);
        ck_assert_uint_eq(wants(elf, bytes + 6), 0);
    }
}
END_TEST

int main(void) {
    Suite *const suite = suite_create("wants");
    TCase *const made = tcase_create("made by hand");
    tcase_set_timeout(made, 120);
    tcase_add_test(made, elf_wants);
    tcase_add_test(made, elf_many_sections);
    tcase_add_test(made, elf_damaged);
    tcase_add_test(made, elf_names_last);
    suite_add_tcase(suite, made);
    return suite_run(suite);
}
