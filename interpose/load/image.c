/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200809L
#include "interpose/load/image.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool mm_image_is_ptx(const char *p) {
    for (;;) {
        if (*p == ' ' || (*p >= '\t' && *p <= '\r')) {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p + 2, "*/");
            if (!p) return false;
            p += 2;
        } else {
            return strncmp(p, ".version", 8) == 0;
        }
    }
}

bool mm_image_try_read(const char *path, struct mm_text *text) {
    char piece[16384];
    struct stat is;
    ssize_t n = -1;
    memset(text, 0, sizeof *text);
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode))
        while ((n = read(fd, piece, sizeof piece)) > 0) {
            if (!text->bytes && !strchr("\177P./ \t\r\n\v\f", *piece)) n = 0; /* neither ELF nor fat binary nor text */
            if (n == 0 || mm_text_add(text, piece, (size_t)n)) break;
        }
    if (fd >= 0) close(fd);
    if (n == 0 && mm_text_add(text, "", 0) == 0) return true;
    mm_text_free(text);
    return false;
}

/* ---- fat binaries --------------------------------------------------------------------------------- */

bool mm_image_is_fatbin(const void *image) {
    struct mm_fatbin_wrapper w;
    return mm_fatbin_try_wrapper(image, &w) || mm_fatbin_total_bytes(image);
}

bool mm_image_holds_fatbin(const void *image, size_t bytes) {
    const size_t all = bytes < MM_FATBIN_CONTAINER_BYTES ? 0 : mm_fatbin_total_bytes(image);
    return all && all <= bytes;
}

/* Machine code runs on later devices of its major version, PTX on all later devices. Code for sm_90a runs on no other architecture, code for
 * sm_100f on its family, which has one major version. */
static bool fits(const struct mm_fatbin_entry *e, unsigned arch) {
    if (e->arch > arch || (e->arch_suffix == 'a' && e->arch != arch)) return false;
    return (e->kind == MM_FATBIN_PTX && !e->arch_suffix) || e->arch / 10 == arch / 10;
}

/* Prefers the newest machine code, and sm_90a to sm_90; without machine code, the newest PTX. Of two equal ones, prefers the last PTX, or the
 * first machine code. */
static bool is_better(const struct mm_fatbin_entry *e, const struct mm_fatbin_entry *best) {
    if (e->kind != best->kind) return e->kind == MM_FATBIN_ELF || best->kind != MM_FATBIN_ELF;
    if (e->kind != MM_FATBIN_ELF) return e->arch >= best->arch;
    return e->arch != best->arch ? e->arch > best->arch : e->arch_suffix == 'a' && best->arch_suffix != 'a';
}

enum mm_image_kind mm_image_choose(const void *image, int arch, bool is_ptx_forced, struct mm_fatbin_payload *chosen) {
    struct mm_fatbin_wrapper of = {image, NULL};
    struct mm_fatbin_walk w;
    struct mm_fatbin_entry e, best;
    struct mm_fatbin_error error;
    memset(&best, 0, sizeof best);
    memset(chosen, 0, sizeof *chosen);
    mm_fatbin_try_wrapper(image, &of);
    for (mm_fatbin_walk_begin(&w, of.container, mm_fatbin_total_bytes(of.container)); mm_fatbin_walk_next(&w, &e);) {
        const bool is_code = e.kind == MM_FATBIN_ELF && !is_ptx_forced, is_text = e.kind == MM_FATBIN_PTX && !of.prelinked;
        if ((is_code || is_text) && fits(&e, (unsigned)arch) && is_better(&e, &best)) best = e;
    }
    if (w.is_failed || !best.kind || !mm_fatbin_try_payload(chosen, &best, &error)) return MM_IMAGE_NONE;
    return best.kind == MM_FATBIN_ELF ? MM_IMAGE_CUBIN : MM_IMAGE_PTX;
}
