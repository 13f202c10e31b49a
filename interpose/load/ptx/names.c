/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memmem */
#include "interpose/load/ptx/names.h"

#include <string.h>

#include "interpose/load/ptx/token.h"
#include "mmconfig.h"

/* mm_usable_size is mm's own name anyway. */
enum { NAMES = 3 };
typedef const char *const names[NAMES];
static names cudas = {"malloc", "free", "__cuda_syscall_aligned_malloc"};
#define NAMES_OF(name, suffix) {MM_NAMES_PREFIX suffix "_malloc", MM_NAMES_PREFIX suffix "_free", MM_NAMES_PREFIX suffix "_aligned_malloc"},
static names mms[] = {MM_ALLOCATORS(NAMES_OF)};
enum { ALLOCATORS = sizeof mms / sizeof *mms };

int mm_names_allocator(const char *name) {
#define NAME(name, suffix) name,
    static const char *const known[] = {MM_ALLOCATORS(NAME)};
    int i = *name ? ALLOCATORS - 1 : 0;
    while (i >= 0 && *name && strcmp(name, known[i]) != 0) i--;
    return i;
}

static int index_of(const struct mm_token *t, names of) {
    for (int i = 0; i < NAMES; i++)
        if (mm_token_is(t, of[i])) return i;
    return -1;
}

static int of_cudas(const struct mm_token *t, int *allocator) {
    (void)allocator;
    return index_of(t, cudas);
}

static int of_mms(const struct mm_token *t, int *allocator) {
    const size_t prefix = sizeof MM_NAMES_PREFIX - 1;
    int name = -1;
    if (t->length <= prefix || memcmp(t->at, MM_NAMES_PREFIX, prefix) != 0) return -1; /* most tokens */
    for (int i = 0; i < ALLOCATORS && name < 0; i++) {
        name = index_of(t, mms[i]);
        if (name >= 0 && *allocator < 0) *allocator = i;
    }
    return name;
}

/* Replaces the names that `of` finds and whose bit is set in `mask`. *allocator, less than 0: becomes what `of` says of the first one. */
static int change(const char *text, size_t bytes, int (*of)(const struct mm_token *, int *), names to, int mask, int *allocator, struct mm_text *out) {
    struct mm_token_reader r;
    const char *copied = text;
    int count = 0;
    bool is_bad = false;
    memset(out, 0, sizeof *out);
    mm_token_start(&r, text, mask ? bytes : 0);
    for (struct mm_token t = mm_token_next(&r); t.kind != MM_TOKEN_END && !is_bad; t = mm_token_next(&r)) {
        const int name = of(&t, allocator);
        if (name < 0 || !(mask >> name & 1)) continue;
        is_bad = mm_text_add(out, copied, (size_t)(t.at - copied)) || mm_text_add_string(out, to[name]);
        copied = t.at + t.length;
        count++;
    }
    if (!is_bad && count) is_bad = mm_text_add(out, copied, (size_t)(text + bytes - copied)) != 0;
    if (is_bad || !count) mm_text_free(out);
    return is_bad ? -1 : count;
}

int mm_names_declared(const char *text, size_t bytes) {
    struct mm_token_reader r;
    struct mm_token t;
    int declared = 0;
    if (!memmem(text, bytes, "malloc", 6) && !memmem(text, bytes, "free", 4) && !memmem(text, bytes, "usable_size", 11)) return 0; /* most texts */
    mm_token_start(&r, text, bytes);
    do {
        t = mm_token_next(&r);
        if (!mm_token_is(&t, ".extern")) continue;
        t = mm_token_next(&r);
        if (!mm_token_is(&t, ".func")) continue;
        t = mm_token_next(&r);
        if (mm_token_is(&t, "(")) { /* what it returns */
            while (t.kind != MM_TOKEN_END && !mm_token_is(&t, ")")) t = mm_token_next(&r);
            t = mm_token_next(&r);
        }
        const int name = mm_token_is(&t, "mm_usable_size") ? NAMES : index_of(&t, cudas);
        if (name >= 0) declared |= 1 << name;
    } while (t.kind != MM_TOKEN_END);
    return declared;
}

int mm_names_hide(const char *text, size_t bytes, int allocator, struct mm_text *out) {
    return change(text, bytes, of_cudas, mms[allocator], mm_names_declared(text, bytes), &allocator, out);
}

int mm_names_show(const char *text, size_t bytes, int *allocator, struct mm_text *out) {
    const bool may_have = memmem(text, bytes, MM_NAMES_PREFIX, sizeof MM_NAMES_PREFIX - 1) != NULL;
    int first = -1;
    const int count = change(text, bytes, of_mms, cudas, may_have ? (1 << NAMES) - 1 : 0, &first, out);
    if (allocator) *allocator = first < 0 ? 0 : first;
    return count;
}
