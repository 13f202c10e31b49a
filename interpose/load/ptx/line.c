/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/line.h"

#include <stdlib.h>
#include <string.h>

void mm_line_take(struct mm_token_reader *r, struct mm_token *t, struct mm_line *l) {
    l->begin = t->at;
    l->count = 0;
    for (; t->kind != MM_TOKEN_END && !mm_token_is(t, ";"); *t = mm_token_next(r))
        if (l->count < MM_LINE_TOKENS) l->t[l->count++] = *t;
    l->end = t->at + t->length;
    l->op = l->count && *l->t->at == '@' ? (size_t)(mm_line_is(l, 1, "!") ? 3 : 2) : 0;
    if (t->kind != MM_TOKEN_END) *t = mm_token_next(r);
}

bool mm_line_is(const struct mm_line *l, size_t i, const char *spelling) { return i < l->count && mm_token_is(&l->t[i], spelling); }

bool mm_line_parts_are(const struct mm_line *l, size_t *i, const char *const *list) {
    for (*i = l->op + 1; *i < l->count && l->t[*i].kind == MM_TOKEN_DIRECTIVE; ++*i) {
        size_t k = 0;
        while (list[k] && !mm_line_is(l, *i, list[k])) k++;
        if (!list[k]) return false;
    }
    return true;
}

bool mm_line_read_number(const struct mm_line *l, size_t *i, long long *number) {
    char digits[32] = "", *end;
    const size_t sign = mm_line_is(l, *i, "-");
    if (*i + sign >= l->count) return false;
    const struct mm_token *t = &l->t[*i + sign];
    if (t->kind != MM_TOKEN_NUMBER || t->length >= sizeof digits) return false;
    memcpy(digits, t->at, t->length);
    const unsigned long long n = strtoull(digits, &end, 0);
    if (*end && strcmp(end, "U") != 0) return false;
    *number = (long long)(sign ? 0 - n : n);
    *i += 1 + sign;
    return true;
}

bool mm_line_read_address(const struct mm_line *l, size_t *i, struct mm_token *name, long long *offset) {
    size_t at = *i + 2;
    *offset = 0;
    if (!mm_line_is(l, *i, "[") || at >= l->count || l->t[*i + 1].kind != MM_TOKEN_IDENTIFIER) return false;
    *name = l->t[*i + 1];
    if (mm_line_is(l, at, "+")) at++;
    if (!mm_line_is(l, at, "]") && !mm_line_read_number(l, &at, offset)) return false;
    if (!mm_line_is(l, at, "]")) return false;
    *i = at + 2;
    return true;
}
