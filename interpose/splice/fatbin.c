/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/splice/fatbin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { UNPACKED_MAX = 1 << 30 };

/* Where an entry's header has what. */
enum {
    ENTRY_KIND = 0,
    ENTRY_HEADER = 4,
    ENTRY_BYTES = 8,
    ENTRY_PACKED = 16,
    ENTRY_ARCH = 28,
    ENTRY_FLAGS = 40,
    ENTRY_UNPACKED = 56,
    ENTRY_MIN = 64
};
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000, FLAG_A = 0x100000 };

static uint32_t word(const char *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static uint64_t long_word(const char *at) { return word(at) | (uint64_t)word(at + 4) << 32; }

uint64_t mm_fatbin_bytes(const char *container) {
    return word(container) == MM_FATBIN_MAGIC && word(container + 4) >> 16 == MM_FATBIN_HEADER_BYTES ? long_word(container + 8) : 0;
}

bool mm_fatbin_read(const char *at, size_t bytes, struct mm_fatbin_entry *e) {
    if (bytes < ENTRY_MIN) return false;
    const uint32_t header = word(at + ENTRY_HEADER);
    const uint64_t body = long_word(at + ENTRY_BYTES);
    if (header < ENTRY_MIN || header > bytes || body > bytes - header) return false;
    e->kind = word(at + ENTRY_KIND) & 0xffff;
    e->arch = word(at + ENTRY_ARCH);
    e->flags = long_word(at + ENTRY_FLAGS);
    e->is_exact = (e->flags & FLAG_A) != 0;
    e->header = at;
    e->header_bytes = header;
    e->body = at + header;
    e->body_bytes = body;
    e->packed_bytes = word(at + ENTRY_PACKED);
    e->unpacked_bytes = long_word(at + ENTRY_UNPACKED);
    return true;
}

/* One LZ4 block. Returns whether it fills `to` exactly. */
static bool try_lz4(const char *from, size_t from_bytes, char *to, size_t bytes) {
    const unsigned char *at = (const unsigned char *)from, *end = at + from_bytes;
    size_t done = 0;
    while (at < end) {
        const unsigned token = *at++;
        size_t length[2] = {token >> 4, token & 15};
        for (int i = 0; i < 2; i++) { /* literals, then a copy from `back` behind */
            size_t back = 0;
            if (i == 1) {
                if (at == end) return done == bytes; /* the last ones are literals */
                if (end - at < 2) return false;
                back = at[0] | (size_t)at[1] << 8;
                at += 2;
            }
            for (unsigned more = length[i] == 15 ? 255 : 0; more == 255; length[i] += more) {
                if (at == end) return false;
                more = *at++;
            }
            if (i == 1) length[i] += 4;
            if (length[i] > bytes - done) return false;
            if (i == 0) {
                if (length[i] > (size_t)(end - at)) return false;
                memcpy(to + done, at, length[i]);
                at += length[i];
                done += length[i];
            } else {
                if (!back || back > done) return false;
                for (size_t n = 0; n < length[i]; n++, done++) to[done] = to[done - back];
            }
        }
    }
    return done == bytes;
}

/* By the system's library: no reason to need it for building mm. */
static bool try_zstd(const char *from, size_t from_bytes, char *to, size_t bytes) {
    size_t (*decompress)(void *, size_t, const void *, size_t);
    void *library = dlopen("libzstd.so.1", RTLD_LAZY), *found = library ? dlsym(library, "ZSTD_decompress") : NULL;
    if (!found) return false;
    memcpy(&decompress, &found, sizeof found);
    return decompress(to, bytes, from, from_bytes) == bytes; /* an error is a larger number */
}

bool mm_fatbin_is_packed(const struct mm_fatbin_entry *e) { return (e->flags & (FLAG_LZ4 | FLAG_ZSTD)) != 0; }

char *mm_fatbin_unpack(const struct mm_fatbin_entry *e) {
    if (!e->unpacked_bytes || e->unpacked_bytes > UNPACKED_MAX || e->packed_bytes > e->body_bytes) return NULL;
    const size_t bytes = (size_t)e->unpacked_bytes;
    char *room = (char *)malloc(bytes + 1);
    if (!room) return NULL;
    room[bytes] = 0;
    if ((e->flags & FLAG_LZ4 ? try_lz4 : try_zstd)(e->body, (size_t)e->packed_bytes, room, bytes)) return room;
    free(room);
    return NULL;
}
