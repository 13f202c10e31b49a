/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200809L
#include "interpose/preload/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/cubin.h"
#include "interpose/load/elf.h"
#include "interpose/load/image.h"
#include "interpose/load/ptx/counts.h"
#include "interpose/load/ptx/names.h"
#include "interpose/load/wants.h"
#include "interpose/preload/attach.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"

/* Once in a process, or always under MM_VERBOSE=1. */
static bool may_say(void) {
    static bool said;
    return !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) || mm_host_env_get()->verbose;
}

static struct mm_driver_error_text name_of(CUresult r) {
    static struct mm_driver none; /* numbers instead of names */
    const struct mm_driver *d = mm_driver_get();
    return mm_driver_error_name(d ? d : &none, r);
}

/* Whether code without mm is to be linked with it. */
static bool takes_over(void) { return !mm_host_env_get()->is_off && !mm_host_env_get()->is_cudas; }

/* See mm_jit_mend. *has_ours: the text had mm's names; *allocator: for which allocator (load/ptx/names.h), else 0. */
static const char *mend(const char *text, size_t *bytes, struct mm_text *mended, bool *has_ours, int *allocator) {
    const size_t length = strnlen(text, *bytes); /* the terminating zero may be counted, or missing */
    int changes = mm_names_show(text, length, allocator, mended);
    *has_ours = changes > 0;
    if (changes == 0 && takes_over() && mm_names_declared(text, length)) changes = mm_counts_remove(text, length, mended);
    if (changes <= 0) return text;
    *bytes = mended->bytes + (length < *bytes);
    return mended->data;
}

const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_text *mended) {
    bool has_ours;
    int allocator;
    return mend(text, bytes, mended, &has_ours, &allocator);
}

/* ---- an image's code for one architecture --------------------------------------------------------- */

struct piece {
    struct mm_fatbin_payload payload; /* of a fat binary */
    char *copy;                       /* of its PTX, zero-terminated */
    struct mm_text mended;
    bool has_ours;       /* PTX with mm's names */
    bool has_heap;       /* machine code with mm in it */
    bool is_bound;       /* machine code with mm in it, although CUDA's allocator is wanted */
    const char *service; /* the allocator function that it lacks; NULL: none */
    struct mm_link_input in;
};

static void piece_free(struct piece *p) {
    mm_fatbin_payload_free(&p->payload);
    free(p->copy);
    mm_text_free(&p->mended);
}

static void read_text(struct piece *p, const char *text) {
    p->in.bytes = strlen(text);
    text = mend(text, &p->in.bytes, &p->mended, &p->has_ours, &p->in.allocator);
    p->in.data = text;
    p->service = mm_names_declared(text, p->in.bytes) ? "malloc" : NULL;
}

/* Whether machine code has mm in it, with any allocator. */
static bool has_heap(const void *image, size_t bytes) {
#define DEFINES(name, suffix) || mm_elf_defines(image, bytes, MM_HEAP_REF_NAME_OF(suffix))
    return false MM_ALLOCATORS(DEFINES);
#undef DEFINES
}

static void read_cubin(struct piece *p, const void *image, size_t bytes) {
    const enum mm_cubin_kind kind = mm_cubin_kind(image, bytes);
    p->in = (struct mm_link_input){kind, image, bytes, 0};
    if (kind == MM_CUBIN_WHOLE || kind == MM_CUBIN_EXTENSIBLE) p->service = mm_wants_name(mm_wants_of_elf(image, bytes));
    p->has_heap = !p->service && has_heap(image, bytes);
    p->is_bound = p->has_heap && mm_host_env_get()->is_cudas;
}

static void read_chosen(struct piece *p, const void *image, int arch, bool is_ptx_forced) {
    const enum mm_image_kind kind = mm_image_choose(image, arch, is_ptx_forced, &p->payload);
    if (kind == MM_IMAGE_CUBIN) read_cubin(p, p->payload.at, p->payload.bytes);
    if (kind == MM_IMAGE_PTX) p->copy = strndup((const char *)p->payload.at, p->payload.bytes);
    if (p->copy) read_text(p, p->copy);
}

/* If the image is machine code with mm in it and CUDA's allocator is wanted, reads its PTX instead, if any. Returns false if nothing is for `arch`. */
static bool try_read_fatbin(struct piece *p, const void *image, int arch) {
    const char *const forced = getenv("CUDA_FORCE_PTX_JIT");
    struct piece text = {0};
    read_chosen(p, image, arch, forced && strcmp(forced, "1") == 0);
    if (!p->is_bound) return p->in.data != NULL;
    read_chosen(&text, image, arch, true);
    piece_free(text.has_ours ? p : &text);
    if (text.has_ours) *p = text;
    return true;
}

/* ---- modules and libraries ------------------------------------------------------------------------ */

/* Selects what the driver gets next. */
static void use(struct mm_jit *j) {
    j->image = j->linked ? j->linked : j->own.data;
    j->options = j->linked ? j->link.options : j->program_options;
    j->values = j->linked ? j->link.values : j->program_values;
    j->count = j->linked ? j->link.count : j->program_count;
}

static void keep_options(struct mm_jit *j, CUjit_option *options, void **values, unsigned count) {
    j->program_options = options;
    j->program_values = values;
    j->program_count = count;
    j->saved_count = values && count <= MM_JIT_OPTIONS_MAX ? count : 0;
    if (j->saved_count) memcpy(j->saved, values, j->saved_count * sizeof *values);
}

/* Whether the image is to be replaced by a linked one. */
static bool is_wanted(const struct piece *p) { return takes_over() && p->service; }

/* The pieces of an image, one for each architecture for which it has code. */
struct pieces {
    struct piece at[MM_LINK_ARCHS_MAX];
    int archs[MM_LINK_ARCHS_MAX];
    unsigned count;
    bool is_of_fatbin;
    bool is_of_many; /* there are GPUs of several architectures, and the image is for all */
};

/* Makes j->linked from the links: one image, or a fat binary of several. */
static bool try_join(struct mm_jit *j, struct mm_link *links, const struct pieces *p) {
    struct mm_fatbin_image images[MM_LINK_ARCHS_MAX];
    size_t bytes;
    for (unsigned i = 0; i < p->count; i++) images[i] = (struct mm_fatbin_image){links[i].image, links[i].image_bytes, (unsigned)p->archs[i]};
    if (p->is_of_many) j->linked = mm_fatbin_try_make(images, p->count, &bytes);
    else j->linked = links->image, links->image = NULL;
    if (!j->linked) return false;
    j->link = *links; /* logs and values come from the first link */
    memset(links, 0, sizeof *links);
    return true;
}

static bool try_each(struct mm_jit *j, const struct pieces *p, char *why, size_t why_bytes) {
    struct mm_link links[MM_LINK_ARCHS_MAX];
    unsigned done = 0;
    bool is_going_on = true;
    memset(links, 0, sizeof links);
    for (; is_going_on && done < p->count; done += is_going_on) {
        const struct mm_link_input *const in = &p->at[p->is_of_fatbin ? done : 0].in;
        snprintf(why, why_bytes, "its images for the GPUs here are not alike");
        if (p->is_of_fatbin && !is_wanted(&p->at[done])) is_going_on = false;
        else
            is_going_on = mm_link_try(&links[done], in, p->archs[done], p->is_of_many, j->program_options, j->program_values, j->program_count, why, why_bytes);
    }
    const bool is_made = is_going_on && try_join(j, links, p);
    for (unsigned i = 0; i < done; i++) mm_link_drop(&links[i]);
    return is_made;
}

static void say(const struct piece *p, bool is_linked, const char *why) {
    const bool is_text = p->in.kind == MM_CUBIN_NONE;
    if (is_linked ? !mm_host_env_get()->verbose : !may_say()) return;
    if (is_linked) mm_host_say("%s that was built without mm is linked with it", is_text ? "PTX" : "machine code");
    else if (is_text) mm_host_say("PTX loaded at run time keeps CUDA's own malloc: %s", why);
    else mm_host_say("machine code loaded at run time keeps CUDA's own %s: %s", p->service, why);
}

static void read_pieces(struct mm_jit *j, const void *image, struct pieces *p) {
    int archs[MM_LINK_ARCHS_MAX];
    memset(p, 0, sizeof *p);
    p->is_of_fatbin = !mm_image_is_ptx((const char *)image) && mm_image_is_fatbin(image);
    if (!p->is_of_fatbin) {
        if (mm_image_is_ptx((const char *)image)) read_text(p->at, (const char *)image);
        else read_cubin(p->at, image, mm_cubin_bytes(image));
        if (is_wanted(p->at)) p->count = mm_link_archs(j->is_library, p->archs);
        p->is_of_many = p->count > 1;
        return;
    }
    const unsigned kinds = mm_link_archs(j->is_library, archs);
    p->is_of_many = kinds > 1;
    for (unsigned i = 0; i < kinds; i++) {
        p->archs[p->count] = archs[i];
        if (try_read_fatbin(&p->at[p->count], image, archs[i])) p->count++;
    }
}

bool mm_jit_try_image(struct mm_jit *j, const void *image, CUjit_option *options, void **values, unsigned count) {
    struct pieces p;
    char why[1200] = "the GPU is not known";
    bool done = false;
    if (!image) return false;
    keep_options(j, options, values, count);
    read_pieces(j, image, &p);
    j->has_heap = p.at->has_heap;
    if (is_wanted(p.at)) {
        const bool is_for_one = p.is_of_many && !p.is_of_fatbin && p.at->in.kind != MM_CUBIN_NONE;
        if (is_for_one) snprintf(why, sizeof why, "there are GPUs of several architectures, and it is for one");
        else done = p.count && try_each(j, &p, why, sizeof why);
        say(p.at, done, why);
    }
    if (p.at->is_bound && may_say()) mm_host_say("machine code with mm in it keeps it, in spite of MM_RUN_ALLOCATOR=cuda: there is no PTX of it");
    if (p.at->has_ours) {
        j->own = p.at->mended;
        memset(&p.at->mended, 0, sizeof p.at->mended);
        done = true;
    }
    for (unsigned i = 0; i < MM_LINK_ARCHS_MAX; i++) piece_free(&p.at[i]);
    use(j);
    return done;
}

bool mm_jit_try_file(struct mm_jit *j, const char *path, CUjit_option *options, void **values, unsigned count) {
    struct mm_text text;
    if (!mm_image_try_read(path, &text)) return false;
    const bool is_whole = text.bytes >= MM_FATBIN_ENTRY_BYTES && (!mm_image_is_fatbin(text.data) || mm_image_holds_fatbin(text.data, text.bytes));
    const bool done = is_whole && mm_jit_try_image(j, text.data, options, values, count);
    mm_text_free(&text);
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
    free(j->linked);
    mm_link_drop(&j->link);
    mm_text_free(&j->own);
}

bool mm_jit_is_taken(struct mm_jit *j, CUresult r) {
    if (r == CUDA_SUCCESS) {
        if (j->linked) mm_link_give(&j->link, j->program_values);
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
    if (!j->linked) {
        drop(j);
        return false;
    }
    free(j->linked);
    j->linked = NULL;
    mm_link_drop(&j->link);
    use(j);
    return j->image != NULL;
}

CUresult mm_jit_answer(const struct mm_jit *j, CUresult r) {
    if (r == CUDA_SUCCESS && j->has_heap) mm_attach_prepare(mm_driver_get());
    if (r == CUDA_SUCCESS && j->refused != CUDA_SUCCESS && may_say())
        mm_host_say("code loaded at run time keeps CUDA's own malloc: the driver does not take it with mm's (%s)", name_of(j->refused).text);
    return r;
}
