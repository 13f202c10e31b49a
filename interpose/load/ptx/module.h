/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A PTX module as its header and the list of what it declares and defines at the outermost level. */
#ifndef MM_SPLICE_MODULE_H
#define MM_SPLICE_MODULE_H

#include "interpose/load/ptx/token.h"

enum mm_item_kind {
    MM_ITEM_FUNC_DECLARED, /* .func without a body */
    MM_ITEM_FUNC_DEFINED,
    MM_ITEM_ENTRY,
    MM_ITEM_VARIABLE,
    MM_ITEM_DEBUG, /* .file, .section */
    MM_ITEM_OTHER  /* .pragma, .alias */
};

struct mm_item {
    enum mm_item_kind kind;
    struct mm_token linkage; /* .extern, .visible, .weak or .common; kind MM_TOKEN_END if none */
    struct mm_token space;   /* of a variable: .global, .const, ... */
    struct mm_token name;    /* kind MM_TOKEN_END if it has none */
    unsigned long array;     /* of a variable: its length, 0 if it is no array of known length */
    bool is_bytes;           /* of a variable: its type is .b8 */
    bool has_value;          /* of a variable: = ... follows */
    const char *begin, *end; /* the whole statement, first token to last */
};

struct mm_module {
    int version_major, version_minor;
    int version_line;
    int target;       /* 90 of sm_90a */
    char target_kind; /* 'a', 'f', or 0 */
    int target_line;
    const char *body; /* behind .address_size 64 */
    struct mm_item *items;
    size_t count;
};

/* What was wrong, in which line of the text. */
struct mm_splice_error {
    int line;
    char message[240];
};

/* Reads a module of `bytes` bytes. Items refer to the text, which must stay. Returns 0, or -1 with the
 * error; the module needs mm_module_free in either case. */
int mm_module_read(struct mm_module *m, const char *text, size_t bytes, struct mm_splice_error *error);
void mm_module_free(struct mm_module *m);

/* Fills in an error, printf fashion. Returns -1. */
int mm_splice_fail(struct mm_splice_error *error, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
