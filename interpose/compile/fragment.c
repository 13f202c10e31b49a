/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From the PTX of runtime/device.cu to the text that is spliced. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/ptx/text.h"
#include "mmconfig.h"

const char *const mm_splice_service_source[MM_SPLICE_SERVICES] = {"mm_device_malloc", "mm_device_free",
                                                                  "mm_device_aligned_malloc", "mm_device_usable_size"};

/* What only machine code calls that libmm links (interpose/load/counts.h), by names that no program has. */
static const char *const linked_source[] = {"mm_device_new", "mm_device_aligned_new"}, *const linked[] = {MM_LINKED_NEW, MM_LINKED_ALIGNED_NEW};
enum { LINKED = sizeof linked / sizeof *linked };

/* Whatever else the allocator calls; the driver provides both to every module. */
static const char *const known_externs[] = {"__assertfail", "vprintf"};

static int source_index(const struct mm_token *name) {
    for (int i = 0; i < MM_SPLICE_SERVICES; i++)
        if (mm_token_is(name, mm_splice_service_source[i])) return i;
    return -1;
}

static bool same_name(const struct mm_token *a, const struct mm_token *b) {
    return a->length == b->length && memcmp(a->at, b->at, a->length) == 0;
}

static bool is_extern(const struct mm_item *item) { return mm_token_is(&item->linkage, ".extern"); }
static bool is_heap(const struct mm_item *item) { return mm_token_is(&item->name, MM_HEAP_REF_NAME); }

static int check_item(const struct mm_item *item, int *services, int *heaps, struct mm_splice_error *error) {
    const int line = item->name.line;
    const int service = source_index(&item->name);
    if (item->kind == MM_ITEM_DEBUG)
        return mm_splice_fail(error, line, "the allocator must be compiled without debug information");
    if (item->kind == MM_ITEM_ENTRY || item->kind == MM_ITEM_OTHER)
        return mm_splice_fail(error, line, "the allocator may hold functions and variables only");
    if (is_heap(item)) {
        if (item->kind != MM_ITEM_VARIABLE || is_extern(item) || item->array != MM_HEAP_REF_BYTES ||
            !item->is_bytes || item->has_value || !mm_token_is(&item->space, ".const"))
            return mm_splice_fail(error, line, "%s must be .const .b8 [%d] without a value", MM_HEAP_REF_NAME,
                                  MM_HEAP_REF_BYTES);
        ++*heaps;
    } else if (service >= 0) {
        if (item->kind == MM_ITEM_FUNC_DEFINED) *services |= 1 << service;
    } else if (is_extern(item)) {
        for (size_t i = 0; i < sizeof known_externs / sizeof *known_externs; i++)
            if (mm_token_is(&item->name, known_externs[i])) return 0;
        return mm_splice_fail(error, line, "the allocator must not need '%.*s'", (int)item->name.length, item->name.at);
    }
    return 0;
}

/* Adds a token under its new name. */
static int add_token(struct mm_splice_text *out, const struct mm_module *m, const struct mm_token *t) {
    const int service = t->kind == MM_TOKEN_IDENTIFIER ? source_index(t) : -1;
    if (service >= 0) return mm_text_add_string(out, mm_splice_service[service]);
    for (size_t i = 0; t->kind == MM_TOKEN_IDENTIFIER && i < LINKED; i++)
        if (mm_token_is(t, linked_source[i])) return mm_text_add_string(out, linked[i]);
    for (size_t i = 0; t->kind == MM_TOKEN_IDENTIFIER && i < m->count; i++)
        if (same_name(&m->items[i].name, t)) {
            if (!is_extern(&m->items[i]) && !is_heap(&m->items[i]) && mm_text_add_string(out, MM_SPLICE_PREFIX))
                return -1;
            break;
        }
    return mm_text_add(out, t->at, t->length);
}

static int add_item(struct mm_splice_text *out, const struct mm_module *m, const struct mm_item *item) {
    struct mm_token_reader r;
    const char *past = NULL;
    if (is_heap(item)) {
        char line[100];
        snprintf(line, sizeof line, ".weak .const .align 16 .b8 %s[%d];\n", MM_HEAP_REF_NAME, MM_HEAP_REF_BYTES);
        return mm_text_add_string(out, line);
    }
    /* What is visible to other objects stays so; the same from each module. */
    if ((source_index(&item->name) >= 0 || mm_token_is(&item->linkage, ".visible")) && mm_text_add_string(out, ".weak ")) return -1;
    mm_token_start(&r, item->begin, (size_t)(item->end - item->begin));
    for (;;) {
        const struct mm_token t = mm_token_next(&r);
        if (t.kind == MM_TOKEN_END) break;
        const bool blank = past && past < t.at;
        const bool lines = blank && memchr(past, '\n', (size_t)(t.at - past));
        past = t.at + t.length;
        if (t.at == item->linkage.at && !is_extern(item)) {
            past = NULL; /* we have written our own */
            continue;
        }
        if (blank && mm_text_add(out, lines ? "\n" : " ", 1)) return -1;
        if (add_token(out, m, &t)) return -1;
    }
    return mm_text_add(out, "\n", 1);
}

enum mm_splice_result mm_splice_fragment(const char *text, size_t bytes, const char *version,
                                         struct mm_splice_text *out, struct mm_splice_error *error) {
    enum mm_splice_result result = MM_SPLICE_FAILED;
    int services = 0, heaps = 0;
    char header[120];
    struct mm_module m;
    memset(out, 0, sizeof *out);
    if (mm_module_read(&m, text, bytes, error)) goto done;
    for (size_t i = 0; i < m.count; i++)
        if (check_item(&m.items[i], &services, &heaps, error)) goto done;
    if (services != (1 << MM_SPLICE_SERVICES) - 1 || heaps != 1) {
        mm_splice_fail(error, 1, "the allocator must define %s, %s, %s, %s and %s", mm_splice_service_source[0],
                       mm_splice_service_source[1], mm_splice_service_source[2], mm_splice_service_source[3], MM_HEAP_REF_NAME);
        goto done;
    }
    snprintf(header, sizeof header, "// mm, device side\n.version %s\n.target sm_%d\n.address_size 64\n", version,
             m.target);
    bool failed = mm_text_add_string(out, header) != 0;
    for (size_t i = 0; i < m.count && !failed; i++) failed = add_item(out, &m, &m.items[i]) != 0;
    if (failed)
        mm_splice_fail(error, 1, "no memory for the fragment");
    else
        result = MM_SPLICE_DONE;
done:
    if (result != MM_SPLICE_DONE) mm_splice_text_free(out);
    mm_module_free(&m);
    return result;
}
