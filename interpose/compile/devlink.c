/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memfd_create */
#include "interpose/compile/devlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "interpose/load/cubin.h"
#include "interpose/load/wants.h"
#include "interpose/compile/shim.h"

struct mm_attempt mm_attempt_run(const char *program, int argc, char **argv, char *more) {
    struct mm_attempt a = {1, {NULL, NULL}};
    for (int i = 0; i < 2; i++) {
        const int fd = memfd_create("mmnvcc", MFD_CLOEXEC);
        a.said[i] = fd < 0 ? NULL : fdopen(fd, "w+");
    }
    char **arguments = (char **)malloc(((size_t)argc + 2) * sizeof *arguments);
    if (!a.said[0] || !a.said[1] || !arguments) {
        mm_shim_complain("cannot keep the output of a program: %s", strerror(errno));
        exit(1);
    }
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = more;
    arguments[argc + 1] = NULL;
    a.status = mm_shim_run_into(program, arguments, fileno(a.said[0]), fileno(a.said[1]));
    free(arguments);
    return a;
}

/* Whether to print a line: not if it warns that mm's library is machine code or that something is linked to a whole program, nor,
 * without `of_stacks`, of unknown stack sizes. */
static int is_news(const char *line, int of_stacks) {
    if (strstr(line, "-ewp compiled objects should only link with libcudadevrt")) return 0;
    if (!of_stacks && strstr(line, "Stack size for entry function") && strstr(line, "cannot be statically determined")) return 0;
    return !strstr(line, "/device/") || !strstr(line, "not built for LTO");
}

void mm_attempt_repeat(const struct mm_attempt *a, int of_stacks) {
    FILE *const to[2] = {stdout, stderr};
    char *line = NULL;
    size_t room = 0;
    for (int i = 0; i < 2; i++) {
        rewind(a->said[i]);
        for (ssize_t n; (n = getline(&line, &room, a->said[i])) > 0;)
            if (is_news(line, of_stacks)) fwrite(line, 1, (size_t)n, to[i]);
        fflush(to[i]);
    }
    free(line);
}

void mm_attempt_first_line(const struct mm_attempt *a, char *line, size_t bytes) {
    char *read = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(line, bytes, "nvlink ends with status %d", a->status);
    for (int i = 1; i >= 0 && !found; i--) {
        rewind(a->said[i]);
        while (!found && getline(&read, &room, a->said[i]) > 0) {
            found = is_news(read, 0);
            if (found) snprintf(line, bytes, "%.*s", (int)strcspn(read, "\n"), read);
        }
    }
    free(read);
}

int mm_attempt_lacks(const struct mm_attempt *a) {
    char *line = NULL;
    size_t room = 0;
    int found = 0;
    for (int i = 0; i < 2 && a->status != 0; i++) {
        rewind(a->said[i]);
        while (getline(&line, &room, a->said[i]) > 0) found |= strstr(line, "Undefined reference to 'mm_usable_size'") != NULL;
    }
    free(line);
    return found;
}

const char *mm_devlink_lacks(const char *path) {
    struct mm_text elf;
    if (mm_shim_read(path, &elf)) {
        mm_shim_complain("cannot read '%s': %s", path, strerror(errno));
        exit(1);
    }
    const bool is_linked = mm_cubin_kind(elf.data, elf.bytes) == MM_CUBIN_WHOLE;
    const char *missing = is_linked ? mm_wants_name(mm_wants_of_elf(elf.data, elf.bytes)) : NULL;
    mm_text_free(&elf);
    return missing;
}

int mm_devlink_complain(const char *missing, const char *arch) {
    return mm_shim_complain("the device link leaves '%s' undefined: mm has no code for %s; build mm with it in ARCHS", missing,
                            arch ? arch : "this architecture");
}
