/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memmem */
#include "interpose/preload/jit.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/load/cubin.h"
#include "interpose/load/elf.h"
#include "interpose/load/wants.h"
#include "interpose/load/image.h"
#include "interpose/preload/attach.h"
#include "interpose/preload/resolve.h"
#include "interpose/load/ptx/counts.h"
#include "interpose/load/ptx/names.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"

/* The fragments are part of the library (interpose/preload/fragments.sh, 1.6 MB that nobody loads into memory before they are needed), and
 * not files beside it: it works alone, wherever it was copied to and whatever the process may open, and what is spliced is always
 * of the version that publishes heaps. */
__asm__(".pushsection .rodata.mm_fragments, \"a\"\n"
        "mm_fragments: .incbin \"" MM_FRAGMENTS "\"\n"
        ".byte 0\n" /* an empty one is the end */
        ".popsection\n");
extern const char mm_fragments[] __attribute__((visibility("hidden")));

/* The allocator as PTX for a text, by the header of that. If all are for newer targets, the first: the splicer says what is wrong. */
static const char *choose_fragment(const char *text, size_t bytes) {
    const char *chosen = mm_fragments;
    struct mm_splice_header module, best = {0, 0}, its;
    if (!mm_splice_read_header(text, bytes, &module)) module.version = module.target = 0;
    for (const char *f = mm_fragments; *f; f += strlen(f) + 1) {
        if (!mm_splice_read_header(f, strlen(f), &its) || !mm_splice_is_better(&its, &best, &module)) continue;
        best = its;
        chosen = f;
    }
    return chosen;
}

/* Once in a process, or always under MM_VERBOSE=1. */
static bool may_say(void) {
    static bool said;
    return !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) || mm_host_env_get()->verbose;
}

static void say_kept(int line, const char *why) {
    if (may_say()) mm_host_say("PTX loaded at run time keeps CUDA's own malloc: line %d: %s", line, why);
}

static struct mm_driver_error_text name_of(CUresult r) {
    static struct mm_driver none; /* numbers instead of names */
    const struct mm_driver *d = mm_driver_get();
    return mm_driver_error_name(d ? d : &none, r);
}

/* Whether a text declares a service of device-side allocation, and mm is not switched off. Most texts end here: those without the words
 * are not read any further. */
static bool wants(const char *text, size_t bytes) {
    return (memmem(text, bytes, "malloc", 6) || memmem(text, bytes, "free", 4)) && mm_splice_declared(text, bytes) &&
           !mm_host_env_get()->is_off;
}

const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_splice_text *mended) {
    const size_t length = strnlen(text, *bytes); /* a zero may be counted, or not be there */
    int changes = mm_names_show(text, length, mended);
    if (changes == 0 && wants(text, length)) changes = mm_counts_remove(text, length, mended);
    if (changes <= 0) return text;
    *bytes = mended->bytes + (length < *bytes);
    return mended->data;
}

/* ---- modules and libraries ------------------------------------------------------------------------ */

/* What the driver gets next. */
static void use(struct mm_jit *j) {
    const bool is_linked = j->link.image != NULL;
    const char *const text = j->text.data ? j->text.data : j->own.data;
    j->image = is_linked ? j->link.image : text;
    j->options = is_linked ? j->link.options : j->program_options;
    j->values = is_linked ? j->link.values : j->program_values;
    j->count = is_linked ? j->link.count : j->program_count;
}

static void keep_options(struct mm_jit *j, CUjit_option *options, void **values, unsigned count) {
    j->program_options = options;
    j->program_values = values;
    j->program_count = count;
    j->saved_count = values && count <= MM_JIT_OPTIONS_MAX ? count : 0;
    if (j->saved_count) memcpy(j->saved, values, j->saved_count * sizeof *values);
}

/* A text that cannot be spliced is not linked either: it has a service of its own, say, or the heap of another version of mm. */
static bool try_text(struct mm_jit *j, const char *text, CUjit_option *options, void **values, unsigned count) {
    const size_t bytes = strlen(text);
    struct mm_splice_error error;
    if (!wants(text, bytes)) return false;
    if (count > MM_JIT_OPTIONS_MAX) {
        say_kept(1, "it comes with more options than mm knows");
        return false;
    }
    const char *fragment = choose_fragment(text, bytes);
    const enum mm_splice_result result = mm_splice_module(text, bytes, fragment, strlen(fragment), &j->text, &error);
    if (result == MM_SPLICE_FAILED) say_kept(error.line, error.message);
    if (result != MM_SPLICE_DONE) return false;
    mm_link_try(&j->link, text, bytes, options, values, count, j->is_library);
    return true;
}

/* A text that calls the allocator by mm's names goes to the driver with CUDA's in any case, at last: nobody else knows ours. */
static bool try_ptx(struct mm_jit *j, const char *text, CUjit_option *options, void **values, unsigned count) {
    struct mm_splice_text mended;
    size_t bytes = strlen(text);
    const char *const now = mm_jit_mend(text, &bytes, &mended);
    bool done = try_text(j, now, options, values, count);
    if (mended.data && strstr(text, MM_NAMES_PREFIX)) {
        j->own = mended;
        done = true;
    } else {
        mm_splice_text_free(&mended);
    }
    keep_options(j, options, values, count);
    use(j);
    return done;
}

/* Machine code that was built without mm. What cannot be linked stays what it is. */
static bool try_cubin(struct mm_jit *j, const void *image, size_t bytes, CUjit_option *options, void **values, unsigned count) {
    const enum mm_cubin_kind kind = mm_cubin_kind(image, bytes);
    const char *const service = kind == MM_CUBIN_WHOLE || kind == MM_CUBIN_EXTENSIBLE ? mm_wants_name(mm_wants_of_elf(image, bytes)) : NULL;
    char why[1200] = "it comes with more options than mm knows";
    if (!service) j->has_heap = mm_elf_defines(image, bytes, MM_HEAP_REF_NAME);
    if (!service || mm_host_env_get()->is_off) return false;
    if (count > MM_JIT_OPTIONS_MAX || !mm_link_try_cubin(&j->link, image, bytes, options, values, count, j->is_library, why, sizeof why)) {
        if (may_say()) mm_host_say("machine code loaded at run time keeps CUDA's own %s: %s", service, why);
        return false;
    }
    if (mm_host_env_get()->verbose) mm_host_say("machine code that was built without mm is linked with it");
    keep_options(j, options, values, count);
    use(j);
    return true;
}

/* Of a fat binary, what the driver would take. */
static bool try_fatbin(struct mm_jit *j, const void *image, CUjit_option *options, void **values, unsigned count) {
    struct mm_fatbin_payload chosen;
    int arch = 0;
    bool done = false;
    if (!mm_link_try_arch(j->is_library, &arch)) return false;
    const enum mm_image_kind kind = mm_image_choose(image, arch, &chosen);
    if (kind == MM_IMAGE_CUBIN) done = try_cubin(j, chosen.at, chosen.bytes, options, values, count);
    char *const text = kind == MM_IMAGE_PTX ? strndup((const char *)chosen.at, chosen.bytes) : NULL;
    mm_fatbin_payload_free(&chosen);
    if (text) done = try_ptx(j, text, options, values, count);
    free(text);
    return done;
}

bool mm_jit_try_image(struct mm_jit *j, const void *image, CUjit_option *options, void **values, unsigned count) {
    if (!image) return false;
    if (mm_image_is_ptx((const char *)image)) return try_ptx(j, (const char *)image, options, values, count);
    if (mm_image_is_fatbin(image)) return try_fatbin(j, image, options, values, count);
    return try_cubin(j, image, mm_cubin_bytes(image), options, values, count);
}

bool mm_jit_try_file(struct mm_jit *j, const char *path, CUjit_option *options, void **values, unsigned count) {
    struct mm_splice_text text;
    if (!mm_image_try_read(path, &text)) return false;
    const bool is_whole = text.bytes >= MM_FATBIN_ENTRY_BYTES && (!mm_image_is_fatbin(text.data) || mm_image_holds_fatbin(text.data, text.bytes));
    const bool done = is_whole && mm_jit_try_image(j, text.data, options, values, count);
    mm_splice_text_free(&text);
    return done;
}

bool mm_jit_try_options(struct mm_jit *j, bool is_file, const CUlibraryOption *options, void **values, unsigned count) {
    j->is_library = true;
    j->library_count = 0;
    if (count > MM_JIT_LIBRARY_OPTIONS_MAX || (count && !options)) return false;
    for (unsigned i = 0; i < count; i++) {
        const bool is_preserved = options[i] == CU_LIBRARY_BINARY_IS_PRESERVED;
        if (is_preserved && is_file) return false;
        if (is_preserved) continue;
        j->library_options[j->library_count] = options[i];
        j->library_values[j->library_count++] = values ? values[i] : NULL;
    }
    return true;
}

static void drop(struct mm_jit *j) {
    mm_link_drop(&j->link);
    mm_splice_text_free(&j->text);
    mm_splice_text_free(&j->own);
}

bool mm_jit_is_taken(struct mm_jit *j, CUresult r) {
    if (r == CUDA_SUCCESS) {
        if (j->link.image) mm_link_give(&j->link, j->program_values);
        if (j->image == j->own.data) mm_jit_answer(j, r);
        else mm_attach_prepare(mm_driver_get());
        drop(j);
        return true;
    }
    j->refused = r;
    if (j->saved_count) memcpy(j->program_values, j->saved, j->saved_count * sizeof *j->program_values);
    return false;
}

bool mm_jit_try_next(struct mm_jit *j) {
    const bool was_linked = j->link.image != NULL;
    if (was_linked && mm_host_env_get()->verbose)
        mm_host_say("code linked with mm's machine code is not loaded: %s", name_of(j->refused).text);
    if (was_linked) mm_link_drop(&j->link);
    else mm_splice_text_free(j->text.data ? &j->text : &j->own);
    use(j);
    return j->image != NULL;
}

CUresult mm_jit_answer(const struct mm_jit *j, CUresult r) {
    if (r == CUDA_SUCCESS && j->has_heap) mm_attach_prepare(mm_driver_get());
    if (r == CUDA_SUCCESS && j->refused != CUDA_SUCCESS && may_say())
        mm_host_say("code loaded at run time keeps CUDA's own malloc: the driver does not take it with mm's (%s)",
                    name_of(j->refused).text);
    return r;
}
