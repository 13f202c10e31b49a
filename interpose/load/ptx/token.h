/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* PTX text as tokens.
 *
 * A token is a slice of the caller's text; nothing is copied. Comments and white space separate tokens
 * and are not tokens. Directives keep their dot (".func"); an identifier is what the PTX manual calls
 * one: a letter, or one of _ $ % followed by more, then letters, digits, _ and $. Names are thus compared
 * whole: malloc is never found inside malloc_param_0, a string or a comment.
 */
#ifndef MM_LOAD_TOKEN_H
#define MM_LOAD_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum mm_token_kind {
    MM_TOKEN_END,
    MM_TOKEN_DIRECTIVE,  /* .func */
    MM_TOKEN_IDENTIFIER, /* malloc, %rd1, $L__BB0_2 */
    MM_TOKEN_NUMBER,     /* 12, 0x1F, 0f3F800000, 9.0 */
    MM_TOKEN_STRING,     /* with its quotes */
    MM_TOKEN_MARK        /* one character */
};

struct mm_token {
    enum mm_token_kind kind;
    const char *at;
    size_t length;
    int line; /* 1 is the first */
};

/* Reader state; at..end is what is left. message is set once the text cannot be read any further. */
struct mm_token_reader {
    const char *at;
    const char *end;
    int line;
    const char *message;
};

void mm_token_start(struct mm_token_reader *r, const char *text, size_t bytes);

/* Next token, MM_TOKEN_END at the end of the text, and also on an error: then r->message says what is
 * wrong in r->line. */
struct mm_token mm_token_next(struct mm_token_reader *r);

/* Whether the token is spelled exactly like this. */
bool mm_token_is(const struct mm_token *t, const char *spelling);

#endif
