/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the hooks and the host side of the heap, against the stand-in driver. Runs the client programs
 * (client_*.c) and compares their exit status, output and error messages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "tests/hooks/effort.h"
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
        char image[32], line[512];
        snprintf(image, sizeof image, "other %d", versions[i]);
        snprintf(line, sizeof line, OTHER("%d"), versions[i]);
        struct result r = RUN(i % 2 ? NULL : SETTINGS(preload_mm), i % 2 ? "./client_hook" : "./client", "v2-legacy", "other-version", image);
        expect(&r, 0, "", i < 3 ? line : ""); /* versions that far away are not looked for */
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

/* ---- sizes -------------------------------------------------------------------------------------- */

#define NOT_A_SIZE                                                                                             \
    " is not a size; expected bytes above 0, also with K, M, G or T (8G), or 1% to 100% of the GPU's memory; " \
    "using the default\n"
#define NOT_MS " is not understood; expected milliseconds, 0 to 60000; using 2000\n"
#define LESS(asked) "mm: heap on device 0 is 7.3 GiB instead of " asked " (8.0 GiB are free, a part stays so for the driver)\n"

static const struct {
    const char *setting, *segments, *err;
} sizes[] = {
    {"MM_HEAP_SIZE=1G", "1024\n", ""},
    {"MM_HEAP_SIZE=1g", "1024\n", ""},
    {"MM_HEAP_SIZE=64M", "64\n", ""},
    {"MM_HEAP_SIZE=4097K", "6\n", ""},
    {"MM_HEAP_SIZE=1", "2\n", ""},
    {"MM_HEAP_SIZE=50%", "4096\n", ""},
    {"MM_HEAP_SIZE=100%", "7522\n", LESS("8.0 GiB")},
    {"MM_HEAP_SIZE=99999T", "7522\n", LESS("99999.0 TiB")},
    {"MM_HEAP_SIZE=99999999999999999999", "7522\n", LESS("16777216.0 TiB")},
    {"MM_HEAP_SIZE=banana", "16\n", "mm: MM_HEAP_SIZE=banana" NOT_A_SIZE},
    {"MM_HEAP_SIZE=-1", "16\n", "mm: MM_HEAP_SIZE=-1" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0", "16\n", "mm: MM_HEAP_SIZE=0" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0%", "16\n", "mm: MM_HEAP_SIZE=0%" NOT_A_SIZE},
    {"MM_HEAP_SIZE=150%", "16\n", "mm: MM_HEAP_SIZE=150%" NOT_A_SIZE},
    {"MM_HEAP_SIZE= 1G", "16\n", "mm: MM_HEAP_SIZE= 1G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1G ", "16\n", "mm: MM_HEAP_SIZE=1G " NOT_A_SIZE},
    {"MM_HEAP_SIZE=1GB", "16\n", "mm: MM_HEAP_SIZE=1GB" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1.5G", "16\n", "mm: MM_HEAP_SIZE=1.5G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=G", "16\n", "mm: MM_HEAP_SIZE=G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=%", "16\n", "mm: MM_HEAP_SIZE=%" NOT_A_SIZE},
    {"MM_HEAP_SIZE=+1G", "16\n", "mm: MM_HEAP_SIZE=+1G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0x10", "16\n", "mm: MM_HEAP_SIZE=0x10" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1\n2", "16\n", "mm: MM_HEAP_SIZE=1?2" NOT_A_SIZE},
    {"MM_HEAP_SIZE=", "16\n", "mm: MM_HEAP_SIZE=" NOT_A_SIZE},
    {"MM_HEAP_MAX=1G", "16\n", ""},
    {"MM_HEAP_MAX=8M", "8\n", ""},
    {"MM_HEAP_MAX=1%", "16\n", ""},
    {"MM_HEAP_MAX=little", "16\n", "mm: MM_HEAP_MAX=little" NOT_A_SIZE},
    {"MM_GROW_WAIT_MS=0", "16\n", ""},
    {"MM_GROW_WAIT_MS=60000", "16\n", ""},
    {"MM_GROW_WAIT_MS=60001", "16\n", "mm: MM_GROW_WAIT_MS=60001" NOT_MS},
    {"MM_GROW_WAIT_MS=2s", "16\n", "mm: MM_GROW_WAIT_MS=2s" NOT_MS},
    {"MM_SPACING=128", "16\n", ""},
    {"MM_SPACING=8", "16\n", "mm: MM_SPACING=8 is not understood; expected bytes, 16, 32, 64 or 128; using 32\n"},
    {"MM_ON_MISUSE=report", "16\n", ""},
    {"MM_ON_MISUSE=trap", "16\n", ""},
    {"MM_ON_MISUSE=ignore", "16\n", ""},
    {"MM_ON_MISUSE=abort", "16\n", "mm: MM_ON_MISUSE=abort is not understood; expected report, trap or ignore; using report\n"},
    {"MM_TRIM=idle", "16\n", ""},
    {"MM_TRIM=demand", "16\n", ""},
    {"MM_TRIM=off", "16\n", ""},
    {"MM_TRIM=60", "16\n", ""},
    {"MM_TRIM=often", "16\n", "mm: MM_TRIM=often is not understood; expected off, demand, idle, or seconds, 1 to 86400; using 10\n"},
    {"MM_FILL=zero", "16\n", ""},
    {"MM_FAIL=2/3", "16\n",
     "mm: MM_FAIL=2/3 is not understood; expected 1/1000 or 1/1000:SEED (one of 1000 requests), 1000 (that request), or kernel:NAME; not used\n"},
    {"MM_FILL=ones", "16\n", "mm: MM_FILL=ones is not understood; expected none, zero or junk; using none\n"},
    {"MM_VERBOSE=0", "16\n", ""},
    {"MM_VERBOSE=yes", "16\n", "mm: MM_VERBOSE=yes is not understood; expected 0 or 1; using 0\n"},
    {"MM_OFF=0", "16\n", ""},
    {"MM_OFF=1", "16\n", ""}, /* a module built with mm keeps it */
    {"MM_OFF=2", "16\n", "mm: MM_OFF=2 is not understood; expected 0 or 1; using 0\n"},
    {"MM_HEAPSIZE=1G", "16\n",
     "mm: MM_HEAPSIZE=1G is not a variable of mm; known are MM_HEAP_SIZE, MM_HEAP_MAX, "
     "MM_GROW_WAIT_MS, MM_ON_MISUSE, MM_SPACING, MM_TRIM, MM_FILL, MM_FAIL, MM_CHECK, MM_CHECK_EXITCODE, MM_STATS, MM_STATS_FILE, MM_HEAP_MAP, MM_MAP_SERIES, MM_TRACE, MM_PROFILE, MM_OFF, MM_RUN_ALLOCATOR, MM_ALLOW_UNSAFE, MM_POOL, MM_POOL_FIT, MM_POOL_CARVE, MM_VERBOSE\n"},
    {"MMX=1", "16\n", ""},
};

START_TEST(size_variable) {
    struct result r = RUN(SETTINGS(preload_mm, sizes[_i].setting), "./client", "v2-legacy", "size");
    expect(&r, 0, sizes[_i].segments, sizes[_i].err);
}
END_TEST

START_TEST(verbose) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_VERBOSE=1"), "./client", "v2-legacy", "size");
    expect(&r, 0, "16\n", NULL);
    const char *start = "mm: heap on device 0: 16.0 MiB mapped, up to 7.8 GiB, of 8.0 GiB reserved; made in ";
    ck_assert_msg(strncmp(r.err, start, strlen(start)) == 0 && strchr(r.err, '\n')[1] == 0, "%s", r.err);
}
END_TEST

static const struct {
    const char *free_bytes, *vmm, *address_limit, *segments, *err;
} shortages[] = {
    /* no memory at all; for metadata only; no virtual memory management; few addresses */
    {"0", "1", "9000000000", "-1\n",
     "mm: no heap on device 0 (cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY); a kernel that calls malloc will fail with "
     "cudaErrorLaunchFailure\n"},
    {"6291456", "1", "9000000000", "0\n", "mm: heap on device 0 is 0 bytes instead of 8.0 MiB (6.0 MiB are free, a part stays so for the driver)\n"},
    {"8589934592", "0", "9000000000", "2048\n", ""},
    {"8589934592", "1", "1073741824", "16\n", ""},
    {"8589934592", "1", "1", "2048\n", "mm: the heap on device 0 has 2.0 GiB and cannot grow (cuMemAddressReserve: CUDA_ERROR_OUT_OF_MEMORY)\n"},
};

START_TEST(shortage) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "size", shortages[_i].free_bytes, shortages[_i].vmm, shortages[_i].address_limit);
    expect(&r, 0, shortages[_i].segments, shortages[_i].err);
}
END_TEST

/* A heap that cannot grow starts with MM_HEAP_SIZE, or a quarter of the free memory, and reports why it cannot grow; in a checked run, too. */
START_TEST(cannot_grow) {
#define NO_GROWTH(size) "mm: the heap on device 0 has " size " and cannot grow (cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY)\n"
    static const struct {
        const char *setting, *vmm, *fails, *segments, *err;
    } cases[] = {
        {"MMX=1", "0", "none", "2048\n", ""},
        {"MM_HEAP_SIZE=1G", "0", "none", "1024\n", ""},
        {"MM_HEAP_SIZE=10%", "0", "none", "820\n", ""},
        {"MMX=1", "1", "cuMemHostRegister_v2", "2048\n", NO_GROWTH("2.0 GiB")},
        {"MM_HEAP_SIZE=1G", "1", "cuMemHostRegister_v2", "1024\n", NO_GROWTH("1.0 GiB")},
        {"MM_HEAP_SIZE=10%", "1", "cuMemHostRegister_v2", "820\n", NO_GROWTH("820.0 MiB")},
        {"MM_CHECK=1", "1", "cuMemHostRegister_v2", "2048\n", "mm: device 0: kernels have no names (cuMemHostRegister)\n" NO_GROWTH("2.0 GiB")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct result r = RUN(SETTINGS(preload_mm, cases[i].setting), "./client", "v2-legacy", "size", "8589934592", cases[i].vmm, "9000000000", "9000000000",
                              cases[i].fails);
        ck_assert_msg(r.status == 0 && strcmp(r.out, cases[i].segments) == 0 && strncmp(r.err, cases[i].err, strlen(cases[i].err)) == 0 &&
                          (*cases[i].err || !*r.err),
                      "%s: status %d; \"%s\" \"%s\"", cases[i].setting, r.status, r.out, r.err);
    }
}
END_TEST

START_TEST(memory_in_small_pieces) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "size", "8589934592", "1", "9000000000", "2097152");
    expect(&r, 0, "16\n", "");
    r = RUN(SETTINGS(preload_mm, "MM_HEAP_SIZE=6G"), "./client", "v2-legacy", "size", "8589934592", "1", "9000000000", "2097152");
    expect(&r, 0, "4096\n", "mm: heap on device 0 is 4.0 GiB instead of 6.0 GiB (its memory came in 2048 pieces, and it takes no more)\n");
}
END_TEST

/* ---- processes ------------------------------------------------------------------------------------- */

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
    tcase_add_loop_test(c, size_variable, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(c, verbose);
    tcase_add_loop_test(c, shortage, 0, sizeof shortages / sizeof *shortages);
    tcase_add_test(c, memory_in_small_pieces);
    tcase_add_test(c, cannot_grow);
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
