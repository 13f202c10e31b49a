/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the hooks and the host side of the heap, against the stand-in driver. Runs the client programs
 * (client_*.c) and compares their exit status, output and error messages. */
#define _GNU_SOURCE
#include "tests/hooks/suite.h"

/* ---- every way of reaching the driver, every scenario ----------------------------------------------- */

static const struct {
    const char *program, *way;
    bool preload;
} ways[] = {
    {"./client", "symbols", true},
    {"./client", "v2-legacy", true},
    {"./client", "v2-ptsz", true},
    {"./client", "v2-through", true},
    {"./client", "v1", true},
    {"./client_hook", "symbols", false},
    {"./client_hook", "v2-legacy", false},
    {"./client_hook", "v2-ptsz", false},
    {"./client_hook", "v1", false},
    {"./client_hook", "v2-legacy", true},
    {"./client_plain", "plain", true},
    {"./client_hook_plain", "plain", false},
    {"./plugin_host", "v2-legacy", false},
    {"./plugin_host", "symbols", true},
};
static const char *const scenarios[] = {
    "function",       "kernel", "every-launch", "race",        "contexts", "reset",      "unload", "capture",  "limit",          "ends",
    "recycled",       "jit",    "cubins",       "cubin-links", "green",    "green-last", "detach", "prepared", "prepared-later", "prepared-for-another",
    "prepared-fails", "answers"};
enum { WAYS = sizeof ways / sizeof *ways, SCENARIOS = sizeof scenarios / sizeof *scenarios };

START_TEST(way_and_scenario) {
    int w = _i / SCENARIOS;
    struct result r = RUN(ways[w].preload ? SETTINGS(preload_mm) : NULL, ways[w].program, ways[w].way, scenarios[_i % SCENARIOS]);
    ck_assert_msg(r.status == 0 && !*r.err, "%s %s %s: status %d; \"%s\" \"%s\"", ways[w].program, ways[w].way, scenarios[_i % SCENARIOS], r.status, r.out,
                  r.err);
}
END_TEST

START_TEST(without_libmm_the_test_fails) { /* shows that the tests above can fail */
    struct result r = RUN(NULL, "./client", "v2-legacy", scenarios[_i]);
    ck_assert_msg(r.status == 1, "%s passes without libmm.so: status %d", scenarios[_i], r.status);
}
END_TEST

START_TEST(handles_found_past_us) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "unknown");
    expect(&r, 0, "", "");
    r = RUN(NULL, "./client_hook", "v2-legacy", "unknown");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(lookups) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "lookups");
    expect(&r, 0, "", "");
    r = RUN(NULL, "./client_hook", "v2-legacy", "lookups");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(real_cudart) { /* cudart looks its functions up; those it keeps must be our hooks */
    struct result r = RUN(SETTINGS(preload_mm, "STANDIN_EVERYTHING=1"), "./cudart_static");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS("STANDIN_EVERYTHING=1"), "./cudart_static_hook");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS("STANDIN_EVERYTHING=1"), "./cudart_shared_hook"); /* it calls the process's dlsym */
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "STANDIN_EVERYTHING=1"), "./cudart_shared");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS("STANDIN_EVERYTHING=1"), "./cudart_static");
    ck_assert_int_eq(r.status, 1); /* the test can fail */
}
END_TEST

#define COOP "other " MM_STR(MM_ABI_VERSION) "_random_walk_coop"
#define RUNS "other " MM_STR(MM_ABI_VERSION) "_random_walk_runs"
#define NOT_CHECKED(name) "mm: device 0: not checked: random-walk-" name " has no checked runs\n"
#define NOT_TRACED(name) "mm: device 0: not traced: random-walk-" name " has no traces\n"
#define NOT_PROFILED "mm: device 0: not profiled: random-walk-runs has no profiles\n"
#define FOREIGN "mm: device 0: invalid free(%s), a pointer of another allocator, another GPU's heap or the stack, by thread (1,0,0) of block (0,0,0)\n"
START_TEST(allocators_of_two_modules) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "siblings", COOP, "mm");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "siblings", "mm", COOP);
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_CHECK=1"), "./client", "v2-legacy", "siblings", RUNS, COOP);
    expect(&r, 0, "", NOT_CHECKED("runs") NOT_CHECKED("coop"));
    r = RUN(SETTINGS(preload_mm, "MM_TRACE=of_two.trace"), "./client", "v2-legacy", "siblings", RUNS, COOP);
    expect(&r, 0, "", NOT_TRACED("runs") NOT_TRACED("coop"));
    ck_assert(access("of_two.trace", F_OK) != 0);
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=of_two.svg"), "./client", "v2-legacy", "siblings", "mm", RUNS);
    ck_assert_msg(r.status == 0 && strncmp(r.err, NOT_PROFILED, strlen(NOT_PROFILED)) == 0 && strstr(r.err, "mm: device 0: profile in of_two.svg: "), "%s",
                  r.err);
    ck_assert(unlink("of_two.svg") == 0 && access("of_two.random-walk-runs.svg", F_OK) != 0);
    r = RUN(SETTINGS(preload_mm, "MM_STATS=1", "MM_HEAP_MAP=of_two"), "./client", "v2-legacy", "siblings", "mm", COOP);
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: device 0: allocator: random-walk-coop\n") && !strstr(r.err, "allocator: gallatin"), "%s", r.err);
    ck_assert(access("of_two", R_OK) == 0 && access("of_two.random-walk-coop", R_OK) == 0);
    unlink("of_two"), unlink("of_two.random-walk-coop");
}
END_TEST

/* Each heap reports the misuse that happened in it, in the words of one heap. */
START_TEST(two_heaps_of_a_context) {
    const char *const pairs[][2] = {{"mm", COOP}, {COOP, "mm"}, {RUNS, COOP}};
    for (int i = 0; i < 3; i++) {
        char address[2][32], line[256];
        struct result r = RUN(i ? SETTINGS(preload_mm, "MM_TRIM=1") : SETTINGS("MM_TRIM=1"), i ? "./client" : "./client_hook", "v2-legacy", "two-heaps",
                              pairs[i][0], pairs[i][1]);
        ck_assert_msg(sscanf(r.out, "%31s %31s", address[0], address[1]) == 2, "%d: status %d; \"%s\" \"%s\"", i, r.status, r.out, r.err);
        ck_assert_msg(r.status == 0, "%d: status %d; \"%s\" \"%s\"", i, r.status, r.out, r.err);
        for (int k = 0; k < 2; k++) { /* in any order: each heap has a thread */
            snprintf(line, sizeof line, FOREIGN, address[k]);
            ck_assert_msg(strstr(r.err, line), "%d: \"%s\" has no \"%s\"", i, r.err, line);
        }
    }
}
END_TEST

#define AW "other " MM_STR(MM_ABI_VERSION) "_aw"
#define UNSAFE "mm: the allocator aw hands out memory that is in use"
START_TEST(an_unsafe_allocator) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_ALLOW_UNSAFE=1"), "./client", "v2-legacy", "siblings", AW, "mm");
    expect(&r, 0, "", UNSAFE " (MM_ALLOW_UNSAFE=1)\n");
    r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "siblings", "mm", AW, "refused");
    expect(&r, 0, "", UNSAFE "; a module's kernels get no heap; MM_ALLOW_UNSAFE=1 lets them have it\n");
}
END_TEST

START_TEST(an_allocator_that_is_asked_for) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_RUN_ALLOCATOR=mm"), "./client", "v2-legacy", "siblings", COOP, "mm");
    expect(&r, 0, "", "mm: a module was built with the allocator random-walk-coop, and keeps it, in spite of MM_RUN_ALLOCATOR\n");
    r = RUN(SETTINGS(preload_mm, "MM_RUN_ALLOCATOR=gallatin"), "./client", "v2-legacy", "siblings", "mm", COOP);
    expect(&r, 0, "", "mm: a module was built with the allocator random-walk-coop, and keeps it, in spite of MM_RUN_ALLOCATOR\n");
}
END_TEST

START_TEST(own_definitions_win) {
    for (int i = 0; i < 5; i++) {
        char program[32];
        snprintf(program, sizeof program, "./own%d", i);
        struct result r = RUN(NULL, program);
        expect(&r, 0, "7 8\n", "");
    }
}
END_TEST

START_TEST(hook_without_libmm) { /* the library is missing: behaves as without the object */
    struct result r = RUN(NULL, "./client_orphan", "v2-legacy", "orphan");
    expect(&r, 0, "", "");
}
END_TEST

#define OTHER(version)                                                                                    \
    "mm: a module was compiled with agreement version " version " of mm, this libmm.so.1 (mm " MM_VERSION \
    ") has " MM_STR(MM_ABI_VERSION) "; its kernels get no heap; compile it again with this mm, or start the program with the mmrun of its own\n"

START_TEST(modules_of_other_versions_are_told_of_once) {
    const int versions[] = {MM_ABI_VERSION - 1, MM_ABI_VERSION + 1, MM_ABI_VERSION + MM_ABI_OTHERS, MM_ABI_VERSION + MM_ABI_OTHERS + 1};
    for (int i = 0; i < 4; i++) {
        char image[64], line[512];
        snprintf(line, sizeof line, OTHER("%d"), versions[i]);
        for (int allocator = 0; allocator < 2; allocator++) {
            snprintf(image, sizeof image, "other %d%s", versions[i], allocator ? "_circular_multi_fused" : "");
            struct result r = RUN(i % 2 ? NULL : SETTINGS(preload_mm), i % 2 ? "./client_hook" : "./client", "v2-legacy", "other-version", image);
            expect(&r, 0, "", i < 3 ? line : ""); /* versions that far away are not looked for */
        }
    }
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "other-version-once");
    expect(&r, 0, "", "");
}
END_TEST

/* ---- mm.h ----------------------------------------------------------------------------------------- */

START_TEST(statistics_and_reset) {
    static const struct {
        const char *setting, *scenario, *argument;
    } cases[] = {{"MMX=1", "statistics", NULL},
                 {"MM_HEAP_MAX=1G", "reset-all", NULL},
                 {"MMX=1", "reset-races", NULL},
                 {"MM_HEAP_SIZE=64M", "reset-fixed", "64"},
                 {"MM_HEAP_SIZE=64M", "reset-fixed", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 0; way < 3; way++) {
            static const char *const programs[] = {"./client", "./client_hook", "./plugin_host"};
            struct result r = RUN(way == 0 ? SETTINGS(preload_mm, cases[i].setting) : SETTINGS(cases[i].setting), programs[way], "v2-legacy", cases[i].scenario,
                                  cases[i].argument);
            ck_assert_msg(r.status == 0, "%s %s: status %d; \"%s\" \"%s\"", programs[way], cases[i].scenario, r.status, r.out, r.err);
        }
    struct result r = RUN(NULL, "./client_orphan", "v2-legacy", "no-run-time");
    expect(&r, 0, "", "");
    r = RUN(NULL, "./client", "v2-legacy", "statistics"); /* the test can fail */
    ck_assert_int_eq(r.status, 1);
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("hooks");
    TCase *c = tcase_create("hooks");
    tcase_set_timeout(c, 100);
    tcase_add_loop_test(c, way_and_scenario, 0, WAYS * SCENARIOS);
    tcase_add_loop_test(c, without_libmm_the_test_fails, 0, SCENARIOS - 1); /* "answers" needs no heap */
    tcase_add_test(c, handles_found_past_us);
    tcase_add_test(c, lookups);
    tcase_add_test(c, real_cudart);
    tcase_add_test(c, own_definitions_win);
    tcase_add_test(c, hook_without_libmm);
    tcase_add_test(c, modules_of_other_versions_are_told_of_once);
    tcase_add_test(c, allocators_of_two_modules);
    tcase_add_test(c, two_heaps_of_a_context);
    tcase_add_test(c, an_unsafe_allocator);
    tcase_add_test(c, an_allocator_that_is_asked_for);
    tcase_add_test(c, statistics_and_reset);
    suite_add_tcase(s, c);
    return suite_run(s);
}
