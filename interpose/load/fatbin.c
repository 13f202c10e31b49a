/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/fatbin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/unpack.h"

enum { WRAPPER_MAGIC = 0x466243B1, WRAPPER_BYTES = 24, WRAPPER_CONTAINER = 8, WRAPPER_PRELINKED = 16 };
#define CONTAINER_MAGIC 0xBA55ED50u
enum { CONTAINER_VERSION = 4, CONTAINER_HEADER = 6, CONTAINER_ENTRIES = 8 };
/* Offsets of the fields in an entry's header. */
enum {
    ENTRY_KIND = 0,   /* 16 bits, then ENTRY_FORM in 16 */
    ENTRY_HEADER = 4, /* in a member: the offset of its payload in the stream */
    ENTRY_PAYLOAD = 8,
    ENTRY_PACKED = 16,
    ENTRY_OPTIONS = 20, /* offset of the record {offset of the options, their length}; in a group: {members, bytes of the record} and their headers */
    ENTRY_MINOR = 24,
    ENTRY_MAJOR = 26,
    ENTRY_ARCH = 28,
    ENTRY_NAME = 32,
    ENTRY_NAME_BYTES = 36,
    ENTRY_FLAGS = 40,
    ENTRY_UNPACKED = 56
};
enum { RECORD_BYTES = 8, ENTRY_FORM = 0x101 };
enum { ABI_MAJOR = 1, ABI_MINOR = 8 }; /* of cubins from CUDA 13's linker */

static unsigned u16(const unsigned char *at) { return at[0] | (unsigned)at[1] << 8; }
static uint32_t u32(const unsigned char *at) { return u16(at) | (uint32_t)u16(at + 2) << 16; }
static uint64_t u64(const unsigned char *at) { return u32(at) | (uint64_t)u32(at + 4) << 32; }
static void put_u32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> 8 * i);
}
static void put_u64(unsigned char *at, uint64_t value) {
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}
static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

__attribute__((format(printf, 2, 3))) static bool fail(struct mm_fatbin_error *error, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->message, sizeof error->message, format, list);
    va_end(list);
    return false;
}

/* ---- where containers are ------------------------------------------------------------------------- */

bool mm_fatbin_try_wrapper(const void *at, struct mm_fatbin_wrapper *w) {
    const unsigned char *const from = (const unsigned char *)at;
    if (u32(from) != WRAPPER_MAGIC) return false;
    const uint32_t version = u32(from + 4);
    w->prelinked = NULL;
    memcpy(&w->container, from + WRAPPER_CONTAINER, sizeof w->container);
    if (version == 2) memcpy(&w->prelinked, from + WRAPPER_PRELINKED, sizeof w->prelinked);
    return version == 1 || version == 2;
}

size_t mm_fatbin_total_bytes(const void *at) {
    const unsigned char *const from = (const unsigned char *)at;
    if (u32(from) != CONTAINER_MAGIC || u16(from + CONTAINER_VERSION) != 1) return 0;
    const unsigned header = u16(from + CONTAINER_HEADER);
    const uint64_t entries = u64(from + CONTAINER_ENTRIES);
    if (header < MM_FATBIN_CONTAINER_BYTES || entries > (uint64_t)PTRDIFF_MAX - header) return 0;
    return header + (size_t)entries;
}

/* ---- headers -------------------------------------------------------------------------------------- */

/* A part of a header, by offset and length; NULL if it is empty or out of bounds. */
static const char *part_of(const unsigned char *header, size_t header_bytes, size_t at, size_t bytes) {
    return bytes && at >= MM_FATBIN_ENTRY_BYTES && at <= header_bytes && bytes <= header_bytes - at ? (const char *)header + at : NULL;
}

/* The record of options, or NULL. */
static const unsigned char *record_of(const unsigned char *header, size_t header_bytes) {
    return (const unsigned char *)part_of(header, header_bytes, u32(header + ENTRY_OPTIONS), RECORD_BYTES);
}

/* Reads the fields that entries and members have in common. */
static void read_header(struct mm_fatbin_entry *e, const unsigned char *header, size_t header_bytes) {
    e->header = header;
    e->header_bytes = header_bytes;
    e->kind = u16(header + ENTRY_KIND);
    e->arch = u32(header + ENTRY_ARCH);
    e->version_major = u16(header + ENTRY_MAJOR);
    e->version_minor = u16(header + ENTRY_MINOR);
    e->flags = u64(header + ENTRY_FLAGS);
    e->arch_suffix = e->flags & MM_FATBIN_ARCH_A ? 'a' : e->flags & MM_FATBIN_ARCH_F ? 'f' : '\0';
    e->name_bytes = u32(header + ENTRY_NAME_BYTES);
    e->name = part_of(header, header_bytes, u32(header + ENTRY_NAME), e->name_bytes);
    if (!e->name) e->name_bytes = 0;
    const unsigned char *const record = e->kind == MM_FATBIN_GROUP ? NULL : record_of(header, header_bytes);
    e->options_bytes = record ? u32(record + 4) : 0;
    e->options = record ? part_of(header, header_bytes, u32(record), e->options_bytes) : NULL;
    if (!e->options) e->options_bytes = 0;
}

/* A member's header does not contain its size: it ends with its last part and a zero, padded. 0 if it is longer than `bytes`. */
static size_t member_header_bytes(const unsigned char *header, size_t bytes) {
    uint64_t end = MM_FATBIN_ENTRY_BYTES;
    if (bytes < end) return 0;
    const uint64_t name = u32(header + ENTRY_NAME), options = u32(header + ENTRY_OPTIONS);
    if (name && name + u32(header + ENTRY_NAME_BYTES) >= end) end = name + u32(header + ENTRY_NAME_BYTES) + 1;
    if (options) {
        const unsigned char *const record = record_of(header, bytes);
        if (!record) return 0;
        const uint64_t options_end = (uint64_t)u32(record) + u32(record + 4);
        if (options_end >= end) end = options_end + 1;
    }
    end = (end + 7) & ~(uint64_t)7;
    return end <= bytes ? (size_t)end : 0;
}

/* The members' headers, their number and their total bytes; NULL unless there are as many as the record says. */
static const unsigned char *members_of(const struct mm_fatbin_entry *group, size_t *count, size_t *bytes) {
    const unsigned char *const record = record_of(group->header, group->header_bytes);
    if (!record || u32(record + 4) < RECORD_BYTES) return NULL;
    if (u32(record + 4) > group->header_bytes - (size_t)(record - group->header)) return NULL;
    *count = u32(record);
    *bytes = u32(record + 4) - RECORD_BYTES;
    size_t at = 0;
    for (size_t i = 0; i < *count; i++) {
        const size_t header = member_header_bytes(record + RECORD_BYTES + at, *bytes - at);
        if (!header || u16(record + RECORD_BYTES + at) == MM_FATBIN_GROUP) return NULL;
        at += header;
    }
    return *count ? record + RECORD_BYTES : NULL;
}

/* ---- walk ----------------------------------------------------------------------------------------- */

void mm_fatbin_walk_begin(struct mm_fatbin_walk *w, const void *at, size_t bytes) {
    memset(w, 0, sizeof *w);
    w->begin = w->at = w->container_end = (const unsigned char *)at;
    w->end = w->begin + bytes;
}

static bool walk_fail(struct mm_fatbin_walk *w, const char *what) {
    w->is_failed = true;
    return fail(&w->error, "byte %zu of a fat binary of %zu: %s", (size_t)(w->at - w->begin), (size_t)(w->end - w->begin), what);
}

static bool try_enter_container(struct mm_fatbin_walk *w) {
    const size_t left = (size_t)(w->end - w->at), total = left < MM_FATBIN_CONTAINER_BYTES ? 0 : mm_fatbin_total_bytes(w->at);
    if (!total) return walk_fail(w, "no container; expected 0xba55ed50 and version 1");
    if (total > left) return walk_fail(w, "a container that is cut off");
    w->container = w->at;
    w->container_end = w->at + total;
    w->at += u16(w->container + CONTAINER_HEADER);
    return true;
}

/* The next member of w->group. */
static void take_member(struct mm_fatbin_walk *w, struct mm_fatbin_entry *e) {
    const unsigned char *const header = w->member;
    *e = w->group;
    read_header(e, header, member_header_bytes(header, (size_t)(w->group.header + w->group.header_bytes - header)));
    e->is_member = true;
    e->offset = u32(header + ENTRY_HEADER);
    e->bytes = u64(header + ENTRY_PAYLOAD);
    e->idx = w->idx++;
    w->member = --w->members_left ? header + e->header_bytes : NULL;
}

bool mm_fatbin_walk_next(struct mm_fatbin_walk *w, struct mm_fatbin_entry *e) {
    if (w->is_failed) return false;
    if (w->member) return take_member(w, e), true;
    while (w->at == w->container_end) {
        while (w->at < w->end && !*w->at) w->at++;
        if (w->at == w->end) return w->container_end = w->end, false;
        if (!try_enter_container(w)) return false;
    }
    const size_t left = (size_t)(w->container_end - w->at);
    if (left < MM_FATBIN_ENTRY_BYTES) return walk_fail(w, "an entry that is cut off");
    const size_t header_bytes = u32(w->at + ENTRY_HEADER);
    const uint64_t payload_bytes = u64(w->at + ENTRY_PAYLOAD);
    if (header_bytes < MM_FATBIN_ENTRY_BYTES || header_bytes > left) return walk_fail(w, "an entry with a header of a size that cannot be");
    if (payload_bytes > left - header_bytes) return walk_fail(w, "an entry with a payload that is cut off");

    memset(e, 0, sizeof *e);
    read_header(e, w->at, header_bytes);
    e->container = w->container;
    e->begin = w->at;
    e->end = w->at = e->begin + header_bytes + payload_bytes;
    e->store.at = e->begin + header_bytes;
    e->store.bytes = (size_t)payload_bytes;
    e->store.flags = e->flags;
    e->store.packed_bytes = u32(e->header + ENTRY_PACKED);
    e->store.unpacked_bytes = u64(e->header + ENTRY_UNPACKED);
    e->group_idx = w->idx;
    e->group_count = 1;
    size_t count = 0, bytes = 0;
    const unsigned char *const members = e->kind == MM_FATBIN_GROUP ? members_of(e, &count, &bytes) : NULL;
    if (members) {
        e->group_count = w->members_left = count;
        w->group = *e;
        w->member = members;
        take_member(w, e);
    } else {
        e->idx = w->idx++;
    }
    return true;
}

/* ---- payloads ------------------------------------------------------------------------------------- */

void mm_fatbin_payload_free(struct mm_fatbin_payload *p) {
    free(p->unpacked);
    memset(p, 0, sizeof *p);
}

bool mm_fatbin_try_payload(struct mm_fatbin_payload *p, const struct mm_fatbin_entry *e, struct mm_fatbin_error *error) {
    const struct mm_fatbin_store *const s = &e->store;
    const bool is_packed = (s->flags & (MM_FATBIN_LZ4 | MM_FATBIN_ZSTD)) != 0;
    const unsigned char *stream = s->at;
    uint64_t bytes = s->bytes;
    if (p->unpacked_from != s->at) mm_fatbin_payload_free(p);
    p->at = NULL;
    p->bytes = 0;
    if ((s->flags | e->flags) & MM_FATBIN_SCRAMBLED) return fail(error, "entry %zu of a fat binary is scrambled; expected PTX or a cubin", e->idx);
    if (is_packed) {
        const char *what = "is damaged";
        if (!p->unpacked && s->packed_bytes <= s->bytes)
            p->unpacked = mm_unpack(s->flags & MM_FATBIN_LZ4 ? MM_UNPACK_LZ4 : MM_UNPACK_ZSTD, s->at, s->packed_bytes, s->unpacked_bytes, &what);
        if (!p->unpacked)
            return fail(error, "entry %zu of a fat binary %s: %u bytes for %llu", e->idx, what, (unsigned)s->packed_bytes,
                        (unsigned long long)s->unpacked_bytes);
        p->unpacked_from = s->at;
        stream = p->unpacked;
        bytes = s->unpacked_bytes;
    }
    if (e->is_member) {
        if (e->offset > bytes || e->bytes > bytes - e->offset)
            return fail(error, "entry %zu of a fat binary is not within its group of %llu bytes", e->idx, (unsigned long long)bytes);
        stream += e->offset;
        bytes = e->bytes;
    }
    p->at = stream;
    p->bytes = (size_t)bytes;
    return true;
}

/* ---- making --------------------------------------------------------------------------------------- */

void *mm_fatbin_try_make(const struct mm_fatbin_image *images, size_t count, size_t *bytes) {
    size_t total = MM_FATBIN_CONTAINER_BYTES;
    for (size_t i = 0; i < count; i++) total += MM_FATBIN_ENTRY_BYTES + padded(images[i].bytes);
    unsigned char *const made = (unsigned char *)calloc(1, total), *at = made;
    if (!made) return NULL;
    put_u32(at, CONTAINER_MAGIC);
    put_u32(at + CONTAINER_VERSION, 1 | MM_FATBIN_CONTAINER_BYTES << 16);
    put_u64(at + CONTAINER_ENTRIES, total - MM_FATBIN_CONTAINER_BYTES);
    at += MM_FATBIN_CONTAINER_BYTES;
    for (size_t i = 0; i < count; i++) {
        put_u32(at + ENTRY_KIND, MM_FATBIN_ELF | ENTRY_FORM << 16);
        put_u32(at + ENTRY_HEADER, MM_FATBIN_ENTRY_BYTES);
        put_u64(at + ENTRY_PAYLOAD, padded(images[i].bytes));
        put_u32(at + ENTRY_MINOR, ABI_MINOR | ABI_MAJOR << 16);
        put_u32(at + ENTRY_ARCH, images[i].arch);
        put_u64(at + ENTRY_FLAGS, MM_FATBIN_64BIT | MM_FATBIN_LINUX);
        memcpy(at + MM_FATBIN_ENTRY_BYTES, images[i].cubin, images[i].bytes);
        at += MM_FATBIN_ENTRY_BYTES + padded(images[i].bytes);
    }
    *bytes = total;
    return made;
}
