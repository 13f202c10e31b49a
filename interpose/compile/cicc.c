/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stands in for the toolkit's cicc: runs the real one with the same arguments, then removes the counts in front of arrays from the PTX
 * it wrote (load/ptx/counts.h) and renames the allocator's functions to mm's names (load/ptx/names.h), those of the allocator that VIEW/allocator
 * names. mm's ptxas restores CUDA's names, and so does libmm when a program passes the PTX to the driver.
 *
 * Reads only these options of cicc: -o, and --device-c and --partial-link, which mean relocatable code. Relocatable
 * code keeps CUDA's names and gets its allocator at the device link (nvlink.c).
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/compile/shim.h"
#include "interpose/load/ptx/counts.h"
#include "interpose/load/ptx/names.h"

/* Replaces a file's content by text; path is resolved. Writes a temporary file next to it and renames it, so that no
 * reader sees a partial file. A file with a second hard link is written in place, so that both names get the text. */
static int replace_file(const char *path, const struct stat *is, const struct mm_text *text) {
    const int through = is->st_nlink > 1;
    char *temporary = (char *)malloc(strlen(path) + 12);
    if (!temporary) return mm_shim_complain("no memory");
    sprintf(temporary, "%s.mm-XXXXXX", path);
    const int fd = through ? open(path, O_WRONLY | O_TRUNC | O_CLOEXEC) : mkstemp(temporary);
    int bad = fd < 0 || (!through && fchmod(fd, is->st_mode & 07777) != 0);
    for (size_t done = 0; !bad && done < text->bytes;) {
        const ssize_t n = write(fd, text->data + done, text->bytes - done);
        if (n < 0 && errno == EINTR) continue;
        bad = n <= 0;
        if (!bad) done += (size_t)n;
    }
    if (fd >= 0 && close(fd) != 0) bad = 1;
    if (bad || (!through && rename(temporary, path) != 0)) {
        mm_shim_complain("cannot write '%s': %s", path, strerror(errno));
        if (fd >= 0 && !through) unlink(temporary);
        bad = 1;
    }
    free(temporary);
    return bad;
}

/* The number of the view's allocator (load/ptx/names.h), or -1 after a message. */
static int view_allocator(void) {
    char path[4096];
    struct mm_text name = {NULL, 0, 0};
    if (mm_shim_path(path, sizeof path, "allocator")) return -1;
    const int allocator = mm_shim_read(path, &name) ? -1 : mm_names_allocator(name.data);
    if (allocator < 0) mm_shim_complain("'%s' names no allocator of mm; remove the folder that it is in", path);
    mm_text_free(&name);
    return allocator;
}

/* path: as the user wrote it; file: what it resolves to. */
static int change_text(int relocatable, const char *path, const char *file, const struct stat *is, const struct mm_text *in) {
    struct mm_text mended = {NULL, 0, 0}, hidden = {NULL, 0, 0};
    const int counts = mm_counts_remove(in->data, in->bytes, &mended);
    const struct mm_text *now = counts > 0 ? &mended : in;
    const int allocator = relocatable ? 0 : view_allocator();
    if (allocator < 0) return mm_text_free(&mended), 1;
    const int names = counts < 0 || relocatable ? 0 : mm_names_hide(now->data, now->bytes, allocator, &hidden);
    int bad = counts < 0 || names < 0 ? mm_shim_complain("no memory for '%s'", path) : 0;
    if (!bad && (names || counts)) bad = replace_file(file, is, names ? &hidden : &mended);
    mm_text_free(&mended);
    mm_text_free(&hidden);
    return bad;
}

/* LTO IR, or LLVM bitcode. */
static bool is_binary(const struct mm_text *in) {
    static const char nvvm[] = "\xED\x43\x4E\x7F", llvm[] = "BC\xC0\xDE";
    return in->bytes >= 4 && (memcmp(in->data, nvvm, 4) == 0 || memcmp(in->data, llvm, 4) == 0);
}

static int change_output(int relocatable, const char *path) {
    struct stat is, null;
    struct mm_text in = {NULL, 0, 0};
    if (stat(path, &is) != 0) return mm_shim_complain("cicc left no '%s': %s", path, strerror(errno));
    if (!S_ISREG(is.st_mode)) {
        if (relocatable || (stat("/dev/null", &null) == 0 && is.st_rdev == null.st_rdev)) return 0;
        return mm_shim_complain("cannot change '%s': it is not a regular file", path);
    }
    char *file = realpath(path, NULL);
    int bad = 1;
    if (!file || mm_shim_read(file, &in)) mm_shim_complain("cannot read '%s': %s", path, strerror(errno));
    else bad = is_binary(&in) ? 0 : change_text(relocatable, path, file, &is, &in);
    if (bad && file && (is.st_nlink == 1 || truncate(file, 0) == 0)) unlink(file);
    mm_text_free(&in);
    free(file);
    return bad;
}

int main(int argc, char **argv) {
    const char *output = NULL;
    char real[4096];
    int relocatable = 0;
    if (mm_shim_path(real, sizeof real, "real/cicc")) return 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) output = argv[++i];
        else if (strcmp(argv[i], "--device-c") == 0 || strcmp(argv[i], "--partial-link") == 0) relocatable = 1;
    }
    if (!output) {
        execv(real, argv);
        return mm_shim_complain("cannot run '%s': %s", real, strerror(errno));
    }
    const int status = mm_shim_run(real, argv);
    return status ? status : change_output(relocatable, output);
}
