/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Does all that can be done with the bytes of a fat binary, whatever they are, and aborts where a promise is not kept. For suite load, and
 * for the fuzzer. */
#ifndef MM_TESTS_LOAD_EXERCISE_H
#define MM_TESTS_LOAD_EXERCISE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/fatbin.h"
#include "interpose/load/wants.h"

#define PROMISE(what) ((what) ? (void)0 : (fprintf(stderr, "load: line %d: not kept: %s\n", __LINE__, #what), abort()))

enum { EXERCISE_CHANGES = 64 };

static inline bool exercise_within(const void *part, size_t part_bytes, const void *whole, size_t bytes) {
    const uintptr_t at = (uintptr_t)part, begin = (uintptr_t)whole;
    return at >= begin && at - begin <= bytes && part_bytes <= bytes - (at - begin);
}

/* Every byte of it, so that AddressSanitizer sees where it ends. */
static inline unsigned exercise_read(const void *at, size_t bytes) {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += ((const unsigned char *)at)[i];
    return sum;
}

static inline void exercise_entry(const struct mm_fatbin_entry *e, const unsigned char *data, size_t bytes) {
    PROMISE(exercise_within(e->container, MM_FATBIN_CONTAINER_BYTES, data, bytes));
    PROMISE(exercise_within(e->begin, (size_t)(e->end - e->begin), data, bytes));
    PROMISE(e->container < e->begin && e->begin < e->end);
    PROMISE(e->header_bytes >= MM_FATBIN_ENTRY_BYTES);
    PROMISE(exercise_within(e->header, e->header_bytes, e->begin, (size_t)(e->end - e->begin)));
    PROMISE(exercise_within(e->store.at, e->store.bytes, e->begin, (size_t)(e->end - e->begin)));
    PROMISE(e->idx - e->group_idx < e->group_count);
    PROMISE(e->is_member || e->group_count == 1);
    PROMISE(!e->name == !e->name_bytes && !e->options == !e->options_bytes);
    if (e->name) PROMISE(exercise_within(e->name, e->name_bytes, e->header, e->header_bytes));
    if (e->options) PROMISE(exercise_within(e->options, e->options_bytes, e->header, e->header_bytes));
    exercise_read(e->header, e->header_bytes);
}

/* Whether the entry is as it was, but for how it is stored. */
static inline void exercise_same(const struct mm_fatbin_entry *a, const struct mm_fatbin_entry *b) {
    PROMISE(a->kind == b->kind && a->arch == b->arch && a->arch_suffix == b->arch_suffix && a->idx == b->idx);
    PROMISE(a->name_bytes == b->name_bytes && (!a->name || memcmp(a->name, b->name, a->name_bytes) == 0));
    PROMISE(a->options_bytes == b->options_bytes && (!a->options || memcmp(a->options, b->options, a->options_bytes) == 0));
}

/* Changes entries, those of which `mask` has the bit; walks both. */
static inline void exercise_rebuild(const unsigned char *data, size_t bytes, unsigned long long mask) {
    static const char text[] = "changed";
    struct mm_fatbin_change changes[EXERCISE_CHANGES];
    size_t count = 0, new_bytes = 0;
    struct mm_fatbin_walk w, v;
    struct mm_fatbin_entry e, f;
    struct mm_fatbin_payload p, q;
    struct mm_fatbin_error error;
    memset(&p, 0, sizeof p);
    memset(&q, 0, sizeof q);
    for (size_t i = 0; i < EXERCISE_CHANGES; i++)
        if (mask >> i & 1) changes[count++] = (struct mm_fatbin_change){i, text, 1 + i % 7};
    unsigned char *const built = mm_fatbin_try_rebuild(data, bytes, changes, count, &new_bytes, &error);
    if (!built) {
        PROMISE(*error.message && !strchr(error.message, '\n'));
        return;
    }
    if (!count) PROMISE(new_bytes == bytes && memcmp(built, data, bytes) == 0);
    mm_fatbin_walk_begin(&w, data, bytes);
    mm_fatbin_walk_begin(&v, built, new_bytes);
    while (mm_fatbin_walk_next(&w, &e)) {
        PROMISE(mm_fatbin_walk_next(&v, &f));
        exercise_same(&e, &f);
        if (e.idx < EXERCISE_CHANGES && mask >> e.idx & 1) {
            PROMISE(mm_fatbin_try_payload(&q, &f, &error));
            PROMISE(q.bytes >= 1 + e.idx % 7 && q.bytes < 1 + e.idx % 7 + 8 && memcmp(q.at, text, 1 + e.idx % 7) == 0);
            PROMISE(e.kind != MM_FATBIN_PTX || q.at[q.bytes - 1] == 0);
        } else if (f.is_member == e.is_member) {
            PROMISE(e.end - e.begin == f.end - f.begin && memcmp(e.begin, f.begin, (size_t)(e.end - e.begin)) == 0);
        } else {
            PROMISE(mm_fatbin_try_payload(&p, &e, &error) && mm_fatbin_try_payload(&q, &f, &error));
            PROMISE(p.bytes <= q.bytes && memcmp(p.at, q.at, p.bytes) == 0);
        }
    }
    PROMISE(!w.is_failed && !mm_fatbin_walk_next(&v, &f) && !v.is_failed);
    mm_fatbin_payload_free(&p);
    mm_fatbin_payload_free(&q);
    free(built);
}

/* `data` should be memory of its own, so that a sanitizer knows its end. Returns how many entries were found. */
static inline size_t exercise(const unsigned char *data, size_t bytes, unsigned long long mask) {
    struct mm_fatbin_walk w;
    struct mm_fatbin_entry e;
    struct mm_fatbin_payload p;
    struct mm_fatbin_error error;
    size_t idx = 0;
    memset(&p, 0, sizeof p);
    for (mm_fatbin_walk_begin(&w, data, bytes); mm_fatbin_walk_next(&w, &e); idx++) {
        PROMISE(e.idx == idx);
        exercise_entry(&e, data, bytes);
        if (mm_fatbin_try_payload(&p, &e, &error)) {
            exercise_read(p.at, p.bytes);
            mm_wants_of_elf(p.at, p.bytes);
            mm_wants_of_ptx((const char *)p.at, p.bytes);
        } else {
            PROMISE(*error.message && !p.at && !p.bytes);
        }
    }
    PROMISE(!mm_fatbin_walk_next(&w, &e)); /* and stays there */
    PROMISE(w.is_failed ? *w.error.message != 0 : w.at == w.end);
    mm_fatbin_payload_free(&p);
    if (bytes >= MM_FATBIN_CONTAINER_BYTES) mm_fatbin_total_bytes(data);
    exercise_rebuild(data, bytes, 0);
    if (mask) exercise_rebuild(data, bytes, mask);
    return idx;
}

#endif
