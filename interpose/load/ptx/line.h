/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One PTX instruction as its tokens. */
#ifndef MM_LOAD_LINE_H
#define MM_LOAD_LINE_H

#include "interpose/load/ptx/token.h"

enum { MM_LINE_TOKENS = 256 }; /* a longer instruction is a call or a table of labels */

struct mm_line {
    struct mm_token t[MM_LINE_TOKENS];
    size_t count;            /* without the semicolon; MM_LINE_TOKENS: there may be more */
    size_t op;               /* index of the opcode, behind a predicate */
    const char *begin, *end; /* `end` is behind the semicolon */
};

/* Reads from the token *t through the semicolon; *t is then the next token. */
void mm_line_take(struct mm_token_reader *r, struct mm_token *t, struct mm_line *l);

/* Whether token i exists and is spelled exactly like this. */
bool mm_line_is(const struct mm_line *l, size_t i, const char *spelling);

/* Whether the parts behind the opcode (.global .u64) are all in the list, which ends with NULL; *i is then the first operand. */
bool mm_line_parts_are(const struct mm_line *l, size_t *i, const char *const *list);

/* Read 12 or -12; [name], [name+8], [name+-8] or [name-8] and the comma behind it. On success, *i is behind that. */
bool mm_line_read_number(const struct mm_line *l, size_t *i, long long *number);
bool mm_line_read_address(const struct mm_line *l, size_t *i, struct mm_token *name, long long *offset);

#endif
