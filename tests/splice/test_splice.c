/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite splice: tokens, modules, splicing. argv: the fragment, then PTX that nvcc has just written. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/compile/shim.h"
#include "interpose/load/ptx/names.h"
#include "mmconfig.h"
#include "tests/runner.h"

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define MALLOC ".extern .func (.param .b64 r) malloc (.param .b64 malloc_param_0);\n"
#define HEAP_VARIABLE MM_HEAP_REF_NAME "[" MM_STR(MM_HEAP_REF_BYTES) "]"
#define OURS "mm$v" MM_STR(MM_ABI_VERSION) "_"
#define CALL ".visible .entry k() {\n{ call.uni (r), malloc, (a); }\n ret;\n}\n"

static struct mm_splice_text fragment;
static char **files;
static int file_count;

static enum mm_splice_result splice(const char *text, struct mm_splice_text *out, struct mm_splice_error *error) {
    return mm_splice_module(text, strlen(text), fragment.data, fragment.bytes, out, error);
}

static char *patched(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    char *made = (char *)malloc(strlen(text) + strlen(to) + 1);
    ck_assert_msg(at != NULL, "nothing to patch: %s", from);
    sprintf(made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return made;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

START_TEST(tokens_are_whole) {
    static const char text[] = "ld.param.u64 \t%rd1, [malloc_param_0+8]; /* malloc */ // free\n"
                               "$L__BB0_2: \"a \\\" malloc // \" 0x1F 0f3F800000 9.0 _ @!%p1 .b8 $str$1[3]";
    static const char *const expected[] = {
        "ld", ".param", ".u64", "%rd1", ",", "[", "malloc_param_0", "+", "8", "]", ";", "$L__BB0_2", ":",
        "\"a \\\" malloc // \"", "0x1F", "0f3F800000", "9.0", "_", "@", "!", "%p1", ".b8", "$str$1", "[", "3", "]"};
    struct mm_token_reader r;
    mm_token_start(&r, text, sizeof text - 1);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct mm_token t = mm_token_next(&r);
        ck_assert_msg(mm_token_is(&t, expected[i]), "token %zu is '%.*s', expected '%s'", i, (int)t.length, t.at,
                      expected[i]);
        ck_assert_int_eq(t.line, i < 11 ? 1 : 2);
    }
    ck_assert_int_eq(mm_token_next(&r).kind, MM_TOKEN_END);
    ck_assert_ptr_null(r.message);
}
END_TEST

/* ---- What is refused, and in which words ----------------------------------------------------- */

#define NOT_OURS \
    MM_HEAP_REF_NAME " is not the heap variable of mm (.const .b8 [" MM_STR(MM_HEAP_REF_BYTES) "])"

static const struct {
    const char *text;
    int line;
    const char *message;
} refused[] = {
    {"", 1, "the text ends where '.version' should be"},
    {"\n\nhello", 3, "expected '.version', found 'hello'"},
    {".version nine\n.target sm_90", 1, "expected a version such as 9.0, found 'nine'"},
    {".version 9.0\n", 2, "the text ends where '.target' should be"},
    {".version 9.0\n.target compute_90\n", 2, "expected an architecture such as sm_90, found 'compute_90'"},
    {".version 9.0\n.target sm_90\n.address_size 32\n", 3, "expected address size 64, found '32'"},
    {HEAD "garbage;", 4, "expected a declaration or definition, found 'garbage'"},
    {HEAD ".future .func f();", 4, "expected a declaration or definition, found '.future'"},
    {HEAD ".extern .file 1 \"a\"", 4, "expected a declaration or definition, found '.file'"},
    {HEAD "\n.func f(\n", 5, "this list does not end"},
    {HEAD ".func f()\n{ { ret; }\n", 5, "this body does not end"},
    {HEAD ".func f()\n", 4, "this function has no body and no ';'"},
    {HEAD ".func f() = 3;", 4, "expected a directive, a body or ';', found '='"},
    {HEAD ".func (.param .b64 r) ;", 4, "expected the name of a function, found ';'"},
    {HEAD ".global .u64 ;", 4, "expected the name of a variable, found ';'"},
    {HEAD ".global .u64 a[3\n", 5, "the text ends where ']' should be"},
    {HEAD ".global .u64 a = 3\n", 5, "the text ends where ';' should be"},
    {HEAD ".global .u64 a\n.global .u64 b;", 5, "expected ';', found '.global'"},
    {HEAD ".section .debug_info\n{ .b8 1\n", 5, "this section does not end"},
    {HEAD ".section \"x\" {}", 4, "expected the name of a section, found '\"x\"'"},
    {HEAD ".file one \"a\"", 4, "expected a file number, found 'one'"},
    {HEAD ".pragma \"nounroll\"\n", 4, "this statement does not end"},
    {HEAD "/* a\nb", 4, "this comment does not end"},
    {HEAD ".file 1 \"a\n", 4, "this string does not end"},
    {HEAD ".func f()\n{\n ret;\n# }", 7, "this character is not PTX"},
    {HEAD MALLOC "\n.visible .func malloc() { ret; }", 6, "this module defines its own 'malloc'; mm cannot replace it"},
    {HEAD ".weak .func mm_usable_size() { ret; }", 4, "this module defines its own 'mm_usable_size'; mm cannot replace it"},
    {HEAD ".weak .func free() { ret; }", 4, "this module defines its own 'free'; mm cannot replace it"},
    {HEAD ".func (.param .b64 r) malloc();\n", 4, "this module defines its own 'malloc'; mm cannot replace it"},
    {HEAD ".global .u64 free;", 4, "'free' is not a function here; mm cannot take it over"},
    {HEAD ".global .u64 a, malloc;", 4, "'malloc' is not a function here; mm cannot take it over"},
    {HEAD ".weak .global .align 16 .b8 mm_heap_v0[64];", 4,
     "this module holds mm_heap_v0 of another mm; this one is for " MM_HEAP_REF_NAME},
    {HEAD MALLOC ".weak .const .align 16 .b8 mm_heap_v77[64];", 5,
     "this module holds mm_heap_v77 of another mm; this one is for " MM_HEAP_REF_NAME},
    {HEAD ".weak .const .align 16 .b8 " MM_HEAP_REF_NAME "[32];", 4, NOT_OURS},
    {HEAD ".weak .global .align 16 .b8 " HEAP_VARIABLE ";", 4, NOT_OURS},
    {HEAD ".extern .const .align 16 .b8 " HEAP_VARIABLE ";", 4, NOT_OURS},
    {HEAD ".weak .const .align 16 .b8 " HEAP_VARIABLE ";", 4,
     "this module holds " MM_HEAP_REF_NAME ", but not all of malloc, free, __cuda_syscall_aligned_malloc and mm_usable_size"},
    {".version 9.0\n.target sm_70\n.address_size 64\n" MALLOC, 2,
     NULL /* the architecture is the fragment's */},
    {".version 9.0\n.target sm_90x\n", 2, "expected an architecture such as sm_90, found 'sm_90x'"},
    {".version 5.9\n.target sm_90\n.address_size 64\n" MALLOC, 1, NULL /* the version is the fragment's */},
    {".version 6.0\n.target sm_90\n.address_size 64\n" MALLOC, 1, NULL /* the version is the fragment's */},
};

/* What is said of a module for sm_70, older than all that mm is built for. */
static const char *lowest(void) {
    static char said[100];
    struct mm_splice_header header;
    ck_assert(mm_splice_read_header(fragment.data, fragment.bytes, &header));
    snprintf(said, sizeof said, "this module is for sm_70, the allocator for sm_%u and later", (unsigned)header.target);
    return said;
}

START_TEST(bad_input_is_refused) {
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(splice(refused[_i].text, &out, &error), MM_SPLICE_FAILED);
    ck_assert_ptr_null(out.data);
    ck_assert_int_eq(error.line, refused[_i].line);
    if (refused[_i].message) ck_assert_str_eq(error.message, refused[_i].message);
    else if (refused[_i].line == 1) ck_assert_ptr_nonnull(strstr(error.message, ", the allocator needs "));
    else ck_assert_str_eq(error.message, lowest());
}
END_TEST

START_TEST(zero_byte_is_refused) {
    static const char text[] = HEAD MALLOC "\0" CALL;
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(mm_splice_module(text, sizeof text - 1, fragment.data, fragment.bytes, &out, &error),
                     MM_SPLICE_FAILED);
    ck_assert_str_eq(error.message, "there is a zero byte in the text");
}
END_TEST

START_TEST(names_of_ours_are_refused) {
    struct mm_splice_text out;
    struct mm_splice_error error;
    struct mm_module f;
    char text[1000] = "";
    ck_assert_int_eq(mm_module_read(&f, fragment.data, fragment.bytes, &error), 0);
    for (size_t i = 0; i < f.count && !*text; i++) {
        const struct mm_token *name = &f.items[i].name;
        if (name->length > sizeof OURS - 1 && memcmp(name->at, OURS, sizeof OURS - 1) == 0)
            snprintf(text, sizeof text, HEAD MALLOC ".global .u64 %.*s;", (int)name->length, name->at);
    }
    mm_module_free(&f);
    ck_assert_msg(*text, "the fragment has no internal names");
    ck_assert_int_eq(splice(text, &out, &error), MM_SPLICE_FAILED);
    ck_assert_int_eq(error.line, 5);
    ck_assert_ptr_nonnull(strstr(error.message, "belongs to mm"));
}
END_TEST

/* A user's name may begin like ours as far as C lets it. */
START_TEST(names_of_users_stay) {
    static const char text[] = HEAD MALLOC ".visible .global .align 4 .b8 mm_v1_table[16];\n"
                               ".visible .entry mm_v1_naive() { ret; }\n.func mm_v1_helper() { ret; }\n" CALL;
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(splice(text, &out, &error), MM_SPLICE_DONE);
    ck_assert_ptr_nonnull(strstr(out.data, strstr(text, MALLOC) + strlen(MALLOC)));
    mm_splice_text_free(&out);
    ck_assert_int_eq(splice(HEAD MALLOC ".func " OURS "mine() { ret; }\n", &out, &error), MM_SPLICE_FAILED);
    ck_assert_int_eq(error.line, 5);
    ck_assert_str_eq(error.message, "the name " OURS "mine belongs to mm");
}
END_TEST

/* A module cut off anywhere is refused or, cut between statements, still a module: never a crash. */
START_TEST(cut_text_never_passes_unseen) {
    static const char whole[] = HEAD MALLOC CALL ".section .debug_str { .b8 1, 2 }\n.global .b8 s[2] = {1, 2};";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        char text[sizeof whole];
        struct mm_splice_text out;
        struct mm_splice_error error;
        memcpy(text, whole, n);
        text[n] = 0;
        const enum mm_splice_result result = splice(text, &out, &error);
        if (result == MM_SPLICE_FAILED) ck_assert_str_ne(error.message, "");
        if (result == MM_SPLICE_DONE) ck_assert_int_ge((int)n, (int)strlen(HEAD MALLOC) - 1);
        if (result == MM_SPLICE_UNTOUCHED) ck_assert_int_le((int)n, (int)strlen(HEAD) + 1);
        mm_splice_text_free(&out);
    }
}
END_TEST

/* ---- What is done ---------------------------------------------------------------------------- */

static int count_items(const struct mm_module *m, const char *name, enum mm_item_kind kind) {
    int n = 0;
    for (size_t i = 0; i < m->count; i++) n += m->items[i].kind == kind && mm_token_is(&m->items[i].name, name);
    return n;
}

static bool declares_service(const struct mm_module *m) {
    for (int s = 0; s < MM_SPLICE_SERVICES; s++)
        if (count_items(m, mm_splice_service[s], MM_ITEM_FUNC_DECLARED)) return true;
    return false;
}

/* Whether the token lies in a declaration of a service. */
static bool in_declaration(const struct mm_module *m, const char *at) {
    for (size_t i = 0; i < m->count; i++)
        for (int s = 0; s < MM_SPLICE_SERVICES; s++)
            if (m->items[i].kind == MM_ITEM_FUNC_DECLARED && mm_token_is(&m->items[i].name, mm_splice_service[s]) &&
                at >= m->items[i].begin && at < m->items[i].end)
                return true;
    return false;
}

/* An assertion for long loops: ck_assert writes a line into a file each time that it holds. */
#define holds(cond, ...) ((cond) ? (void)0 : ck_abort_msg(__VA_ARGS__))

/* The spliced text is, token for token: header, fragment, the rest without the declarations. */
static void check_spliced(const char *name, const struct mm_splice_text *in, const struct mm_splice_text *out) {
    struct mm_token_reader from, to, ours;
    struct mm_splice_error error;
    struct mm_module before, after, f;
    ck_assert_int_eq(mm_module_read(&before, in->data, in->bytes, &error), 0);
    ck_assert_int_eq(mm_module_read(&f, fragment.data, fragment.bytes, &error), 0);
    ck_assert_msg(mm_module_read(&after, out->data, out->bytes, &error) == 0, "%s: %s", name, error.message);
    for (int s = 0; s < MM_SPLICE_SERVICES; s++) {
        ck_assert_int_eq(count_items(&after, mm_splice_service[s], MM_ITEM_FUNC_DEFINED), 1);
        ck_assert_int_eq(count_items(&after, mm_splice_service[s], MM_ITEM_FUNC_DECLARED), 0);
    }
    ck_assert_int_eq(count_items(&after, MM_HEAP_REF_NAME, MM_ITEM_VARIABLE), 1);

    mm_token_start(&from, in->data, in->bytes);
    mm_token_start(&to, out->data, out->bytes);
    mm_token_start(&ours, f.body, (size_t)(fragment.data + fragment.bytes - f.body));
    for (;;) {
        struct mm_token t = mm_token_next(&from);
        if (t.at >= before.body && ours.at) {
            for (struct mm_token u; (u = mm_token_next(&ours)).kind != MM_TOKEN_END;) {
                const struct mm_token v = mm_token_next(&to);
                holds(u.length == v.length && !memcmp(u.at, v.at, u.length), "%s: not the fragment", name);
            }
            ours.at = NULL;
        }
        while (t.kind != MM_TOKEN_END && in_declaration(&before, t.at)) t = mm_token_next(&from);
        const struct mm_token v = mm_token_next(&to);
        holds(t.length == v.length && !memcmp(t.at, v.at, t.length), "%s:%d: '%.*s' became '%.*s'", name, t.line, (int)t.length, t.at,
              (int)v.length, v.at);
        if (t.kind == MM_TOKEN_END) break;
    }
    mm_module_free(&before);
    mm_module_free(&after);
    mm_module_free(&f);
}

/* Hidden, no service but mm's own is declared, and nothing else has changed; shown, it is what it was, byte for byte. */
static void check_names(const char *name, const struct mm_splice_text *in, int services) {
    struct mm_splice_text hidden, shown;
    struct mm_splice_error error;
    struct mm_module m;
    const int count = mm_names_hide(in->data, in->bytes, &hidden);
    ck_assert_int_eq(count > 0, (services & 7) != 0);
    if (!count) {
        ck_assert_ptr_null(hidden.data);
        return;
    }
    ck_assert_msg(mm_module_read(&m, hidden.data, hidden.bytes, &error) == 0, "%s: %s", name, error.message);
    mm_module_free(&m);
    ck_assert_int_eq(mm_splice_declared(hidden.data, hidden.bytes), services & 8);
    ck_assert_int_eq(mm_names_show(hidden.data, hidden.bytes, &shown), count);
    ck_assert_uint_eq(shown.bytes, in->bytes);
    ck_assert_str_eq(shown.data, in->data);
    mm_splice_text_free(&shown);
    mm_splice_text_free(&hidden);
}

START_TEST(nvcc_output_is_spliced) {
    struct mm_splice_text in, out, again;
    struct mm_splice_error error;
    struct mm_module before;
    const char *name = files[_i];
    ck_assert_msg(mm_shim_read(name, &in) == 0, "cannot read %s", name);
    ck_assert_msg(mm_module_read(&before, in.data, in.bytes, &error) == 0, "%s:%d: %s", name, error.line, error.message);
    const bool calls = declares_service(&before);
    ck_assert_msg(calls == !strstr(name, "none"), "%s is not the PTX this test is for", name);
    const enum mm_splice_result result =
        mm_splice_module(in.data, in.bytes, fragment.data, fragment.bytes, &out, &error);
    ck_assert_msg(result == (calls ? MM_SPLICE_DONE : MM_SPLICE_UNTOUCHED), "%s: result %d", name, result);
    if (calls) {
        check_spliced(name, &in, &out);
        ck_assert_int_eq(mm_splice_module(out.data, out.bytes, fragment.data, fragment.bytes, &again, &error),
                         MM_SPLICE_UNTOUCHED);
        ck_assert_ptr_null(again.data);
    } else {
        ck_assert_ptr_null(out.data);
    }
    check_names(name, &in, mm_splice_declared(in.data, in.bytes));
    mm_splice_text_free(&in);
    mm_splice_text_free(&out);
    mm_module_free(&before);
}
END_TEST

START_TEST(header_is_read_from_text) {
    static const char *const bad[] = {"hello", ".version 9.0\n", ".version nine\n.target sm_90", ".version 9\n.target sm_90",
                                      ".version 9.0\n.target 90", ".version 9.0\n.target compute_90",
                                      ".version 9.0\n.target sm_90000000000000000000"};
    struct mm_splice_header header;
    ck_assert(mm_splice_read_header(HEAD, strlen(HEAD), &header));
    ck_assert_int_eq(header.target, 90);
    ck_assert_int_eq(header.version, 900);
    ck_assert(mm_splice_read_header("// \n.version 12.13 .target sm_100a, debug", 41, &header));
    ck_assert_int_eq(header.target, 100);
    ck_assert_int_eq(header.version, 1213);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert(!mm_splice_read_header(bad[i], strlen(bad[i]), &header));
    ck_assert(mm_splice_is_binary_ir("\xED\x43\x4E\x7F", 4));
    ck_assert(mm_splice_is_binary_ir("BC\xC0\xDE", 4));
    ck_assert(!mm_splice_is_binary_ir(HEAD, strlen(HEAD)));
}
END_TEST

/* ---- Making the fragment --------------------------------------------------------------------- */

#define DEVICE                                                                                                    \
    ".version 9.0 .target sm_75 .address_size 64 // mm_device_malloc\n"                                           \
    ".visible .const .align 8 .b8 " HEAP_VARIABLE ";\n.global .align 8 .u64 mm_complaints;\n"                     \
    ".global .align 1 .b8 $str[2] = {109, 0};\n.func slow(.param .b64 slow_param_0);\n"                           \
    ".visible .func (.param .b64 func_retval0) mm_device_malloc(.param .b64 mm_device_malloc_param_0)\n"          \
    "{ ld.const.u64 %rd2, [" MM_HEAP_REF_NAME "+8]; mov.u64 %rd1, $str; mov.u64 %rd3, mm_complaints;\n"           \
    "call.uni slow, (p); ret; }\n.visible .func mm_device_free(.param .b64 a) { ret; }\n"                         \
    ".visible .func mm_device_aligned_malloc() { call.uni mm_device_malloc, (p); }\n"                         \
    ".visible .func mm_device_usable_size() { ret; }\n.func slow() { ret; }\n"

START_TEST(fragment_is_renamed) {
    static const char expected[] =
        "// mm, device side\n.version 6.3\n.target sm_75\n.address_size 64\n"
        ".weak .const .align 16 .b8 " HEAP_VARIABLE ";\n.global .align 8 .u64 " OURS "mm_complaints;\n"
        ".global .align 1 .b8 " OURS "$str[2] = {109, 0};\n.func " OURS "slow(.param .b64 slow_param_0);\n"
        ".weak .func (.param .b64 func_retval0) malloc(.param .b64 mm_device_malloc_param_0)\n"
        "{ ld.const.u64 %rd2, [" MM_HEAP_REF_NAME "+8]; mov.u64 %rd1, " OURS "$str; mov.u64 %rd3, " OURS "mm_complaints;\n"
        "call.uni " OURS "slow, (p); ret; }\n.weak .func free(.param .b64 a) { ret; }\n"
        ".weak .func __cuda_syscall_aligned_malloc() { call.uni malloc, (p); }\n"
        ".weak .func mm_usable_size() { ret; }\n.func " OURS "slow() { ret; }\n";
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(mm_splice_fragment(DEVICE, strlen(DEVICE), "6.3", &out, &error), MM_SPLICE_DONE);
    ck_assert_str_eq(out.data, expected);
    mm_splice_text_free(&out);
}
END_TEST

#define NOT_HEAP MM_HEAP_REF_NAME " must be .const .b8 [" MM_STR(MM_HEAP_REF_BYTES) "] without a value"

static const struct {
    const char *from, *to, *message;
} bad_device[] = {
    {".visible .func mm_device_free(.param .b64 a) { ret; }", "",
     "the allocator must define mm_device_malloc, mm_device_free, mm_device_aligned_malloc, mm_device_usable_size and "
     MM_HEAP_REF_NAME},
    {".visible .func mm_device_usable_size() { ret; }", "",
     "the allocator must define mm_device_malloc, mm_device_free, mm_device_aligned_malloc, mm_device_usable_size and "
     MM_HEAP_REF_NAME},
    {HEAP_VARIABLE, MM_HEAP_REF_NAME "[32]", NOT_HEAP},
    {HEAP_VARIABLE, HEAP_VARIABLE " = {1}", NOT_HEAP},
    {".const .align", ".global .align", NOT_HEAP},
    {".func slow() { ret; }", ".extern .func malloc();", "the allocator must not need 'malloc'"},
    {".func slow() { ret; }", ".entry slow() { ret; }", "the allocator may hold functions and variables only"},
    {".func slow() { ret; }", ".file 1 \"a\"", "the allocator must be compiled without debug information"},
};

START_TEST(bad_device_code_is_refused) {
    char *text = patched(DEVICE, bad_device[_i].from, bad_device[_i].to);
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(mm_splice_fragment(text, strlen(text), "6.3", &out, &error), MM_SPLICE_FAILED);
    ck_assert_str_eq(error.message, bad_device[_i].message);
    free(text);
}
END_TEST

/* What the real one defines besides the services, their other forms for machine code and the heap variable, mm_complaints among it, is private. */
START_TEST(fragment_is_private) {
    struct mm_splice_error error;
    struct mm_module f;
    int variables = 0;
    ck_assert_int_eq(mm_module_read(&f, fragment.data, fragment.bytes, &error), 0);
    for (size_t i = 0; i < f.count; i++) {
        const struct mm_item *item = &f.items[i];
        bool is_public = mm_token_is(&item->name, MM_HEAP_REF_NAME) || mm_token_is(&item->linkage, ".extern") ||
                         mm_token_is(&item->name, MM_LINKED_NEW) || mm_token_is(&item->name, MM_LINKED_ALIGNED_NEW);
        for (int s = 0; s < MM_SPLICE_SERVICES; s++) is_public |= mm_token_is(&item->name, mm_splice_service[s]);
        if (is_public) continue;
        variables += item->kind == MM_ITEM_VARIABLE;
        ck_assert(item->linkage.kind == MM_TOKEN_END);
        ck_assert_msg(item->name.length > sizeof OURS - 1 && !memcmp(item->name.at, OURS, sizeof OURS - 1),
                      "%.*s is no private name", (int)item->name.length, item->name.at);
    }
    ck_assert_msg(!strstr(fragment.data, "used_bytes_mask"), "this pragma wants PTX 8.3, and all else less");
    ck_assert_msg(variables > 0 && strstr(fragment.data, "mm_complaints"), "this fragment has no mm_complaints");
    mm_module_free(&f);
}
END_TEST

START_TEST(bad_fragment_is_refused) {
    static const char module[] = HEAD MALLOC CALL;
    char *lacking = patched(fragment.data, ".weak .func free", ".func " OURS "free");
    struct mm_splice_text out;
    struct mm_splice_error error;
    ck_assert_int_eq(mm_splice_module(module, strlen(module), lacking, strlen(lacking), &out, &error), MM_SPLICE_FAILED);
    ck_assert_str_eq(error.message, "mm's own fragment lacks a service or the heap variable");
    ck_assert_int_eq(mm_splice_module(module, strlen(module), "x", 1, &out, &error), MM_SPLICE_FAILED);
    ck_assert_str_eq(error.message, "in mm's own fragment: expected '.version', found 'x'");
    free(lacking);
}
END_TEST

/* ---- What is asked at run time ----------------------------------------------------------------- */

START_TEST(newest_fragment_that_is_not_newer) {
    static const struct mm_splice_header there[] = {{870, 120}, {900, 88}, {630, 75}, {780, 90}, {900, 110}, {700, 80}, {860, 100}};
    static const struct {
        struct mm_splice_header module;
        int chosen;
    } cases[] = {{{900, 70}, 0}, {{900, 74}, 0}, {{900, 75}, 75}, {{900, 79}, 75}, {{900, 80}, 80}, {{900, 88}, 88},
                 {{900, 90}, 90}, {{780, 90}, 90}, {{900, 99}, 90}, {{900, 103}, 100}, {{900, 120}, 120}, {{1 << 20, 1 << 20}, 120},
                 /* the newest is too late */
                 {{780, 89}, 80}, {{899, 88}, 80}, {{899, 110}, 100}, {{870, 119}, 100}, {{870, 120}, 120}, {{869, 120}, 100},
                 /* all are */
                 {{600, 75}, 75}, {{600, 90}, 75}, {{0, 120}, 75}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mm_splice_header best = {0, 0};
        for (size_t k = 0; k < sizeof there / sizeof *there; k++)
            if (mm_splice_is_better(&there[k], &best, &cases[i].module)) best = there[k];
        ck_assert_msg(best.target == cases[i].chosen, "PTX %d for sm_%d gets sm_%d, expected sm_%d", cases[i].module.version,
                      cases[i].module.target, best.target, cases[i].chosen);
    }
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

/* Only what is declared is renamed, as whole names, and nowhere in strings and comments. */
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
    struct mm_splice_text out;
    ck_assert_int_eq(mm_names_hide(from, strlen(from), &out) > 0, to != NULL);
    if (to) ck_assert_str_eq(out.data, to);
    else ck_assert_ptr_null(out.data);
    mm_splice_text_free(&out);
    ck_assert_int_eq(mm_names_show(from, strlen(from), &out), 0);
    ck_assert_ptr_null(out.data);
    if (!to) return;
    ck_assert_int_gt(mm_names_show(to, strlen(to), &out), 0);
    ck_assert_str_eq(out.data, from);
    mm_splice_text_free(&out);
}
END_TEST

START_TEST(declarations_are_found) {
    ck_assert_int_eq(mm_splice_declared(declarations[_i].text, strlen(declarations[_i].text)), declarations[_i].services);
    /* not one character further than it is told */
    ck_assert_int_eq(mm_splice_declared(HEAD ".extern .func free", sizeof HEAD ".extern .func free" - 2), 0);
    ck_assert_int_eq(mm_splice_declared(HEAD ".extern .func free", sizeof HEAD ".extern .func free" - 1), 2);
}
END_TEST

int main(int argc, char **argv) {
    Suite *suite = suite_create("splice");
    TCase *tests = tcase_create("splice");
    tcase_set_timeout(tests, 120);
    if (argc < 3 || mm_shim_read(argv[1], &fragment)) return fprintf(stderr, "usage: test_splice FRAGMENT PTX...\n"), 2;
    files = argv + 2;
    file_count = argc - 2;
    tcase_add_test(tests, tokens_are_whole);
    tcase_add_loop_test(tests, bad_input_is_refused, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tests, zero_byte_is_refused);
    tcase_add_test(tests, names_of_ours_are_refused);
    tcase_add_test(tests, names_of_users_stay);
    tcase_add_test(tests, cut_text_never_passes_unseen);
    tcase_add_loop_test(tests, nvcc_output_is_spliced, 0, file_count);
    tcase_add_test(tests, header_is_read_from_text);
    tcase_add_test(tests, fragment_is_renamed);
    tcase_add_loop_test(tests, bad_device_code_is_refused, 0, (int)(sizeof bad_device / sizeof *bad_device));
    tcase_add_test(tests, fragment_is_private);
    tcase_add_test(tests, bad_fragment_is_refused);
    tcase_add_test(tests, newest_fragment_that_is_not_newer);
    tcase_add_loop_test(tests, declarations_are_found, 0, (int)(sizeof declarations / sizeof *declarations));
    tcase_add_loop_test(tests, names_are_hidden_and_shown, 0, (int)(sizeof hiding / sizeof *hiding));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
