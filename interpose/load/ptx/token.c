/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/token.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_follow(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

/* Marks that PTX uses; anything else outside strings and comments is not PTX. */
static bool is_mark(char c) { return c && strchr("{}()[]<>,;:=+-*/%!&|^~?@.", c); }

void mm_token_start(struct mm_token_reader *r, const char *text, size_t bytes) {
    r->at = text;
    r->end = text + bytes;
    r->line = 1;
    r->message = NULL;
}

/* Skips white space and comments; false if a comment does not end. */
static bool skip_blank(struct mm_token_reader *r) {
    while (r->at < r->end) {
        const char c = *r->at;
        const char next = r->at + 1 < r->end ? r->at[1] : 0;
        if (c == '\n') {
            r->line++;
            r->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            r->at++;
        } else if (c == '/' && next == '/') {
            while (r->at < r->end && *r->at != '\n') r->at++;
        } else if (c == '/' && next == '*') {
            const int opened = r->line;
            r->at += 2;
            while (r->at + 1 < r->end && !(r->at[0] == '*' && r->at[1] == '/')) r->line += *r->at++ == '\n';
            if (r->at + 1 >= r->end) {
                r->line = opened;
                r->message = "this comment does not end";
                return false;
            }
            r->at += 2;
        } else {
            break;
        }
    }
    return true;
}

/* Length of the string that begins at r->at, quotes included; 0 if it does not end on its line. */
static size_t string_length(const struct mm_token_reader *r) {
    const char *p = r->at + 1;
    while (p < r->end && *p != '"' && *p != '\n') p += *p == '\\' && p + 1 < r->end && p[1] != '\n' ? 2 : 1;
    return p < r->end && *p == '"' ? (size_t)(p + 1 - r->at) : 0;
}

struct mm_token mm_token_next(struct mm_token_reader *r) {
    struct mm_token t = {MM_TOKEN_END, r->at, 0, r->line};
    if (r->message || !skip_blank(r)) return t;
    t.at = r->at;
    t.line = r->line;
    if (r->at == r->end) return t;

    const char c = *r->at;
    const char next = r->at + 1 < r->end ? r->at[1] : 0;
    const char *p = r->at + 1;
    if (c == '"') {
        t.length = string_length(r);
        if (!t.length) {
            r->message = "this string does not end";
            return t;
        }
        t.kind = MM_TOKEN_STRING;
        r->at += t.length;
        return t;
    }
    if (is_letter(c) || ((c == '_' || c == '$' || c == '%') && is_follow(next))) {
        t.kind = MM_TOKEN_IDENTIFIER;
        while (p < r->end && is_follow(*p)) p++;
    } else if (c == '_') {
        t.kind = MM_TOKEN_IDENTIFIER; /* the sink operand */
    } else if (is_digit(c)) {
        t.kind = MM_TOKEN_NUMBER;
        while (p < r->end && (is_follow(*p) || (*p == '.' && p + 1 < r->end && is_digit(p[1])))) p++;
    } else if (c == '.' && (is_letter(next) || next == '_')) {
        t.kind = MM_TOKEN_DIRECTIVE;
        while (p < r->end && is_follow(*p)) p++;
    } else if (is_mark(c)) {
        t.kind = MM_TOKEN_MARK;
    } else {
        r->message = c ? "this character is not PTX" : "there is a zero byte in the text";
        return t;
    }
    t.length = (size_t)(p - r->at);
    r->at = p;
    return t;
}

bool mm_token_is(const struct mm_token *t, const char *spelling) { return t->length == strlen(spelling) && memcmp(t->at, spelling, t->length) == 0; }
