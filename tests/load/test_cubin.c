/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite cubin: machine code of the toolkit that is opened, linked (cubin.sh) and settled; also truncated, and with changed bytes. To be built
 * with AddressSanitizer. argv: the folder of NAME.plain.cubin and NAME.linked.cubin, then the names. Or: open PLAIN OPENED, newer PLAIN NEWER. */
#define _GNU_SOURCE /* memmem */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/cookies.h"
#include "interpose/load/cubin.h"
#include "interpose/load/wants.h"
#include "tests/runner.h"

static const char *folder;
static char **names;

struct image {
    char *at;
    size_t bytes;
};

static struct image read_file(const char *path) {
    struct image i = {NULL, 0};
    FILE *f = fopen(path, "rb");
    if (f && fseek(f, 0, SEEK_END) == 0) i.bytes = (size_t)ftell(f);
    i.at = (char *)malloc(i.bytes + 1);
    if (!f || !i.at || fseek(f, 0, SEEK_SET) != 0 || fread(i.at, 1, i.bytes, f) != i.bytes) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(f);
    return i;
}
static struct image image_named(const char *name, const char *what) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s.cubin", folder, name, what);
    return read_file(path);
}
static struct image image_of(int name, const char *what) { return image_named(names[name], what); }
static struct image copy_of(const struct image *i, size_t bytes) {
    struct image made = {(char *)malloc(bytes ? bytes : 1), bytes}; /* AddressSanitizer detects accesses beyond its end */
    memcpy(made.at, i->at, bytes);
    return made;
}

static Elf64_Ehdr head_of(const struct image *i) {
    Elf64_Ehdr head;
    memcpy(&head, i->at, sizeof head);
    return head;
}
static Elf64_Shdr section_of(const struct image *i, unsigned n) {
    Elf64_Shdr s;
    memcpy(&s, i->at + head_of(i).e_shoff + n * sizeof s, sizeof s);
    return s;
}
static const char *name_of(const struct image *i, const Elf64_Shdr *s) { return i->at + section_of(i, head_of(i).e_shstrndx).sh_offset + s->sh_name; }
/* Finds a section by name; sh_type is SHT_NULL if there is none. */
static Elf64_Shdr find(const struct image *i, const char *name) {
    Elf64_Shdr s = {0};
    for (unsigned n = 0; n < head_of(i).e_shnum; n++) {
        s = section_of(i, n);
        if (strcmp(name_of(i, &s), name) == 0) return s;
    }
    memset(&s, 0, sizeof s);
    return s;
}

START_TEST(links_are_put_right) {
    enum { CUDA_OBJECT = 13 };
    const char *where;
    struct image plain = image_of(_i, "plain"), linked = image_of(_i, "linked");
    ck_assert_int_eq(mm_cubin_kind(plain.at, plain.bytes), MM_CUBIN_WHOLE);
    ck_assert_uint_eq(mm_cubin_bytes(plain.at), plain.bytes);
    ck_assert_uint_ne(mm_wants_of_elf(plain.at, plain.bytes), 0);
    const char *wrong = mm_cubin_settle(linked.at, linked.bytes, plain.at, plain.bytes, &where);
    ck_assert_msg(wrong == NULL, "%s: %s %s", names[_i], where, wrong);
    ck_assert_int_eq(mm_cubin_kind(linked.at, linked.bytes), MM_CUBIN_WHOLE);
    ck_assert_uint_eq(mm_wants_of_elf(linked.at, linked.bytes), 0);
    for (unsigned n = 0; n < head_of(&linked).e_shnum; n++) {
        const Elf64_Shdr s = section_of(&linked, n);
        const char *const name = name_of(&linked, &s);
        if (strncmp(name, ".nv.shared.", 11) == 0 && strcmp(name, ".nv.shared.reserved.0") != 0) ck_assert_uint_eq(s.sh_size, find(&plain, name).sh_size);
        for (uint64_t at = 0; s.sh_type == SHT_SYMTAB && at < s.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, linked.at + s.sh_offset + at, sizeof symbol);
            ck_assert_int_ne(ELF64_ST_TYPE(symbol.st_info), CUDA_OBJECT);
        }
    }
    free(plain.at);
    free(linked.at);
}
END_TEST

/* Finds a symbol by name in .symtab; st_name is 0 if there is none. */
static Elf64_Sym symbol_of(const struct image *i, const char *name) {
    const Elf64_Shdr table = find(i, ".symtab"), names_of = section_of(i, table.sh_link);
    Elf64_Sym symbol;
    for (uint64_t at = 0; at < table.sh_size; at += sizeof symbol) {
        memcpy(&symbol, i->at + table.sh_offset + at, sizeof symbol);
        if (strcmp(i->at + names_of.sh_offset + symbol.st_name, name) == 0) return symbol;
    }
    memset(&symbol, 0, sizeof symbol);
    return symbol;
}

/* Variables that a program looks up by name keep their size and their kind: managed (st_other), texture or surface (type). */
START_TEST(variables_stay_what_they_are) {
    enum { TEXTURE = 10, SURFACE = 12 };
    const char *where;
    struct image plain = image_of(_i, "plain"), linked = image_of(_i, "linked");
    const Elf64_Shdr table = find(&plain, ".symtab"), names_of = section_of(&plain, table.sh_link);
    ck_assert(mm_cubin_settle(linked.at, linked.bytes, plain.at, plain.bytes, &where) == NULL);
    for (uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, plain.at + table.sh_offset + at, sizeof symbol);
        const char *const name = plain.at + names_of.sh_offset + symbol.st_name;
        const int type = ELF64_ST_TYPE(symbol.st_info);
        if (!*name || *name == '.' || (type != STT_OBJECT && type != TEXTURE && type != SURFACE)) continue;
        const Elf64_Sym now = symbol_of(&linked, name);
        ck_assert_msg(now.st_name && now.st_size == symbol.st_size && now.st_other == symbol.st_other && ELF64_ST_TYPE(now.st_info) == type, "%s: %s",
                      names[_i], name);
    }
    free(plain.at);
    free(linked.at);
}
END_TEST

/* If the link changed a byte of the program's sections, that is reported with the section's name. */
START_TEST(changes_are_noticed) {
    static const char *const kinds[] = {".text.", ".nv.constant0.", ".nv.constant3"};
    struct image plain = image_of(_i, "plain"), linked = image_of(_i, "linked");
    int tried = 0;
    for (unsigned n = 0; n < head_of(&plain).e_shnum; n++) {
        const Elf64_Shdr old = section_of(&plain, n);
        const char *const name = name_of(&plain, &old);
        for (int k = 0; k < 3; k++) {
            const char *where;
            const Elf64_Shdr s = find(&linked, name);
            if (strncmp(name, kinds[k], strlen(kinds[k])) != 0 || s.sh_type != SHT_PROGBITS) continue;
            struct image changed = copy_of(&linked, linked.bytes);
            changed.at[s.sh_offset] ^= 1;
            const char *const wrong = mm_cubin_settle(changed.at, changed.bytes, plain.at, plain.bytes, &where);
            ck_assert_msg(wrong != NULL, "%s: a change of %s passes", names[_i], name);
            ck_assert_str_eq(wrong, "has changed");
            ck_assert_str_eq(where, name);
            free(changed.at);
            tried++;
        }
    }
    ck_assert_int_ge(tried, 2);
    free(plain.at);
    free(linked.at);
}
END_TEST

START_TEST(what_is_missing_is_noticed) {
    static const char *const lost[] = {".text.", ".nv.constant0.", ".nv.shared.", ".nv.constant3"};
    struct image plain = image_of(_i, "plain"), linked = image_of(_i, "linked");
    const uint64_t table = head_of(&linked).e_shoff;
    for (unsigned n = 0; n < head_of(&linked).e_shnum; n++) {
        Elf64_Shdr s = section_of(&linked, n);
        const char *const name = name_of(&linked, &s), *where;
        const Elf64_Shdr old = find(&plain, name);
        int is_of = 0;
        for (int k = 0; k < 4; k++) is_of |= strncmp(name, lost[k], strlen(lost[k])) == 0;
        if (!is_of || old.sh_type == SHT_NULL || strcmp(name, ".nv.shared.reserved.0") == 0) continue;
        for (int way = 0; way < 2; way++) { /* without its name; with another size */
            struct image changed = copy_of(&linked, linked.bytes);
            Elf64_Shdr other = s;
            if (way == 0) other.sh_name = 0;
            else other.sh_size = s.sh_type == SHT_NOBITS ? s.sh_size : old.sh_size - 4;
            if (way == 1 && s.sh_type == SHT_NOBITS) other.sh_type = SHT_PROGBITS;
            memcpy(changed.at + table + n * sizeof other, &other, sizeof other);
            ck_assert_msg(mm_cubin_settle(changed.at, changed.bytes, plain.at, plain.bytes, &where) != NULL, "%s without %s (%d) passes", names[_i], name, way);
            ck_assert_str_eq(where, name);
            free(changed.at);
        }
    }
    free(plain.at);
    free(linked.at);
}
END_TEST

/* ---- stores in front of arrays ---------------------------------------------------------------------- */

static bool is_arrays(const char *name) { return strncmp(name, "arrays", 6) == 0; }

START_TEST(stores_in_front_are_found) {
    struct image plain = image_of(_i, "plain");
    ck_assert_msg(mm_cookies_may_be_stored(plain.at, plain.bytes) == is_arrays(names[_i]), "%s", names[_i]);
    free(plain.at);
}
END_TEST

/* The offset in the image of the first symbol of that name; 0 if there is none. */
static size_t symbol_at(const struct image *i, const char *name) {
    for (unsigned n = 0; n < head_of(i).e_shnum; n++) {
        const Elf64_Shdr s = section_of(i, n);
        for (uint64_t at = 0; s.sh_type == SHT_SYMTAB && at < s.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, i->at + s.sh_offset + at, sizeof symbol);
            if (strcmp(i->at + section_of(i, s.sh_link).sh_offset + symbol.st_name, name) == 0) return s.sh_offset + at;
        }
    }
    return 0;
}

/* Two names change in place, and nothing else changes. */
START_TEST(room_is_made) {
    static const char *const from[] = {"malloc", "__cuda_syscall_aligned_malloc"}, *const to[] = {"mm$new", "mm$aligned_new"};
    struct image plain = image_of(_i, "plain"), room = copy_of(&plain, plain.bytes);
    size_t changed = 0, expected = 0;
    ck_assert(mm_cookies_try_make_room(room.at, room.bytes));
    for (int k = 0; k < 2; k++) {
        const size_t was = symbol_at(&plain, from[k]);
        ck_assert_uint_eq(symbol_at(&room, from[k]), 0);
        ck_assert_uint_eq(symbol_at(&room, to[k]), was);
        for (size_t b = 0; was && b <= strlen(to[k]); b++) expected += from[k][b] != to[k][b];
        if (was && find(&plain, ".nv.prototype").sh_size) expected++; /* in a prototype the part after '|' */
    }
    for (size_t b = 0; b < plain.bytes; b++) changed += plain.at[b] != room.at[b];
    ck_assert_uint_eq(changed, expected);
    ck_assert(symbol_at(&plain, "malloc") != 0);
    ck_assert_uint_eq(symbol_at(&room, "free"), symbol_at(&plain, "free"));
    free(room.at);
    free(plain.at);
}
END_TEST

/* Renaming is refused, and nothing changes, if another symbol shares the name's bytes, or if the name is the end of a longer string. */
START_TEST(names_in_the_same_bytes) {
    struct image plain = image_of(0, "plain");
    const size_t at = symbol_at(&plain, "malloc"), other = at - sizeof(Elf64_Sym);
    for (int way = 0; way < 3; way++) {
        struct image changed = copy_of(&plain, plain.bytes);
        Elf64_Sym its, neighbour;
        memcpy(&its, changed.at + at, sizeof its);
        memcpy(&neighbour, changed.at + other, sizeof neighbour);
        if (way < 2) neighbour.st_name = its.st_name + (way ? 2 : 0), neighbour.st_shndx = 1;
        else *(char *)memmem(changed.at, changed.bytes, "\0malloc", 7) = 'x'; /* "...xmalloc" */
        memcpy(changed.at + other, &neighbour, sizeof neighbour);
        struct image before = copy_of(&changed, changed.bytes);
        ck_assert_msg(!mm_cookies_try_make_room(changed.at, changed.bytes), "way %d", way);
        ck_assert_int_eq(memcmp(before.at, changed.at, changed.bytes), 0);
        free(before.at);
        free(changed.at);
    }
    free(plain.at);
}
END_TEST

/* Applies all functions to arbitrary bytes: they must not read or write beyond the image. scratch: as large as the image. */
static void exercise(const struct image *i, const struct image *plain, struct image *scratch) {
    const char *where;
    mm_cubin_kind(i->at, i->bytes);
    mm_wants_of_elf(i->at, i->bytes);
    memcpy(scratch->at, i->at, i->bytes);
    mm_cubin_open(scratch->at, scratch->bytes);
    mm_cookies_may_be_stored(scratch->at, scratch->bytes);
    mm_cookies_try_make_room(scratch->at, scratch->bytes);
    memcpy(scratch->at, i->at, i->bytes);
    mm_cubin_settle(scratch->at, scratch->bytes, plain->at, plain->bytes, &where);
    memcpy(scratch->at, plain->at, plain->bytes < i->bytes ? plain->bytes : i->bytes);
    mm_cubin_settle(scratch->at, scratch->bytes, i->at, i->bytes, &where);
}

START_TEST(cut_images) {
    struct image plain = image_of(0, "plain"), linked = image_of(0, "linked");
    const struct image *const both[] = {&plain, &linked};
    for (int k = 0; k < 2; k++)
        for (size_t n = 0; n < both[k]->bytes; n += n < 128 ? 1 : 13) {
            struct image cut = copy_of(both[k], n);
            ck_assert(n >= sizeof(Elf64_Ehdr) || mm_cubin_kind(cut.at, n) == MM_CUBIN_NONE);
            struct image scratch = copy_of(&cut, n);
            exercise(&cut, &plain, &scratch);
            free(scratch.at);
            free(cut.at);
        }
    free(plain.at);
    free(linked.at);
}
END_TEST

/* Changes bytes of the headers, of the tables of sections and symbols, and of the relocations. */
START_TEST(changed_bytes) {
    static const unsigned char values[] = {0, 1, 0xff};
    struct image plain = image_of(0, "plain"), linked = image_of(0, "linked");
    struct image *const both[] = {&plain, &linked};
    struct image untouched = copy_of(&plain, plain.bytes);
    for (int k = 0; k < 2; k++) {
        struct image scratch = copy_of(both[k], both[k]->bytes);
        for (unsigned n = 0; n <= head_of(both[k])./* the last: the header and the table of sections */ e_shnum; n++) {
            const bool is_table = n == head_of(both[k]).e_shnum;
            const Elf64_Shdr s = section_of(both[k], is_table ? 0 : n);
            const size_t begin = is_table ? head_of(both[k]).e_shoff : s.sh_offset;
            const size_t bytes = is_table ? both[k]->bytes - begin : s.sh_size;
            if (!is_table && s.sh_type != SHT_SYMTAB && s.sh_type != SHT_RELA && s.sh_type != SHT_REL) continue;
            for (size_t at = 0; at < bytes + (is_table ? sizeof(Elf64_Ehdr) : 0); at++) {
                char *const byte = both[k]->at + (at < bytes ? begin + at : at - bytes);
                const char was = *byte;
                for (size_t v = 0; v < sizeof values; v++) {
                    *byte = (char)values[v];
                    exercise(both[k], &untouched, &scratch);
                }
                *byte = was;
            }
        }
        free(scratch.at);
    }
    free(untouched.at);
    free(plain.at);
    free(linked.at);
}
END_TEST

/* An image that cannot be opened is not changed. */
START_TEST(what_is_no_finished_image_stays) {
    struct image plain = image_of(0, "plain");
    ck_assert(mm_cubin_open(plain.at, plain.bytes));
    ck_assert_int_eq(mm_cubin_kind(plain.at, plain.bytes), MM_CUBIN_EXTENSIBLE);
    struct image again = copy_of(&plain, plain.bytes);
    ck_assert(!mm_cubin_open(again.at, again.bytes));
    ck_assert_int_eq(memcmp(again.at, plain.at, plain.bytes), 0);
    const char *where;
    ck_assert_str_eq(mm_cubin_settle(again.at, again.bytes, NULL, 0, &where), "the link made no finished image");
    ck_assert_uint_eq(mm_cubin_bytes("no image, but longer than the first bytes of one"), 0);
    free(again.at);
    free(plain.at);
}
END_TEST

/* Finds the toolkit's version in an NVIDIA note of the image: 10 * major + minor. */
static unsigned char *toolkit_of(const struct image *i) {
    static const char head[] = "\x0c\0\0\0\x08\0\0\0\xe8\x03\0\0NVIDIA Corp";
    unsigned char *const at = memmem(i->at, i->bytes, head, sizeof head);
    if (!at) {
        fprintf(stderr, "an image without its toolkit's version\n");
        exit(2);
    }
    return at + sizeof head + 4;
}

/* Image `newer` claims to be of a newer toolkit than the linker's, with the same major version. */
START_TEST(an_image_of_a_newer_toolkit_can_be_linked) {
    struct image plain = image_named("newer", "plain");
    unsigned char *const toolkit = toolkit_of(&plain);
    const unsigned char major = *toolkit / 10;
    ck_assert_uint_eq(*toolkit % 10, 9);
    ck_assert(mm_cubin_open(plain.at, plain.bytes));
    ck_assert_uint_eq(*toolkit, 10u * major);
    free(plain.at);
}
END_TEST

/* Copies the image in file FROM to file TO, with the last version of its toolkit's major version. */
static int newer_file(const char *from, const char *to) {
    struct image i = read_file(from);
    unsigned char *const toolkit = toolkit_of(&i);
    *toolkit = (unsigned char)(*toolkit - *toolkit % 10 + 9);
    FILE *f = fopen(to, "wb");
    const int bad = !f || fwrite(i.at, 1, i.bytes, f) != i.bytes;
    free(i.at);
    return (f && fclose(f) != 0) || bad;
}

static int open_file(const char *from, const char *to) {
    struct image i = read_file(from);
    if (mm_cookies_may_be_stored(i.at, i.bytes) && !mm_cookies_try_make_room(i.at, i.bytes)) return 1;
    FILE *f = mm_cubin_open(i.at, i.bytes) ? fopen(to, "wb") : NULL;
    const int bad = !f || fwrite(i.at, 1, i.bytes, f) != i.bytes;
    free(i.at);
    return (f && fclose(f) != 0) || bad;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "open") == 0) return open_file(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "newer") == 0) return newer_file(argv[2], argv[3]);
    if (argc < 3) return fprintf(stderr, "usage: test_cubin FOLDER NAME... | open PLAIN OPENED | newer PLAIN NEWER\n"), 2;
    folder = argv[1];
    names = argv + 2;
    Suite *suite = suite_create("cubin");
    TCase *tests = tcase_create("cubin");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, links_are_put_right, 0, argc - 2);
    tcase_add_loop_test(tests, variables_stay_what_they_are, 0, argc - 2);
    tcase_add_loop_test(tests, changes_are_noticed, 0, argc - 2);
    tcase_add_loop_test(tests, what_is_missing_is_noticed, 0, argc - 2);
    tcase_add_loop_test(tests, stores_in_front_are_found, 0, argc - 2);
    tcase_add_loop_test(tests, room_is_made, 0, argc - 2);
    tcase_add_test(tests, names_in_the_same_bytes);
    tcase_add_test(tests, cut_images);
    tcase_add_test(tests, changed_bytes);
    tcase_add_test(tests, what_is_no_finished_image_stays);
    tcase_add_test(tests, an_image_of_a_newer_toolkit_can_be_linked);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
