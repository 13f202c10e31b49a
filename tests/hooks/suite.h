/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs the client programs for the suites and checks their output. Working directory: folder of the programs; argv[1]: folder
 * of libmm.so.1, argv[2]: folder of mmrun. */
#ifndef MM_HOOKS_SUITE_H
#define MM_HOOKS_SUITE_H

#include <check.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mmconfig.h"
#include "tests/runner.h"

static char preload_mm[4096], mmrun[4096];

/* The stand-in's GPU is sm_90: prints a message and returns false if mm was built for no architecture up to that. */
static inline bool suite_has_code(const char *lib) {
    glob_t found;
    char pattern[4096];
    long least = 1000;
    snprintf(pattern, sizeof pattern, "%s/ptx/mm_*.ptx", lib);
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const long arch = strtol(strrchr(found.gl_pathv[i], '_') + 1, NULL, 10);
        if (arch < least) least = arch;
    }
    globfree(&found);
    if (least <= 90) return true;
    printf("hooks: mm has no code for sm_90, of which the stand-in's GPU is, nor for any before it; expected one in ARCHS\n");
    return false;
}

static inline bool suite_begin(int argc, char **argv) {
    if (argc < 3) return false;
    snprintf(preload_mm, sizeof preload_mm, "LD_PRELOAD=%s/libmm.so.1", argv[1]);
    snprintf(mmrun, sizeof mmrun, "%s/mmrun", argv[2]);
    setenv("LD_LIBRARY_PATH", ".", 1);
    return suite_has_code(argv[1]);
}

struct result {
    int status; /* exit status, or 1000 + signal */
    char out[4096], err[8192];
};

static inline void read_all(FILE *f, char *to, size_t size) {
    rewind(f);
    to[fread(to, 1, size - 1, f)] = 0;
    fclose(f);
}

/* Reads the file that a run wrote, and removes it. */
static inline void read_file(const char *path, char *text, size_t size) {
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "there is no %s", path);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    unlink(path);
}

/* Runs argv with "NAME=value" settings added to the environment; "NAME" alone removes a variable. */
static inline struct result run(const char *const *settings, const char *const *argv) {
    struct result r;
    FILE *out = tmpfile(), *err = tmpfile();
    ck_assert(out && err);
    pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        for (; settings && *settings; settings++) putenv((char *)(void *)*settings);
        execvp(argv[0], (char *const *)(void *)argv);
        _exit(99);
    }
    int status = 0;
    ck_assert(waitpid(child, &status, 0) == child);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    read_all(out, r.out, sizeof r.out);
    read_all(err, r.err, sizeof r.err);
    return r;
}

#define SETTINGS(...) ((const char *const[]){"MM_UNSET", __VA_ARGS__, NULL})
/* Settings of a checked run, and its last line if it finds nothing. */
#define CHECKED(...) SETTINGS(preload_mm, "MM_CHECK=1", "MM_SPACING=16", __VA_ARGS__)
#define CLEAN "mm: device 0: checked: 0 leaks of 0 bytes, 0 writes past the end, 0 writes after free, 0 misuses of free\n"
#define RUN(settings, ...) run(settings, (const char *const[]){__VA_ARGS__, NULL})

static inline void expect(const struct result *r, int status, const char *out, const char *err) {
    ck_assert_msg(r->status == status, "status %d, expected %d; printed \"%s\" \"%s\"", r->status, status, r->out, r->err);
    if (out) ck_assert_str_eq(r->out, out);
    if (err) ck_assert_str_eq(r->err, err);
}

#endif
