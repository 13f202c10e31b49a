/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    struct mm_token_reader reader;
    struct mm_token now; /* the current token */
    const char *past;    /* end of the token before it */
    struct mm_module *module;
};

/* All functions below return false if the text is malformed. */

static bool advance(struct parser *p) {
    p->past = p->now.at + p->now.length;
    p->now = mm_token_next(&p->reader);
    return !p->reader.message;
}

static bool at(const struct parser *p, const char *spelling) { return mm_token_is(&p->now, spelling); }
static bool at_end(const struct parser *p) { return p->now.kind == MM_TOKEN_END; }
static bool take(struct parser *p, const char *spelling) { return at(p, spelling) && advance(p); }

/* Skips a group that begins at the current token: ( ), [ ] or { }, including nested ones. */
static bool skip_group(struct parser *p, char open, char close) {
    int depth = 0;
    do {
        if (at_end(p)) return false;
        if (p->now.kind == MM_TOKEN_MARK) depth += (*p->now.at == open) - (*p->now.at == close);
        if (!advance(p)) return false;
    } while (depth > 0);
    return true;
}

static bool skip_to(struct parser *p, const char *spelling) {
    while (!at(p, spelling))
        if (at_end(p) || !advance(p)) return false;
    return advance(p);
}

static bool add_item(struct parser *p, const struct mm_item *item) {
    struct mm_module *m = p->module;
    if ((m->count & (m->count - 1)) == 0) { /* full at every power of two */
        struct mm_item *grown = (struct mm_item *)realloc(m->items, (m->count ? 2 * m->count : 1) * sizeof *grown);
        if (!grown) return false;
        m->items = grown;
    }
    m->items[m->count] = *item;
    m->items[m->count++].end = p->past;
    return true;
}

/* .version 9.0 .target sm_90, debug .address_size 64 */
static bool read_header(struct parser *p) {
    char name[16] = "", kind = 'a', used = 0;
    if (!take(p, ".version") || p->now.kind != MM_TOKEN_NUMBER || !advance(p) || !take(p, ".target")) return false;
    if (p->now.length < sizeof name) memcpy(name, p->now.at, p->now.length);
    const int fields = sscanf(name, "sm_%7d%c%c", &p->module->target, &kind, &used);
    if (fields < 1 || fields > 2 || !strchr("af", kind) || !advance(p)) return false;
    while (at(p, ","))
        if (!advance(p) || p->now.kind != MM_TOKEN_IDENTIFIER || !advance(p)) return false;
    return take(p, ".address_size") && take(p, "64");
}

/* After .func or .entry: attributes, (results), name, (parameters), directives, then ';' or a body. */
static bool read_function(struct parser *p, struct mm_item *item) {
    while (at(p, ".attribute") || at(p, "("))
        if ((at(p, ".attribute") && !advance(p)) || !at(p, "(") || !skip_group(p, '(', ')')) return false;
    item->name = p->now;
    if (p->now.kind != MM_TOKEN_IDENTIFIER || !advance(p)) return false;
    while (!at(p, ";") && !at(p, "{")) {
        const bool is_directive = p->now.kind == MM_TOKEN_DIRECTIVE || p->now.kind == MM_TOKEN_NUMBER || at(p, ",");
        if (!is_directive && !at(p, "(")) return false;
        if (at(p, ".pragma") ? !skip_to(p, ";") : is_directive ? !advance(p) : !skip_group(p, '(', ')')) return false;
    }
    const bool has_body = at(p, "{");
    if (has_body && item->kind == MM_ITEM_FUNC_DECLARED) item->kind = MM_ITEM_FUNC_DEFINED;
    return (has_body ? skip_group(p, '{', '}') : advance(p)) && add_item(p, item);
}

/* After .global and similar: attributes and type, then name [size] [= value], more after commas, ';'. */
static bool read_variables(struct parser *p, struct mm_item *item) {
    while (p->now.kind == MM_TOKEN_DIRECTIVE || p->now.kind == MM_TOKEN_NUMBER || at(p, "("))
        if (!(at(p, "(") ? skip_group(p, '(', ')') : advance(p))) return false;
    const size_t first = p->module->count;
    do {
        if (p->module->count > first && !advance(p)) return false;
        item->name = p->now;
        if (p->now.kind != MM_TOKEN_IDENTIFIER || !advance(p)) return false;
        while (at(p, "["))
            if (!skip_to(p, "]")) return false;
        while (!at(p, ",") && !at(p, ";")) {
            if (at_end(p) || p->now.kind == MM_TOKEN_DIRECTIVE) return false;
            if (!(at(p, "{") ? skip_group(p, '{', '}') : at(p, "(") ? skip_group(p, '(', ')') : advance(p))) return false;
        }
        if (!add_item(p, item)) return false;
    } while (at(p, ","));
    if (!advance(p)) return false;
    for (size_t i = first; i < p->module->count; i++) p->module->items[i].end = p->past;
    return true;
}

/* .file 1 "name" [, time, size] */
static bool read_file(struct parser *p, struct mm_item *item) {
    if (p->now.kind != MM_TOKEN_NUMBER || !advance(p) || p->now.kind != MM_TOKEN_STRING || !advance(p)) return false;
    while (at(p, ","))
        if (!advance(p) || p->now.kind != MM_TOKEN_NUMBER || !advance(p)) return false;
    return add_item(p, item);
}

/* .section .debug_str { } */
static bool read_section(struct parser *p, struct mm_item *item) {
    if (p->now.kind != MM_TOKEN_DIRECTIVE && p->now.kind != MM_TOKEN_IDENTIFIER) return false;
    return advance(p) && at(p, "{") && skip_group(p, '{', '}') && add_item(p, item);
}

static bool is_one_of(const struct parser *p, const char *const *list) {
    while (*list && !at(p, *list)) list++;
    return *list != NULL;
}

static bool read_statement(struct parser *p) {
    static const char *const linkages[] = {".extern", ".visible", ".weak", ".common", NULL};
    static const char *const spaces[] = {".global", ".const", ".shared", ".local", ".tex", NULL};
    struct mm_item item;
    memset(&item, 0, sizeof item);
    item.begin = p->now.at;
    if (is_one_of(p, linkages)) {
        item.linkage = p->now;
        if (!advance(p)) return false;
    }
    if (is_one_of(p, spaces)) {
        item.kind = MM_ITEM_VARIABLE;
        return advance(p) && read_variables(p, &item);
    }
    if (at(p, ".func") || at(p, ".entry")) {
        item.kind = at(p, ".func") ? MM_ITEM_FUNC_DECLARED : MM_ITEM_ENTRY;
        return advance(p) && read_function(p, &item);
    }
    if (item.linkage.kind != MM_TOKEN_END) return false;
    item.kind = MM_ITEM_OTHER;
    if (at(p, ".file")) return advance(p) && read_file(p, &item);
    if (at(p, ".section")) return advance(p) && read_section(p, &item);
    return (at(p, ".pragma") || at(p, ".alias")) && skip_to(p, ";") && add_item(p, &item);
}

bool mm_module_try_read(struct mm_module *m, const char *text, size_t bytes) {
    struct parser p;
    memset(m, 0, sizeof *m);
    memset(&p, 0, sizeof p);
    p.module = m;
    p.now.at = text;
    mm_token_start(&p.reader, text, bytes);
    bool done = advance(&p) && read_header(&p);
    while (done && !at_end(&p)) done = read_statement(&p);
    return done;
}

void mm_module_free(struct mm_module *m) {
    free(m->items);
    memset(m, 0, sizeof *m);
}
