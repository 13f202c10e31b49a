/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stands in for the toolkit's cicc: runs the real one with the same arguments, then removes the counts in front of arrays from the PTX
 * it wrote (splice/counts.h) and puts the allocator into it.
 *
 * Of cicc's options only these are looked at: -o, and --device-c and --partial-link, which mean relocatable
 * code: that gets its allocator at the device link (nvlink.c).
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/shim.h"
#include "interpose/splice/counts.h"

/* Puts text in the place of a file, of which path is the real one: written beside it, then renamed, so that
 * nobody sees half of it. A file with a second name is written through, for both names to have it. */
static int replace_file(const char *path, const struct stat *is, const struct mm_splice_text *text) {
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

/* The header of a fragment. One that cannot be read suits any version: if it is the one, we say then what is wrong. */
static struct mm_splice_header header_of(const char *folder, int arch) {
    struct mm_splice_header header = {0, 0};
    char text[4200];
    snprintf(text, sizeof text, "%s/mm_%d.ptx", folder, arch);
    FILE *f = fopen(text, "rb");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    if (!mm_splice_read_header(text, n, &header)) header.version = 0;
    header.target = arch;
    return header;
}

/* Finds the fragment for a module. Returns the number of its architecture, 0 if there is none, and in `known` what there is. */
static int choose_fragment(const char *folder, const struct mm_splice_header *module, char *known, size_t known_bytes) {
    struct mm_splice_header best = {0, 0};
    DIR *dir = opendir(folder);
    snprintf(known, known_bytes, "none");
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        int arch = 0;
        char rest = 0;
        if (sscanf(e->d_name, "mm_%d.pt%c", &arch, &rest) != 2 || rest != 'x') continue;
        const size_t used = strcmp(known, "none") ? strlen(known) : 0;
        snprintf(known + used, known_bytes - used, "%ssm_%d", used ? " " : "", arch);
        const struct mm_splice_header its = header_of(folder, arch);
        if (mm_splice_is_better(&its, &best, module)) best = its;
    }
    closedir(dir);
    return best.target;
}

/* Puts the allocator into `in`, if it is to have one: then `out` is not empty. path as the user wrote it. */
static int splice_text(const char *folder, const char *path, const struct mm_splice_text *in, struct mm_splice_text *out) {
    struct mm_splice_text fragment = {NULL, 0, 0};
    struct mm_splice_error error;
    char name[4096], known[256];
    struct mm_splice_header header;
    int bad = 1;
    if (!mm_splice_read_header(in->data, in->bytes, &header))
        header.version = header.target = 1 << 20; /* let the splicer say what is wrong, and where */
    const int arch = choose_fragment(folder, &header, known, sizeof known);
    if (!arch && mm_splice_module(in->data, in->bytes, "", 0, out, &error) == MM_SPLICE_UNTOUCHED) return 0;
    if (!arch) return mm_shim_complain("no device allocator for sm_%d in '%s' (there: %s); build mm with it in ARCHS",
                               header.target, folder, known);
    if (snprintf(name, sizeof name, "%s/mm_%d.ptx", folder, arch) >= (int)sizeof name || mm_shim_read(name, &fragment)) {
        mm_shim_complain("cannot read '%s': %s", name, strerror(errno));
        goto done;
    }
    switch (mm_splice_module(in->data, in->bytes, fragment.data, fragment.bytes, out, &error)) {
    case MM_SPLICE_DONE:
    case MM_SPLICE_UNTOUCHED: bad = 0; break;
    case MM_SPLICE_FAILED: mm_shim_complain("%s:%d: %s", path, error.line, error.message); break;
    }
done:
    mm_splice_text_free(&fragment);
    return bad;
}

/* path as the user wrote it, and the file that it leads to; folder NULL: without the allocator. */
static int change_text(const char *folder, const char *path, const char *file, const struct stat *is, const struct mm_splice_text *in) {
    struct mm_splice_text mended = {NULL, 0, 0}, spliced = {NULL, 0, 0};
    const int counts = mm_counts_remove(in->data, in->bytes, &mended);
    int bad = counts < 0 ? mm_shim_complain("no memory for '%s'", path) : 0;
    if (!bad && folder) bad = splice_text(folder, path, counts ? &mended : in, &spliced);
    if (!bad && (spliced.data || mended.data)) bad = replace_file(file, is, spliced.data ? &spliced : &mended);
    mm_splice_text_free(&mended);
    mm_splice_text_free(&spliced);
    return bad;
}

/* folder NULL: without the allocator. */
static int change_output(const char *folder, const char *path) {
    struct stat is, null;
    struct mm_splice_text in = {NULL, 0, 0};
    if (stat(path, &is) != 0) return mm_shim_complain("cicc left no '%s': %s", path, strerror(errno));
    if (!S_ISREG(is.st_mode)) {
        if (!folder || (stat("/dev/null", &null) == 0 && is.st_rdev == null.st_rdev)) return 0;
        return mm_shim_complain("cannot put the allocator into '%s': it is not a regular file", path);
    }
    char *file = realpath(path, NULL);
    int bad = 1;
    if (!file || mm_shim_read(file, &in))
        mm_shim_complain("cannot read '%s': %s", path, strerror(errno));
    else
        bad = mm_splice_is_binary_ir(in.data, in.bytes) ? 0 : change_text(folder, path, file, &is, &in);
    if (bad && file && (is.st_nlink == 1 || truncate(file, 0) == 0)) unlink(file);
    mm_splice_text_free(&in);
    free(file);
    return bad;
}

int main(int argc, char **argv) {
    const char *output = NULL;
    char real[4096], folder[4096];
    int relocatable = 0;
    if (mm_shim_path(real, sizeof real, "real/cicc") || mm_shim_path(folder, sizeof folder, "ptx")) return 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) output = argv[++i];
        else if (strcmp(argv[i], "--device-c") == 0 || strcmp(argv[i], "--partial-link") == 0) relocatable = 1;
    }
    if (!output) {
        execv(real, argv);
        return mm_shim_complain("cannot run '%s': %s", real, strerror(errno));
    }
    const int status = mm_shim_run(real, argv);
    return status ? status : change_output(relocatable ? NULL : folder, output);
}
