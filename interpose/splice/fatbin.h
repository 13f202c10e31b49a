/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fat binaries, as far as they can be read from outside: a container is a header (magic, version, bytes of the header, bytes behind it)
 * and entries, each a header and an image. */
#ifndef MM_SPLICE_FATBIN_H
#define MM_SPLICE_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MM_FATBIN_MAGIC 0xBA55ED50u
#define MM_FATBIN_HEADER_BYTES 16
/* What programs hold and hand to the driver: magic, version, address of the container. Version 2 is for several containers. */
#define MM_FATBIN_WRAPPER_MAGIC 0x466243B1u
#define MM_FATBIN_WRAPPER_VERSION 1u

enum mm_fatbin_kind { MM_FATBIN_PTX = 1, MM_FATBIN_ELF = 2 }; /* there are others */

struct mm_fatbin_entry {
    unsigned kind;
    unsigned arch;   /* 90 */
    bool is_exact;   /* of sm_90a: for no other architecture; sm_100f is for its family */
    uint64_t flags;
    const char *header, *body;
    size_t header_bytes, body_bytes;
    uint64_t packed_bytes, unpacked_bytes; /* of a compressed one */
};

/* Bytes of the entries behind the header of a container; 0 if there is none. Reads MM_FATBIN_HEADER_BYTES. */
uint64_t mm_fatbin_bytes(const char *container);

/* Reads the entry at the beginning of `bytes` bytes; the next begins behind header_bytes and body_bytes. False if there is none. */
bool mm_fatbin_read(const char *at, size_t bytes, struct mm_fatbin_entry *e);

/* Whether the entry is compressed; a copy of the image as it was before, with a zero behind it, for free(). NULL without memory, or if
 * it cannot be read, or without libzstd.so.1 for what needs that. */
bool mm_fatbin_is_packed(const struct mm_fatbin_entry *e);
char *mm_fatbin_unpack(const struct mm_fatbin_entry *e);

#endif
