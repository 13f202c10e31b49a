/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Applies all functions that read fat binaries to arbitrary bytes, and aborts if one breaks a promise of its interface. For suite load and
 * for the fuzzer. */
#ifndef MM_TESTS_LOAD_EXERCISE_H
#define MM_TESTS_LOAD_EXERCISE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/fatbin.h"
#include "interpose/load/wants.h"

#define PROMISE(what) ((what) ? (void)0 : (fprintf(stderr, "load: line %d: not kept: %s\n", __LINE__, #what), abort()))

enum { EXERCISE_IMAGES = 4 };

static inline bool exercise_within(const void *part, size_t part_bytes, const void *whole, size_t bytes) {
    const uintptr_t at = (uintptr_t)part, begin = (uintptr_t)whole;
    return at >= begin && at - begin <= bytes && part_bytes <= bytes - (at - begin);
}

/* Reads every byte, so that AddressSanitizer detects a range that is too long. */
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

/* Makes a container with `count` images taken from the data, and checks that they are found in it. */
static inline void exercise_make(const unsigned char *data, size_t bytes, size_t count) {
    struct mm_fatbin_image images[EXERCISE_IMAGES];
    struct mm_fatbin_walk w;
    struct mm_fatbin_entry e;
    struct mm_fatbin_payload p;
    struct mm_fatbin_error error;
    size_t made_bytes = 0, idx = 0;
    memset(&p, 0, sizeof p);
    for (size_t i = 0; i < count; i++) images[i] = (struct mm_fatbin_image){data + i % (bytes + 1), bytes - i % (bytes + 1), 75 + (unsigned)i};
    unsigned char *const made = (unsigned char *)mm_fatbin_try_make(images, count, &made_bytes);
    PROMISE(made && mm_fatbin_total_bytes(made) == made_bytes);
    for (mm_fatbin_walk_begin(&w, made, made_bytes); mm_fatbin_walk_next(&w, &e); idx++) {
        PROMISE(e.kind == MM_FATBIN_ELF && e.arch == images[idx].arch && !e.arch_suffix && !e.name && !e.options);
        PROMISE(mm_fatbin_try_payload(&p, &e, &error) && p.bytes >= images[idx].bytes && p.bytes < images[idx].bytes + 8);
        PROMISE(memcmp(p.at, images[idx].cubin, images[idx].bytes) == 0);
        for (size_t k = images[idx].bytes; k < p.bytes; k++) PROMISE(p.at[k] == 0);
    }
    PROMISE(!w.is_failed && idx == count);
    mm_fatbin_payload_free(&p);
    free(made);
}

/* `data` should be a separate allocation, so that a sanitizer knows its end. Returns the number of entries found. */
static inline size_t exercise(const unsigned char *data, size_t bytes) {
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
        } else {
            PROMISE(*error.message && !p.at && !p.bytes);
        }
    }
    PROMISE(!mm_fatbin_walk_next(&w, &e)); /* the end is permanent */
    PROMISE(w.is_failed ? *w.error.message != 0 : w.at == w.end);
    mm_fatbin_payload_free(&p);
    if (bytes >= MM_FATBIN_CONTAINER_BYTES) mm_fatbin_total_bytes(data);
    exercise_make(data, bytes, bytes % (EXERCISE_IMAGES + 1));
    return idx;
}

#endif
