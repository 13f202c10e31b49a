/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200809L
#include "interpose/runtime/image.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/splice/fatbin.h"
#include "interpose/splice/text.h"

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

bool mm_image_try_read(const char *path, struct mm_splice_text *text) {
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
    mm_splice_text_free(text);
    return false;
}

/* ---- fat binaries --------------------------------------------------------------------------------- */

/* The container that the image is, or that it refers to; NULL if neither. */
static const char *container_of(const void *image) {
    struct {
        uint32_t magic, version;
        const char *container;
    } w;
    memcpy(&w.magic, image, sizeof w.magic);
    if (w.magic == MM_FATBIN_MAGIC) return (const char *)image;
    if (w.magic != MM_FATBIN_WRAPPER_MAGIC) return NULL;
    memcpy(&w, image, sizeof w);
    return w.version == MM_FATBIN_WRAPPER_VERSION ? w.container : NULL;
}

bool mm_image_is_fatbin(const void *image) { return container_of(image) != NULL; }

bool mm_image_holds_fatbin(const void *image, size_t bytes) {
    if (bytes < MM_FATBIN_HEADER_BYTES || container_of(image) != image) return false;
    const uint64_t entries = mm_fatbin_bytes((const char *)image);
    return entries && entries <= bytes - MM_FATBIN_HEADER_BYTES;
}

/* Machine code runs on later devices of its major version, PTX on all later ones. */
static bool fits(const struct mm_fatbin_entry *e, unsigned arch) {
    if (e->is_exact || e->arch >= arch) return e->arch == arch;
    return e->kind == MM_FATBIN_PTX || e->arch / 10 == arch / 10;
}

char *mm_image_try_ptx(const void *image, int arch) {
    const char *at = container_of(image), *const forced = getenv("CUDA_FORCE_PTX_JIT");
    const bool is_forced = forced && strcmp(forced, "1") == 0;
    struct mm_fatbin_entry e, best;
    memset(&best, 0, sizeof best);
    if (!at) return NULL;
    uint64_t bytes = mm_fatbin_bytes(at);
    at += MM_FATBIN_HEADER_BYTES;
    for (; mm_fatbin_read(at, bytes, &e); at += e.header_bytes + e.body_bytes, bytes -= e.header_bytes + e.body_bytes) {
        if (!fits(&e, (unsigned)arch)) continue;
        if (e.kind == MM_FATBIN_ELF && !is_forced) return NULL;
        if (e.kind == MM_FATBIN_PTX && e.arch >= best.arch) best = e;
    }
    if (!best.body) return NULL;
    return mm_fatbin_is_packed(&best) ? mm_fatbin_unpack(&best) : strndup(best.body, best.body_bytes);
}
