/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* O_CLOEXEC */
#include "runtime/host/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/say.h"

/* The files that this process has written. */
struct written {
    struct written *next;
    char path[];
};
static struct written *written;

bool mm_file_was_written(const char *path) {
    for (const struct written *w = written; w; w = w->next)
        if (strcmp(w->path, path) == 0) return true;
    return false;
}

void mm_file_note(const char *path) {
    struct written *w = mm_file_was_written(path) ? NULL : (struct written *)malloc(sizeof *w + strlen(path) + 1);
    if (!w) return;
    strcpy(w->path, path);
    w->next = written;
    written = w;
}

static bool try_write_all(int fd, const char *text, size_t bytes) {
    while (bytes) {
        const ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) text += n, bytes -= (size_t)n;
    }
    return true;
}

bool mm_file_try_write(const char *what, const char *path, const char *text, size_t bytes, bool is_more) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (is_more ? O_APPEND : O_TRUNC), 0666);
    bool done = fd >= 0 && try_write_all(fd, text, bytes);
    int reason = errno;
    if (fd >= 0 && close(fd) != 0 && done) done = false, reason = errno; /* a full disk may show only here */
    if (!done) mm_host_say("cannot write %s to %s: %s", what, path, strerror(reason));
    return done;
}
