/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the pool (MM_POOL), against the stand-in driver: runs the scenarios of client_pool*.c. */
#define _GNU_SOURCE
#include "mmconfig.h"
#include "tests/hooks/suite.h"

static const char *const modes[] = {"MM_POOL=keep", "MM_POOL=async"};
static const char *const fits[] = {"MM_POOL_FIT=tlsf",  "MM_POOL_FIT=segregated", "MM_POOL_FIT=bitmask",
                                   "MM_POOL_FIT=first", "MM_POOL_FIT=next",       "MM_POOL_FIT=best"};
static const char *const scenarios[] = {
    "pool-pairs",    "pool-order",   "pool-many",    "pool-wrong",     "pool-captured",       "pool-pressure",         "pool-scarce",          "pool-questions",
    "pool-contexts", "pool-threads", "pool-devices", "pool-anchoring", "pool-devices-ending", "pool-devices-captured", "pool-devices-released"};
enum { MODES = 2, FITS = 6, SCENARIOS = sizeof scenarios / sizeof *scenarios };

START_TEST(scenario) {
    struct result r = RUN(SETTINGS(preload_mm, modes[_i % MODES]), "./client", "v2-legacy", scenarios[_i / MODES]);
    ck_assert_msg(r.status == 0 && !*r.err, "%s %s: status %d; \"%s\" \"%s\"", modes[_i % MODES], scenarios[_i / MODES], r.status, r.out, r.err);
}
END_TEST

START_TEST(by_other_ways) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=async"), "./client", "symbols", "pool-captured");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=async"), "./client_plain", "plain", "pool-order");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=async"), "./client_hook_plain", "plain", "pool-order"); /* with a dlsym of its own, mmhook.o's */
    expect(&r, 0, "", "");
    r = RUN(SETTINGS("MM_POOL=async"), "./client_hook_plain", "plain", "pool-small"); /* not preloaded */
    expect(&r, 1, NULL, "mm: MM_POOL=async needs mmrun, or libmm.so.1 in LD_PRELOAD: else a library may free memory of the pool without mm; using off\n");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=async"), "./client", "v2-legacy", "function"); /* a heap and a pool */
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(without_a_pool_the_test_fails) {
    if (strcmp(scenarios[_i], "pool-wrong") == 0 || strcmp(scenarios[_i], "pool-questions") == 0 || strcmp(scenarios[_i], "pool-scarce") == 0) return;
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", scenarios[_i]);
    ck_assert_msg(r.status == 1, "%s passes without a pool", scenarios[_i]);
}
END_TEST

START_TEST(every_fit) {
    char seed[8];
    snprintf(seed, sizeof seed, "%d", _i);
    struct result r = RUN(SETTINGS(preload_mm, modes[_i % MODES], fits[_i / MODES % FITS], _i < MODES * FITS ? "MM_POOL_CARVE=8M" : "MM_UNSET"), "./client",
                          "v2-legacy", "pool-fuzz", "20000", seed);
    ck_assert_msg(r.status == 0 && !*r.err, "%s %s, seed %s: status %d; \"%s\" \"%s\"", modes[_i % MODES], fits[_i / MODES % FITS], seed, r.status, r.out,
                  r.err);
}
END_TEST

START_TEST(memory_that_is_shared) {
    struct result r = RUN(SETTINGS(preload_mm, modes[_i]), "./client", "v2-legacy", "pool-shared");
    ck_assert_msg(r.status == 0, "status %d; \"%s\" \"%s\"", r.status, r.out, r.err);
    const char *line = strchr(r.err, '\n'); /* said once */
    ck_assert_msg(line && !line[1] && strstr(r.err, "is a part of a slab of the pool and cannot be shared"), "%s", r.err);
}
END_TEST

START_TEST(unused_memory_goes_back) {
    struct result r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=1"), "./client", "v2-legacy", "pool-decays");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=1"), "./client", "v2-legacy", "pool-captured-decaying");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(captures_that_begin_meanwhile) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_TRIM=off"), "./client", "v2-legacy", "pool-captured-settling");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_TRIM=off"), "./client", "v2-legacy", "pool-captured-freeing");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_TRIM=off"), "./client", "v2-legacy", "pool-captured-freeing", "large");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(no_lock_is_in_the_way) {
    struct result r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off"), "./client", "v2-legacy", "pool-captured-forking");
    expect(&r, 0, "", "");
    unlink("0.pipe.pool.svg"), unlink("0.pipe.json");
    r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off", "MM_HEAP_MAP=%d.pipe.svg"), "./client", "v2-legacy", "pool-drawing", "0.pipe.pool.svg", "<svg ");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off", "MM_STATS=json", "MM_STATS_FILE=%d.pipe.json"), "./client", "v2-legacy", "pool-drawing",
            "0.pipe.json", "{\"mm_pool");
    expect(&r, 0, "", "");
    unlink("0.pipe.pool.svg"), unlink("0.pipe.json");
}
END_TEST

START_TEST(output_at_the_end) {
    static char both[4200];
    unlink("0.pipe.pool.svg");
    struct result r = RUN(SETTINGS(preload_mm, modes[_i], "MM_HEAP_MAP=%d.pipe.svg"), "./client", "v2-legacy", "pool-drawing-late", "0.pipe.pool.svg");
    expect(&r, 0, "", "");
    unlink("0.pipe.pool.svg");
    r = RUN(SETTINGS(preload_mm, modes[_i], "MM_HEAP_MAP=%d.pipe.svg"), "./client", "v2-legacy", "pool-drawing-late", "0.pipe.pool.svg", "unread");
    expect(&r, 0, "", "mm: pools: the process ends before all statistics and pictures are written: a file took more than 1000 ms\n");
    unlink("0.pipe.pool.svg");
    r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off", "MM_HEAP_MAP=%d.pipe.svg"), "./client", "v2-legacy", "pool-drawing", "0.pipe.pool.svg", "<svg ",
            "stuck");
    expect(&r, 0, "", "mm: device 0: the pool's statistics and picture are not written (another thread still writes its own)\n");
    unlink("0.pipe.pool.svg");
    snprintf(both, sizeof both, "LD_PRELOAD=./libscarce.so %s", preload_mm + sizeof "LD_PRELOAD");
    r = RUN(SETTINGS(both, modes[_i], "SCARCE=1", "MM_HEAP_MAP=%d.map.svg"), "./client", "v2-legacy", "pool-map");
    expect(&r, 0, NULL, "mm: device 0: no picture (malloc)\n");
    ck_assert(access("0.map.pool.svg", F_OK) != 0);
}
END_TEST

START_TEST(a_heap_gets_what_the_pool_keeps) {
    struct result r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off"), "./client", "v2-legacy", "pool-heap");
    ck_assert_msg(r.status == 0, "status %d; \"%s\" \"%s\"", r.status, r.out, r.err);
}
END_TEST

START_TEST(small_keeps_one) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=small"), "./client", "v2-legacy", "pool-small");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(each_call_of_the_driver_fails) {
    char number[16];
    int n = 0;
    for (bool failed = true; failed; n++) {
        snprintf(number, sizeof number, "%d", n + 1);
        struct result r = RUN(SETTINGS(preload_mm, modes[_i], "MM_TRIM=off"), "./client", "v2-legacy", "pool-faults", number);
        ck_assert_msg(r.status == 0 && !*r.err, "%s, call %s: status %d; \"%s\" \"%s\"", modes[_i], number, r.status, r.out, r.err);
        failed = strcmp(r.out, "none\n") != 0;
    }
    ck_assert_int_gt(n, 40);
}
END_TEST

START_TEST(variables) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=on", "MM_POOL_FIT=worst", "MM_POOL_CARVE=2G"), "./client", "v2-legacy", "pool-small");
    expect(&r, 1, NULL, NULL);
    ck_assert_msg(strstr(r.err, "MM_POOL=on is not understood; expected off, small, keep or async; using off\n") &&
                      strstr(r.err, "MM_POOL_FIT=worst is not understood; expected tlsf, segregated, bitmask, first, next or best; using tlsf\n") &&
                      strstr(r.err, "MM_POOL_CARVE=2G is not understood; expected bytes, also with K, M or G (32M), up to 1G; not used\n"),
                  "%s", r.err);
}
END_TEST

START_TEST(few_events) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_TRIM=off"), "./client", "v2-legacy", "pool-magazines");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_TRIM=off"), "./client", "v2-legacy", "pool-batches");
    expect(&r, 0, "", "");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_TRIM=off"), "./client", "v2-legacy", "pool-impatient");
    expect(&r, 0, "", "");
}
END_TEST

START_TEST(frees_of_keep) {
    static const char *const names[] = {"pool-keeps", "pool-ending", "pool-late-free"};
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_TRIM=off"), "./client", "v2-legacy", names[_i]);
    expect(&r, 0, "", "");
}
END_TEST

/* Of the device, in percent of what is live at most. Blocks of different lengths share slabs: one contiguous range would need 117 for the first. */
START_TEST(footprint) {
    static const struct {
        const char *fit, *carve, *log, *percent;
    } cases[] = {{"MM_POOL_FIT=tlsf", "MM_POOL_CARVE=32M", "large", "130"},
                 {"MM_POOL_FIT=segregated", "MM_POOL_CARVE=32M", "large", "149"},
                 {"MM_POOL_FIT=tlsf", "MM_POOL_CARVE=64M", "training", "112"},
                 {"MM_POOL_FIT=segregated", "MM_POOL_CARVE=64M", "training", "112"}};
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_TRIM=off", cases[_i].fit, cases[_i].carve), "./client", "v2-legacy", "pool-footprint",
                          cases[_i].log, "0", cases[_i].percent, "5");
    ck_assert_msg(r.status == 0 && !*r.err, "%s: status %d; \"%s\" \"%s\"", cases[_i].log, r.status, r.out, r.err);
}
END_TEST

/* A slab has room for as many blocks of the length that it was made for as it was meant to, and nothing is left over. */
START_TEST(footprint_of_one_length) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_TRIM=off", fits[_i], "MM_POOL_CARVE=64M"), "./client", "v2-legacy", "pool-same", "125");
    ck_assert_msg(r.status == 0 && !*r.err, "%s: status %d; \"%s\" \"%s\"", fits[_i], r.status, r.out, r.err);
}
END_TEST

START_TEST(statistics) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_STATS=text"), "./client", "v2-legacy", "pool-order");
    expect(
        &r, 0, "",
        "mm: pool on device 0: 11 of 15 requests without the driver; 4 live with 8.0 MiB (at most 12.0 MiB); 14.0 MiB of the device (at most 14.0 MiB), 6.0 MiB of it "
        "free, 0 bytes given back\n"
        "mm: pool on device 0: fragmentation: internal 0.000000, external 0.328687\n");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_STATS=csv"), "./client", "v2-legacy", "pool-contexts");
    ck_assert_msg(r.status == 0 && strstr(r.err, "process,device,class,name,value\n") == r.err && strstr(r.err, ",0,pool,hits,1\n"), "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_STATS=text"), "./client", "v2-legacy", "pool-pressure");
    ck_assert_msg(r.status == 0 && strstr(r.err, "; 0 live with 0 bytes (at most ") && strstr(r.err, "; 0 bytes of the device (at most "), "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_POOL=off", "MM_STATS=text"), "./client", "v2-legacy", "pool-small");
    ck_assert_str_eq(r.err, "");
}
END_TEST

/* The whole picture is as expected, but for the addresses, which the program prints, and its process. */
START_TEST(map) {
    static char svg[200000], expected[4000], part[40];
    static const char *const rows[] = {"4.0 MiB, live 4.0 MiB, freed 0 bytes", "6.0 MiB, live 0 bytes, freed 6.0 MiB", "8.0 MiB, live 0 bytes, freed 0 bytes"};
    static const char *const colours[] = {"#3465a4", "#f0a030", "#e0e0e0"};
    /* The first 512 bytes are never used. 256 KiB are 32 columns: live; then 16 freed, 8 free but for 512 bytes, 8 in a magazine, and free ones. */
    static const char *const slab[] = {"M20 58h64v12h-64zM84 69h2v1h-2zM116 69h2v1h-2z",
                                       "M84 58h2v11h-2zM86 58h30v12h-30zM116 68h2v1h-2zM132 58h16v12h-16zM148 69h2v1h-2z",
                                       "M116 58h2v10h-2zM118 58h14v12h-14zM148 58h2v11h-2zM150 58h382v12h-382z"};
    unsigned long long slab_at = 0, at[3] = {0};
    struct result r = RUN(SETTINGS(preload_mm, "MM_POOL=async", "MM_HEAP_MAP=%d.map.svg"), "./client", "v2-legacy", "pool-map");
    ck_assert_msg(r.status == 0 && sscanf(r.out, "%llx %llx %llx %llx", &slab_at, &at[0], &at[1], &at[2]) == 4 && !*r.err, "%s%s", r.out, r.err);
    read_file("0.map.pool.svg", svg, sizeof svg);
    int y[3], n = 0; /* rows of the ranges, by address */
    for (int i = 0; i < 3; i++) y[i] = 74 + 16 * ((at[i] > at[0]) + (at[i] > at[1]) + (at[i] > at[2]));
    n += snprintf(expected + n, sizeof expected - (size_t)n,
                  "<text x=\"20\" y=\"46\">1 slabs and 3 other ranges, of which 4 are drawn, each in a row; a column is 1/256 of its range</text>\n");
    for (int kind = 0; kind < 3; kind++)
        n += snprintf(expected + n, sizeof expected - (size_t)n, "<path fill=\"%s\" d=\"%sM20 %dh512v12h-512z\"/>\n", colours[kind], slab[kind], y[kind]);
    n += snprintf(expected + n, sizeof expected - (size_t)n, "<text x=\"552\" y=\"68\">0x%llx: slab of 2.0 MiB, live 256.5 KiB, freed 192.0 KiB</text>\n",
                  slab_at);
    for (int row = 74; row < 74 + 3 * 16; row += 16)
        for (int i = 0; i < 3; i++)
            if (y[i] == row)
                n += snprintf(expected + n, sizeof expected - (size_t)n, "<text x=\"552\" y=\"%d\">0x%llx: range of %s</text>\n", row + 10, at[i], rows[i]);
    const char *const from = strstr(svg, "<text x=\"20\" y=\"46\">"), *const legend = strstr(svg, "<rect x=\"972\"");
    ck_assert_msg(from && legend && strlen(expected) == (size_t)(legend - from) && strncmp(from, expected, strlen(expected)) == 0, "%s\n%s", svg, expected);
    static const char *const counts[] = {">live: 3 with 4.3 MiB<", ">freed (waits for kernels, or in a magazine): 3 with 6.2 MiB<", ">free: 3 with 9.6 MiB<"};
    for (int kind = 0; kind < 3; kind++) ck_assert_msg(strstr(legend, counts[kind]) && strstr(legend, colours[kind]), "no %s in %s", counts[kind], legend);
    ck_assert(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + strlen(svg) - 7, "</svg>\n") == 0 && strstr(svg, ">Pool of device 0, process "));
    /* More ranges than rows; the context ends. */
    snprintf(part, sizeof part, "%u", MM_POOL_MAP_ROWS + 4);
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_HEAP_MAP=%d.map.svg"), "./client", "v2-legacy", "pool-map", part);
    expect(&r, 0, "", "");
    read_file("0.map.pool.svg", svg, sizeof svg);
    ck_assert_msg(strstr(svg, ">0 slabs and 260 other ranges, of which 256 are drawn,") && strstr(svg, ">live: 260 with 1.5 GiB<"), "%s", svg);
    r = RUN(SETTINGS(preload_mm, "MM_POOL=keep", "MM_HEAP_MAP=/nonexistent/map.svg"), "./client", "v2-legacy", "pool-map");
    expect(&r, 0, NULL, "mm: cannot write a picture to /nonexistent/map.pool.svg: No such file or directory\n");
    r = RUN(SETTINGS(preload_mm, "MM_POOL=off", "MM_HEAP_MAP=%d.map.svg"), "./client", "v2-legacy", "pool-small");
    ck_assert(access("0.map.pool.svg", F_OK) != 0);
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("pool");
    TCase *c = tcase_create("pool");
    tcase_set_timeout(c, 200);
    tcase_add_loop_test(c, scenario, 0, MODES * SCENARIOS);
    tcase_add_test(c, by_other_ways);
    tcase_add_loop_test(c, without_a_pool_the_test_fails, 0, SCENARIOS);
    tcase_add_loop_test(c, every_fit, 0, 2 * MODES * FITS);
    tcase_add_loop_test(c, memory_that_is_shared, 0, MODES);
    tcase_add_loop_test(c, unused_memory_goes_back, 0, MODES);
    tcase_add_test(c, captures_that_begin_meanwhile);
    tcase_add_loop_test(c, no_lock_is_in_the_way, 0, MODES);
    tcase_add_loop_test(c, output_at_the_end, 0, MODES);
    tcase_add_loop_test(c, a_heap_gets_what_the_pool_keeps, 0, MODES);
    tcase_add_test(c, small_keeps_one);
    tcase_add_loop_test(c, each_call_of_the_driver_fails, 0, MODES);
    tcase_add_test(c, few_events);
    tcase_add_loop_test(c, frees_of_keep, 0, 3);
    tcase_add_loop_test(c, footprint, 0, 4);
    tcase_add_loop_test(c, footprint_of_one_length, 0, FITS);
    tcase_add_test(c, statistics);
    tcase_add_test(c, map);
    tcase_add_test(c, variables);
    suite_add_tcase(s, c);
    return suite_run(s);
}
