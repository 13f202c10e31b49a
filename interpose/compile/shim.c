/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200809L
#include "interpose/compile/shim.h"

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int mm_shim_complain(const char *format, ...) {
    va_list list;
    char line[8192];
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "mmnvcc: %s\n", line);
    return 1;
}

static const char *self_path(void) {
    const char *self = (const char *)getauxval(AT_EXECFN); /* as found in PATH, links not resolved */
    return self ? self : "this program";
}

int mm_shim_path(char *path, size_t bytes, const char *name) {
    const char *self = self_path(), *slash = strrchr(self, '/');
    if (!slash || snprintf(path, bytes, "%.*s/../%s", (int)(slash - self), self, name) >= (int)bytes)
        return mm_shim_complain("cannot tell the folder of '%s'", self);
    if (access(path, F_OK) != 0) return mm_shim_complain("'%s' is not there: '%s' works through mmnvcc only", path, self);
    return 0;
}

int mm_shim_run(const char *program, char **argv) { return mm_shim_run_into(program, argv, -1, -1); }

int mm_shim_run_into(const char *program, char **argv, int out, int err) {
    int status, failed;
    pid_t child;
    posix_spawn_file_actions_t actions;
    failed = posix_spawn_file_actions_init(&actions);
    if (!failed && out >= 0) failed = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!failed && err >= 0) failed = posix_spawn_file_actions_adddup2(&actions, err, 2);
    if (!failed) failed = posix_spawn(&child, program, &actions, NULL, argv, environ);
    if (failed) return mm_shim_complain("cannot run '%s': %s", program, strerror(failed));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return mm_shim_complain("lost '%s': %s", program, strerror(errno));
    if (WIFSIGNALED(status)) return mm_shim_complain("'%s' was killed by signal %d", program, WTERMSIG(status));
    return WEXITSTATUS(status);
}

int mm_shim_read(const char *path, struct mm_text *text) {
    char piece[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    memset(text, 0, sizeof *text);
    if (!f) return -1;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        if (mm_text_add(text, piece, n)) break;
    const int bad = n > 0 || ferror(f) || mm_text_add(text, "", 0);
    fclose(f);
    return bad ? -1 : 0;
}
