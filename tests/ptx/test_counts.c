/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite counts: which stores in front of an allocation are removed. argv: PTX that nvcc has just written for programs/arrays.cu. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/compile/shim.h"
#include "interpose/load/ptx/counts.h"
#include "tests/runner.h"

#define HEAD "//\n// made by hand\n.version 9.0\n.target sm_90\n.address_size 64\n"
#define DECLARED                                                                                                             \
    ".extern .func (.param .b64 func_retval0) malloc\n(\n\t.param .b64 malloc_param_0\n)\n;\n"                               \
    ".extern .func (.param .b64 func_retval0) __cuda_syscall_aligned_malloc\n(\n\t.param .b64 p0,\n\t.param .b64 p1\n)\n;\n" \
    ".extern .func (.param .b64 func_retval0) other\n(\n\t.param .b64 p0\n)\n;\n"                                            \
    ".func (.param .b64 func_retval0) _Znam\n(\n\t.param .b64 p0\n)\n;\n"
#define ENTRY(body) ".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n\t.reg .b64 %rd<40>;\n\t.loc 1 9 30\n" body "\tret;\n\n}\n"
/* Calls in the form that nvcc writes. */
#define CALL(to, how, function, end)                                                                                                        \
    "\t{ // callseq 0, 0\n\t.reg .b32 temp_param_reg;\n\t.param .b64 param0;\n\tst.param.b64 \t[param0+0], %rd3;\n\t.param .b64 retval0;\n" \
    "\t" how " (retval0), \n\t" function ", \n\t(\n\tparam0\n\t)\n\t" end ";\n\tld.param.b64 \t" to ", [retval0+0];\n\t} // callseq 0\n"
#define MALLOC(to) CALL(to, "call.uni", "malloc", "")
#define INDIRECT(to, reg) "\tprototype_0 : .callprototype (.param .b64 _) _ (.param .b64 _);\n" CALL(to, "call", reg, ", prototype_0")
#define RETURNS(name, value) ".func (.param .b64 func_retval0) " name "(\n\t.param .b64 p0\n)\n{\n\t.reg .b64 %rd<9>;\n" MALLOC("%rd2") value "\tret;\n}\n"
#define COUNT "\tst.u64 \t[%rd4+-8], %rd2;\n"
#define ZNAM RETURNS("_Znam", "\tst.param.b64 \t[func_retval0+0], %rd2;\n")

/* Stores that must be removed. */
static const struct {
    const char *name, *store, *text;
} removed[] = {
    {"nvcc -O3", COUNT, HEAD DECLARED ENTRY(MALLOC("%rd4") COUNT "\tst.global.u64 \t[%rd5], %rd4;\n")},
    {"an aligned array", COUNT, HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "__cuda_syscall_aligned_malloc", "") COUNT)},
    {"[%rd4-8]", "\tst.u64 [%rd4-8], 2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 [%rd4-8], 2;\n")},
    {".b64, on one line", "st.b64 [%rd4+-8], %rd2;",
     HEAD DECLARED ENTRY("{ .param .b64 a; .param .b64 r; call.uni (r), malloc, (a); ld.param.b64 %rd4, [r]; } st.b64 [%rd4+-8], %rd2; ")},
    {"an address of its own", "\tst.u64 \t[%rd6], %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tadd.s64 \t%rd6, %rd4, -8;\n\tst.u64 \t[%rd6], %rd2;\n")},
    {"sub", "\tst.u64 \t[%rd6], %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tsub.s64 \t%rd6, %rd4, 8;\n\tst.u64 \t[%rd6], %rd2;\n")},
    {"a copy in another space", "\tst.global.u64 \t[%rd6+-8], %rd2;\n",
     HEAD DECLARED ENTRY(MALLOC("%rd4") "\tmov.b64 \t%rd5, %rd4;\n\tcvta.to.global.u64 \t%rd6, %rd5;\n\tst.global.u64 \t[%rd6+-8], %rd2;\n")},
    {"under a predicate", "\t@%p1 st.u64 \t[%rd4+-8], %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\t@%p1 st.u64 \t[%rd4+-8], %rd2;\n")},
    {"under its opposite", "\t@!%p1 st.u64 \t[%rd4+-8], %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\t@!%p1 st.u64 \t[%rd4+-8], %rd2;\n")},
    {"a copy that is made further up", "\tst.u64 \t[%rd5+-8], %rd2;\n",
     HEAD DECLARED ENTRY("\tbra.uni \t$L__BB0_2;\n$L__BB0_1:\n\tmov.u64 \t%rd5, %rd4;\n\tbra.uni \t$L__BB0_3;\n$L__BB0_2:\n" MALLOC(
         "%rd4") "\tbra.uni \t$L__BB0_1;\n$L__BB0_3:\n\tst.u64 \t[%rd5+-8], %rd2;\n")},
    {"over two lines", "st.u64 \n\t[%rd4+-8], /* n */ %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 \n\t[%rd4+-8], /* n */ %rd2;\n")},
    {"8 there, -16 back", "\tst.u64 \t[%rd6+-16], %rd2;\n", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tadd.s64 \t%rd6, %rd4, 8;\n\tst.u64 \t[%rd6+-16], %rd2;\n")},
    {"the running pointer of a loop", COUNT,
     HEAD DECLARED ENTRY(MALLOC("%rd4") COUNT "$L__BB0_2:\n\tst.u64 [%rd4], 0;\n\tadd.s64 \t%rd4, %rd4, 32;\n\t@%p1 bra \t$L__BB0_2;\n")},
    {"the one register of two calls, behind a label", COUNT,
     HEAD DECLARED ENTRY("\t@%p1 bra \t$L__BB0_1;\n" MALLOC("%rd4") "\tbra.uni \t$L__BB0_2;\n$L__BB0_1:\n" MALLOC("%rd4") "$L__BB0_2:\n" COUNT)},
    {"operator new[] as a function", COUNT, HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "_Znam", "") COUNT) ZNAM},
    {"one that calls another", COUNT,
     HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "_ZN3ownnaEm", "") COUNT) ".func (.param .b64 func_retval0) _ZN3ownnaEm(\n\t.param .b64 p0\n)\n{\n" CALL(
         "%rd2", "call.uni", "_Znam", "") "\tst.param.b64 \t[func_retval0+0], %rd2;\n\tret;\n}\n" ZNAM},
    {"nvcc -G", "\tst.u64 \t[%rd26+-8], %rd11;\n",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd14, 0;\n\tmov.b64 \t%rd1, %rd14;\n\tmov.u64 \t%rd19, _Znam;\n\tmov.b64 \t%rd20, %rd19;\n\tst.u64 \t[%SP+32], %rd20;\n"
                         "\tmov.u64 \t%rd21, _ZdaPv;\n\tst.u64 \t[%SP+40], %rd21;\n\tld.u64 \t%rd23, [%SP+32];\n\tmul.lo.s64 \t%rd24, %rd11, %rd13;\n" INDIRECT(
                             "%rd2", "%rd23") "\tadd.s64 \t%rd26, %rd2, %rd1;\n\tst.u64 \t[%rd26+-8], %rd11;\n") ZNAM},
};

/* Stores that must stay. */
static const struct {
    const char *name, *text;
} kept[] = {
    {"offset 0", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 \t[%rd4], %rd2;\n")},
    {"offset 8", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 \t[%rd4+8], %rd2;\n")},
    {"offset -4", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 \t[%rd4+-4], %rd2;\n")},
    {"offset -16", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u64 \t[%rd4+-16], %rd2;\n")},
    {"4 bytes", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.u32 \t[%rd4+-8], %r2;\n")},
    {"16 bytes", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.v2.u64 \t[%rd4+-8], {%rd2, %rd3};\n")},
    {"volatile", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.volatile.u64 \t[%rd4+-8], %rd2;\n")},
    {"shared memory", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tst.shared.u64 \t[%rd4+-8], %rd2;\n")},
    {"a load", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tld.u64 \t%rd2, [%rd4+-8];\n")},
    {"a parameter", HEAD DECLARED ENTRY("\tld.param.u64 \t%rd4, [k_param_0];\n" COUNT)},
    {"another pointer", HEAD DECLARED ENTRY(MALLOC("%rd5") "\tld.global.u64 \t%rd4, [%rd6];\n" COUNT)},
    {"another function", HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "other", "") COUNT)},
    {"another function, behind malloc", HEAD DECLARED ENTRY(MALLOC("%rd5") CALL("%rd4", "call.uni", "other", "") COUNT)},
    {"what is read later", HEAD DECLARED ENTRY(MALLOC("%rd5") "\tld.param.b64 \t%rd4, [retval0+0];\n" COUNT)},
    {"a pointer moved on", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tadd.s64 \t%rd4, %rd4, 8;\n" COUNT)},
    {"a pointer moved on in the loop", HEAD DECLARED ENTRY(MALLOC("%rd4") "$L__BB0_2:\n" COUNT "\tadd.s64 \t%rd4, %rd4, 32;\n\t@%p1 bra \t$L__BB0_2;\n")},
    {"a pointer given another value", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tmov.u64 \t%rd4, %rd9;\n" COUNT)},
    {"given it under a predicate", HEAD DECLARED ENTRY(MALLOC("%rd4") "\t@!%p1 mov.u64 \t%rd4, %rd9;\n" COUNT)},
    {"malloc's under a predicate", HEAD DECLARED ENTRY(MALLOC("%rd5") "\tmov.u64 \t%rd4, %rd9;\n\t@%p1 mov.u64 \t%rd4, %rd5;\n" COUNT)},
    {"given it by a vector", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tld.global.v2.u64 \t{%rd3, %rd4}, [%rd9];\n" COUNT)},
    {"given it by an instruction not known", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tatom.global.add.u64 \t%rd4, [%rd9], %rd3;\n" COUNT)},
    {"given it by a call", HEAD DECLARED ENTRY(MALLOC("%rd4") "\tcall (%rd4), other, (%rd3);\n" COUNT)},
    {"on one of two ways", HEAD DECLARED ENTRY("\tmov.u64 \t%rd4, %rd9;\n\t@%p1 bra \t$L__BB0_2;\n" MALLOC("%rd4") "$L__BB0_2:\n" COUNT)},
    {"an unknown distance", HEAD DECLARED ENTRY(MALLOC("%rd5") "\tadd.s64 \t%rd4, %rd5, %rd9;\n" COUNT)},
    {"half of the pointer",
     HEAD DECLARED ENTRY(MALLOC("%rd5") "\tcvt.u64.u32 \t%rd4, %rd5;\n\tadd.s32 \t%rd6, %rd5, 0;\n" COUNT "\tst.u64 [%rd6+-8], %rd2;\n")},
    {"the ABI's count, nvcc -O3", HEAD DECLARED ENTRY(MALLOC("%rd5") "\tst.u64 \t[%rd5], %rd2;\n\tadd.s64 \t%rd7, %rd5, 8;\n")},
    {"the ABI's count, nvcc -G",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd14, 8;\n\tmov.b64 \t%rd1, %rd14;\n" MALLOC("%rd2") "\tadd.s64 \t%rd26, %rd2, %rd1;\n\tst.u64 \t[%rd26+-8], %rd11;\n")},
    {"a function that returns something else",
     HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "f", "") COUNT) RETURNS("f", "\tadd.s64 \t%rd3, %rd2, 8;\n\tst.param.b64 \t[func_retval0+0], %rd3;\n")},
    {"a function that may return something else",
     HEAD DECLARED ENTRY(CALL("%rd4", "call.uni", "f", "") COUNT)
         RETURNS("f", "\tst.param.b64 \t[func_retval0+0], %rd2;\n\tret;\n$L__BB1_1:\n\tst.param.b64 \t[func_retval0+0], %rd9;\n")},
    {"a slot written since",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd19, _Znam;\n\tst.u64 \t[%SP+32], %rd19;\n\tst.u64 \t[%rd9], %rd8;\n\tld.u64 \t%rd23, [%SP+32];\n" INDIRECT(
         "%rd4", "%rd23") COUNT) ZNAM},
    {"a slot half written since",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd19, _Znam;\n\tst.u64 \t[%SP+32], %rd19;\n\tst.u64 \t[%SP+36], %rd8;\n\tld.u64 \t%rd23, [%SP+32];\n" INDIRECT(
         "%rd4", "%rd23") COUNT) ZNAM},
    {"a slot written by a call since",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd19, _Znam;\n\tst.u64 \t[%SP+32], %rd19;\n\tcall.uni f, ();\n\tld.u64 \t%rd23, [%SP+32];\n" INDIRECT("%rd4", "%rd23")
                             COUNT) ZNAM},
    {"a slot written by an atomic since",
     HEAD DECLARED ENTRY(
         "\tmov.u64 \t%rd19, _Znam;\n\tst.u64 \t[%SP+32], %rd19;\n\tatom.exch.b64 \t%rd8, [%rd9], %rd7;\n\tld.u64 \t%rd23, [%SP+32];\n" INDIRECT(
             "%rd4", "%rd23") COUNT) ZNAM},
    {"a slot of the block before",
     HEAD DECLARED ENTRY("\tmov.u64 \t%rd19, _Znam;\n\tst.u64 \t[%SP+32], %rd19;\n$L__BB0_1:\n\tld.u64 \t%rd23, [%SP+32];\n" INDIRECT("%rd4", "%rd23") COUNT)
         ZNAM},
    {"a malloc of the program's own", HEAD ENTRY(MALLOC("%rd4") COUNT) RETURNS("malloc", "\tst.param.b64 \t[func_retval0+0], %rd2;\n")},
    {"a malloc of the program's own, declared first", HEAD ".func (.param .b64 func_retval0) malloc\n(\n\t.param .b64 p0\n)\n;\n" ENTRY(MALLOC("%rd4") COUNT)
                                                          RETURNS("malloc", "\tst.param.b64 \t[func_retval0+0], %rd9;\n")},
    {"a name in a comment", HEAD DECLARED ENTRY("\t// call (retval0), malloc, (param0); ld.param.b64 %rd4, [retval0+0];\n" COUNT)},
    {"no PTX", "malloc\n" MALLOC("%rd4") COUNT},
    {"no end", HEAD DECLARED ".visible .entry k()\n{\n" MALLOC("%rd4") COUNT},
    {"nothing", ""},
};

START_TEST(counts_are_removed) {
    struct mm_text out;
    const char *text = removed[_i].text, *store = strstr(text, removed[_i].store);
    char *expected = strdup(text);
    ck_assert_msg(store != NULL, "%s: no such store", removed[_i].name);
    const size_t indent = strspn(store, "\t"), length = strlen(removed[_i].store) - indent;
    for (size_t i = 0, at = (size_t)(store - text) + indent; i < length; i++, at++)
        if (expected[at] != '\n') expected[at] = ' ';
    ck_assert_msg(mm_counts_remove(text, strlen(text), &out) == 1, "%s: not removed", removed[_i].name);
    ck_assert_str_eq(out.data, expected);
    ck_assert_uint_eq(out.bytes, strlen(text));
    mm_text_free(&out);
    free(expected);
}
END_TEST

START_TEST(other_stores_stay) {
    struct mm_text out;
    ck_assert_msg(mm_counts_remove(kept[_i].text, strlen(kept[_i].text), &out) == 0, "%s: removed", kept[_i].name);
    ck_assert_ptr_null(out.data);
}
END_TEST

/* If a text is truncated anywhere, it is left alone, or only its counts are removed. */
START_TEST(cut_text_is_safe) {
    const char *text = removed[sizeof removed / sizeof *removed - 1].text;
    for (size_t n = 0; n < strlen(text); n++) {
        struct mm_text out;
        char *cut = strndup(text, n);
        ck_assert_int_le(mm_counts_remove(cut, n, &out), 1);
        mm_text_free(&out);
        free(cut);
    }
}
END_TEST

/* ---- PTX written by nvcc ----------------------------------------------------------------------------- */

static char **files;
static int file_count;

/* The number of stores 8 bytes in front of an address, in the given kernel, or in the whole text. */
static int stores_in_front(const char *text, const char *kernel) {
    int count = 0;
    const char *from = kernel ? strstr(text, kernel) : text, *to = kernel && from ? strstr(from, "\n}") : NULL;
    for (const char *at = from; at && (at = strstr(at, "+-8]")) && (!to || at < to); at++) {
        const char *line = at;
        while (line > text && line[-1] != '\n') line--;
        count += strncmp(line + strspn(line, " \t"), "st.", 3) == 0;
    }
    return count;
}

START_TEST(nvcc_output_loses_counts) {
    static const char *const entries[] = {".entry _Z3one",     ".entry _Z5fixed",    ".entry _Z4init",
                                          ".entry _Z7several", ".entry _Z8branches", ".entry _Z15by_own_operator"};
    static const char *const stay[] = {".entry _Z15with_destructor", ".entry _Z10without_it", ".entry _Z5users"};
    struct mm_text in, out;
    ck_assert_int_eq(mm_shim_read(files[_i], &in), 0);
    const int before = stores_in_front(in.data, NULL);
    const int n = mm_counts_remove(in.data, in.bytes, &out);
    const char *text = n > 0 ? out.data : in.data; /* a toolkit before 13 writes no counts */
    ck_assert_int_ge(n, 0);
    ck_assert_int_eq(stores_in_front(text, NULL), before - n);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        ck_assert_msg(strstr(text, entries[i]) != NULL, "%s: no %s", files[_i], entries[i]);
        ck_assert_msg(stores_in_front(text, entries[i]) == 0, "%s: a count is left in %s", files[_i], entries[i]);
    }
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) ck_assert_int_eq(stores_in_front(text, stay[i]), stores_in_front(in.data, stay[i]));
    if (n > 0) {
        struct mm_text again;
        ck_assert_uint_eq(out.bytes, in.bytes);
        for (size_t i = 0; i < in.bytes; i++)
            if (out.data[i] != in.data[i] && (out.data[i] != ' ' || in.data[i] == '\n')) ck_abort_msg("byte %zu has changed", i);
        ck_assert_int_eq(mm_counts_remove(out.data, out.bytes, &again), 0);
    }
    mm_text_free(&in);
    mm_text_free(&out);
}
END_TEST

int main(int argc, char **argv) {
    Suite *suite = suite_create("counts");
    TCase *tests = tcase_create("counts");
    tcase_set_timeout(tests, 120);
    if (argc < 2) return fprintf(stderr, "usage: test_counts PTX...\n"), 2;
    files = argv + 1;
    file_count = argc - 1;
    tcase_add_loop_test(tests, counts_are_removed, 0, (int)(sizeof removed / sizeof *removed));
    tcase_add_loop_test(tests, other_stores_stay, 0, (int)(sizeof kept / sizeof *kept));
    tcase_add_test(tests, cut_text_is_safe);
    tcase_add_loop_test(tests, nvcc_output_loses_counts, 0, file_count);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
