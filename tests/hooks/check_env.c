/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Environment variables (runtime/host/env.c), in one process: 40 bad values of each variable, and 10,000 random ones. For
 * each: no crash, at most one line, and a value that is not understood leaves the default.
 */
#define _GNU_SOURCE
#include <check.h>
#include <stdarg.h>
#include <stdio.h>

static int said;
static char line[2048];
#define mm_host_say check_env_say
static void check_env_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#include "runtime/host/env.c"
#undef mm_host_say
#include "tests/runner.h"

static void check_env_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    said++;
}

static const char *const names[] = {MM_HOST_VARIABLES};
enum { NAMES = sizeof names / sizeof *names };

static const struct mm_host_env *read_with(const char *name, const char *value) {
    clearenv();
    memset(&env, 0, sizeof env);
    said = 0;
    setenv(name, value, 1);
    read_env();
    return &env;
}
/* Variables for which any nonempty value is a file name. */
static bool is_path(const char *name) {
    return strcmp(name, "MM_STATS_FILE") == 0 || strcmp(name, "MM_HEAP_MAP") == 0 || strcmp(name, "MM_MAP_SERIES") == 0 || strcmp(name, "MM_TRACE") == 0 ||
           strcmp(name, "MM_PROFILE") == 0;
}
static const char *path_in(const struct mm_host_env *e, const char *name) {
    switch (name[3]) {
    case 'S': return e->stats_file;
    case 'H': return e->heap_map;
    case 'M': return e->map_series;
    case 'T': return e->trace;
    default: return e->profile;
    }
}
static bool is_default(const struct mm_host_env *e) {
    return !e->is_checked && !e->check_exitcode && e->stats == 0 && !e->stats_file && !e->heap_map && !e->map_series && !e->trace && !e->profile &&
           !e->verbose && e->gives_back && e->trim_after_ms == MM_TRIM_SECONDS_DEFAULT * 1000 && !e->is_off && !e->heap_size.bytes && !e->heap_size.percent &&
           !e->heap_max.bytes && !e->heap_max.percent && e->grow_wait_ms == MM_GROW_WAIT_MS_DEFAULT && e->spacing == MM_SPACING_DEFAULT &&
           e->fill == MM_FILL_NONE && e->fail == MM_FAIL_NONE && !e->fail_text && !e->fail_kernel && !e->is_cudas;
}

static const char *const bad[] = {
    "",         " ",        "banana", "-1",       "-0",   "+1",          "0x10",
    "1.5",      "1,5",      "1e3",    "1 ",       " 1",   "1\n",         "\n",
    "\t1",      "%",        "%d",     "%s%s%s%n", "101%", "0%",          "1%%",
    "10KB",     "10KiB",    "10kk",   "K",        "KM",   "1K1",         "1P",
    "true",     "yes",      "on",     "idle ",    "IDLE", "idle,demand", "18446744073709551616%",
    "\xff\xfe", "\xc3\xa4", "nan",    "infinity", "..",   "/etc/passwd", "$(id)",
    "1;2",      "\x1b[31m",
};
enum { BAD = sizeof bad / sizeof *bad };

START_TEST(directed) {
    ck_assert_int_ge(BAD, 40);
    for (int i = 0; i < NAMES; i++)
        for (int k = 0; k < BAD; k++) {
            const struct mm_host_env *e = read_with(names[i], bad[k]);
            if (is_path(names[i]) && *bad[k]) {
                ck_assert_msg(said == 0 && strcmp(path_in(e, names[i]), bad[k]) == 0, "%s=%s", names[i], bad[k]);
                continue;
            }
            ck_assert_msg(said == 1 && is_default(e), "%s=%s: %d lines, the default %s", names[i], bad[k], said, is_default(e) ? "holds" : "does not");
            ck_assert_msg(strncmp(line, names[i], strlen(names[i])) == 0, "%s", line);
            for (const char *c = line; *c; c++) ck_assert_msg(*c >= 0x20 && *c < 0x7f, "%s=%s: byte %d", names[i], bad[k], *c);
        }
    static char far[100001];
    memset(far, '9', sizeof far - 2);
    far[sizeof far - 2] = 'x';
    for (int i = 0; i < NAMES; i++) {
        ck_assert(is_default(read_with(names[i], far)));
        ck_assert_int_eq(said, 1);
        ck_assert_uint_lt(strlen(line), 400);
    }
}
END_TEST

START_TEST(random_ones) {
    uint64_t state = 88172645463325252u;
    for (int round = 0; round < 10000; round++) {
        static const char alphabet[] = "0123456789KMGTkmgt% -+.xidlemandXYZ\t\n\x01\x80\xff";
        char value[40];
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const size_t length = state % 12;
        for (size_t i = 0; i < length; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            value[i] = alphabet[state % (sizeof alphabet - 1)];
        }
        value[length] = 0;
        const struct mm_host_env *e = read_with(names[round % NAMES], value);
        ck_assert_msg(said <= 1, "%s=%s: %d lines", names[round % NAMES], value, said);
        ck_assert_msg(said == 0 || is_default(e), "%s=%s: said, and taken", names[round % NAMES], value);
    }
}
END_TEST

START_TEST(good) {
    ck_assert_uint_eq(read_with("MM_HEAP_SIZE", "3g")->heap_size.bytes, 3ull << 30);
    ck_assert_uint_eq(read_with("MM_HEAP_MAX", "40%")->heap_max.percent, 40);
    ck_assert_uint_eq(read_with("MM_HEAP_MAX", "99999999999999999999T")->heap_max.bytes, UINT64_MAX);
    ck_assert_uint_eq(read_with("MM_GROW_WAIT_MS", "0")->grow_wait_ms, 0);
    ck_assert_uint_eq(read_with("MM_GROW_WAIT_MS", "60000")->grow_wait_ms, 60000);
    for (unsigned spacing = 16; spacing <= 128; spacing *= 2) {
        char text[8];
        snprintf(text, sizeof text, "%u", spacing);
        ck_assert_uint_eq(read_with("MM_SPACING", text)->spacing, spacing);
    }
    ck_assert(is_default(read_with("MM_SPACING", "48")) && said == 1);
    ck_assert(read_with("MM_TRIM", "off")->trim_after_ms == 0 && !env.gives_back && said == 0);
    ck_assert(read_with("MM_TRIM", "demand")->trim_after_ms == 0 && env.gives_back && said == 0);
    ck_assert(read_with("MM_TRIM", "idle")->trim_after_ms == MM_HOST_TRIM_IDLE_MS && env.gives_back && said == 0);
    ck_assert(read_with("MM_TRIM", "1")->trim_after_ms == 1000 && read_with("MM_TRIM", "86400")->trim_after_ms == 86400000 && said == 0);
    ck_assert(is_default(read_with("MM_TRIM", "0")) && said == 1);
    ck_assert(is_default(read_with("MM_TRIM", "86401")) && said == 1);
    ck_assert(read_with("MM_FILL", "zero")->fill == MM_FILL_ZERO && said == 0);
    ck_assert(read_with("MM_FILL", "junk")->fill == MM_FILL_JUNK && said == 0);
    ck_assert(is_default(read_with("MM_FILL", "none")) && said == 0);
    ck_assert(is_default(read_with("MM_FILL", "JUNK")) && said == 1);
    ck_assert(read_with("MM_FAIL", "1/1000")->fail == MM_FAIL_SHARE && env.fail_number == 1000 && env.fail_seed == 0 && said == 0);
    ck_assert(read_with("MM_FAIL", "1/1:42")->fail == MM_FAIL_SHARE && env.fail_number == 1 && env.fail_seed == 42 && said == 0);
    ck_assert(read_with("MM_FAIL", "281474976710655")->fail == MM_FAIL_NUMBER && env.fail_number == MM_FAIL_NUMBER_MAX && said == 0);
    ck_assert(read_with("MM_FAIL", "kernel:_Z6insertPi")->fail == MM_FAIL_KERNEL && strcmp(env.fail_kernel, "_Z6insertPi") == 0 && said == 0);
    ck_assert(strcmp(env.fail_text, "kernel:_Z6insertPi") == 0);
    ck_assert(is_default(read_with("MM_FAIL", "0")) && said == 0);
    static const char *const wrong[] = {"1/0",
                                        "1/",
                                        "/2",
                                        "2/3",
                                        "1/1000:",
                                        "1/1000:x",
                                        "1/1000:1:1",
                                        "281474976710656",
                                        "1/281474976710656",
                                        "kernel:",
                                        "kernel:a b",
                                        "kernel:f(int)",
                                        "kernel:a::b",
                                        "kernel",
                                        "kernel:9a",
                                        "1/5:281474976710656",
                                        "kernel:f<1>",
                                        "1 /2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) ck_assert_msg(is_default(read_with("MM_FAIL", wrong[i])) && said == 1, "%s", wrong[i]);
    ck_assert(read_with("MM_CHECK", "1")->fill == MM_FILL_JUNK && said == 0);
    ck_assert(read_with("MM_CHECK", "0")->fill == MM_FILL_NONE && said == 0);
    ck_assert(read_with("MM_RUN_ALLOCATOR", "cuda")->is_cudas && said == 0);
    ck_assert(is_default(read_with("MM_RUN_ALLOCATOR", "mm")) && env.asks && said == 0);
    ck_assert(is_default(read_with("MM_RUN_ALLOCATOR", "gallatin")) && env.asks && !env.sibling && said == 0);
    ck_assert_str_eq(read_with("MM_RUN_ALLOCATOR", "circular-multi")->sibling, "circular-multi");
    ck_assert(env.asks && !env.is_cudas && said == 0);
    ck_assert(is_default(read_with("MM_RUN_ALLOCATOR", "circular-")) && !env.asks && said == 1);
    ck_assert(read_with("MM_ALLOW_UNSAFE", "1")->allows_unsafe && said == 0);
    ck_assert(!read_with("MM_ALLOW_UNSAFE", "yes")->allows_unsafe && said == 1);
    ck_assert(is_default(read_with("MM_RUN_ALLOCATOR", "CUDA")) && said == 1);
    ck_assert(read_with("MM_VERBOSE", "1")->verbose && said == 0);
    ck_assert(read_with("MM_OFF", "1")->is_off && said == 0);
    ck_assert(is_default(read_with("MM_OFF", "0")) && said == 0);
    ck_assert(is_default(read_with("MM_NVCC", "whatever")) && said == 0);
    ck_assert(is_default(read_with("MM_HEAP", "1G")) && said == 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("environment");
    TCase *c = tcase_create("environment");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, directed);
    tcase_add_test(c, random_ones);
    tcase_add_test(c, good);
    suite_add_tcase(s, c);
    return suite_run(s);
}
