/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The options of mmbench. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mmconfig.h"
#include "tools/mmbench/mmbench.h"

#define RUNS_MIN 10
#define RUNS_MAX 1000
#define TIMEOUT_MAX 3600
#define MINUTES_MAX 1440
#define HEAP_MIN (256ull << 20)

static const char usage[] = "usage: mmbench [OPTION...]\n"
                            "       mmbench --plot DIR FILE...\n"
                            "       mmbench --claims FILE...\n"
                            "       mmbench --check-trace FILE\n"
                            "Measures malloc and free in kernels: CUDA's own allocator and mm.\n"
                            "  --csv FILE              every row, for programs\n"
                            "  --cases NAME,NAME...    these cases only (--list)\n"
                            "  --allocators NAME,...   all, or of: mm, builtin, and, after make allocators, random-walk,\n"
                            "                          random-walk-bitmap, random-walk-coop, random-walk-runs, atomic, aw, circular,\n"
                            "                          circular-fused, circular-multi, circular-multi-fused, ouroboros-s-p,\n"
                            "                          ouroboros-va-p, ouroboros-vl-p, ouroboros-s-c, ouroboros-va-c, ouroboros-vl-c;\n"
                            "                          mm,builtin if not given; of cudaMalloc: pool-tlsf, pool-segregated,\n"
                            "                          pool-bitmask, pool-first, pool-next, pool-best\n"
                            "  --quick                 fewer sizes, fewer rounds, fewer calls, a smaller graph, a shorter wait\n"
                            "  --heap SIZE             bytes, with K, M, G or T (8G; endurance 2G): of the cases that do not need their own\n"
                            "  --runs N                timed runs of each row (12), at least 10; 3 are made of what takes over a second\n"
                            "  --timeout SECONDS       what a row may take before it is given up (20); some cases may take several times that\n"
                            "  --compare FILE          shows the best row of such a file, or of published allocators' rows, next to mm's\n"
                            "  --minutes N             begins nothing after N minutes\n"
                            "  --resume                goes on where the --csv file ends, which a run with the same options wrote\n"
                            "  --claims FILE...        measures nothing: checks published claims against the rows of such files\n"
                            "  --plot DIR FILE...      measures nothing: draws the rows of such files, as pictures (SVG) in a directory\n"
                            "  --replay FILE           measures no cases: makes the requests of a trace by mmrun --trace with each allocator\n"
                            "  --check-trace FILE      measures nothing: reads a trace, and says what it holds, or what is wrong\n"
                            "  --list                  the cases\n"
                            "  -V, --version           version of mm, and its commit\n"
                            "  -h, --help              this text\n"
                            "Exit status: 0; 1 nothing could be measured (no GPU, say) or drawn; 2 bad options; 3 a row of mm failed;\n"
                            "4 --minutes are over, and --resume goes on; 130 interrupted.\n";

static int bad(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "mmbench: %s: \"%s\"; expected %s\n", option, value, expected);
    return MM_BENCH_EXIT_USAGE;
}

static bool try_number(const char *text, unsigned long long *value, char **end) {
    errno = 0;
    *value = strtoull(text, end, 10);
    return text[0] >= '0' && text[0] <= '9' && errno == 0;
}

static bool try_count(const char *text, unsigned least, unsigned most, unsigned *count) {
    unsigned long long value;
    char *end;
    if (!try_number(text, &value, &end) || *end || value < least || value > most) return false;
    *count = (unsigned)value;
    return true;
}

static bool try_size(const char *text, uint64_t *bytes) {
    unsigned long long value;
    char *end;
    unsigned shift = 0;
    if (!try_number(text, &value, &end)) return false;
    if (*end) {
        static const char units[] = "kKmMgGtT";
        const char *unit = strchr(units, *end);
        if (!unit || end[1]) return false;
        shift = 10 * (unsigned)((unit - units) / 2 + 1);
    }
    if (value > UINT64_MAX >> shift || value << shift < HEAP_MIN || value << shift > 1ull << 40) return false;
    *bytes = (uint64_t)value << shift;
    return true;
}

static const char *case_name(size_t c) { return mm_bench_cases[c].name; }
static const char *allocator_name(size_t a) { return mm_bench_allocator_names[a]; }

/* Sets chosen[i] for each name in a list with commas between them, clears the others. Returns where a name is that is none, or NULL. */
static const char *unknown_in(const char *list, const char *(*name_of)(size_t), size_t count, bool *chosen) {
    memset(chosen, 0, count * sizeof *chosen);
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        size_t i = 0;
        while (i < count && (strlen(name_of(i)) != length || strncmp(name_of(i), at, length) != 0)) i++;
        if (i == count) return at;
        chosen[i] = true;
        at += length;
        if (!*at) return NULL;
    }
}

static int take_cases(const char *list, struct mm_bench_options *o) {
    char name[64];
    const char *at = unknown_in(list, case_name, mm_bench_case_count, o->cases);
    if (!at) return 0;
    const size_t length = strcspn(at, ",");
    snprintf(name, sizeof name, "%.*s", length < 60 ? (int)length : 60, at);
    return bad("--cases", name, "names of mmbench --list, with commas between them");
}

static int take_allocators(const char *list, struct mm_bench_options *o) {
    if (!strcmp(list, "all")) {
        for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) o->allocators[a] = true;
        return 0;
    }
    if (!unknown_in(list, allocator_name, MM_BENCH_ALLOCATORS, o->allocators)) return 0;
    return bad("--allocators", list, "all, or names of mmbench --help, with commas between them");
}

static int take(const char *option, const char *value, struct mm_bench_options *o) {
    if (!strcmp(option, "--csv")) {
        o->csv = value;
        return *value ? 0 : bad(option, value, "a file to write");
    }
    if (!strcmp(option, "--replay")) {
        o->replay = value;
        return *value ? 0 : bad(option, value, "a trace by mmrun --trace");
    }
    if (!strcmp(option, "--cases")) return take_cases(value, o);
    if (!strcmp(option, "--allocators")) return take_allocators(value, o);
    if (!strcmp(option, "--heap")) return try_size(value, &o->heap) ? 0 : bad(option, value, "256M to 1T, such as 8G");
    if (!strcmp(option, "--compare")) return mm_bench_results_read(&o->others, option, value) ? 0 : MM_BENCH_EXIT_USAGE;
    if (!strcmp(option, "--minutes")) {
        unsigned minutes;
        if (!try_count(value, 0, MINUTES_MAX, &minutes)) return bad(option, value, "0 to 1440 minutes");
        o->until = mm_bench_now() + minutes * 60.0;
        return 0;
    }
    if (!strcmp(option, "--runs")) return try_count(value, RUNS_MIN, RUNS_MAX, &o->runs) ? 0 : bad(option, value, "10 to 1000");
    return try_count(value, 1, TIMEOUT_MAX, &o->timeout) ? 0 : bad(option, value, "1 to 3600 seconds");
}

/* A case was named that measures none of the chosen allocators. */
static int not_measured(const struct mm_bench_case *c) {
    char expected[160] = "--allocators";
    for (int i = 0; i < MM_BENCH_ONLY_MAX && c->only[i]; i++) {
        const size_t n = strlen(expected);
        snprintf(expected + n, sizeof expected - n, "%s%s", i ? "," : " ", c->only[i]);
    }
    return bad("--cases", c->name, expected);
}

const char *mm_bench_settings(const struct mm_bench_options *o, char text[64]) {
    char heap[32] = "default";
    if (o->heap) mm_bench_size_text(o->heap, heap);
    snprintf(text, 64, "heap %.20s, runs %u%s", heap, o->runs, o->quick ? ", quick" : "");
    return text;
}

static void list(void) {
    for (size_t c = 0; c < mm_bench_case_count; c++) printf("%-12s %s\n", mm_bench_cases[c].name, mm_bench_cases[c].about);
}

/* Whether all of these are files, and no options. */
static bool are_files(char *const *files, int count) {
    for (int i = 0; i < count; i++)
        if (files[i][0] == '-') return false;
    return count > 0;
}

/* --claims FILE...: must be the first option, without any other. Returns the exit status. */
static int claims(int argc, char **argv) {
    struct mm_bench_results rows;
    memset(&rows, 0, sizeof rows);
    if (!are_files(argv + 2, argc - 2)) return bad("--claims", argc > 2 ? argv[2] : "", "files of mmbench --csv behind it, and no other option");
    for (int i = 2; i < argc; i++)
        if (!mm_bench_results_read(&rows, "--claims", argv[i])) return MM_BENCH_EXIT_USAGE;
    mm_bench_claims(stdout, &rows);
    free(rows.all);
    return EXIT_SUCCESS;
}

/* --plot DIR FILE...: must be the first option, without any other. Returns the exit status. */
static int plot(int argc, char **argv) {
    const char *joined = strchr(argv[1], '=');
    const int files = joined ? 2 : 3;
    const char *directory = joined ? joined + 1 : argc > 2 ? argv[2] : "";
    if (!*directory) return bad("--plot", directory, "a directory");
    if (files >= argc) return bad("--plot", directory, "files of mmbench --csv behind it");
    for (int i = files; i < argc; i++)
        if (argv[i][0] == '-') return bad("--plot", argv[i], "files of mmbench --csv, and no other option");
    mm_bench_plot(directory, argv + files, argc - files);
    return MM_BENCH_EXIT_USAGE;
}

static bool is_plot(const char *option) { return !strcmp(option, "--plot") || !strncmp(option, "--plot=", 7); }

/* --check-trace FILE: must be the first option, without any other. Returns the exit status. */
static int check_trace(int argc, char **argv) {
    const char *joined = strchr(argv[1], '=');
    const char *path = joined ? joined + 1 : argc > 2 ? argv[2] : "";
    if (!*path || argc != (joined ? 2 : 3)) return bad("--check-trace", path, "one trace by mmrun --trace, and no other option");
    return mm_bench_check_trace(path);
}

static bool is_check_trace(const char *option) { return !strcmp(option, "--check-trace") || !strncmp(option, "--check-trace=", 14); }

static bool is_either(const char *option, const char *letter, const char *word) { return !strcmp(option, letter) || !strcmp(option, word); }

int mm_bench_parse(int argc, char **argv, struct mm_bench_options *o) {
    static const char *const with_value[] = {"--csv", "--cases", "--allocators", "--heap", "--runs", "--timeout", "--compare", "--minutes", "--replay"};
    bool is_named = false; /* the cases were */
    memset(o, 0, sizeof *o);
    for (size_t c = 0; c < mm_bench_case_count; c++) o->cases[c] = true;
    o->allocators[MM_BENCH_MM] = o->allocators[MM_BENCH_BUILTIN] = true;
    o->runs = 12;
    o->timeout = 20;
    if (argc > 1 && is_plot(argv[1])) return plot(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "--claims")) return claims(argc, argv);
    if (argc > 1 && is_check_trace(argv[1])) return check_trace(argc, argv);
    for (int i = 1; i < argc; i++) {
        const char *found = NULL, *value = NULL;
        if (is_either(argv[i], "-h", "--help")) return fputs(usage, stdout) < 0;
        if (is_either(argv[i], "-V", "--version")) return printf("mmbench (mm) " MM_VERSION ", commit %s\n", MM_BENCH_COMMIT) < 0;
        if (!strcmp(argv[i], "--list")) return list(), 0;
        const bool is_quick = !strcmp(argv[i], "--quick"), is_resume = !strcmp(argv[i], "--resume");
        o->quick = o->quick || is_quick;
        o->resume = o->resume || is_resume;
        if (is_quick || is_resume) continue;
        for (size_t k = 0; k < sizeof with_value / sizeof *with_value && !found; k++) {
            const size_t n = strlen(with_value[k]);
            if (strncmp(argv[i], with_value[k], n) != 0 || (argv[i][n] && argv[i][n] != '=')) continue;
            found = with_value[k];
            value = argv[i][n] ? argv[i] + n + 1 : i + 1 < argc ? argv[++i] : NULL;
        }
        if (is_plot(argv[i])) return bad("--plot", argv[i - 1], "no other option before it");
        if (is_check_trace(argv[i])) return bad("--check-trace", argv[i - 1], "no other option before it");
        if (!strcmp(argv[i], "--claims")) return bad("--claims", argv[i - 1], "no other option before it");
        if (!found) return bad("option", argv[i], "one of mmbench --help");
        if (!value) return bad(found, "", "a value");
        is_named = is_named || !strcmp(found, "--cases");
        const int status = take(found, value, o);
        if (status != 0) return status;
    }
    for (size_t c = 0; is_named && c < mm_bench_case_count; c++)
        if (o->cases[c] && !mm_bench_measures_any(&mm_bench_cases[c], o->allocators)) return not_measured(&mm_bench_cases[c]);
    if (o->replay && (is_named || o->csv || o->resume || o->quick || o->others.all || o->until > 0))
        return bad("--replay", o->replay, "no other options than --allocators, --heap, --runs and --timeout");
    if (o->resume && !o->csv) return bad("--resume", "", "--csv FILE, which it goes on with");
    return -1;
}
