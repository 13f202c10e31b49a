/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the files that mm writes about a heap, against the stand-in driver: traces, profiles, pictures. The scenarios are in client_trace.c,
 * client_report.c and client_checked.c. */
#define _GNU_SOURCE
#include "tests/hooks/suite.h"

/* ---- traces and profiles --------------------------------------------------------------------------- */

/* MM_TRACE: the file, and the line, however the heap ends. */
#define TRACED(file, text) "mm: device 0: trace in " file ": " text " left out\n"
START_TEST(traces) {
    static const char whole[] =
        "mm-trace 1\nk 0\nm 100 0 @\nm 4000 0 @ 128\nm 3145728 0 @\nn 1125899906842624 0 @\nk 1\nf 1 0 @\nf 0 0 @\nm 60 0 @\nend 4 1 2 0\n";
    static char text[4096], expected[4096];
    static const char misuse[] = "double free";
    struct result r = RUN(SETTINGS(preload_mm, "MM_TRACE=t-%d", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "end");
    ck_assert_msg(r.status == 0 && strstr(r.err, TRACED("t-0", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1")) && !strstr(r.err, misuse), "%s", r.err);
    read_file("t-0", text, sizeof text);
    size_t n = 0;
    const unsigned long thread = strtoul(strchr(text, 'm' /* mm-trace */) + sizeof "mm-trace 1\nk 0\nm 100 0", NULL, 10);
    for (const char *c = whole; *c; c++) n += (size_t)(*c == '@' ? sprintf(expected + n, "%lu", thread) : sprintf(expected + n, "%c", *c));
    ck_assert_str_eq(text, expected);
    r = RUN(SETTINGS(preload_mm, "MM_TRACE=t", "MM_ON_MISUSE=ignore", "MM_FILL=junk"), "./client", "v2-legacy", "trace",
            "reset"); /* the second heap's replaces the first's */
    ck_assert_msg(r.status == 0 && strstr(r.err, TRACED("t", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1")
                                                     TRACED("t", "1 mallocs, 0 NULLs, 0 frees; 0 events dropped, 0")),
                  "%s", r.err);
    read_file("t", text, sizeof text);
    ck_assert_msg(strncmp(text, "mm-trace 1\nk 0\nm 7 0 ", 21) == 0, "%s", text);
    r = RUN(SETTINGS(preload_mm, "MM_TRACE=t", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "fault");
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: device 0: no trace (cuMemcpyDtoHAsync)\n") && access("t", F_OK) != 0, "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_TRACE=/nonexistent/t", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "end");
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: cannot write a trace to /nonexistent/t: No such file or directory\n") && !strstr(r.err, "trace in"), "%s",
                  r.err);
    r = RUN(CHECKED("MM_TRACE=t"), "./client", "v2-legacy", "checked", "nothing");
    ck_assert_msg(
        r.status == 0 &&
            strncmp(r.err, "mm: device 0: not traced: a checked run is not\n" CLEAN, strlen("mm: device 0: not traced: a checked run is not\n" CLEAN)) == 0 &&
            access("t", F_OK) != 0,
        "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_TRACE=t"), "./client", "v2-legacy", "trace-refused");
    expect(&r, 0, "", "mm: device 0: not traced (cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY)\n");
}
END_TEST

/* MM_PROFILE: the same events, by kernel, in the form that the ending means. */
#define PROFILED(file, text) "mm: device 0: profile in " file ": " text " left out\n"
START_TEST(profiles) {
    static char text[8192];
    struct result r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p-%d.folded", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "end");
    ck_assert_msg(r.status == 0 && strstr(r.err, PROFILED("p-0.folded", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1")) && !strstr(r.err, "trace"), "%s",
                  r.err);
    read_file("p-0.folded", text, sizeof text);
    ck_assert_str_eq(text, "make;up to 112 bytes 100\nmake;up to 4.0 KiB 4000\nmake;up to 4.0 MiB 3145728\nother;up to 64 bytes 60\n");
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p.txt", "MM_TRACE=t", "MM_ON_MISUSE=ignore"), "./client", "v2-ptsz", "trace", "reset"); /* both */
    ck_assert_msg(r.status == 0 &&
                      strstr(r.err, TRACED("t", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1")
                                        PROFILED("p.txt", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1")) &&
                      strstr(r.err, PROFILED("p.txt", "1 mallocs, 0 NULLs, 0 frees; 0 events dropped, 0")),
                  "%s", r.err);
    read_file("p.txt", text, sizeof text); /* the second heap's */
    ck_assert_msg(strncmp(text, "Heap of device 0, process ", 26) == 0, "%s", text);
    ck_assert_msg(strstr(text, "\n           1                  7          0            0            1                  7                  7  make\n") != NULL,
                  "%s", text);
    ck_assert(unlink("t") == 0);
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p.txt", "MM_TRACE=t", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "mm_reset");
    ck_assert_msg(r.status == 0 && strstr(r.err, PROFILED("p.txt", "5 mallocs, 1 NULLs, 2 frees; 0 events dropped, 2")), "%s", r.err);
    read_file("p.txt", text, sizeof text);
    ck_assert_msg(strstr(text, "\n           3            3149828          1            0            0                  0            3149828  make\n") != NULL,
                  "%s", text);
    ck_assert_msg(strstr(text, "\n           2                110          0            2            1                 50                 60  other\n") != NULL,
                  "%s", text);
    ck_assert_msg(strstr(text, "\n           1            3145728            0                  0      4194304  make\n") != NULL, "%s", text);
    read_file("t", text, sizeof text);
    ck_assert_msg(strstr(text, "\nend 5 1 2 0\n") != NULL, "%s", text); /* mm_reset has no line */
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p.txt", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "mm_reset-fails");
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: device 0: mm_reset is not in the trace (cuMemcpyDtoHAsync)\n"), "%s", r.err);
    unlink("p.txt");
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p.svg", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "fault");
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: device 0: no profile (cuMemcpyDtoHAsync)\n") && access("p.svg", F_OK) != 0, "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=/nonexistent/p", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "end");
    ck_assert_msg(r.status == 0 && strstr(r.err, "mm: cannot write a profile to /nonexistent/p: No such file or directory\n") && !strstr(r.err, "profile in"),
                  "%s", r.err);
    r = RUN(CHECKED("MM_PROFILE=p"), "./client", "v2-legacy", "checked", "nothing");
    ck_assert_msg(r.status == 0 && strcmp(r.err, "mm: device 0: not profiled: a checked run is not\n" CLEAN) == 0 && access("p", F_OK) != 0, "%s", r.err);
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE=p"), "./client", "v2-legacy", "trace-refused");
    expect(&r, 0, "", "mm: device 0: not profiled (cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY)\n");
    r = RUN(SETTINGS(preload_mm, "MM_PROFILE="), "./client", "v2-legacy", "function");
    expect(&r, 0, "", "mm: MM_PROFILE= is not understood; expected the name of a file; not used\n");
}
END_TEST

/* The last events are dropped, and counted; mmbench reads the file. */
START_TEST(long_traces) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_TRACE=t", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "many");
    ck_assert_msg(r.status == 0 && strstr(r.err, TRACED("t", "2097152 mallocs, 1 NULLs, 2097150 frees; 8 events dropped, 1")), "%s", r.err);
    unlink("t");
}
END_TEST

/* ---- pictures --------------------------------------------------------------------------------------- */

START_TEST(heap_map) {
    static char svg[200000];
    struct result r =
        RUN(SETTINGS(preload_mm, "MM_HEAP_MAP=map.svg", "MM_ON_MISUSE=ignore", "MM_SPACING=16", "MM_HEAP_SIZE=28M"), "./client", "v2-legacy", "usage", "end");
    expect(&r, 0, NULL, "");
    read_file("map.svg", svg, sizeof svg);
    ck_assert(strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39) == 0 && strcmp(svg + strlen(svg) - 7, "</svg>\n") == 0);
    static const char *const legend[] = {">64 bytes: 1 segments, 1000 live<", ">768 bytes: 0 segments, 10 live<", ">runs (1 MiB and more): 6 segments, 1 live<",
                                         ">free: 21 segments<"};
    for (size_t i = 0; i < sizeof legend / sizeof *legend; i++) ck_assert_msg(strstr(svg, legend[i]) != NULL, "no %s", legend[i]);
    ck_assert_ptr_null(strstr(svg, ": 0 segments, 0 live"));
    r = RUN(SETTINGS(preload_mm, "MM_HEAP_MAP=map-%d-%l.svg", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "usage", "reset"); /* two launches */
    expect(&r, 0, NULL, "");
    for (int launch = 1; launch <= 2; launch++) {
        char path[40], title[40];
        snprintf(path, sizeof path, "map-0-%d.svg", launch), snprintf(title, sizeof title, ", after launch %d<", launch);
        read_file(path, svg, sizeof svg);
        ck_assert_msg(strstr(svg, title) && strstr(svg, ">free: 16 segments<"), "%s", path);
    }
    ck_assert(access("map-0-3.svg", F_OK) != 0 && access("map-0-0.svg", F_OK) != 0);
    r = RUN(SETTINGS(preload_mm, "MM_HEAP_MAP=/nonexistent/map.svg", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "usage", "end");
    expect(&r, 0, NULL, "mm: cannot write a picture to /nonexistent/map.svg: No such file or directory\n");
}
END_TEST

/* MM_MAP_SERIES: one picture. Of 100 launches 24 + 12 + 12 + 1 are waited for, and every eighth is left. */
START_TEST(map_series) {
    static char svg[400000];
    struct result r = RUN(SETTINGS(preload_mm, "MM_MAP_SERIES=series-%d.svg"), "./client", "v2-legacy", "launches", "100");
    expect(&r, 0, "49\n", "");
    read_file("series-0.svg", svg, sizeof svg);
    ck_assert(strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39) == 0 && strcmp(svg + strlen(svg) - 7, "</svg>\n") == 0);
    int frames = 0;
    for (const char *at = svg; (at = strstr(at, ">after launch ")) != NULL; at++, frames++)
        ck_assert_msg(strtol(at + 14, NULL, 10) == 1 + 8 * frames, "frame %d: %.30s", frames, at);
    ck_assert_int_eq(frames, 13);
    ck_assert_ptr_nonnull(strstr(svg, ">at the end, launches: 100: "));
    ck_assert(strstr(svg, ">spans (less than 1 MiB)</text>") && strstr(svg, ">after launch 1: 0 of 16 segments in use<"));
    r = RUN(SETTINGS(preload_mm, "MM_MAP_SERIES=/nonexistent/s", "MM_HEAP_MAP=map.svg"), "./client", "v2-legacy", "launches", "2"); /* and the map of the end */
    expect(&r, 0, "2\n", "mm: cannot write a picture to /nonexistent/s: No such file or directory\n");
    ck_assert(unlink("map.svg") == 0);
    r = RUN(SETTINGS(preload_mm, "MM_HEAP_MAP=map.svg"), "./client", "v2-legacy", "launches", "2");
    expect(&r, 0, "0\n", "");
    ck_assert(unlink("map.svg") == 0);
}
END_TEST

/* While a thread waits for its launch, another one launches and looks at the heap first: each launch has its frame and picture, in the order of launches. */
START_TEST(launches_of_threads) {
    static char svg[400000];
    char path[40], title[40];
    for (int launch = 1; launch <= 21; launch++) snprintf(path, sizeof path, "map-%d.svg", launch), unlink(path); /* of a run that failed */
    struct result r = RUN(SETTINGS(preload_mm, "MM_MAP_SERIES=series.svg", "MM_HEAP_MAP=map-%l.svg"), "./client", "v2-legacy", "launches-threads", "21");
    expect(&r, 0, "", "");
    read_file("series.svg", svg, sizeof svg);
    int frames = 0;
    for (const char *at = svg; (at = strstr(at, ">after launch ")) != NULL; at++, frames++)
        ck_assert_msg(strtol(at + 14, NULL, 10) == 1 + frames, "frame %d: %.30s", frames, at);
    ck_assert_int_eq(frames, 21);
    for (int launch = 1; launch <= 21; launch++) {
        snprintf(path, sizeof path, "map-%d.svg", launch), snprintf(title, sizeof title, ", after launch %d<", launch);
        read_file(path, svg, sizeof svg);
        ck_assert_msg(strstr(svg, title) != NULL, "%s", path);
    }
}
END_TEST

/* ---- what is missing --------------------------------------------------------------------------------- */

/* The driver refuses one call after the other: what is missing of a profile and a series of maps is reported, and what is written is right. */
START_TEST(profiles_and_faults) {
    static char text[8192];
    int faults = 0, written = 0;
    for (int k = 1; k < 400; k++) {
        char call[16];
        snprintf(call, sizeof call, "%d", k);
        struct result r = RUN(SETTINGS(preload_mm, "MM_PROFILE=fault.txt", "MM_MAP_SERIES=fault.svg"), "./client", "v2-legacy", "checked-faults", call);
        ck_assert_msg(r.status == 0, "call %d, %s: status %d, \"%s\"", k, r.out, r.status, r.err);
        for (char *line = r.err; *line; line = strchr(line, '\n') + 1) ck_assert_msg(strncmp(line, "mm: ", 4) == 0, "call %d: %s", k, r.err);
        const bool is_written = strstr(r.err, ": profile in fault.txt: ") != NULL;
        ck_assert_msg(is_written != (strstr(r.err, "no profile") || strstr(r.err, "not profiled")) || strstr(r.err, "no heap") || strstr(r.err, "is empty") ||
                          strstr(r.err, "tell a kernel's module"),
                      "call %d, %s: %s", k, r.out, r.err);
        ck_assert((access("fault.txt", F_OK) == 0) == is_written);
        if (is_written) {
            read_file("fault.txt", text, sizeof text);
            ck_assert_msg(
                strstr(text, "         100              10000          0            0          100              10000              10000  ") ||
                    strstr(text, "           0                  0          0            0            0                  0                  0  all kernels"),
                "call %d, %s: %s", k, r.out, text);
            written++;
        }
        if (strcmp(r.out, "none\n") == 0) break;
        faults++;
    }
    unlink("fault.svg");
    ck_assert_msg(faults > 40 && faults < 399 && written > 20, "%d calls, %d files", faults, written);
}
END_TEST

/* No memory for one file: one line says so, and the other file is complete. */
START_TEST(files_without_memory) {
    static char text[8192], both[4200];
    static const char trace[] = TRACED("t", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1"),
                      profile[] = PROFILED("p.pb.gz", "4 mallocs, 1 NULLs, 2 frees; 0 events dropped, 1");
    static const char *const lines[][2] = {{"mm: device 0: no trace (malloc)\n", profile}, /* the trace's memory, the profile's, that of its copy before gzip */
                                           {trace, "mm: device 0: no profile (malloc)\n"},
                                           {trace, "mm: device 0: no profile (malloc)\n"}};
    snprintf(both, sizeof both, "LD_PRELOAD=./libscarce.so %s", preload_mm + sizeof "LD_PRELOAD");
    for (int i = 0; i < 3; i++) {
        char scarce[24], expected[400];
        snprintf(scarce, sizeof scarce, "SCARCE=%d", i + 1), snprintf(expected, sizeof expected, "%s%s", lines[i][0], lines[i][1]);
        struct result r = RUN(SETTINGS(both, scarce, "MM_TRACE=t", "MM_PROFILE=p.pb.gz", "MM_ON_MISUSE=ignore"), "./client", "v2-legacy", "trace", "end");
        ck_assert_msg(r.status == 0 && strstr(r.err, expected), "%s: %s, expected %s", scarce, r.err, expected);
        ck_assert((access("t", F_OK) == 0) == (i > 0) && (access("p.pb.gz", F_OK) == 0) == (i == 0));
        if (i == 0) {
            unlink("p.pb.gz");
            continue;
        }
        read_file("t", text, sizeof text);
        ck_assert_ptr_nonnull(strstr(text, "\nend 4 1 2 0\n"));
    }
    struct result r = RUN(SETTINGS(both, "SCARCE=1", "MM_MAP_SERIES=s.svg"), "./client", "v2-legacy", "launches", "3");
    expect(&r, 0, "3\n", "mm: device 0: no series of maps (malloc)\n");
    r = RUN(SETTINGS(both, "SCARCE=1", "MM_STATS=1"), "./client", "v2-legacy", "launches", "3");
    expect(&r, 0, "0\n", "mm: device 0: no statistics (malloc)\n");
    ck_assert(access("s.svg", F_OK) != 0);
    r = RUN(SETTINGS(both, "SCARCE=1", "MM_HEAP_MAP=m.svg"), "./client", "v2-legacy", "launches", "3");
    expect(&r, 0, "0\n", "mm: device 0: no picture (malloc)\n");
    ck_assert(access("m.svg", F_OK) != 0);
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("files");
    TCase *c = tcase_create("files");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, traces);
    tcase_add_test(c, profiles);
    tcase_add_test(c, long_traces);
    tcase_add_test(c, heap_map);
    tcase_add_test(c, map_series);
    tcase_add_test(c, launches_of_threads);
    tcase_add_test(c, profiles_and_faults);
    tcase_add_test(c, files_without_memory);
    suite_add_tcase(s, c);
    return suite_run(s);
}
