/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    struct mm_token_reader reader;
    struct mm_token now; /* the token being looked at */
    const char *past;    /* end of the token before it */
    struct mm_module *module;
    struct mm_splice_error *error;
};

int mm_splice_fail(struct mm_splice_error *error, int line, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error->message, sizeof error->message, format, list);
    va_end(list);
    error->line = line;
    return -1;
}

static int advance(struct parser *p) {
    p->past = p->now.at + p->now.length;
    p->now = mm_token_next(&p->reader);
    if (p->reader.message) return mm_splice_fail(p->error, p->reader.line, "%s", p->reader.message);
    return 0;
}

static bool at(const struct parser *p, const char *spelling) { return mm_token_is(&p->now, spelling); }

/* The present token is not what the grammar wants. */
static int expected(struct parser *p, const char *what) {
    if (p->now.kind == MM_TOKEN_END)
        return mm_splice_fail(p->error, p->now.line, "the text ends where %s should be", what);
    return mm_splice_fail(p->error, p->now.line, "expected %s, found '%.*s'", what,
                          p->now.length > 60 ? 60 : (int)p->now.length, p->now.at);
}

static int take(struct parser *p, const char *spelling) {
    if (!at(p, spelling)) {
        char what[40];
        snprintf(what, sizeof what, "'%s'", spelling);
        return expected(p, what);
    }
    return advance(p);
}

/* Goes past a group that begins at the present token: ( ), [ ] or { }, with what is nested in it. */
static int skip_group(struct parser *p, char open, char close, const char *what) {
    const int line = p->now.line;
    int depth = 0;
    do {
        if (p->now.kind == MM_TOKEN_END) return mm_splice_fail(p->error, line, "this %s does not end", what);
        if (p->now.kind == MM_TOKEN_MARK) depth += (*p->now.at == open) - (*p->now.at == close);
        if (advance(p)) return -1;
    } while (depth > 0);
    return 0;
}

static int skip_to_semicolon(struct parser *p) {
    const int line = p->now.line;
    while (!at(p, ";")) {
        if (p->now.kind == MM_TOKEN_END) return mm_splice_fail(p->error, line, "this statement does not end");
        if (advance(p)) return -1;
    }
    return advance(p);
}

static int add_item(struct parser *p, const struct mm_item *item) {
    struct mm_module *m = p->module;
    if ((m->count & (m->count - 1)) == 0) { /* full at every power of two */
        struct mm_item *grown = (struct mm_item *)realloc(m->items, (m->count ? 2 * m->count : 1) * sizeof *grown);
        if (!grown) return mm_splice_fail(p->error, p->now.line, "no memory for this module's declarations");
        m->items = grown;
    }
    m->items[m->count] = *item;
    m->items[m->count++].end = p->past;
    return 0;
}

/* .version 9.0 .target sm_90, debug .address_size 64 */
static int read_header(struct parser *p) {
    struct mm_module *m = p->module;
    char used = 0;
    m->version_line = p->now.line;
    if (take(p, ".version")) return -1;
    char number[16] = "";
    if (p->now.length < sizeof number) memcpy(number, p->now.at, p->now.length);
    if (p->now.kind != MM_TOKEN_NUMBER || sscanf(number, "%d.%d%c", &m->version_major, &m->version_minor, &used) != 2)
        return expected(p, "a version such as 9.0");
    if (advance(p)) return -1;

    m->target_line = p->now.line;
    if (take(p, ".target")) return -1;
    char name[16] = "";
    if (p->now.length < sizeof name) memcpy(name, p->now.at, p->now.length);
    const int fields = sscanf(name, "sm_%d%c%c", &m->target, &m->target_kind, &used);
    if (fields < 1 || fields > 2 || m->target < 10 || (fields == 2 && !strchr("af", m->target_kind)))
        return expected(p, "an architecture such as sm_90");
    if (advance(p)) return -1;
    while (at(p, ",")) {
        if (advance(p)) return -1;
        if (p->now.kind != MM_TOKEN_IDENTIFIER) return expected(p, "a platform option");
        if (advance(p)) return -1;
    }

    if (take(p, ".address_size")) return -1;
    if (!at(p, "64")) return expected(p, "address size 64");
    m->body = p->now.at + p->now.length;
    return advance(p);
}

/* Behind .func or .entry: attributes, (results), name, (parameters), directives, then ';' or a body. */
static int read_function(struct parser *p, struct mm_item *item) {
    const int line = p->now.line;
    while (at(p, ".attribute") || at(p, "(")) {
        if (at(p, ".attribute") && advance(p)) return -1;
        if (!at(p, "(")) return expected(p, "'('");
        if (skip_group(p, '(', ')', "list")) return -1;
    }
    if (p->now.kind != MM_TOKEN_IDENTIFIER) return expected(p, "the name of a function");
    item->name = p->now;
    if (advance(p)) return -1;
    while (!at(p, ";") && !at(p, "{")) {
        if (p->now.kind == MM_TOKEN_END)
            return mm_splice_fail(p->error, line, "this function has no body and no ';'");
        if (at(p, ".pragma")) {
            if (skip_to_semicolon(p)) return -1;
        } else if (at(p, "(")) {
            if (skip_group(p, '(', ')', "list")) return -1;
        } else if (p->now.kind == MM_TOKEN_DIRECTIVE || p->now.kind == MM_TOKEN_NUMBER || at(p, ",")) {
            if (advance(p)) return -1;
        } else {
            return expected(p, "a directive, a body or ';'");
        }
    }
    if (at(p, "{")) {
        if (item->kind == MM_ITEM_FUNC_DECLARED) item->kind = MM_ITEM_FUNC_DEFINED;
        if (skip_group(p, '{', '}', "body")) return -1;
    } else if (advance(p)) {
        return -1;
    }
    return add_item(p, item);
}

/* Behind .global and its like: attributes and type, then name [size] [= value], more after commas, ';'. */
static int read_variables(struct parser *p, struct mm_item *item) {
    while (p->now.kind == MM_TOKEN_DIRECTIVE || p->now.kind == MM_TOKEN_NUMBER || at(p, "(")) {
        item->is_bytes = at(p, ".b8");
        if (at(p, "(") ? skip_group(p, '(', ')', "list") : advance(p)) return -1;
    }
    const size_t first = p->module->count;
    do {
        if (p->module->count > first && advance(p)) return -1;
        if (p->now.kind != MM_TOKEN_IDENTIFIER) return expected(p, "the name of a variable");
        item->name = p->now;
        item->array = 0;
        if (advance(p)) return -1;
        while (at(p, "[")) {
            if (advance(p)) return -1;
            if (p->now.kind == MM_TOKEN_NUMBER) item->array = strtoul(p->now.at, NULL, 0);
            while (!at(p, "]")) {
                if (p->now.kind == MM_TOKEN_END) return expected(p, "']'");
                if (advance(p)) return -1;
            }
            if (advance(p)) return -1;
        }
        item->has_value = at(p, "=");
        while (!at(p, ",") && !at(p, ";")) {
            if (p->now.kind == MM_TOKEN_END) return expected(p, "';'");
            if (p->now.kind == MM_TOKEN_DIRECTIVE) return expected(p, "';'");
            if (at(p, "{") ? skip_group(p, '{', '}', "value")
                           : (at(p, "(") ? skip_group(p, '(', ')', "value") : advance(p)))
                return -1;
        }
        if (add_item(p, item)) return -1;
    } while (at(p, ","));
    if (advance(p)) return -1;
    for (size_t i = first; i < p->module->count; i++) p->module->items[i].end = p->past;
    return 0;
}

/* .file 1 "name" [, time, size] */
static int read_file(struct parser *p, struct mm_item *item) {
    if (p->now.kind != MM_TOKEN_NUMBER) return expected(p, "a file number");
    if (advance(p)) return -1;
    if (p->now.kind != MM_TOKEN_STRING) return expected(p, "a file name");
    if (advance(p)) return -1;
    while (at(p, ",")) {
        if (advance(p)) return -1;
        if (p->now.kind != MM_TOKEN_NUMBER) return expected(p, "a number");
        if (advance(p)) return -1;
    }
    return add_item(p, item);
}

static int read_statement(struct parser *p) {
    static const char *const linkages[] = {".extern", ".visible", ".weak", ".common"};
    static const char *const spaces[] = {".global", ".const", ".shared", ".local", ".tex"};
    struct mm_item item;
    memset(&item, 0, sizeof item);
    item.begin = p->now.at;
    for (size_t i = 0; i < sizeof linkages / sizeof *linkages; i++)
        if (at(p, linkages[i])) {
            item.linkage = p->now;
            if (advance(p)) return -1;
            break;
        }
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (at(p, spaces[i])) {
            item.kind = MM_ITEM_VARIABLE;
            item.space = p->now;
            return advance(p) || read_variables(p, &item) ? -1 : 0;
        }
    if (at(p, ".func") || at(p, ".entry")) {
        item.kind = at(p, ".func") ? MM_ITEM_FUNC_DECLARED : MM_ITEM_ENTRY;
        return advance(p) || read_function(p, &item) ? -1 : 0;
    }
    if (item.linkage.kind == MM_TOKEN_END) {
        item.kind = MM_ITEM_DEBUG;
        if (at(p, ".file")) return advance(p) || read_file(p, &item) ? -1 : 0;
        if (at(p, ".section")) {
            if (advance(p)) return -1;
            if (p->now.kind != MM_TOKEN_DIRECTIVE && p->now.kind != MM_TOKEN_IDENTIFIER)
                return expected(p, "the name of a section");
            if (advance(p)) return -1;
            if (!at(p, "{")) return expected(p, "'{'");
            return skip_group(p, '{', '}', "section") || add_item(p, &item) ? -1 : 0;
        }
        item.kind = MM_ITEM_OTHER;
        if (at(p, ".pragma") || at(p, ".alias")) return skip_to_semicolon(p) || add_item(p, &item) ? -1 : 0;
    }
    return expected(p, "a declaration or definition");
}

int mm_module_read(struct mm_module *m, const char *text, size_t bytes, struct mm_splice_error *error) {
    struct parser p;
    memset(m, 0, sizeof *m);
    memset(&p, 0, sizeof p);
    p.module = m;
    p.error = error;
    p.now.at = text;
    mm_token_start(&p.reader, text, bytes);
    if (advance(&p) || read_header(&p)) return -1;
    while (p.now.kind != MM_TOKEN_END)
        if (read_statement(&p)) return -1;
    return 0;
}

void mm_module_free(struct mm_module *m) {
    free(m->items);
    m->items = NULL;
    m->count = 0;
}
