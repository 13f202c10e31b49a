/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A PTX module as the list of its top-level declarations and definitions. */
#ifndef MM_LOAD_MODULE_H
#define MM_LOAD_MODULE_H

#include "interpose/load/ptx/token.h"

enum mm_item_kind {
    MM_ITEM_FUNC_DECLARED, /* .func without a body */
    MM_ITEM_FUNC_DEFINED,
    MM_ITEM_ENTRY,
    MM_ITEM_VARIABLE,
    MM_ITEM_OTHER /* .file, .section, .pragma, .alias */
};

struct mm_item {
    enum mm_item_kind kind;
    struct mm_token linkage; /* .extern, .visible, .weak or .common; kind MM_TOKEN_END if none */
    struct mm_token name;    /* kind MM_TOKEN_END if it has none */
    const char *begin, *end; /* the whole statement, first token to last */
};

struct mm_module {
    int target; /* 90 for sm_90a */
    struct mm_item *items;
    size_t count;
};

/* Reads a module of `bytes` bytes. Items point into the text, which must outlive them. Returns false if it is no module, or if out of memory; the
 * module needs mm_module_free in either case. */
bool mm_module_try_read(struct mm_module *m, const char *text, size_t bytes);
void mm_module_free(struct mm_module *m);

#endif
