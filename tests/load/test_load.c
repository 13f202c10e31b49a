/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite load: reads hand-made fat binaries: complete, truncated at every byte, and with every byte changed; and fat binaries made by
 * the toolkit (argv: their folder, see run.sh). To be built with AddressSanitizer. */
#define _GNU_SOURCE
#include <check.h>
#include <dirent.h>
#include <stdio.h>

#include "tests/load/exercise.h"
#include "tests/load/made.h"
#include "tests/load/support.h"
#include "tests/runner.h"

static const char *folder;
static struct mm_fatbin_error error;

/* AddressSanitizer calls the hook for each allocation. */
static size_t largest;
void __sanitizer_malloc_hook(const volatile void *at, size_t bytes);
void __sanitizer_malloc_hook(const volatile void *at, size_t bytes) {
    (void)at;
    if (bytes > largest) largest = bytes;
}

/* A small fat binary with a group, whose payloads are stored in one of these ways. */
static const uint64_t ways[] = {STORED, LZ4, ZSTD};
enum { WAYS = sizeof ways / sizeof *ways };
static void make_small(struct made *m, int way) {
    unsigned char elf[2048] = {0};
    const size_t elf_bytes = cubin(elf);
    memset(m, 0, sizeof *m);
    made_container(m);
    made_entry(m, PTX, 75, ways[way], "k.cu", "-v", TEXT, sizeof TEXT);
    made_group(m, ways[way], TEXT, elf, elf_bytes);
}

/* The error of a walk through the bytes, or "". */
static const char *walk_error(const void *data, size_t bytes) {
    static struct mm_fatbin_walk w;
    struct mm_fatbin_entry e;
    unsigned char *const at = exactly(data, bytes);
    mm_fatbin_walk_begin(&w, at, bytes);
    while (mm_fatbin_walk_next(&w, &e)) continue;
    free(at);
    return w.is_failed ? w.error.message : "";
}

START_TEST(entries) {
    static struct made m;
    unsigned char elf[2048];
    const size_t elf_bytes = cubin(elf);
    struct mm_fatbin_entry e[ALL];
    struct mm_fatbin_payload p = {0};
    make_all(&m);
    ck_assert_uint_eq(read_all(m.at, m.bytes, e, ALL), ALL);
    static const struct {
        unsigned kind, arch;
        char suffix;
        const char *name, *options;
        unsigned major, minor;
    } expected[ALL] = {
        {ELF, 75, 0, "", "", 1, 8},        {ELF, 90, 'a', "k.cu", "", 1, 8},  {ELF, 100, 'f', "", "\2\11", 1, 8}, {PTX, 90, 0, "12345678", "-O1", 9, 0},
        {PTX, 90, 0, "", "-g --x ", 9, 0}, {LTO, 90, 0, "", "-fmad=1", 9, 0}, {0x77, 12, 0, "", "", 9, 0},        {PTX, 90, 0, "twice.cu", "-O1 -g 1", 9, 0},
        {ELF, 80, 0, "eight.cu", "", 1, 8}};
    for (size_t i = 0; i < ALL; i++) {
        ck_assert_uint_eq(e[i].idx, i);
        ck_assert_uint_eq(e[i].kind, expected[i].kind);
        ck_assert_uint_eq(e[i].arch, expected[i].arch);
        ck_assert_int_eq(e[i].arch_suffix, expected[i].suffix);
        ck_assert_uint_eq(e[i].version_major, expected[i].major);
        ck_assert_uint_eq(e[i].version_minor, expected[i].minor);
        ck_assert_uint_eq(e[i].name_bytes, strlen(expected[i].name));
        ck_assert(memcmp(e[i].name ? e[i].name : "", expected[i].name, e[i].name_bytes) == 0);
        ck_assert_uint_eq(e[i].options_bytes, strlen(expected[i].options));
        ck_assert(memcmp(e[i].options ? e[i].options : "", expected[i].options, e[i].options_bytes) == 0);
        ck_assert(e[i].flags & MM_FATBIN_64BIT && e[i].flags & MM_FATBIN_LINUX && !(e[i].flags & MM_FATBIN_DEBUG));
        ck_assert_int_eq(e[i].is_member, i >= 7);
        ck_assert_uint_eq(e[i].group_idx, i < 7 ? i : 7);
        ck_assert_uint_eq(e[i].group_count, i < 7 ? 1 : 2);
        if (e[i].kind == LTO) {
            ck_assert(!mm_fatbin_try_payload(&p, &e[i], &error));
            ck_assert_str_eq(error.message, "entry 5 of a fat binary is scrambled; expected PTX or a cubin");
            continue;
        }
        ck_assert_msg(mm_fatbin_try_payload(&p, &e[i], &error), "%s", error.message);
        if (e[i].kind == ELF) ck_assert(p.bytes == elf_bytes && memcmp(p.at, elf, elf_bytes) == 0);
        if (e[i].kind == PTX) ck_assert(p.bytes >= sizeof TEXT && p.bytes < sizeof TEXT + 8 && strcmp((const char *)p.at, TEXT) == 0);
    }
    mm_fatbin_payload_free(&p);
}
END_TEST

/* Members of a group are decompressed once, and a stored payload is not copied. */
START_TEST(payloads_are_shared) {
    static struct made m;
    struct mm_fatbin_entry e[ALL];
    struct mm_fatbin_payload p = {0};
    make_all(&m);
    read_all(m.at, m.bytes, e, ALL);
    ck_assert(mm_fatbin_try_payload(&p, &e[0], &error) && p.at == e[0].store.at && !p.unpacked);
    ck_assert(mm_fatbin_try_payload(&p, &e[7], &error));
    unsigned char *const unpacked = p.unpacked;
    unpacked[0] = '#';
    ck_assert(mm_fatbin_try_payload(&p, &e[8], &error) && p.unpacked == unpacked && p.at > unpacked);
    ck_assert(mm_fatbin_try_payload(&p, &e[7], &error) && p.at == unpacked && *p.at == '#');
    ck_assert(mm_fatbin_try_payload(&p, &e[4], &error) && *p.at == '.');
    ck_assert(mm_fatbin_try_payload(&p, &e[7], &error) && *p.at == '.');
    mm_fatbin_payload_free(&p);
}
END_TEST

START_TEST(totals) {
    static struct made m;
    make_all(&m);
    const size_t second = m.container;
    ck_assert_uint_eq(mm_fatbin_total_bytes(m.at), second - 24);
    ck_assert_uint_eq(mm_fatbin_total_bytes(m.at + second), m.bytes - 5 - second);
    unsigned char *const header = exactly(m.at, 16);
    for (size_t i = 0; i < 8; i++) { /* magic, version, length of the header */
        header[i] ^= 0x40;
        ck_assert_uint_eq(mm_fatbin_total_bytes(header), i == 6 ? second - 24 + 0x40 : i == 7 ? second - 24 + 0x4000 : 0);
        header[i] ^= 0x40;
    }
    header[6] = 15;
    ck_assert_uint_eq(mm_fatbin_total_bytes(header), 0);
    header[6] = 16;
    memset(header + 8, 255, 8);
    ck_assert_uint_eq(mm_fatbin_total_bytes(header), 0);
    header[15] = 127;
    ck_assert_uint_eq(mm_fatbin_total_bytes(header), 0);
    free(header);
}
END_TEST

START_TEST(wrappers) {
    const char one[16] = "", two[16] = "";
    const void *const list[] = {two, NULL};
    struct {
        uint32_t magic, version;
        const void *container, *more;
    } wrapper = {0x466243b1, 1, one, "file name"};
    struct mm_fatbin_wrapper w;
    unsigned char *at = exactly(&wrapper, sizeof wrapper);
    ck_assert(mm_fatbin_try_wrapper(at, &w) && w.container == one && !w.prelinked);
    free(at);
    wrapper.version = 2;
    wrapper.more = list;
    at = exactly(&wrapper, sizeof wrapper);
    ck_assert(mm_fatbin_try_wrapper(at, &w) && w.container == one && w.prelinked == list);
    at[4] = 3;
    ck_assert(!mm_fatbin_try_wrapper(at, &w));
    free(at);
    at = exactly("\x50\xed\x55\xba", 4);
    ck_assert(!mm_fatbin_try_wrapper(at, &w));
    free(at);
}
END_TEST

/* ---- damage --------------------------------------------------------------------------------------- */

START_TEST(cut_off) {
    static struct made m;
    make_small(&m, _i);
    for (size_t bytes = 0; bytes <= m.bytes; bytes++) {
        unsigned char *const at = exactly(m.at, bytes);
        ck_assert_uint_eq(exercise(at, bytes), bytes == m.bytes ? 3 : 0);
        ck_assert_int_eq(*walk_error(m.at, bytes) == 0, bytes == 0 || bytes == m.bytes);
        free(at);
    }
    /* The same, with a length in the container that fits. */
    for (size_t bytes = 16; bytes <= m.bytes; bytes++) {
        made_u64(&m, 8, bytes - 16);
        unsigned char *const at = exactly(m.at, bytes);
        exercise(at, bytes);
        free(at);
    }
}
END_TEST

/* Every byte takes every other value. */
START_TEST(changed) {
    static struct made m;
    make_small(&m, _i);
    unsigned char *const at = exactly(m.at, m.bytes);
    for (size_t i = 0; i < m.bytes; i++)
        for (unsigned change = 1; change < 256; change++) {
            at[i] = (unsigned char)(m.at[i] ^ change);
            exercise(at, m.bytes);
            at[i] = m.at[i];
        }
    free(at);
}
END_TEST

/* Every 32-bit word takes values that are likely to cause overflows. */
START_TEST(hostile) {
    static struct made m;
    static const uint32_t words[] = {0, 1, 7, 8, 63, 64, 65, 0x7fffffff, 0x80000000, 0xfffffff0, 0xfffffff8, 0xffffffff};
    make_small(&m, _i);
    for (size_t i = 0; i + 4 <= m.bytes; i += 4)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            for (size_t next = 0; next < 2 && i + 4 + 4 * next <= m.bytes; next++) { /* also two words at once */
                unsigned char *const at = exactly(m.at, m.bytes);
                memcpy(at + i, &words[k], 4);
                memcpy(at + i + 4 * next, &words[k], 4);
                exercise(at, m.bytes);
                free(at);
            }
}
END_TEST

/* Everything that a walk refuses, with its message. */
START_TEST(refused) {
    static struct made m;
    const struct {
        size_t at;
        uint32_t value;
        const char *what;
    } cases[] = {{4, 0x100002, "byte 0 of a fat binary of 456: no container; expected 0xba55ed50 and version 1"},
                 {8, 441, "byte 0 of a fat binary of 456: a container that is cut off"},
                 {12, 1, "byte 0 of a fat binary of 456: a container that is cut off"},
                 {8, 439, "byte 256 of a fat binary of 456: an entry with a payload that is cut off"},
                 {16 + 4, 63, "byte 16 of a fat binary of 456: an entry with a header of a size that cannot be"},
                 {16 + 4, 441, "byte 16 of a fat binary of 456: an entry with a header of a size that cannot be"},
                 {16 + 8, 377, "byte 16 of a fat binary of 456: an entry with a payload that is cut off"},
                 {16 + 8, 360, "byte 440 of a fat binary of 456: an entry that is cut off"},
                 {16 + 12, 1, "byte 16 of a fat binary of 456: an entry with a payload that is cut off"}};
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_entry(&m, ELF, 75, STORED, NULL, NULL, "of no matter, thus 24...", 24);
    made_entry(&m, ELF, 90, STORED, NULL, NULL, m.at, 88);
    made_entry(&m, ELF, 90, STORED, NULL, NULL, m.at, 136);
    ck_assert_uint_eq(m.bytes, 456);
    ck_assert_str_eq(walk_error(m.at, m.bytes), "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made bad = m;
        made_u32(&bad, cases[i].at, cases[i].value);
        ck_assert_str_eq(walk_error(bad.at, bad.bytes), cases[i].what);
    }
    made_put(&m, "\0\0\0x", 4);
    ck_assert_str_eq(walk_error(m.at, m.bytes), "byte 459 of a fat binary of 460: no container; expected 0xba55ed50 and version 1");
}
END_TEST

/* Payloads that disagree with their header. */
START_TEST(damaged) {
    static struct made m;
    static const uint64_t flags[] = {LZ4, ZSTD};
    struct mm_fatbin_entry e;
    struct mm_fatbin_payload p = {0};
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_entry(&m, PTX, 75, flags[_i], NULL, NULL, TEXT, sizeof TEXT);
    const uint32_t stored = (uint32_t)(m.bytes - 80);
    const struct {
        size_t at;
        uint64_t value;
        const char *what;
    } cases[] = {{56, sizeof TEXT + 1, "is damaged"},
                 {56, sizeof TEXT - 1, "is damaged"},
                 {56, 0, "has no size, or one above 1 GiB"},
                 {56, (1ull << 30) + 1, "has no size, or one above 1 GiB"},
                 {56, 1ull << 30, "is damaged"},
                 {56, ~0ull, "has no size, or one above 1 GiB"},
                 {16, stored + 1, "is damaged"},
                 {16, 0xffffffff, "is damaged"},
                 {16, 5, "is damaged"},
                 {16, 0, "is damaged"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[160];
        struct made bad = m;
        if (cases[i].at == 16) made_u32(&bad, 16 + 16, (uint32_t)cases[i].value);
        else made_u64(&bad, 16 + 56, cases[i].value);
        unsigned char *const at = exactly(bad.at, bad.bytes);
        ck_assert_uint_eq(read_all(at, bad.bytes, &e, 1), 1);
        largest = 0;
        ck_assert(!mm_fatbin_try_payload(&p, &e, &error));
        ck_assert(!p.at && !p.bytes && !p.unpacked);
        ck_assert_msg(largest < 1u << 20, "case %zu: %zu bytes", i, largest); /* no allocation for an impossible length */
        snprintf(expected, sizeof expected, "entry 0 of a fat binary %s: %u bytes for %llu", cases[i].what, (unsigned)e.store.packed_bytes,
                 (unsigned long long)e.store.unpacked_bytes);
        ck_assert_str_eq(error.message, expected);
        free(at);
    }
}
END_TEST

/* A group that is not understood is returned as one entry; the bounds of its members are checked when a payload is read. */
START_TEST(groups) {
    static struct made m;
    unsigned char elf[2048] = {0};
    const size_t elf_bytes = cubin(elf);
    struct mm_fatbin_entry e[3];
    struct mm_fatbin_payload p = {0};
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_group(&m, LZ4, TEXT, elf, elf_bytes);
    enum { FIRST = 16 + 64 + 8, SECOND = FIRST + 104 };
    const struct {
        size_t at;
        uint32_t value;
    } opaque[] = {{16 + 20, 0},
                  {16 + 20, 0xfffffff8},
                  {80, 0},
                  {80, 3},
                  {80, 64},
                  {84, 7},
                  {84, 8},
                  {84, 200},
                  {84, 0x10000},
                  {FIRST, 0x100},
                  {FIRST + 20, 4096},
                  {FIRST + 36, 4096},
                  {FIRST + 36, ~0u},
                  {FIRST + 80, 4096},
                  {FIRST + 84, 4096},
                  {FIRST + 84, ~0u},
                  {SECOND, 0x100}};
    ck_assert_uint_eq(read_all(m.at, m.bytes, e, 3), 2);
    ck_assert(e[0].is_member && e[1].is_member && e[1].header == m.at + SECOND && e[1].header_bytes == 80);
    for (size_t i = 0; i < sizeof opaque / sizeof *opaque; i++) {
        struct made bad = m;
        made_u32(&bad, opaque[i].at, opaque[i].value);
        unsigned char *const at = exactly(bad.at, bad.bytes);
        ck_assert_msg(read_all(at, bad.bytes, e, 3) == 1, "case %zu", i);
        ck_assert(e[0].kind == GROUP && !e[0].is_member && e[0].group_count == 1 && !e[0].options);
        free(at);
    }
    const uint32_t stream = (uint32_t)made_round(sizeof TEXT), past[] = {stream + 1, ~0u};
    for (size_t i = 0; i < 4; i++) { /* a wrong offset, or a wrong size */
        struct made bad = m;
        made_u32(&bad, SECOND + (i / 2 ? 8 : 4), i / 2 && !(i % 2) ? (uint32_t)elf_bytes + 1 : past[i % 2]);
        ck_assert_uint_eq(read_all(bad.at, bad.bytes, e, 3), 2);
        ck_assert(mm_fatbin_try_payload(&p, &e[0], &error) && !mm_fatbin_try_payload(&p, &e[1], &error));
        ck_assert(!p.at && strstr(error.message, "entry 1 of a fat binary is not within its group of"));
    }
    mm_fatbin_payload_free(&p);
    /* A scrambled member in a group that is not scrambled. */
    made_u64(&m, SECOND + 40, SCRAMBLED);
    read_all(m.at, m.bytes, e, 3);
    ck_assert(!mm_fatbin_try_payload(&p, &e[1], &error) && strstr(error.message, "scrambled"));
}
END_TEST

/* A name or options inside the header's fixed fields are ignored. */
START_TEST(names_in_the_fields) {
    static struct made m;
    struct mm_fatbin_entry e[1];
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_entry(&m, PTX, 90, STORED, "k.cu", "-O1", TEXT, sizeof TEXT);
    ck_assert(read_all(m.at, m.bytes, e, 1) == 1 && e[0].name && e[0].options);
    made_u32(&m, 16 + 32, 63);
    made_u32(&m, 16 + 20, 56);
    ck_assert(read_all(m.at, m.bytes, e, 1) == 1 && !e[0].name && !e[0].name_bytes && !e[0].options && !e[0].options_bytes);
}
END_TEST

/* A member's header that extends beyond the end of the file. */
START_TEST(group_at_the_end) {
    static struct made m;
    struct mm_fatbin_entry e[2];
    memset(&m, 0, sizeof m);
    made_container(&m);
    made_header(&m, GROUP, 0, STORED, NULL, NULL);
    made_put(&m, "\1\0\0\0\20\0\0\0........", 16);
    made_u32(&m, 16 + 20, 64);
    made_payload(&m, "", 0, STORED);
    unsigned char *const at = exactly(m.at, m.bytes);
    ck_assert(read_all(at, m.bytes, e, 2) == 1 && e[0].kind == GROUP && !e[0].is_member);
    free(at);
}
END_TEST

/* ---- containers made by the toolkit --------------------------------------------------------------- */

/* In each container, a cubin equals the file that it was made from, if any, and the services that it needs are known. */
START_TEST(toolkit_made) {
    struct dirent *entry;
    size_t seen = 0;
    DIR *const d = opendir(folder);
    ck_assert_msg(d, "no %s", folder);
    while ((entry = readdir(d))) {
        const char *const dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".fatbin") != 0) continue;
        const bool is_of_files = strncmp(entry->d_name, "mode_", 5) == 0;
        struct mm_fatbin_walk w;
        struct mm_fatbin_entry e;
        struct mm_fatbin_payload p = {0};
        size_t bytes, texts = 0, cubins = 0;
        unsigned char *const at = read_file(folder, entry->d_name, &bytes);
        ck_assert_uint_eq(mm_fatbin_total_bytes(at), bytes);
        for (mm_fatbin_walk_begin(&w, at, bytes); mm_fatbin_walk_next(&w, &e);) {
            if (e.kind == MM_FATBIN_LTO) continue;
            ck_assert_msg(mm_fatbin_try_payload(&p, &e, &error), "%s: %s", entry->d_name, error.message);
            if (e.kind == MM_FATBIN_PTX) {
                ck_assert(e.arch == 75 && !e.arch_suffix && e.version_major >= 7);
                ck_assert(p.at[p.bytes - 1] == 0 && strstr((const char *)p.at, ".target sm_75"));
                texts++;
            } else if (is_of_files) {
                char name[64];
                size_t cubin_bytes;
                ck_assert_uint_eq(e.kind, MM_FATBIN_ELF);
                snprintf(name, sizeof name, "%u%.*s.cubin", e.arch, e.arch_suffix != 0, &e.arch_suffix);
                unsigned char *const file = read_file(folder, name, &cubin_bytes);
                ck_assert_msg(p.bytes == cubin_bytes && memcmp(p.at, file, cubin_bytes) == 0, "%s: entry %zu is not %s", entry->d_name, e.idx, name);
                ck_assert_uint_eq(mm_wants_of_elf(p.at, p.bytes), MM_WANTS_MALLOC | MM_WANTS_FREE);
                free(file);
                cubins++;
            }
        }
        ck_assert_msg(!w.is_failed, "%s: %s", entry->d_name, w.error.message);
        if (is_of_files) ck_assert_msg(texts == 1 && cubins == 2, "%s: %zu, %zu", entry->d_name, texts, cubins);
        mm_fatbin_payload_free(&p);
        exercise(at, bytes);
        free(at);
        seen++;
    }
    closedir(d);
    ck_assert_uint_ge(seen, 7);
}
END_TEST

int main(int argc, char **argv) {
    Suite *const suite = suite_create("load");
    TCase *const made = tcase_create("made by hand"), *const bytes = tcase_create("every byte"), *const toolkit = tcase_create("made by the toolkit");
    folder = argc > 1 ? argv[1] : NULL;
    tcase_set_timeout(bytes, 120);
    tcase_add_test(made, entries);
    tcase_add_test(made, payloads_are_shared);
    tcase_add_test(made, totals);
    tcase_add_test(made, wrappers);
    tcase_add_loop_test(made, cut_off, 0, WAYS);
    tcase_add_test(made, refused);
    tcase_add_loop_test(made, damaged, 0, 2);
    tcase_add_test(made, groups);
    tcase_add_test(made, group_at_the_end);
    tcase_add_test(made, names_in_the_fields);
    tcase_add_loop_test(bytes, hostile, 0, WAYS);
    tcase_add_loop_test(bytes, changed, 0, WAYS);
    if (folder) tcase_add_test(toolkit, toolkit_made);
    suite_add_tcase(suite, made);
    suite_add_tcase(suite, bytes);
    suite_add_tcase(suite, toolkit);
    return suite_run(suite);
}
