/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite rebuild: fat binaries made by hand, with every set of their entries changed; and one of the toolkit's (argv: its folder, see
 * run.sh). To be built with AddressSanitizer. */
#define _GNU_SOURCE
#include <check.h>
#include <stdio.h>

#include "tests/load/exercise.h"
#include "tests/load/made.h"
#include "tests/load/support.h"
#include "tests/runner.h"

static const char *folder;
static struct mm_fatbin_error error;

/* Each set of entries that can be changed: what becomes of them, and of the others. */
START_TEST(rebuilt) {
    static struct made m;
    make_all(&m);
    for (unsigned mask = 0; mask < 1u << ALL; mask++) {
        if (mask & (1u << 5 | 1u << 6)) continue;
        size_t new_bytes = 0;
        struct mm_fatbin_change changes[ALL];
        struct mm_fatbin_entry e[ALL], f[ALL];
        size_t count = 0;
        for (size_t i = ALL; i--;) /* in any order */
            if (mask >> i & 1) changes[count++] = (struct mm_fatbin_change){i, TEXT "changed" + i, sizeof TEXT + 7 - i};
        unsigned char *const built = mm_fatbin_try_rebuild(m.at, m.bytes, changes, count, &new_bytes, &error);
        ck_assert_msg(built, "%s", error.message);
        read_all(m.at, m.bytes, e, ALL);
        ck_assert_uint_eq(read_all(built, new_bytes, f, ALL), ALL);
        for (size_t i = 0; i < ALL; i++) {
            if (!(mask >> i & 1)) continue;
            const size_t bytes = sizeof TEXT + 7 - i, padding = f[i].store.bytes - bytes;
            ck_assert(!f[i].is_member && !f[i].store.packed_bytes && !f[i].store.unpacked_bytes && f[i].begin == f[i].header);
            ck_assert_uint_eq(f[i].flags, e[i].flags & ~(uint64_t)(LZ4 | ZSTD));
            ck_assert(memcmp(f[i].store.at, TEXT "changed" + i, bytes) == 0);
            ck_assert(f[i].store.bytes % 8 == 0 && padding <= 8 && (e[i].kind != PTX || padding));
            ck_assert(memcmp(f[i].store.at + bytes, (const char[8]){0}, padding) == 0);
        }
        free(built);
        exercise_rebuild(m.at, m.bytes, mask);
    }
}
END_TEST

START_TEST(not_rebuilt) {
    static struct made m;
    static const char big[1];
    make_all(&m);
    const struct {
        struct mm_fatbin_change changes[2];
        size_t count;
        const char *what;
    } cases[] = {
        {{{5, TEXT, 8}}, 1, "entry 5 of a fat binary is of kind 8, or scrambled; expected PTX (1) or ELF (2), to change it"},
        {{{6, TEXT, 8}}, 1, "entry 6 of a fat binary is of kind 119, or scrambled; expected PTX (1) or ELF (2), to change it"},
        {{{9, TEXT, 8}}, 1, "a fat binary of 9 entries: 0 of 1 changes name one of them; expected each to, and no other's"},
        {{{1, TEXT, 8}, {1, TEXT, 8}}, 2, "a fat binary of 9 entries: 1 of 2 changes name one of them; expected each to, and no other's"},
        {{{0, TEXT, 0}}, 1, "entry 0 of a fat binary cannot become 0 bytes; expected 1 to 1 GiB"},
        {{{0, big, (1u << 30) + 1}}, 1, "entry 0 of a fat binary cannot become 1073741825 bytes; expected 1 to 1 GiB"}};
    size_t bytes = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert(!mm_fatbin_try_rebuild(m.at, m.bytes, cases[i].changes, cases[i].count, &bytes, &error));
        ck_assert_str_eq(error.message, cases[i].what);
    }
    ck_assert(!mm_fatbin_try_rebuild(m.at, m.bytes - 6, NULL, 0, &bytes, &error));
    ck_assert(strstr(error.message, "a container that is cut off"));
    ck_assert_uint_eq(bytes, 77);
}
END_TEST

/* For other readers (run.sh): before.container, its only entry replaced by two.cubin, is after.fatbin. */
START_TEST(toolkit_rebuilt) {
    char path[4096];
    size_t bytes, cubin_bytes, new_bytes;
    unsigned char *const at = read_file(folder, "before.container", &bytes), *const other = read_file(folder, "two.cubin", &cubin_bytes);
    unsigned char *const built = mm_fatbin_try_rebuild(at, bytes, &(struct mm_fatbin_change){0, other, cubin_bytes}, 1, &new_bytes, &error);
    ck_assert_msg(built, "%s", error.message);
    ck_assert_uint_eq(mm_fatbin_total_bytes(built), new_bytes);
    snprintf(path, sizeof path, "%s/after.fatbin", folder);
    FILE *const f = fopen(path, "wb");
    ck_assert_msg(f, "%s cannot be written", path);
    const size_t written = fwrite(built, 1, new_bytes, f);
    ck_assert(fclose(f) == 0 && written == new_bytes);
    free(at);
    free(other);
    free(built);
}
END_TEST

int main(int argc, char **argv) {
    Suite *const suite = suite_create("rebuild");
    TCase *const made = tcase_create("made by hand"), *const toolkit = tcase_create("made by the toolkit");
    folder = argc > 1 ? argv[1] : NULL;
    tcase_add_test(made, rebuilt);
    tcase_add_test(made, not_rebuilt);
    if (folder) tcase_add_test(toolkit, toolkit_rebuilt);
    suite_add_tcase(suite, made);
    suite_add_tcase(suite, toolkit);
    return suite_run(suite);
}
