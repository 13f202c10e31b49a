/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memmem */
#include "interpose/load/ptx/names.h"

#include <string.h>

#include "interpose/load/ptx/token.h"

/* mm_usable_size is mm's own name anyway. */
enum { NAMES = 3 };
static const char *const cudas[NAMES] = {"malloc", "free", "__cuda_syscall_aligned_malloc"};
static const char *const mms[NAMES] = {MM_NAMES_PREFIX "malloc", MM_NAMES_PREFIX "free", MM_NAMES_PREFIX "aligned_malloc"};

static int index_of(const struct mm_token *t, const char *const *names) {
    for (int i = 0; i < NAMES; i++)
        if (mm_token_is(t, names[i])) return i;
    return -1;
}

/* Replaces the names whose bit is set in `mask`. */
static int rename_all(const char *text, size_t bytes, const char *const *from, const char *const *to, int mask, struct mm_text *out) {
    struct mm_token_reader r;
    const char *copied = text;
    int count = 0;
    mm_token_start(&r, text, bytes);
    for (struct mm_token t = mm_token_next(&r); t.kind != MM_TOKEN_END; t = mm_token_next(&r)) {
        const int name = index_of(&t, from);
        if (name < 0 || !(mask >> name & 1)) continue;
        if (mm_text_add(out, copied, (size_t)(t.at - copied)) || mm_text_add_string(out, to[name])) return -1;
        copied = t.at + t.length;
        count++;
    }
    return count && mm_text_add(out, copied, (size_t)(text + bytes - copied)) ? -1 : count;
}

static int change(const char *text, size_t bytes, const char *const *from, const char *const *to, int mask, struct mm_text *out) {
    memset(out, 0, sizeof *out);
    const int count = mask ? rename_all(text, bytes, from, to, mask, out) : 0;
    if (count <= 0) mm_text_free(out);
    return count;
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

int mm_names_hide(const char *text, size_t bytes, struct mm_text *out) { return change(text, bytes, cudas, mms, mm_names_declared(text, bytes), out); }

int mm_names_show(const char *text, size_t bytes, struct mm_text *out) {
    const bool may_have = memmem(text, bytes, MM_NAMES_PREFIX, sizeof MM_NAMES_PREFIX - 1) != NULL;
    return change(text, bytes, mms, cudas, may_have ? (1 << NAMES) - 1 : 0, out);
}
