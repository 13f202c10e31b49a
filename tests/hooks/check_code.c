/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of taking over code at load time (interpose/preload/jit.h), against the stand-in driver: the results of the client
 * programs (client_*.c), and the messages about code that keeps CUDA's malloc. */
#define _GNU_SOURCE
#include "tests/hooks/suite.h"

#define KEEPS "mm: PTX loaded at run time keeps CUDA's own malloc: "
#define NO_CONTEXT "no context can be had for the driver's linker\n"
#define REFUSED "mm: code loaded at run time keeps CUDA's own malloc: the driver does not take it with mm's "
static const struct {
    const char *name, *setting, *err;
} kept[] = {
    {"architecture", NULL, KEEPS "mm has no machine code for sm_139; build mm with it in ARCHS\n"},
    {"refused", NULL, REFUSED "(error 200)\n"},
    {"off", "MM_OFF=1", ""},
    {"off", "MM_RUN_ALLOCATOR=cuda", ""},
};

START_TEST(what_cannot_be_taken_over_is_loaded_as_it_is) {
    const char *setting = kept[_i].setting ? kept[_i].setting : "MM_UNSET";
    struct result r = RUN(SETTINGS(preload_mm, setting), "./client", "v2-legacy", "jit-kept", kept[_i].name);
    expect(&r, 0, "", kept[_i].err);
    r = RUN(SETTINGS(setting), "./client_hook_plain", "plain", "jit-kept", kept[_i].name);
    expect(&r, 0, "", kept[_i].err);
    r = RUN(SETTINGS(setting), "./client_hook", "symbols", "jit-kept", kept[_i].name);
    expect(&r, 0, "", kept[_i].err);
}
END_TEST

START_TEST(every_text_is_told_of_if_asked) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_VERBOSE=1"), "./client", "v2-legacy", "jit-kept", "architecture");
    int lines = 0;
    for (const char *at = r.err; (at = strstr(at, "keeps CUDA's own malloc: mm has no machine code")); at++) lines++;
    ck_assert_msg(r.status == 0 && lines == 8, "%d lines: %s", lines, r.err);
}
END_TEST

START_TEST(errors_of_loading_are_the_drivers) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "jit-errors");
    expect(&r, 0, "", REFUSED "(CUDA_ERROR_UNKNOWN)\n");
}
END_TEST

#define CUBIN_KEEPS "mm: machine code loaded at run time keeps CUDA's own malloc: "
static const struct {
    const char *name, *err;
} links[] = {{"link-options", KEEPS "its options are not understood\n"},
             {"link-fails", KEEPS "the GPU is not known\n"},
             {"link-objects", KEEPS "of the linked image, mm's functions are not in it\n"},
             {"link-library", KEEPS "its options are not understood\n"},
             {"link-threads", ""},
             {"link-limits", KEEPS "cuLinkComplete answers CUDA_ERROR_INVALID_PTX\n"},
             {"fatbin", KEEPS "mm has no machine code for sm_139; build mm with it in ARCHS\n"},
             {"fatbin-code", CUBIN_KEEPS "its images for the GPUs here are not alike\n"},
             {"cubin-damaged", ""},
             {"link-never", ""}};
enum { LINKS = sizeof links / sizeof *links };

START_TEST(texts_become_machine_code) {
    const char *const name = links[_i].name;
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", name);
    expect(&r, 0, "", links[_i].err);
    r = RUN(NULL, "./client_hook", "symbols", name);
    expect(&r, 0, "", links[_i].err);
    r = RUN(NULL, "./client", "v2-legacy", name);
    ck_assert_msg(r.status == (_i < LINKS - 2), "%s without libmm.so: status %d", name, r.status);
}
END_TEST

/* With MM_VERBOSE=1 the scenario prints all of these on standard error, in this order. */
static void expect_in_order(const char *scenario, const char *const *parts, size_t count) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_VERBOSE=1"), "./client", "v2-legacy", scenario);
    const char *at = r.err;
    for (size_t i = 0; i < count; i++) {
        at = strstr(at, parts[i]);
        ck_assert_msg(r.status == 0 && at, "no \"%s\" in its place in \"%s\"", parts[i], r.err);
        at++;
    }
}

START_TEST(why_a_text_does_not_link_is_told_if_asked) {
    static const char *const reasons[] = {"mm: PTX that was built without mm is linked with it\n",
                                          KEEPS "the GPU is not known\n",
                                          KEEPS "the GPU is not known\n",
                                          KEEPS "the GPU is not known\n",
                                          KEEPS NO_CONTEXT,
                                          KEEPS "cuLinkCreate answers CUDA_ERROR_UNKNOWN\n",
                                          KEEPS "cuLinkAddData answers CUDA_ERROR_UNKNOWN\n",
                                          KEEPS "cuLinkAddData answers CUDA_ERROR_UNKNOWN\n",
                                          KEEPS "cuLinkComplete answers CUDA_ERROR_UNKNOWN: error: no\n",
                                          "mm: PTX that was built without mm is linked with it\n",
                                          KEEPS "cuLinkAddData answers error 209\n",
                                          REFUSED "(error 200)\n"};
    expect_in_order("link-fails", reasons, sizeof reasons / sizeof *reasons);
}
END_TEST

START_TEST(mms_names_never_reach_the_driver) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "jit-names");
    expect(&r, 0, "", KEEPS "cuLinkAddData answers error 209\n");
    r = RUN(NULL, "./client_hook", "symbols", "jit-names");
    expect(&r, 0, "", KEEPS "cuLinkAddData answers error 209\n");
    r = RUN(SETTINGS(preload_mm, "MM_RUN_ALLOCATOR=cuda"), "./client", "v2-legacy", "jit-names");
    expect(&r, 0, "", "");
    r = RUN(NULL, "./client", "v2-legacy", "jit-names");
    ck_assert_int_eq(r.status, 1);
}
END_TEST

/* The allocator that a text was compiled for is read from the folder of libmm.so.1, unlike that of the run. */
START_TEST(a_text_names_its_allocator) {
#define NOT_IN(name) "mm: the allocator random-walk-" name " is not in ./named/allocators; make allocators builds it; using mm\n"
#define ANSWERS KEEPS "cuLinkAddData answers error 209\n"
    static const char named[] = "LD_PRELOAD=./named/libmm.so.1";
    char command[9000];
    const char *const lib = preload_mm + strlen("LD_PRELOAD=");
    snprintf(command, sizeof command,
             "rm -rf named && mkdir -p named/allocators/random-walk-coop && cp %s named && cp %.*s/../device/linked named/allocators/random-walk-coop && "
             "mkdir named/allocators/circular && printf '\\120\\355\\125\\272\\1\\0\\20\\0\\0\\0\\0\\0\\0\\0\\0\\0' >named/allocators/circular/linked",
             lib, (int)(strrchr(lib, '/') - lib), lib);
    ck_assert_int_eq(system(command), 0);
    struct result r = RUN(SETTINGS(named), "./client", "v2-legacy", "jit-names", "_random_walk_coop");
    expect(&r, 0, "", ANSWERS);
    r = RUN(SETTINGS(named), "./client", "v2-legacy", "jit-names", "_random_walk_runs");
    expect(&r, 0, "", NOT_IN("runs") ANSWERS); /* once, however often it is loaded */
    r = RUN(SETTINGS(named, "MM_RUN_ALLOCATOR=random-walk-runs"), "./client", "v2-legacy", "jit-names", "_random_walk_coop");
    expect(&r, 0, "", NOT_IN("runs") ANSWERS); /* the run's is looked for, but the text has its own */
    r = RUN(SETTINGS(named, "MM_RUN_ALLOCATOR=random-walk-runs"), "./client", "v2-legacy", "jit-names");
    expect(&r, 0, "", NOT_IN("runs") ANSWERS);                                   /* the default's names: the run's */
    r = RUN(SETTINGS(named), "./client", "v2-legacy", "jit-names", "_circular"); /* its file is a fat binary without code */
    expect(&r, 1, NULL, KEEPS "mm has no machine code for sm_90; build mm with it in ARCHS\n");
    r = RUN(SETTINGS(named, "MM_RUN_ALLOCATOR=random-walk-coop"), "./client", "v2-legacy", "prepared-for-another");
    expect(&r, 0, "", "mm: a module was built with the allocator gallatin, and keeps it, in spite of MM_RUN_ALLOCATOR\n");
    r = RUN(SETTINGS(named, "MM_RUN_ALLOCATOR=cuda"), "./client", "v2-legacy", "jit-names", "_random_walk_coop");
    expect(&r, 0, "", "");
}
END_TEST

static const struct {
    const char *how, *err;
} cubins[] = {
    {"links", CUBIN_KEEPS "cuLinkCreate answers CUDA_ERROR_NOT_SUPPORTED\n"},
    {"device", CUBIN_KEEPS "cuLinkAddData answers error 209\n"},
    {"changed", CUBIN_KEEPS "of the linked image, .text.kernel has changed\n"},
    {"unfinished", CUBIN_KEEPS "of the linked image, the link made no finished image\n"},
    {"refused", REFUSED "(error 200)\n"},
};

START_TEST(machine_code_that_does_not_link_is_loaded_as_it_is) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "cubin-kept", cubins[_i].how);
    expect(&r, 0, "", cubins[_i].err);
    r = RUN(NULL, "./client_hook", "symbols", "cubin-kept", cubins[_i].how);
    expect(&r, 0, "", cubins[_i].err);
}
END_TEST

START_TEST(machine_code_is_told_of_if_asked) {
    static const char *const lines[] = {"mm: machine code that was built without mm is linked with it\n",
                                        CUBIN_KEEPS "the GPU is not known\n",
                                        CUBIN_KEEPS NO_CONTEXT,
                                        CUBIN_KEEPS "cuLinkCreate answers CUDA_ERROR_UNKNOWN\n",
                                        CUBIN_KEEPS "cuLinkAddData answers CUDA_ERROR_UNKNOWN\n",
                                        CUBIN_KEEPS "cuLinkAddData answers CUDA_ERROR_UNKNOWN\n",
                                        CUBIN_KEEPS "cuLinkComplete answers CUDA_ERROR_UNKNOWN: error: no\n",
                                        "mm: machine code that was built without mm is linked with it\n"};
    expect_in_order("cubin-fails", lines, sizeof lines / sizeof *lines);
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "cubin-fails"); /* reported once per process */
    expect(&r, 0, "", CUBIN_KEEPS "the GPU is not known\n");
}
END_TEST

START_TEST(no_code_is_taken_over_if_mm_is_off) {
    static const char *const names[] = {"link-never", "fatbin", "fatbin-code", "jit-names", "cubins", "cubin-links"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct result r = RUN(SETTINGS(preload_mm, "MM_OFF=1"), "./client", "v2-legacy", names[i]);
        expect(&r, 0, "", "");
    }
}
END_TEST

START_TEST(cudas_allocator_as_far_as_possible) {
    static const char kept[] = "mm: machine code with mm in it keeps it, in spite of MM_RUN_ALLOCATOR=cuda: there is no PTX of it\n";
    for (int i = 0; i < 2; i++) {
        struct result r = RUN(SETTINGS(preload_mm, "MM_RUN_ALLOCATOR=cuda"), "./client", "v2-legacy", i ? "fatbin-cudas" : "cudas");
        expect(&r, 0, "", i ? kept : "");
        r = RUN(SETTINGS("MM_RUN_ALLOCATOR=cuda"), "./client_hook", "symbols", i ? "fatbin-cudas" : "cudas");
        expect(&r, 0, "", i ? kept : "");
    }
    struct result r = RUN(SETTINGS(preload_mm, "MM_RUN_ALLOCATOR=mm"), "./client", "v2-legacy", "cubins");
    expect(&r, 0, "", "");
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("code");
    TCase *c = tcase_create("code");
    tcase_set_timeout(c, 100);
    tcase_add_loop_test(c, what_cannot_be_taken_over_is_loaded_as_it_is, 0, sizeof kept / sizeof *kept);
    tcase_add_test(c, every_text_is_told_of_if_asked);
    tcase_add_test(c, errors_of_loading_are_the_drivers);
    tcase_add_loop_test(c, texts_become_machine_code, 0, LINKS);
    tcase_add_test(c, why_a_text_does_not_link_is_told_if_asked);
    tcase_add_test(c, mms_names_never_reach_the_driver);
    tcase_add_test(c, a_text_names_its_allocator);
    tcase_add_test(c, cudas_allocator_as_far_as_possible);
    tcase_add_loop_test(c, machine_code_that_does_not_link_is_loaded_as_it_is, 0, sizeof cubins / sizeof *cubins);
    tcase_add_test(c, machine_code_is_told_of_if_asked);
    tcase_add_test(c, no_code_is_taken_over_if_mm_is_off);
    suite_add_tcase(s, c);
    return suite_run(s);
}
