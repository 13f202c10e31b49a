/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/load/ptx/splice.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "interpose/load/ptx/text.h"
#include "mmconfig.h"

const char *const mm_splice_service[MM_SPLICE_SERVICES] = {"malloc", "free", "__cuda_syscall_aligned_malloc", "mm_usable_size"};

static const char heap_prefix[] = "mm_heap_v"; /* of every version */

static int service_index(const struct mm_token *name) {
    for (int i = 0; i < MM_SPLICE_SERVICES; i++)
        if (mm_token_is(name, mm_splice_service[i])) return i;
    return -1;
}

static bool is_heap_variable(const struct mm_token *name) {
    const size_t n = sizeof heap_prefix - 1;
    if (name->length <= n || memcmp(name->at, heap_prefix, n) != 0) return false;
    for (size_t i = n; i < name->length; i++)
        if (!isdigit((unsigned char)name->at[i])) return false;
    return true;
}

static bool has_prefix(const struct mm_token *name) {
    const size_t prefix = sizeof MM_SPLICE_PREFIX - 1;
    return name->length > prefix && memcmp(name->at, MM_SPLICE_PREFIX, prefix) == 0;
}

/* What a module has to do with us. */
struct survey {
    int declared; /* services declared .extern */
    int defined;  /* services defined, as a mask */
    const struct mm_item *definition;
    const struct mm_item *heap;
};

static int survey_module(struct survey *s, const struct mm_module *m, struct mm_splice_error *error) {
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < m->count; i++) {
        const struct mm_item *item = &m->items[i];
        if (item->name.kind == MM_TOKEN_END) continue;
        const int service = service_index(&item->name);
        if (is_heap_variable(&item->name)) {
            if (!mm_token_is(&item->name, MM_HEAP_REF_NAME))
                return mm_splice_fail(error, item->name.line, "this module holds %.*s of another mm; this one is for %s",
                                      (int)item->name.length, item->name.at, MM_HEAP_REF_NAME);
            if (item->kind != MM_ITEM_VARIABLE || item->array != MM_HEAP_REF_BYTES || !item->is_bytes ||
                !mm_token_is(&item->space, ".const") || mm_token_is(&item->linkage, ".extern"))
                return mm_splice_fail(error, item->name.line, "%s is not the heap variable of mm (.const .b8 [%d])",
                                      MM_HEAP_REF_NAME, MM_HEAP_REF_BYTES);
            if (s->heap)
                return mm_splice_fail(error, item->name.line, "%s is declared twice", MM_HEAP_REF_NAME);
            s->heap = item;
        } else if (service >= 0 && item->kind == MM_ITEM_FUNC_DECLARED && mm_token_is(&item->linkage, ".extern")) {
            s->declared |= 1 << service;
        } else if (service >= 0 && item->kind == MM_ITEM_FUNC_DEFINED) {
            s->defined |= 1 << service;
            s->definition = item;
        } else if (service >= 0 && item->kind != MM_ITEM_FUNC_DECLARED) {
            return mm_splice_fail(error, item->name.line, "'%s' is not a function here; mm cannot take it over",
                                  mm_splice_service[service]);
        } else if (service >= 0 && !s->definition) {
            s->definition = item; /* a forward declaration: the definition must follow */
        }
    }
    return 0;
}

static int check_fit(const struct mm_module *m, const struct mm_module *fragment, struct mm_splice_error *error) {
    if (m->target < fragment->target)
        return mm_splice_fail(error, m->target_line, "this module is for sm_%d, the allocator for sm_%d and later",
                              m->target, fragment->target);
    if (m->version_major < fragment->version_major ||
        (m->version_major == fragment->version_major && m->version_minor < fragment->version_minor))
        return mm_splice_fail(error, m->version_line, "this module is PTX %d.%d, the allocator needs %d.%d or later",
                              m->version_major, m->version_minor, fragment->version_major, fragment->version_minor);
    for (size_t i = 0; i < m->count; i++) {
        const struct mm_token *name = &m->items[i].name;
        if (has_prefix(name))
            return mm_splice_fail(error, name->line, "the name %.*s belongs to mm",
                                  name->length > 200 ? 200 : (int)name->length, name->at);
    }
    return 0;
}

static int write_spliced(const char *text, size_t bytes, const struct mm_module *m, const char *fragment,
                         size_t fragment_bytes, const struct mm_module *f, struct mm_splice_text *out) {
    const char *from = m->body;
    if (mm_text_add(out, text, (size_t)(m->body - text)) || mm_text_add(out, "\n", 1) ||
        mm_text_add(out, f->body, (size_t)(fragment + fragment_bytes - f->body)))
        return -1;
    for (size_t i = 0; i < m->count; i++) {
        const struct mm_item *item = &m->items[i];
        if (item->kind != MM_ITEM_FUNC_DECLARED || service_index(&item->name) < 0) continue;
        if (mm_text_add(out, from, (size_t)(item->begin - from))) return -1;
        from = item->end;
    }
    return mm_text_add(out, from, (size_t)(text + bytes - from));
}

enum mm_splice_result mm_splice_module(const char *text, size_t bytes, const char *fragment, size_t fragment_bytes,
                                       struct mm_splice_text *out, struct mm_splice_error *error) {
    enum mm_splice_result result = MM_SPLICE_FAILED;
    struct mm_module m, f;
    struct survey s, ours;
    const int all = (1 << MM_SPLICE_SERVICES) - 1;
    memset(out, 0, sizeof *out);
    memset(&f, 0, sizeof f);
    if (mm_module_read(&m, text, bytes, error) || survey_module(&s, &m, error)) goto done;
    if (s.heap && s.defined == all && !s.declared) {
        result = MM_SPLICE_UNTOUCHED;
    } else if (s.heap) {
        mm_splice_fail(error, s.heap->name.line, "this module holds %s, but not all of malloc, free, %s and %s",
                       MM_HEAP_REF_NAME, mm_splice_service[2], mm_splice_service[3]);
    } else if (s.definition) {
        mm_splice_fail(error, s.definition->name.line, "this module defines its own '%.*s'; mm cannot replace it",
                       (int)s.definition->name.length, s.definition->name.at);
    } else if (!s.declared) {
        result = MM_SPLICE_UNTOUCHED;
    } else if (mm_module_read(&f, fragment, fragment_bytes, error) || survey_module(&ours, &f, error)) {
        const struct mm_splice_error inner = *error;
        mm_splice_fail(error, inner.line, "in mm's own fragment: %.150s", inner.message);
    } else if (!ours.heap || ours.defined != all) {
        mm_splice_fail(error, 1, "mm's own fragment lacks a service or the heap variable");
    } else if (check_fit(&m, &f, error) == 0) {
        if (write_spliced(text, bytes, &m, fragment, fragment_bytes, &f, out))
            mm_splice_fail(error, 1, "no memory for the spliced module");
        else
            result = MM_SPLICE_DONE;
    }
done:
    if (result != MM_SPLICE_DONE) mm_splice_text_free(out);
    mm_module_free(&m);
    mm_module_free(&f);
    return result;
}

int mm_splice_declared(const char *text, size_t bytes) {
    struct mm_token_reader r;
    struct mm_token t;
    int declared = 0;
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
        if (service_index(&t) >= 0) declared |= 1 << service_index(&t);
    } while (t.kind != MM_TOKEN_END);
    return declared;
}

bool mm_splice_is_better(const struct mm_splice_header *fragment, const struct mm_splice_header *best,
                         const struct mm_splice_header *module) {
    const bool fits = fragment->version <= module->version, best_fits = best->version <= module->version;
    if (fragment->target > module->target) return false;
    if (!best->target) return true;
    if (fits != best_fits) return fits;
    return fits ? fragment->target > best->target : fragment->version < best->version;
}

bool mm_splice_is_binary_ir(const char *data, size_t bytes) {
    static const char nvvm[] = "\xED\x43\x4E\x7F", llvm[] = "BC\xC0\xDE";
    return bytes >= 4 && (memcmp(data, nvvm, 4) == 0 || memcmp(data, llvm, 4) == 0);
}

bool mm_splice_read_header(const char *text, size_t bytes, struct mm_splice_header *header) {
    struct mm_token_reader r;
    char number[16] = "", name[16] = "";
    int major = 0, minor = 0;
    mm_token_start(&r, text, bytes);
    mm_token_next(&r); /* .version */
    const struct mm_token version = mm_token_next(&r);
    mm_token_next(&r); /* .target */
    const struct mm_token target = mm_token_next(&r);
    if (version.length >= sizeof number || target.length >= sizeof name) return false;
    memcpy(number, version.at, version.length);
    memcpy(name, target.at, target.length);
    if (sscanf(number, "%4d.%2d", &major, &minor) != 2 || sscanf(name, "sm_%7d", &header->target) != 1) return false;
    header->version = 100 * major + minor;
    return true;
}
