/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite ptx: tokens, modules, names. argv: mm's PTX, then PTX that nvcc has just written. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/compile/shim.h"
#include "interpose/load/ptx/module.h"
#include "interpose/load/ptx/names.h"
#include "mmconfig.h"
#include "tests/runner.h"

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define MALLOC ".extern .func (.param .b64 r) malloc (.param .b64 malloc_param_0);\n"
#define CALL ".visible .entry k() {\n{ call.uni (r), malloc, (a); }\n ret;\n}\n"

static const char *device_text;
static char **files;
static int file_count;

/* ---- Tokens ---------------------------------------------------------------------------------- */

START_TEST(tokens_are_whole) {
    static const char text[] = "ld.param.u64 \t%rd1, [malloc_param_0+8]; /* malloc */ // free\n"
                               "$L__BB0_2: \"a \\\" malloc // \" 0x1F 0f3F800000 9.0 _ @!%p1 .b8 $str$1[3]";
    static const char *const expected[] = {
        "ld",  ".param", ".u64", "%rd1", ",",   "[",   "malloc_param_0", "+", "8", "]", ";", "$L__BB0_2", ":", "\"a \\\" malloc // \"", "0x1F", "0f3F800000",
        "9.0", "_",      "@",    "!",    "%p1", ".b8", "$str$1",         "[", "3", "]"};
    struct mm_token_reader r;
    mm_token_start(&r, text, sizeof text - 1);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct mm_token t = mm_token_next(&r);
        ck_assert_msg(mm_token_is(&t, expected[i]), "token %zu is '%.*s', expected '%s'", i, (int)t.length, t.at, expected[i]);
        ck_assert_int_eq(t.line, i < 11 ? 1 : 2);
    }
    ck_assert_int_eq(mm_token_next(&r).kind, MM_TOKEN_END);
    ck_assert_ptr_null(r.message);
}
END_TEST

/* ---- Modules --------------------------------------------------------------------------------- */

static const char *const refused[] = {
    "",
    "\n\nhello",
    ".version nine\n.target sm_90",
    ".version 9.0\n",
    ".version 9.0\n.target compute_90\n",
    ".version 9.0\n.target sm_90\n.address_size 32\n",
    HEAD "garbage;",
    HEAD ".future .func f();",
    HEAD ".extern .file 1 \"a\"",
    HEAD "\n.func f(\n",
    HEAD ".func f()\n{ { ret; }\n",
    HEAD ".func f()\n",
    HEAD ".func f() = 3;",
    HEAD ".func (.param .b64 r) ;",
    HEAD ".global .u64 ;",
    HEAD ".global .u64 a[3\n",
    HEAD ".global .u64 a = 3\n",
    HEAD ".global .u64 a\n.global .u64 b;",
    HEAD ".section .debug_info\n{ .b8 1\n",
    HEAD ".section \"x\" {}",
    HEAD ".file one \"a\"",
    HEAD ".pragma \"nounroll\"\n",
    HEAD "/* a\nb",
    HEAD ".file 1 \"a\n",
    HEAD ".func f()\n{\n ret;\n# }",
    ".version 9.0\n.target sm_90x\n",
    ".version 9.0\n.target sm_90x\n.address_size 64\n",
};

START_TEST(bad_text_is_refused) {
    struct mm_module m;
    ck_assert(!mm_module_try_read(&m, refused[_i], strlen(refused[_i])));
    mm_module_free(&m);
}
END_TEST

START_TEST(zero_byte_is_refused) {
    static const char text[] = HEAD ".func f() {\0}";
    struct mm_module m;
    ck_assert(!mm_module_try_read(&m, text, sizeof text - 1));
    mm_module_free(&m);
}
END_TEST

/* A module truncated anywhere is refused, or, if truncated between statements, read as the statements before that point; it never causes a crash. */
START_TEST(cut_text_never_passes_unseen) {
    static const char *const parts[] = {HEAD, MALLOC, CALL, ".section .debug_str { .b8 1, 2 }\n", ".global .b8 s[2] = {1, 2};"};
    char whole[1024] = "";
    size_t ends[5];
    for (int i = 0; i < 5; i++) ends[i] = strlen(strcat(whole, parts[i]));
    for (size_t n = 0, last = strlen(whole); n <= last; n++) {
        char *const text = (char *)malloc(n + 1); /* so that a sanitizer detects reads beyond its end */
        struct mm_module m;
        size_t statements = 0;
        memcpy(text, whole, n);
        const bool is_read = mm_module_try_read(&m, text, n);
        for (int i = 1; i < 5; i++) statements += n + 1 >= ends[i];
        if (is_read) ck_assert_uint_eq(m.count, statements);
        if (n == last) ck_assert(is_read && m.count == 4 && m.target == 90);
        mm_module_free(&m);
        free(text);
    }
}
END_TEST

START_TEST(items_are_listed) {
    static const char text[] = ".version 8.7\n.target sm_100f, debug\n.address_size 64\n" MALLOC CALL
                               ".file 1 \"a.cu\", 12, 34\n.weak .const .align 16 .b8 a[4], b = {1};\n.func f() { ret; }\n.pragma \"nounroll\";";
    static const struct {
        enum mm_item_kind kind;
        const char *linkage, *name, *begin;
        char end;
    } expected[] = {{MM_ITEM_FUNC_DECLARED, ".extern", "malloc", ".extern", ';'},
                    {MM_ITEM_ENTRY, ".visible", "k", ".visible", '}'},
                    {MM_ITEM_OTHER, "", "", ".file", '4'},
                    {MM_ITEM_VARIABLE, ".weak", "a", ".weak", ';'},
                    {MM_ITEM_VARIABLE, ".weak", "b", ".weak", ';'},
                    {MM_ITEM_FUNC_DEFINED, "", "f", ".func", '}'},
                    {MM_ITEM_OTHER, "", "", ".pragma", ';'}};
    const size_t count = sizeof expected / sizeof *expected;
    struct mm_module m;
    ck_assert(mm_module_try_read(&m, text, sizeof text - 1) && m.target == 100);
    ck_assert_uint_eq(m.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct mm_item *const item = &m.items[i];
        ck_assert_int_eq(item->kind, expected[i].kind);
        ck_assert(*expected[i].linkage ? mm_token_is(&item->linkage, expected[i].linkage) : item->linkage.kind == MM_TOKEN_END);
        ck_assert(*expected[i].name ? mm_token_is(&item->name, expected[i].name) : item->name.kind == MM_TOKEN_END);
        ck_assert(strncmp(item->begin, expected[i].begin, strlen(expected[i].begin)) == 0 && item->end[-1] == expected[i].end);
    }
    mm_module_free(&m);
}
END_TEST

/* The symbols that mm defines for others are weak, all others are private; and the text uses only features of its old PTX version. */
START_TEST(device_text_is_private) {
    static const char *const public_names[] = {"malloc",        "free", "__cuda_syscall_aligned_malloc", "mm_usable_size", MM_LINKED_NEW, MM_LINKED_ALIGNED_NEW,
                                               MM_HEAP_REF_NAME};
    enum { NAMES = sizeof public_names / sizeof *public_names };
    struct mm_text text;
    struct mm_module m;
    int found = 0;
    ck_assert_msg(mm_shim_read(device_text, &text) == 0, "cannot read %s", device_text);
    ck_assert(mm_module_try_read(&m, text.data, text.bytes));
    for (size_t i = 0; i < m.count; i++) {
        const struct mm_item *item = &m.items[i];
        bool is_public = false;
        for (int n = 0; n < NAMES; n++) is_public |= mm_token_is(&item->name, public_names[n]);
        found += is_public;
        if (is_public) ck_assert(mm_token_is(&item->linkage, ".weak"));
        else ck_assert_msg(item->linkage.kind == MM_TOKEN_END, "%.*s", (int)item->name.length, item->name.at);
        if (item->kind == MM_ITEM_VARIABLE && !is_public) ck_assert_msg(strncmp(item->name.at, "mm$", 3) == 0, "%.*s", (int)item->name.length, item->name.at);
    }
    ck_assert_int_eq(found, NAMES);
    ck_assert(strstr(text.data, ".weak .const .align 16 .b8 " MM_HEAP_REF_NAME "[" MM_STR(MM_HEAP_REF_BYTES) "];"));
    ck_assert(!strstr(text.data, "mm_device_malloc\n") && !strstr(text.data, "//"));
    ck_assert_msg(!strstr(text.data, "used_bytes_mask"), "this pragma wants PTX 8.3, and all else less");
    mm_module_free(&m);
    mm_text_free(&text);
}
END_TEST

/* ---- Names ----------------------------------------------------------------------------------- */

/* After hiding, only mm's own services are declared, and nothing else has changed. Showing restores the original text, byte for byte. */
START_TEST(names_of_nvcc) {
    struct mm_text in, hidden, shown;
    struct mm_module m;
    const char *const name = files[_i];
    ck_assert_msg(mm_shim_read(name, &in) == 0, "cannot read %s", name);
    ck_assert_msg(mm_module_try_read(&m, in.data, in.bytes), "%s", name);
    mm_module_free(&m);
    const int wanted = _i % 3, services = mm_names_declared(in.data, in.bytes), count = mm_names_hide(in.data, in.bytes, wanted, &hidden);
    int allocator = -1;
    ck_assert_msg((services != 0) == !strstr(name, "none"), "%s is not the PTX this test is for", name);
    ck_assert_int_eq(count > 0, (services & 7) != 0);
    if (count) {
        ck_assert_msg(mm_module_try_read(&m, hidden.data, hidden.bytes), "%s", name);
        mm_module_free(&m);
        ck_assert_int_eq(mm_names_declared(hidden.data, hidden.bytes), services & 8);
        ck_assert_int_eq(mm_names_show(hidden.data, hidden.bytes, &allocator, &shown), count);
        ck_assert_int_eq(allocator, wanted);
        ck_assert_uint_eq(shown.bytes, in.bytes);
        ck_assert_str_eq(shown.data, in.data);
        mm_text_free(&shown);
    } else {
        ck_assert_ptr_null(hidden.data);
    }
    mm_text_free(&hidden);
    mm_text_free(&in);
}
END_TEST

static const struct {
    const char *text;
    int services;
} declarations[] = {
    {"", 0},
    {HEAD, 0},
    {HEAD MALLOC, 1},
    {HEAD MALLOC "# what follows may be anything", 1},
    {"# " HEAD MALLOC, 0},
    {HEAD ".extern .func free;", 2},
    {HEAD ".extern .func (.param .b64 r) __cuda_syscall_aligned_malloc (.param .b64 a);", 4},
    {HEAD ".extern .func (.param .b64 r) mm_usable_size (.param .b64 p);", 8},
    {HEAD ".extern .func (.param .b64 r", 0},
    {HEAD ".extern .func (.param .b64 malloc) f (.param .b64 free);", 0},
    {HEAD ".extern .func vprintf; .extern .func free;", 2},
    {HEAD MALLOC ".extern .func free;", 3},
    {HEAD ".extern .global .b8 malloc[];", 0},
    {HEAD ".extern .global malloc;", 0},
    {HEAD ".func free() { ret; }", 0},
    {HEAD "/* " MALLOC " */ .extern // .func free\n.func f;", 0},
    {HEAD ".extern .func malloc_of_mine;", 0},
};

/* Only declared names are renamed, only as whole tokens, and not in strings and comments. */
static const struct {
    const char *shown, *hidden; /* NULL: nothing to hide */
} hiding[] = {
    {"", NULL},
    {HEAD CALL, NULL},
    {HEAD ".func malloc() { ret; }\n" CALL, NULL},
    {HEAD ".extern .func (.param .b64 r) mm_usable_size (.param .b64 p);", NULL},
    {HEAD MALLOC CALL, HEAD ".extern .func (.param .b64 r) mm_call_malloc (.param .b64 malloc_param_0);\n"
                            ".visible .entry k() {\n{ call.uni (r), mm_call_malloc, (a); }\n ret;\n}\n"},
    {HEAD ".extern .func free; // free\n.global .b64 a = free; /* free */ .pragma \"free\"; free_me $free",
     HEAD ".extern .func mm_call_free; // free\n.global .b64 a = mm_call_free; /* free */ .pragma \"free\"; free_me $free"},
    {HEAD ".extern .func __cuda_syscall_aligned_malloc; call malloc; call __cuda_syscall_aligned_malloc;",
     HEAD ".extern .func mm_call_aligned_malloc; call malloc; call mm_call_aligned_malloc;"},
};

START_TEST(names_are_hidden_and_shown) {
    const char *const from = hiding[_i].shown, *const to = hiding[_i].hidden;
    struct mm_text out;
    ck_assert_int_eq(mm_names_hide(from, strlen(from), 0, &out) > 0, to != NULL);
    if (to) ck_assert_str_eq(out.data, to);
    else ck_assert_ptr_null(out.data);
    mm_text_free(&out);
    int allocator = -1;
    ck_assert_int_eq(mm_names_show(from, strlen(from), &allocator, &out), 0);
    ck_assert_ptr_null(out.data);
    ck_assert_int_eq(allocator, 0);
    if (!to) return;
    ck_assert_int_gt(mm_names_show(to, strlen(to), NULL, &out), 0);
    ck_assert_str_eq(out.data, from);
    mm_text_free(&out);
}
END_TEST

/* mm's names say the allocator, and any other name stays. */
START_TEST(names_say_the_allocator) {
    static const struct {
        const char *name, *end;
        bool is_ours;
    } cases[] = {{"", "_malloc", true},
                 {"gallatin", "_malloc", true},
                 {"random-walk", "_random_walk_malloc", true},
                 {"random-walk-coop", "_random_walk_coop_free", true},
                 {"aw", "_aw_aligned_malloc", true},
                 {"circular-multi-fused", "_circular_multi_fused_malloc", true},
                 {"none", "_none_malloc", false},
                 {"random", "_random_malloc", false},
                 {"random-walk_coop", "_random_walk_coop_calloc", false}};
    const int expected = mm_names_allocator(cases[_i].name);
    char text[300];
    int allocator = -1;
    struct mm_text out;
    ck_assert_int_eq(expected >= 0, cases[_i].is_ours);
    ck_assert_int_eq(expected == 0, _i < 2);
    snprintf(text, sizeof text, HEAD ".extern .func mm_call%s; call mm_call%s; .extern .func mm_call_free;", cases[_i].end, cases[_i].end);
    ck_assert_int_eq(mm_names_show(text, strlen(text), &allocator, &out), cases[_i].is_ours ? 3 : 1);
    ck_assert_int_eq(allocator, cases[_i].is_ours ? expected : 0); /* of the first of ours */
    ck_assert_int_eq(strstr(out.data, "mm_call") != NULL, !cases[_i].is_ours);
    mm_text_free(&out);
}
END_TEST

START_TEST(declarations_are_found) {
    ck_assert_int_eq(mm_names_declared(declarations[_i].text, strlen(declarations[_i].text)), declarations[_i].services);
    /* reads no character beyond the given length */
    ck_assert_int_eq(mm_names_declared(HEAD ".extern .func free", sizeof HEAD ".extern .func free" - 2), 0);
    ck_assert_int_eq(mm_names_declared(HEAD ".extern .func free", sizeof HEAD ".extern .func free" - 1), 2);
}
END_TEST

int main(int argc, char **argv) {
    Suite *suite = suite_create("ptx");
    TCase *tests = tcase_create("ptx");
    tcase_set_timeout(tests, 120);
    if (argc < 3) return fprintf(stderr, "usage: test_ptx DEVICE-TEXT PTX...\n"), 2;
    device_text = argv[1];
    files = argv + 2;
    file_count = argc - 2;
    tcase_add_test(tests, tokens_are_whole);
    tcase_add_loop_test(tests, bad_text_is_refused, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tests, zero_byte_is_refused);
    tcase_add_test(tests, cut_text_never_passes_unseen);
    tcase_add_test(tests, items_are_listed);
    tcase_add_test(tests, device_text_is_private);
    tcase_add_loop_test(tests, names_of_nvcc, 0, file_count);
    tcase_add_loop_test(tests, declarations_are_found, 0, (int)(sizeof declarations / sizeof *declarations));
    tcase_add_loop_test(tests, names_are_hidden_and_shown, 0, (int)(sizeof hiding / sizeof *hiding));
    tcase_add_loop_test(tests, names_say_the_allocator, 0, 9);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
