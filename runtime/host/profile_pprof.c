/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A profile as pprof's profile.proto: protocol buffers, written by hand. A sample is a kernel's requests of one size, with the size as a label; its stack is the
 * kernel. The kernels' frees and NULLs, which have no size of their own here, are samples without a label. */
#define _GNU_SOURCE /* open_memstream */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/profile.h"

/* Numbers of fields in profile.proto. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRINGS = 6,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14
};
enum { TYPE_TYPE = 1, TYPE_UNIT = 2 };
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_NUMBER = 3, LABEL_UNIT = 4 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4, LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3 };
enum { WIRE_NUMBER = 0, WIRE_BYTES = 2 };

/* Strings of the table, before the kernels' names. The first is empty, as the format demands. */
enum {
    TEXT_NONE,
    TEXT_ALLOCATED,
    TEXT_ALLOCATED_SPACE,
    TEXT_LIVE,
    TEXT_LIVE_SPACE,
    TEXT_NULLS,
    TEXT_FREES,
    TEXT_COUNT,
    TEXT_BYTES,
    TEXT_SPACE,
    TEXT_COMMENT,
    TEXTS
};
static const char *const texts[TEXTS] = {"",      "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "null_objects", "free_objects",
                                         "count", "bytes",         "space"};
enum { VALUES = 6 };

/* A message that is a part of another one. */
struct message {
    unsigned char bytes[160]; /* a sample with its label has less than 120 */
    size_t n;
};

static void add_number(struct message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) m->bytes[m->n++] = (unsigned char)(value | 0x80);
    m->bytes[m->n++] = (unsigned char)value;
}
static void add_field(struct message *m, unsigned field, uint64_t value) {
    add_number(m, field << 3 | WIRE_NUMBER);
    add_number(m, value);
}
static void add_message(struct message *m, unsigned field, const struct message *part) {
    add_number(m, field << 3 | WIRE_BYTES);
    add_number(m, part->n);
    memcpy(m->bytes + m->n, part->bytes, part->n);
    m->n += part->n;
}

static void write_bytes(unsigned field, const void *bytes, size_t n, FILE *out) {
    struct message head = {.n = 0};
    add_number(&head, field << 3 | WIRE_BYTES);
    add_number(&head, n);
    fwrite(head.bytes, 1, head.n, out);
    fwrite(bytes, 1, n, out);
}
static void write_message(unsigned field, const struct message *m, FILE *out) { write_bytes(field, m->bytes, m->n, out); }
static void write_field(unsigned field, uint64_t value, FILE *out) {
    struct message m = {.n = 0};
    add_field(&m, field, value);
    fwrite(m.bytes, 1, m.n, out);
}
static void write_type(unsigned field, unsigned type, unsigned unit, FILE *out) {
    struct message m = {.n = 0};
    add_field(&m, TYPE_TYPE, type), add_field(&m, TYPE_UNIT, unit);
    write_message(field, &m, out);
}

/* bytes: the size; 0: no label. */
static void write_sample(uint64_t kernel, const uint64_t values[VALUES], uint64_t bytes, FILE *out) {
    struct message m = {.n = 0}, label = {.n = 0}, all = {.n = 0};
    add_field(&m, SAMPLE_LOCATIONS, kernel);
    for (int i = 0; i < VALUES; i++) add_number(&all, values[i]);
    add_message(&m, SAMPLE_VALUES, &all); /* packed */
    add_field(&label, LABEL_KEY, TEXT_BYTES), add_field(&label, LABEL_NUMBER, bytes), add_field(&label, LABEL_UNIT, TEXT_BYTES);
    if (bytes) add_message(&m, SAMPLE_LABEL, &label);
    write_message(PROFILE_SAMPLE, &m, out);
}

static void write_kernel(const struct mm_profile_kernel *k, uint64_t number, FILE *out) {
    struct message location = {.n = 0}, line = {.n = 0}, function = {.n = 0};
    for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) {
        const struct mm_profile_counts *n = &k->sizes[s];
        if (n->mallocs) write_sample(number, (const uint64_t[VALUES]){n->mallocs, n->bytes, n->live, n->live_bytes, 0, 0}, mm_profile_size(s), out);
    }
    if (k->nulls || k->frees) write_sample(number, (const uint64_t[VALUES]){0, 0, 0, 0, k->nulls, k->frees}, 0, out);
    add_field(&line, LINE_FUNCTION, number);
    add_field(&location, LOCATION_ID, number), add_message(&location, LOCATION_LINE, &line);
    write_message(PROFILE_LOCATION, &location, out);
    add_field(&function, FUNCTION_ID, number), add_field(&function, FUNCTION_NAME, TEXTS + number - 1),
        add_field(&function, FUNCTION_SYSTEM_NAME, TEXTS + number - 1);
    write_message(PROFILE_FUNCTION, &function, out);
}

static void write_profile(const struct mm_profile *p, const char *title, FILE *out) {
    char comment[320];
    snprintf(comment, sizeof comment, "%.200s; %llu later events and %llu frees of what was not live are not counted", title,
             (unsigned long long)p->sum.dropped, (unsigned long long)p->sum.left_out);
    for (unsigned i = 0; i < VALUES; i++) write_type(PROFILE_SAMPLE_TYPE, TEXT_ALLOCATED + i, i == 1 || i == 3 ? TEXT_BYTES : TEXT_COUNT, out);
    for (size_t i = 0; i < p->count; i++) write_kernel(&p->kernels[i], i + 1, out);
    for (unsigned i = 0; i < TEXTS; i++) {
        const char *const text = i == TEXT_COMMENT ? comment : texts[i];
        write_bytes(PROFILE_STRINGS, text, strlen(text), out);
    }
    for (size_t i = 0; i < p->count; i++) write_bytes(PROFILE_STRINGS, p->kernels[i].name, strlen(p->kernels[i].name), out);
    write_type(PROFILE_PERIOD_TYPE, TEXT_SPACE, TEXT_BYTES, out);
    write_field(PROFILE_PERIOD, 1, out), write_field(PROFILE_COMMENT, TEXT_COMMENT, out), write_field(PROFILE_DEFAULT_TYPE, TEXT_ALLOCATED_SPACE, out);
}

/* ---- gzip, RFC 1952, with blocks that are stored: a profile is small ---- */

#define STORED_BYTES_MAX 65535u

static uint32_t crc_of(const unsigned char *bytes, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void write_little(uint32_t value, int bytes, FILE *out) {
    for (; bytes; bytes--, value >>= 8) fputc((int)(value & 0xff), out);
}

static void write_gzip(const char *bytes, size_t n, FILE *out) {
    static const unsigned char head[10] = {0x1f, 0x8b, 8 /* deflate */, [9] = 255 /* any operating system */};
    const uint32_t crc = crc_of((const unsigned char *)bytes, n);
    fwrite(head, 1, sizeof head, out);
    for (size_t left = n, part; left; left -= part, bytes += part) {
        part = left < STORED_BYTES_MAX ? left : STORED_BYTES_MAX;
        fputc(part == left ? 1 : 0, out); /* the last block */
        write_little((uint32_t)part, 2, out), write_little(~(uint32_t)part, 2, out);
        fwrite(bytes, 1, part, out);
    }
    write_little(crc, 4, out), write_little((uint32_t)n, 4, out);
}

bool mm_profile_try_write_pprof(const struct mm_profile *p, const char *title, bool is_gzip, FILE *out) {
    char *bytes = NULL;
    size_t n = 0;
    if (!is_gzip) {
        write_profile(p, title, out);
        return true;
    }
    FILE *plain = open_memstream(&bytes, &n);
    if (!plain) return false;
    write_profile(p, title, plain);
    const bool done = fclose(plain) == 0;
    if (done) write_gzip(bytes, n, out);
    free(bytes);
    return done;
}
