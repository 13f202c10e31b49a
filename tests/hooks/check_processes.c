/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of processes with libmm.so.1: forks, programs without CUDA, what the library costs them, and mmrun. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "tests/hooks/effort.h"
#include "tests/hooks/suite.h"

#define FORKED                                                                                                     \
    "mm: this process was forked from one that used the GPU, where CUDA does not work; it has no heap and leaves " \
    "its parent's alone\n"

START_TEST(forks) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "fork");
    expect(&r, 0, "", FORKED);
    r = RUN(NULL, "./client_hook_plain", "plain", "fork");
    expect(&r, 0, "", FORKED);
    r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "fork-first");
    expect(&r, 0, "16\n", "");
}
END_TEST

START_TEST(next_of_a_third_library) {
    char both[8192];
    struct result r = RUN(SETTINGS("LD_PRELOAD=./libthird.so"), "./nocuda", "answer");
    expect(&r, 0, "11\n", "");
    snprintf(both, sizeof both, "%s:./libthird.so", preload_mm);
    r = RUN(SETTINGS(both), "./nocuda", "answer");
    expect(&r, 0, "11\n", "");
    snprintf(both, sizeof both, "LD_PRELOAD=./libthird.so:%s", preload_mm + strlen("LD_PRELOAD="));
    r = RUN(SETTINGS(both), "./nocuda", "answer");
    expect(&r, 0, "11\n", "");
    r = RUN(SETTINGS("LD_PRELOAD=./libthird_hook.so"), "./nocuda", "answer"); /* its own hidden dlsym */
    expect(&r, 0, "11\n", "");
}
END_TEST

START_TEST(program_without_cuda) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_HEAP_SIZE=banana", "MM_VERBOSE=1"), "./nocuda", "nothing");
    expect(&r, 0, "one thread, libmm: yes\n", ""); /* no thread, no message */
    r = RUN(NULL, "./nocuda_hook", "nothing");
    expect(&r, 0, "one thread, libmm: no\n", ""); /* not even loaded */
}
END_TEST

/* At most a millisecond, on any machine: bounds on additional instructions, page faults and system calls; only calls that load a library, and fcntl. */
enum { MORE_INSTRUCTIONS = 100000, MORE_FAULTS = 100, MORE_CALLS = 20 };
static const char *const quick[] = {"./nocuda", "quick", NULL};

/* The kind of cost by which a start with these settings exceeds `floor` by too much; "" if none does. most: instructions to count. */
static const char *too_much(const struct effort *floor, long most, const char *const *settings) {
    static const long loading[] = {SYS_openat,   SYS_read,   SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_mmap,
                                   SYS_mprotect, SYS_munmap, SYS_close,   SYS_brk,   SYS_fcntl};
    const struct effort is = effort_of(settings, quick, most);
    long calls = 0, other = -1;
    for (long nr = 0; nr < EFFORT_CALLS; nr++) {
        bool loads = false;
        for (size_t i = 0; i < sizeof loading / sizeof *loading; i++) loads |= nr == loading[i];
        calls += is.calls[nr] - floor->calls[nr];
        if (!loads && is.calls[nr] > floor->calls[nr]) other = nr;
    }
    printf("start of a program without CUDA, %s: %ld instructions, %ld page faults, %ld system calls more\n", settings[2] ? settings[2] : settings[1],
           is.instructions - floor->instructions, is.faults - floor->faults, calls);
    if (is.instructions - floor->instructions >= MORE_INSTRUCTIONS) return "instructions";
    if (is.faults - floor->faults > MORE_FAULTS) return "page faults";
    return other >= 0 || calls > MORE_CALLS ? "system calls" : "";
}

START_TEST(start_costs_little) {
    const struct effort floor = effort_of(NULL, quick, 1l << 30);
    const long most = floor.instructions + MORE_INSTRUCTIONS;
    ck_assert_str_eq(too_much(&floor, most, SETTINGS(preload_mm)), "");
    ck_assert_str_eq(too_much(&floor, most, SETTINGS("LD_PRELOAD=./libslow.so", "SLOW=spin")), "instructions");
    ck_assert_str_eq(too_much(&floor, 0, SETTINGS("LD_PRELOAD=./libslow.so", "SLOW=touch")), "page faults");
    ck_assert_str_eq(too_much(&floor, 0, SETTINGS("LD_PRELOAD=./libslow.so", "SLOW=sleep")), "system calls");
}
END_TEST

START_TEST(only_our_kernels_make_a_thread) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "thread");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(launches_cost_little) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "cost");
    expect(&r, 0, NULL, "");
    printf("%s", r.out);
}
END_TEST

START_TEST(mmrun_runs) {
    struct result r = RUN(NULL, mmrun, "./client", "v2-legacy", "function");
    expect(&r, 0, "", "");
    r = RUN(NULL, mmrun, "sh", "-c", "exit 7");
    expect(&r, 7, "", "");
    r = RUN(NULL, mmrun, "./nocuda", "a b", "*");
    expect(&r, 0, "[a b][*]\n", "");
    r = RUN(NULL, mmrun, "no-such-command");
    expect(&r, 127, "", "mmrun: command not found: no-such-command\n");
    r = RUN(NULL, mmrun, "./libthird.c");
    expect(&r, 127, "", NULL);
    r = RUN(NULL, mmrun, "/etc/passwd");
    expect(&r, 126, "", "mmrun: not an executable file: /etc/passwd\n");
    r = RUN(NULL, mmrun);
    expect(&r, 125, "", "mmrun: no command given; see mmrun --help\n");
    r = RUN(NULL, mmrun, "--bogus");
    expect(&r, 125, "", "mmrun: unknown option --bogus; see mmrun --help\n");
    r = RUN(NULL, mmrun, "--stats=xml", "true");
    expect(&r, 125, "", "mmrun: --stats=xml is not understood; expected text, json or csv\n");
    r = RUN(NULL, mmrun, "--heap-map", "heap.svg", "true");
    expect(&r, 125, "", "mmrun: --heap-map wants a file: --heap-map=FILE\n");
    r = RUN(NULL, mmrun, "--fill=ones", "true");
    expect(&r, 125, "", "mmrun: --fill=ones is not understood; expected none, zero or junk\n");
    r = RUN(NULL, mmrun, "--allocator=cudas", "true");
    expect(
        &r, 125, "",
        "mmrun: --allocator=cudas is not understood; expected mm, cuda, or one of: gallatin random-walk random-walk-bitmap random-walk-coop random-walk-runs atomic aw "
        "circular circular-fused circular-multi circular-multi-fused ouroboros-s-p ouroboros-va-p ouroboros-vl-p ouroboros-s-c ouroboros-va-c ouroboros-vl-c\n");
    r = RUN(NULL, mmrun, "--allocator=circular-multi", "sh", "-c", "echo $MM_RUN_ALLOCATOR");
    if (r.status != 0) /* make allocators has not built it here */
        ck_assert(r.status == 125 && strncmp(r.err, "mmrun: the allocator circular-multi is not in ", 46) == 0);
    else expect(&r, 0, "circular-multi\n", "");
    r = RUN(NULL, mmrun, "--allocator=gallatin", "sh", "-c", "echo $MM_RUN_ALLOCATOR");
    expect(&r, 0, "gallatin\n", "");
    r = RUN(NULL, mmrun, "--stats", "--stats-file=a b", "--heap-map=%l", "--check", "--fill=junk", "--allocator=cuda", "sh", "-c",
            "echo $MM_STATS,$MM_STATS_FILE,$MM_HEAP_MAP,$MM_CHECK,$MM_FILL,$MM_RUN_ALLOCATOR");
    expect(&r, 0, "text,a b,%l,1,junk,cuda\n", "");
    r = RUN(NULL, mmrun, "--trace=a b", "sh", "-c", "echo $MM_TRACE");
    expect(&r, 0, "a b\n", "");
    r = RUN(NULL, mmrun, "--map-series=a b.svg", "--profile=%p c.svg", "sh", "-c", "echo $MM_MAP_SERIES,$MM_PROFILE");
    expect(&r, 0, "a b.svg,%p c.svg\n", "");
    static const char *const of_files[] = {"--map-series", "--profile"};
    for (int i = 0; i < 4; i++) {
        char option[32], line[100];
        snprintf(option, sizeof option, "%s%s", of_files[i / 2], i % 2 ? "=" : "");
        snprintf(line, sizeof line, "mmrun: %s wants a file: %s=FILE\n", of_files[i / 2], of_files[i / 2]);
        r = RUN(NULL, mmrun, option, "true");
        expect(&r, 125, "", line);
    }
    r = RUN(NULL, mmrun, "--trace=", "true");
    expect(&r, 125, "", "mmrun: --trace wants a file: --trace=FILE\n");
    r = RUN(NULL, mmrun, "--trace", "true");
    expect(&r, 125, "", "mmrun: --trace wants a file: --trace=FILE\n");
    r = RUN(NULL, mmrun, "--fail=1/100:3", "sh", "-c", "echo $MM_FAIL");
    expect(&r, 0, "1/100:3\n", "");
    r = RUN(NULL, mmrun, "--fail=kernel:f", "sh", "-c", "echo $MM_FAIL");
    expect(&r, 0, "kernel:f\n", "");
    static const char *const wrong[] = {"--fail", "--fail=", "--fail=x", "--fail=kernel:", "--fail=3x", "--fail=:1", "--fail=/2", "--fail=1/x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[160];
        snprintf(line, sizeof line, "mmrun: %s is not understood; expected 1/N, 1/N:SEED, K or kernel:NAME\n", wrong[i]);
        r = RUN(NULL, mmrun, wrong[i], "true");
        expect(&r, 125, "", line);
    }
    r = RUN(NULL, mmrun, "--pool=async", "sh", "-c", "echo $MM_POOL");
    expect(&r, 0, "async\n", "");
    r = RUN(NULL, mmrun, "--pool=on", "true");
    expect(&r, 125, "", "mmrun: --pool=on is not understood; expected off, small, keep or async\n");
    r = RUN(NULL, mmrun, "--stats=json", "--", "./client", "v2-legacy", "function");
    ck_assert_msg(r.status == 0 && strncmp(r.err, "{\"mm_statistics\":1,", 19) == 0, "%s", r.err);
    r = RUN(NULL, mmrun, "--help");
    ck_assert(r.status == 0 && strncmp(r.out, "usage: mmrun [OPTION...] COMMAND", 32) == 0);
    r = RUN(NULL, mmrun, "--version");
    ck_assert(r.status == 0 && strstr(r.out, MM_VERSION ", agreement version " MM_STR(MM_ABI_VERSION)) && strstr(r.out, "libmm.so.1"));
    r = RUN(SETTINGS("LD_PRELOAD=./libthird.so"), mmrun, "./nocuda", "answer"); /* an existing LD_PRELOAD is kept */
    expect(&r, 0, "11\n", "");
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("processes");
    TCase *c = tcase_create("processes");
    tcase_set_timeout(c, 100);
    tcase_add_test(c, forks);
    tcase_add_test(c, next_of_a_third_library);
    tcase_add_test(c, program_without_cuda);
    tcase_add_test(c, only_our_kernels_make_a_thread);
    tcase_add_test(c, launches_cost_little);
    tcase_add_test(c, mmrun_runs);
    suite_add_tcase(s, c);
    TCase *start = tcase_create("start");
    tcase_set_timeout(start, 300); /* single-stepped */
    tcase_add_test(start, start_costs_little);
    suite_add_tcase(s, start);
    return suite_run(s);
}
