/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/unpack.h"

#include <lz4.h>
#include <stdlib.h>
#include <zstd.h>

/* Checked before allocating: can so few bytes decompress to so many? */
static bool is_plausible(enum mm_unpack_how how, const unsigned char *from, size_t from_bytes, uint64_t bytes) {
    enum { LZ4_RATIO = 255 }; /* each byte of a block adds at most 255 to a length */
    if (how == MM_UNPACK_LZ4) return bytes / LZ4_RATIO <= from_bytes;
    const unsigned long long said = ZSTD_getFrameContentSize(from, from_bytes);
    return said == bytes || said == ZSTD_CONTENTSIZE_UNKNOWN;
}

unsigned char *mm_unpack(enum mm_unpack_how how, const unsigned char *from, size_t from_bytes, uint64_t bytes, const char **what) {
    *what = "has no size, or one above 1 GiB";
    if (!bytes || bytes > MM_UNPACK_MAX_BYTES || from_bytes > MM_UNPACK_MAX_BYTES) return NULL;
    *what = "is damaged";
    if (!is_plausible(how, from, from_bytes, bytes)) return NULL;
    unsigned char *const to = (unsigned char *)malloc((size_t)bytes + 1);
    *what = "finds no memory";
    if (!to) return NULL;
    const size_t got = how == MM_UNPACK_LZ4
                           ? (size_t)LZ4_decompress_safe((const char *)from, (char *)to, (int)from_bytes, (int)bytes) /* an error is negative */
                           : ZSTD_decompress(to, (size_t)bytes, from, from_bytes);                                    /* an error is larger than any size */
    to[bytes] = 0;
    if (got == bytes) return to;
    *what = "is damaged";
    free(to);
    return NULL;
}
