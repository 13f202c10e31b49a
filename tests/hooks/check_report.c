/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of mm's reports, against the stand-in driver: misuse, statistics, checked runs, requests that fail. The scenarios are
 * in client_report.c and client_checked.c. */
#define _GNU_SOURCE
#include "tests/hooks/suite.h"

/* ---- misuse --------------------------------------------------------------------------------------- */

#define FOREIGN(address) \
    "mm: device 0: invalid free(" address "), a pointer of another allocator, another GPU's heap or the stack, by thread (1,0,0) of block (0,0,0)\n"
#define SYNCHRONISED FOREIGN("0x1000") "context\n" FOREIGN("0x1001") "stream\n" FOREIGN("0x1002") "event\n"

/* Appends `count` lines, for addresses from `from` on. */
static void append_foreign(char *text, unsigned from, int count) {
    for (int i = 0; i < count; i++) sprintf(text + strlen(text), FOREIGN("%#x"), from + (unsigned)i);
}

/* expect() for texts too long for Check's messages: shows the first difference. */
static void expect_long(const struct result *r, const char *err) {
    size_t same = 0;
    while (err[same] && r->err[same] == err[same]) same++;
    ck_assert_msg(r->status == 0 && strcmp(r->err, err) == 0, "status %d; from character %zu on \"%.300s\", expected \"%.300s\"", r->status, same,
                  r->err + same, err + same);
}

START_TEST(misuse_is_told) {
    char expected[8000] = SYNCHRONISED;
    const char *program = _i % 2 ? "./client_hook" : "./client";
    struct result r = RUN(SETTINGS(preload_mm), program, "v2-legacy", "misuse", "0");
    expect_long(&r, expected);
    r = RUN(SETTINGS(preload_mm), program, "v2-ptsz", "misuse", "29");
    append_foreign(expected, 0x2000, 29);
    expect_long(&r, expected);
    r = RUN(SETTINGS(preload_mm), program, "v1", "misuse", "300");
    strcat(expected, "mm: device 0: 303 misuses of free in all; these were the first 32\n");
    expect_long(&r, expected);
    r = RUN(SETTINGS(preload_mm, "MM_ON_MISUSE=ignore"), program, "v2-legacy", "misuse", "300");
    expect(&r, 0, "", "context\nstream\nevent\n");
}
END_TEST

START_TEST(misuse_is_told_when_a_context_ends) {
    char expected[8000] = FOREIGN("0x1000");
    for (int i = 0; i < 31; i++) append_foreign(expected, 0x2000, 1);
    strcat(expected, "mm: device 0: 41 misuses of free in all; these were the first 32\nreset\n" FOREIGN("0x3000") "released\n");
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "misuse-context-ends");
    expect_long(&r, expected);
}
END_TEST

START_TEST(misuse_is_told_without_a_call) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "misuse-idle");
    expect(&r, 0, "", FOREIGN("0x1000") "later\n");
}
END_TEST

START_TEST(misuse_of_each_kind) {
    static const char *const texts[] = {"invalid free(%s), a pointer into the middle of an allocation of 112 bytes",
                                        "invalid free(%s), a pointer into the middle of an allocation of 6291456 bytes",
                                        "invalid free(%s), a pointer into the middle of an allocation",
                                        "invalid free(%s), a pointer that malloc never gave",
                                        "double free(%s) of 112 bytes",
                                        "invalid free(%s), a pointer into memory that is free"};
    char expected[4000] = "";
    struct result r = RUN(SETTINGS(preload_mm, "MM_SPACING=16"), "./client", "v2-legacy", "misuse-kinds");
    char *address = r.out;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char line[300], *end = strchr(address, '\n');
        ck_assert(end);
        *end = 0;
        snprintf(line, sizeof line, texts[i], address);
        sprintf(expected + strlen(expected), "mm: device 0: %s, by thread (1,0,0) of block (0,0,0)\n", line);
        address = end + 1;
    }
    expect(&r, 0, NULL, expected);
}
END_TEST

/* ---- statistics ------------------------------------------------------------------------------------ */

START_TEST(statistics_as_text) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_STATS=1", "MM_SPACING=16", "MM_HEAP_SIZE=28M"), "./client", "v2-legacy", "usage", "end");
    char *lines[20] = {r.err}, *segments = strstr(r.err, "segments of");
    ck_assert_msg(r.status == 0 && segments, "status %d, \"%s\"", r.status, r.err);
    static const char *const wanted[] = {
        "mm: device 0: memory: 28.0 MiB mapped (28.0 MiB at most), ",
        "mm: device 0: segments of 1.0 MiB: 1 given away by pages, 6 in 1 runs, 21 free (21 in a row at most), 0 spare\n",
        "mm: device 0: pages of 16.0 KiB: 6 of size classes, 0 in 0 spans, 58 free\n",
        "mm: device 0: live: 1011 objects, 6363136 bytes granted, asked: not counted; the most there were: not counted\n",
        "mm: device 0: fragmentation: internal not counted, external 0.0 %; free in blocks of size classes: 26.0 KiB\n",
        "mm: device 0: grew 0 times; 0 waits for that, 0.000 ms in all; 0 bytes given back\n",
        "mm: device 0: NULL: 0 requests\n",
        "mm: device 0: misuse of free: 1 foreign, 0 not allocated, 0 interior, 0 never handed out, 0 double\n",
        "mm: device 0:      class         live          granted     pages    blocks      free\n",
        "mm: device 0:         64         1000            64000         4         4         0\n",
        "mm: device 0:        768           10             7680         2         1         0\n",
        "mm: device 0:      spans            0                0         0\n",
        "mm: device 0:       runs            1          6291456       384\n",
    };
    for (size_t i = 1; i < sizeof lines / sizeof *lines && lines[i - 1]; i++) {
        lines[i] = strchr(lines[i - 1], '\n');
        if (lines[i]) lines[i]++;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) { /* the first line reports the misuse */
        ck_assert(lines[i + 1] != NULL);
        ck_assert_msg(strncmp(lines[i + 1], wanted[i], strlen(wanted[i])) == 0, "expected \"%s\", found \"%.200s\"", wanted[i], lines[i + 1]);
    }
}
END_TEST

/* Statistics are written once, however the heap ends; a file of two heaps has both. */
START_TEST(statistics_of_every_end) {
    static const char *const ends[] = {"end", "reset", "release"};
    char json[20000], csv[40000], settings[2][64];
    for (int i = 0; i < 3; i++) {
        snprintf(settings[0], sizeof settings[0], "MM_STATS_FILE=usage-%%d.%s.json", ends[i]);
        struct result r =
            RUN(SETTINGS(preload_mm, "MM_STATS=json", "MM_ON_MISUSE=ignore", "MM_SPACING=16", settings[0]), "./client", "v2-legacy", "usage", ends[i]);
        expect(&r, 0, NULL, "");
        snprintf(settings[1], sizeof settings[1], "usage-0.%s.json", ends[i]);
        read_file(settings[1], json, sizeof json);
        char *end = strchr(json, '\n');
        ck_assert_msg(end && (end[1] == 0) == (i == 0), "%s", json); /* the heap of a later context */
        for (char *line = json; *line; line = strchr(line, '\n') + 1)
            ck_assert_msg(strncmp(line, "{\"mm_statistics\":1,\"version\":\"" MM_VERSION "\",\"process\":", 40) == 0, "%s", line);
        ck_assert_ptr_nonnull(strstr(json, ",\"live_objects\":1011,\"peak_live_objects\":null,\"live_bytes\":6363136,"));
        ck_assert_ptr_nonnull(strstr(json, "{\"slice_bytes\":768,\"live_objects\":10,\"live_bytes\":7680,\"pages\":2,\"blocks\":1,\"free_blocks\":0}"));
    }
    struct result r =
        RUN(SETTINGS(preload_mm, "MM_STATS=csv", "MM_ON_MISUSE=ignore", "MM_SPACING=16", "MM_STATS_FILE=usage.csv"), "./client", "v2-legacy", "usage", "reset");
    expect(&r, 0, NULL, "");
    read_file("usage.csv", csv, sizeof csv);
    char *header = strstr(csv, "process,device,class,name,value\n");
    ck_assert(header == csv && !strstr(csv + 1, "process"));
    ck_assert_ptr_nonnull(strstr(csv, ",0,,allocator,gallatin\n"));
    ck_assert_ptr_nonnull(strstr(csv, ",0,,live_objects,1011\n"));
    ck_assert_ptr_nonnull(strstr(csv, ",0,,asked_bytes,\n"));
    ck_assert_ptr_nonnull(strstr(csv, ",0,64,live_bytes,64000\n"));
    ck_assert_ptr_nonnull(strstr(csv, ",0,,live_objects,0\n"));
    r = RUN(SETTINGS(preload_mm, "MM_STATS=csv", "MM_ON_MISUSE=ignore", "MM_STATS_FILE=/nonexistent/%p"), "./client", "v2-legacy", "usage", "end");
    ck_assert_msg(r.status == 0 && strncmp(r.err, "mm: cannot write statistics to /nonexistent/", 44) == 0 && strstr(r.err, ": No such file or directory\n"),
                  "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_STATS=yes"), "./client", "v2-legacy", "function");
    expect(&r, 0, "", "mm: MM_STATS=yes is not understood; expected 0, 1, text, json or csv; using 0\n");
}
END_TEST

START_TEST(usage_for_programs) {
    static const char *const programs[] = {"./client", "./client_hook", "./plugin_host"};
    for (int way = 0; way < 3; way++) {
        struct result r = RUN(way == 0 ? SETTINGS(preload_mm, "MM_SPACING=16") : SETTINGS("MM_SPACING=16"), programs[way], "v2-legacy", "usage-program");
        expect(&r, 0, NULL, "");
    }
}
END_TEST

/* Other allocators (client_sibling.h): random walk has units of 256 bytes, rings have chunks of 96 and 224 bytes with a header of 16, Ouroboros has pages of 64 and 256, and what only adds cannot
 * tell objects apart. A span has 20 pages, and a run 6 segments. */
START_TEST(usage_of_other_allocators) {
    static const struct {
        const char *suffix, *name, *out, *live, *row, *legend;
    } others[] = {
        {"_random_walk_coop", "random-walk-coop", "912 objects, 6852096 bytes, 815616 held, 64 pages; 910 up to 256: 232960;\n",
         "live: 912 objects, 6852096 bytes granted, ", "       256          910           232960         0         0         0\n",
         ">256 bytes: 1 segments, 910 live<"},
        {"_circular_multi", "circular-multi", "912 objects, 6693216 bytes, 974496 held, 64 pages; 900 up to 80: 72000; 10 up to 224: 2080;\n",
         "live: 912 objects, 6693216 bytes granted, ", "        80          900            72000         0         0         0\n",
         ">80 bytes: 1 segments, 900 live<"},
        {"_ouroboros_va_c", "ouroboros-va-c", "912 objects, 6679296 bytes, 988416 held, 64 pages; 900 up to 64: 57600; 10 up to 256: 2560;\n",
         "live: 912 objects, 6679296 bytes granted, ", "        64          900            57600         0         0         0\n",
         ">64 bytes: 1 segments, 900 live<"},
        {"_atomic", "atomic", "-1 objects, 6685216 bytes, 982496 held, 64 pages;\n", "live: objects not counted, 6685216 bytes granted, ",
         "     spans            1           327680        20\n", ">small memory, its objects not known: 1 segments<"},
    };
    static char svg[200000];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char image[60], picture[60], line[80];
        snprintf(image, sizeof image, "other " MM_STR(MM_ABI_VERSION) "%s", others[i].suffix);
        snprintf(picture, sizeof picture, "sibling.%s.svg", others[i].name), snprintf(line, sizeof line, "mm: device 0: allocator: %s\n", others[i].name);
        struct result r = RUN(SETTINGS(preload_mm, "MM_STATS=1", "MM_HEAP_MAP=sibling.svg"), "./client", "v2-legacy", "usage-sibling", image, others[i].name);
        expect(&r, 0, others[i].out, NULL);
        ck_assert_msg(strstr(r.err, others[i].live) && strstr(r.err, others[i].row), "%s", r.err);
        ck_assert_msg(strstr(r.err, line) != NULL, "%s", r.err);
        read_file(picture, svg, sizeof svg);
        ck_assert_msg(strstr(svg, others[i].legend) != NULL, "no %s", others[i].legend);
    }
}
END_TEST

/* ---- checked runs --------------------------------------------------------------------------------------- */

/* Runs scenario "checked" with `what`; expects `lines` on standard error, in which "@" stands for the next address that it printed. */
static void expect_checked(const char *what, const char *const *settings, int status, const char *lines) {
    static char expected[8192];
    struct result r = RUN(settings, "./client", "v2-legacy", "checked", what);
    char *address = strtok(r.out, "\n");
    size_t n = 0;
    for (; *lines; lines++) {
        if (*lines != '@') {
            expected[n++] = *lines;
            continue;
        }
        ck_assert_msg(address != NULL, "%s: too few addresses; \"%s\"", what, r.err);
        n += (size_t)sprintf(expected + n, "%s", address);
        address = strtok(NULL, "\n");
    }
    expected[n] = 0;
    ck_assert_int_eq(r.status, status);
    r.status = 0;
    expect_long(&r, expected);
}

#define OVERRUN(size) \
    "mm: device 0: write past the end of @, an allocation of " size " bytes, allocated by kernel make, seen by thread (1,0,0) of block (0,0,0) of kernel end\n"
#define AFTER_FREE "mm: device 0: write after free to @, an allocation of "
#define FREED_BY_END " bytes, allocated by kernel make, freed by kernel end, "

START_TEST(checked_runs) {
    expect_checked("nothing", CHECKED("MM_CHECK_EXITCODE=9"), 0, CLEAN);
    expect_checked("leaks", CHECKED("MM_CHECK_EXITCODE=9"), 9,
                   "mm: device 0: leak: 1 objects in pages of their own, 6291456 bytes, allocated by kernel _ZN5other4makeEPPv\n"
                   "mm: device 0: leak: 5 objects of size class 768, 3500 bytes, allocated by kernel make\n"
                   "mm: device 0: leak: 10 objects of size class 64, 640 bytes, allocated by kernel make\n"
                   "mm: device 0: leak: 3 objects of size class 64, 180 bytes, allocated by kernel _ZN5other4makeEPPv\n"
                   "mm: device 0: checked: 19 leaks of 6295776 bytes, 0 writes past the end, 0 writes after free, 0 misuses of free\n");
    expect_checked(
        "overruns", CHECKED("MM_CHECK_EXITCODE=200"), 200,
        OVERRUN("1") OVERRUN("20") OVERRUN("64") OVERRUN("1000") OVERRUN("2097152") OVERRUN(
            "5242880") "mm: device 0: write past the end of @, an allocation of at most 10208 bytes, seen by thread (1,0,0) of block (0,0,0) of kernel make\n"
                       "mm: device 0: write past the end of @, an allocation of 30 bytes, allocated by kernel make, seen at the end\n"
                       "mm: device 0: leak: 1 objects of size class 32, 30 bytes, allocated by kernel make\n"
                       "mm: device 0: checked: 1 leaks of 30 bytes, 8 writes past the end, 0 writes after free, 0 misuses of free\n");
    expect_checked("after-free", CHECKED("MM_CHECK_EXITCODE=0"), 0,
                   "mm: device 0: double free(@) of 3000" FREED_BY_END "by thread (1,0,0) of block (0,0,0) of kernel make\n" AFTER_FREE "5242880" FREED_BY_END
                   "seen by thread (1,0,0) of block (0,0,0) of kernel make\n" AFTER_FREE "100" FREED_BY_END "seen at the end\n" AFTER_FREE "3000" FREED_BY_END
                   "seen at the end\n"
                   "mm: device 0: checked: 0 leaks of 0 bytes, 0 writes past the end, 3 writes after free, 1 misuses of free\n");
    struct result r = RUN(CHECKED("MM_STATS=0"), "./client", "v2-ptsz", "checked", "nothing"); /* there a launch without a stream uses another stream */
    expect(&r, 0, NULL, CLEAN);
    expect_checked("nothing", SETTINGS(preload_mm, "MM_CHECK=2"), 1, "mm: MM_CHECK=2 is not understood; expected 0 or 1; using 0\n");
}
END_TEST

/* Names of kernels if no kernel of ours precedes each launch, and if other work takes numbers: at worst "not known", never wrong. */
START_TEST(kernels_by_number) {
    static const char *const leak = "mm: device 0: leak: %d objects of size class %d, %d bytes, allocated by kernel %s\n";
    static const char *const names[] = {"make", "end", "_ZN5other4makeEPPv"};
    static const char *const all[] = {"numbers", "all-disturbed", "disturbed"};
    for (int way = 0; way < 3; way++) {
        struct result r = RUN(CHECKED("MM_CHECK_EXITCODE=0"), "./client", "v2-legacy", "checked", all[way]);
        ck_assert_int_eq(r.status, 0);
        for (int i = 0; i < 3; i++) {
            const int launches = way == 1 ? 100 : 1000, bytes = 16 + 16 * i;
            char line[200];
            int known = 0, unknown = 0;
            for (int n = 1; n <= launches; n++) {
                snprintf(line, sizeof line, leak, n, bytes, n * bytes, names[i]);
                if (strstr(r.err, line)) known = n;
                snprintf(line, sizeof line, leak, n, bytes, n * bytes, "not known");
                if (strstr(r.err, line)) unknown = n;
            }
            ck_assert_msg(known + unknown == launches && (way == 2 ? known > 950 && known < 1000 : unknown == 0), "%s: \"%s\"", all[way], r.err);
        }
    }
    struct result r = RUN(CHECKED("MM_CHECK_EXITCODE=0"), "./client", "v2-legacy", "checked", "settled");
    int known = 0, unknown = 0;
    for (const char *line = r.err; *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n'), *freed = strstr(line, ", freed by kernel ");
        if (!freed || freed > end) continue;
        known += strncmp(freed, ", freed by kernel make, by thread (1,0,0) of block (0,0,0) of kernel make\n", (size_t)(end - freed) + 1) == 0;
        unknown += strncmp(freed, ", freed by kernel not known, by thread (1,0,0) of block (0,0,0) of kernel not known\n", (size_t)(end - freed) + 1) == 0;
    }
    ck_assert_msg(known >= 1 && unknown >= 1 && known + unknown == 9, "\"%s\"", r.err);
}
END_TEST

/* Objects in quarantine are not live, and the requested bytes are known. */
START_TEST(statistics_of_checked_runs) {
    struct result r = RUN(CHECKED("MM_STATS=json"), "./client", "v2-legacy", "checked", "leaks");
    ck_assert_msg(strstr(r.err, "\"live_objects\":19,") && strstr(r.err, ",\"asked_bytes\":6295776,") && strstr(r.err, ",\"misuse_overrun\":0,"), "%s", r.err);
    ck_assert(strstr(r.err, "\"internal_fragmentation\":0.14") != NULL);
}
END_TEST

START_TEST(checked_runs_use_all_memory) {
    struct result r = RUN(CHECKED("MM_HEAP_SIZE=8M", "MM_HEAP_MAX=8M"), "./client", "v2-legacy", "checked", "null");
    ck_assert_msg(r.status == 0 && strstr(r.err, "malloc of 4000 bytes in a kernel answered NULL") && strstr(r.err, "0 misuses of free\n"),
                  "status %d, \"%s\" \"%s\"", r.status, r.out, r.err);
    r = RUN(CHECKED("MM_HEAP_SIZE=8M", "MM_HEAP_MAX=8M", "MM_STATS=1"), "./client", "v2-legacy", "checked", "null");
    ck_assert_msg(strstr(r.err, "NULL: 2 requests, the first of 4000 bytes, in kernel: make\n"), "\"%s\"", r.err);
}
END_TEST

/* Whichever driver call fails once, the program goes on; missing checks are reported. */
START_TEST(checked_runs_and_faults) {
    int faults = 0;
    for (int k = 1; k < 200; k++) {
        char call[16];
        snprintf(call, sizeof call, "%d", k);
        struct result r = RUN(CHECKED("MM_STATS=json", "MM_HEAP_MAP=fault.svg"), "./client", "v2-legacy", "checked-faults", call);
        ck_assert_msg(r.status == 0, "call %d, %s: status %d, \"%s\"", k, r.out, r.status, r.err);
        for (char *line = r.err; *line; line = strchr(line, '\n') + 1)
            ck_assert_msg(strncmp(line, "mm: ", 4) == 0 || strncmp(line, "{\"mm_statistics\"", 16) == 0, "call %d: %s", k, r.err);
        const bool is_checked = strstr(r.err, ": checked: 100 leaks of 10000 bytes") != NULL, is_told = strstr(r.err, "not checked for leaks") != NULL;
        ck_assert_msg(is_checked != is_told || strstr(r.err, "no heap") || strstr(r.err, "is empty") || strstr(r.err, "tell a kernel's module"),
                      "call %d, %s: %s", k, r.out, r.err);
        if (strcmp(r.out, "none\n") == 0) break;
        faults++;
    }
    unlink("fault.svg");
    ck_assert_msg(faults > 40 && faults < 199, "%d calls", faults);
}
END_TEST

/* MM_FILL, and the default fill of a checked run. */
START_TEST(fills) {
    static const char *const all[] = {"none", "zero", "junk"};
    for (int i = 0; i < 3; i++) {
        char setting[32];
        snprintf(setting, sizeof setting, "MM_FILL=%s", all[i]);
        struct result r = RUN(SETTINGS(preload_mm, setting), "./client", "v2-legacy", "fill", all[i]);
        expect(&r, 0, "", "");
        r = RUN(CHECKED(setting), "./client", "v2-legacy", "fill", all[i]);
        expect(&r, 0, "", CLEAN);
    }
    struct result r = RUN(SETTINGS(preload_mm, "MM_VERBOSE=0"), "./client", "v2-legacy", "fill", "none");
    expect(&r, 0, "", "");
    r = RUN(CHECKED("MM_VERBOSE=0"), "./client", "v2-legacy", "fill", "junk");
    expect(&r, 0, "", CLEAN);
    r = RUN(CHECKED("MM_FILL=1"), "./client", "v2-legacy", "fill", "junk");
    expect(&r, 0, "", "mm: MM_FILL=1 is not understood; expected none, zero or junk; using junk\n" CLEAN);
}
END_TEST

/* MM_FAIL: the requests that fail, and the line at the end, however the heap ends. */
#define FAILED(of, text) "mm: device 0: MM_FAIL=" of ": " text " requests failed\n"
START_TEST(failures) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_FAIL=1/10"), "./client", "v2-legacy", "fail", "plain");
    expect(&r, 0, "100, 100, first 6\n", FAILED("1/10", "200 of 2000"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=1/10:77", "MM_FILL=junk"), "./client", "v2-legacy", "fail", "plain");
    expect(&r, 0, "100, 100, first 9\n", FAILED("1/10:77", "200 of 2000"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=1500"), "./client", "v2-legacy", "fail", "plain");
    expect(&r, 0, "0, 1, first 0\n", FAILED("1500", "1 of 2000"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=1500"), "./client", "v2-legacy", "fail", "reset"); /* mm_reset does not number them anew */
    expect(&r, 0, "0, 1, first 0\n", FAILED("1500", "1 of 2000"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=500"), "./client", "v2-legacy", "fail", "destroy");
    expect(&r, 0, "1, 1, first 499\n", FAILED("500", "1 of 1000") FAILED("500", "1 of 1000"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=1/20"), "./client", "v2-legacy", "fail", "fault"); /* a kernel has failed: its counters cannot be read */
    expect(&r, 0, "50, 50, first 12\n", FAILED("1/20", "at least 100"));
    r = RUN(CHECKED("MM_FAIL=1/10"), "./client", "v2-legacy", "fail", "plain");
    expect(&r, 0, "100, 100, first 6\n", FAILED("1/10", "200 of 2000") CLEAN);
}
END_TEST

/* MM_FAIL=kernel:NAME: a kernel's name in the source, or its mangled name. Its launches, and only those, are waited for. */
START_TEST(failures_of_a_kernel) {
#define FIRST "make: 0 of 0, then 0\n"
#define NO ": 0 of 0, then 0\n"
#define YES ": 10 of 2, then 0\n"
    struct result r =
        RUN(SETTINGS(preload_mm, "MM_FAIL=kernel:insert"), "./client", "v2-legacy", "fail-kernel", "make", "insert", "_Z6insertPi", "_ZN5other6insertEPi",
            "_ZN5other6insertIiEEvPT_", "_ZL6insertPi", "_ZN6insert4makeEPi", "inserts", "_Z7inserts", "_Z5other6insert", "_Z99insert", "insert");
    expect(&r, 0,
           FIRST "insert" YES "_Z6insertPi" YES "_ZN5other6insertEPi" YES "_ZN5other6insertIiEEvPT_" YES "_ZL6insertPi" YES "_ZN6insert4makeEPi" NO "inserts" NO
                 "_Z7inserts" NO "_Z5other6insert" NO "_Z99insert" NO "insert" YES,
           FAILED("kernel:insert", "60 of 260"));
    r = RUN(SETTINGS(preload_mm, "MM_FAIL=kernel:_ZN5other6insertEPi"), "./client", "v2-ptsz", "fail-kernel", "make", "_Z6insertPi", "_ZN5other6insertEPi");
    expect(&r, 0, FIRST "_Z6insertPi" NO "_ZN5other6insertEPi" YES, FAILED("kernel:_ZN5other6insertEPi", "10 of 70"));
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("report");
    TCase *c = tcase_create("report");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, misuse_is_told, 0, 2);
    tcase_add_test(c, misuse_is_told_when_a_context_ends);
    tcase_add_test(c, misuse_is_told_without_a_call);
    tcase_add_test(c, misuse_of_each_kind);
    tcase_add_test(c, statistics_as_text);
    tcase_add_test(c, statistics_of_every_end);
    tcase_add_test(c, usage_for_programs);
    tcase_add_test(c, usage_of_other_allocators);
    tcase_add_test(c, fills);
    tcase_add_test(c, failures);
    tcase_add_test(c, failures_of_a_kernel);
    tcase_add_test(c, checked_runs);
    tcase_add_test(c, checked_runs_and_faults);
    tcase_add_test(c, kernels_by_number);
    tcase_add_test(c, statistics_of_checked_runs);
    tcase_add_test(c, checked_runs_use_all_memory);
    suite_add_tcase(s, c);
    return suite_run(s);
}
