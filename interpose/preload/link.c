/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* memmem */
#include "interpose/preload/link.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/cookies.h"
#include "interpose/load/cubin.h"
#include "interpose/load/wants.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"

/* Machine code for each architecture, of the least registers (mm24.a's): any kernel may call it, whatever its bounds. */
__asm__(".pushsection .rodata.mm_linked, \"a\"\n"
        ".balign 8\n"
        "mm_linked: .incbin \"" MM_LINKED "\"\n"
        "1:  .balign 8\n"
        "mm_linked_bytes: .quad 1b - mm_linked\n"
        ".popsection\n");
extern const char mm_linked[] __attribute__((visibility("hidden")));
extern const uint64_t mm_linked_bytes __attribute__((visibility("hidden")));

/* ---- options --------------------------------------------------------------------------------------- */

static bool try_add(struct mm_link *l, CUjit_option option, void *value, unsigned from, unsigned log_room) {
    if (l->linker_count == MM_LINK_OPTIONS_MAX) return false;
    l->linker_options[l->linker_count] = option;
    l->linker_values[l->linker_count] = value;
    l->from[l->linker_count] = from;
    l->log_room[l->linker_count++] = log_room;
    return true;
}

/* A copy of a log, with a zero behind it. */
static bool try_add_log(struct mm_link *l, CUjit_option option, unsigned from, unsigned room) {
    void *log = calloc(1, (size_t)room + 1);
    if (log && try_add(l, option, log, from, room)) return true;
    free(log);
    return false;
}

/* The option that cuda.h has behind each log is its size. */
static unsigned room_of(CUjit_option log, const CUjit_option *options, void *const *values, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if ((int)options[i] == (int)log + 1) return (unsigned)((uintptr_t)values[i] & UINT32_MAX);
    return 0;
}

static bool try_option(struct mm_link *l, unsigned i, const CUjit_option *options, void *const *values, unsigned count) {
    switch (options[i]) {
    case CU_JIT_GLOBAL_SYMBOL_NAMES:
    case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
    case CU_JIT_GLOBAL_SYMBOL_COUNT:
        if (l->count == MM_LINK_LOADER_OPTIONS) return false;
        l->options[l->count] = options[i];
        l->values[l->count++] = values[i];
        return true;
    case CU_JIT_FALLBACK_STRATEGY: return true; /* which of a fat binary's images; a linker takes only one that fits */
    case CU_JIT_LTO: return false;
    case CU_JIT_INFO_LOG_BUFFER:
    case CU_JIT_ERROR_LOG_BUFFER: {
        const unsigned room = values[i] ? room_of(options[i], options, values, count) : 0;
        return !room || try_add_log(l, options[i], i, room);
    }
    default: return try_add(l, options[i], values[i], i, 0);
    }
}

static const char *error_log(const struct mm_link *l) {
    for (unsigned i = 0; i < l->linker_count; i++)
        if (l->linker_options[i] == CU_JIT_ERROR_LOG_BUFFER) return (const char *)l->linker_values[i];
    return NULL;
}

static bool try_options(struct mm_link *l, const CUjit_option *options, void *const *values, unsigned count) {
    enum { ROOM = 1024 };
    if (count > MM_JIT_OPTIONS_MAX || (count && (!options || !values))) return false;
    for (unsigned i = 0; i < count; i++)
        if (!try_option(l, i, options, values, count)) return false;
    if (!mm_host_env_get()->verbose || error_log(l)) return true;
    return try_add_log(l, CU_JIT_ERROR_LOG_BUFFER, MM_LINK_OURS, ROOM) &&
           try_add(l, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)ROOM, MM_LINK_OURS, 0);
}

void mm_link_give(const struct mm_link *l, void **values) {
    for (unsigned i = 0; i < l->linker_count; i++) {
        const unsigned from = l->from[i], room = l->log_room[i];
        if (from == MM_LINK_OURS) continue;
        if (!room) {
            if (values[from] != l->linker_values[i]) values[from] = l->linker_values[i];
            continue;
        }
        const size_t bytes = strlen((const char *)l->linker_values[i]) + 1;
        memcpy(values[from], l->linker_values[i], bytes < room ? bytes : room);
    }
}

/* ---- for which devices -------------------------------------------------------------------------------- */

static bool try_arch(const struct mm_driver *d, CUdevice device, int *arch) {
    int major = 0, minor = 0;
    if (d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
        return false;
    *arch = 10 * major + minor; /* CUjit_target has the same numbers */
    return true;
}

bool mm_link_try_arch(bool is_library, int *arch) {
    const struct mm_driver *d = mm_driver_get();
    CUdevice device;
    int count = 0, other = 0;
    if (!d) return false;
    if (!is_library) return d->cuCtxGetDevice(&device) == CUDA_SUCCESS && try_arch(d, device, arch);
    if (!d->cuDeviceGet || !d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS) return false;
    for (int i = 0; i < count; i++)
        if (d->cuDeviceGet(&device, i) != CUDA_SUCCESS || !try_arch(d, device, i ? &other : arch) || (i && other != *arch)) return false;
    return count > 0;
}

/* The driver's linker works in a context only. A thread that has none, as when a library is loaded at the program's start, borrows that of
 * a device for the link: one that is there, or one that ends with the link if nobody else has taken it by then. */
struct borrowed {
    CUdevice device;
    bool is_borrowed;
};

static bool try_borrow(const struct mm_driver *d, struct borrowed *b) {
    CUcontext context = NULL;
    CUdevice device;
    int count = 0, active = 0;
    unsigned flags;
    b->device = 0, b->is_borrowed = false;
    if (d->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return false;
    if (context) return true;
    if (!d->cuDeviceGet || !d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS) return false;
    for (int i = 0; i < count && !active; i++) {
        if (d->cuDeviceGet(&device, i) != CUDA_SUCCESS) return false;
        if (i == 0) b->device = device;
        if (d->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active) b->device = device;
    }
    if (!count || d->cuDevicePrimaryCtxRetain(&context, b->device) != CUDA_SUCCESS) return false;
    b->is_borrowed = d->cuCtxPushCurrent(context) == CUDA_SUCCESS;
    if (!b->is_borrowed) d->cuDevicePrimaryCtxRelease(b->device);
    return b->is_borrowed;
}

static void give_back(const struct mm_driver *d, const struct borrowed *b) {
    CUcontext popped;
    if (!b->is_borrowed) return;
    d->cuCtxPopCurrent(&popped);
    d->cuDevicePrimaryCtxRelease(b->device);
}

/* ---- the link ------------------------------------------------------------------------------------------ */

static bool has_untried(const char *text, size_t bytes) {
    static const char *const words[] = {".managed", ".texref", ".surfref"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(text, bytes, words[i], strlen(words[i]))) return true;
    return false;
}

/* What is linked with the allocator: a text with a zero behind it, or machine code. */
struct input {
    CUjitInputType type;
    const char *name; /* for messages */
    const void *data;
    size_t bytes;
};

static CUresult complete(const struct mm_driver *d, struct mm_link *l, CUlinkState state, const struct input *i, const char **call) {
    void *image = NULL;
    size_t image_bytes = 0;
    CUresult r = d->cuLinkAddData(state, i->type, (void *)(uintptr_t)i->data, i->bytes, i->name, 0, NULL, NULL);
    *call = "cuLinkAddData";
    if (r == CUDA_SUCCESS)
        r = d->cuLinkAddData(state, CU_JIT_INPUT_FATBINARY, (void *)(uintptr_t)mm_linked, mm_linked_bytes, "mm", 0, NULL, NULL);
    if (r != CUDA_SUCCESS) return r;
    *call = "cuLinkComplete";
    r = d->cuLinkComplete(state, &image, &image_bytes);
    if (r != CUDA_SUCCESS) return r;
    l->image = malloc(image_bytes); /* the state's goes with it */
    if (!l->image) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(l->image, image, image_bytes);
    l->image_bytes = image_bytes;
    return CUDA_SUCCESS;
}

static bool try_link(struct mm_link *l, const struct input *i, const CUjit_option *options, void *const *values, unsigned count,
                     bool is_library, char *why, size_t why_bytes) {
    const struct mm_driver *d = mm_driver_get();
    CUlinkState state;
    struct borrowed borrowed;
    int arch;
    const char *call = "cuLinkCreate";
    snprintf(why, why_bytes, "the driver has no linker");
    if (!d || !d->cuLinkCreate || !d->cuLinkAddData || !d->cuLinkComplete || !d->cuLinkDestroy) return false;
    snprintf(why, why_bytes, "its options are not understood");
    if (!try_options(l, options, values, count)) return false;
    snprintf(why, why_bytes, "there are GPUs of several architectures");
    if (is_library && !mm_link_try_arch(true, &arch)) return false;
    snprintf(why, why_bytes, "no context can be had for the driver's linker");
    if (!try_borrow(d, &borrowed)) return false;
    CUresult r = d->cuLinkCreate(l->linker_count, l->linker_options, l->linker_values, &state);
    if (r == CUDA_SUCCESS) {
        r = complete(d, l, state, i, &call);
        d->cuLinkDestroy(state);
    }
    give_back(d, &borrowed);
    if (r == CUDA_SUCCESS) return true;
    const char *log = error_log(l);
    snprintf(why, why_bytes, "%s answers %s%s%.*s", call, mm_driver_error_name(d, r).text, log && *log ? ": " : "",
             log ? (int)strcspn(log, "\n") : 0, log ? log : "");
    return false;
}

/* NULL, or what is wrong with the image. */
static const char *put_right(struct mm_link *l, const void *original, size_t bytes, const char **where) {
    const char *const wrong = mm_cubin_settle(l->image, l->image_bytes, original, bytes, where);
    if (wrong || !mm_wants_of_elf(l->image, l->image_bytes)) return wrong;
    *where = "";
    return "mm has no machine code for this GPU";
}

bool mm_link_try(struct mm_link *l, const char *text, size_t bytes, const CUjit_option *options, void *const *values, unsigned count,
                 bool is_library) {
    const struct input input = {CU_JIT_INPUT_PTX, "the program's PTX", text, bytes + 1};
    const bool verbose = mm_host_env_get()->verbose;
    const char *where;
    char why[1200];
    memset(l, 0, sizeof *l);
    if (has_untried(text, bytes)) return false;
    bool done = try_link(l, &input, options, values, count, is_library, why, sizeof why);
    const char *const wrong = done ? put_right(l, NULL, 0, &where) : NULL;
    if (wrong) snprintf(why, sizeof why, "%s", wrong), done = false;
    if (done) {
        if (verbose) mm_host_say("PTX is linked with mm's machine code");
        return true;
    }
    if (verbose) mm_host_say("PTX is not linked with mm's machine code, but gets mm's text: %s", why);
    mm_link_drop(l);
    return false;
}

bool mm_link_try_cubin(struct mm_link *l, const void *image, size_t bytes, const CUjit_option *options, void *const *values, unsigned count,
                       bool is_library, char *why, size_t why_bytes) {
    const bool is_whole = mm_cubin_kind(image, bytes) == MM_CUBIN_WHOLE;
    void *const opened = malloc(bytes);
    const char *where = "", *wrong = NULL;
    memset(l, 0, sizeof *l);
    snprintf(why, why_bytes, "no memory");
    if (!opened) return false;
    memcpy(opened, image, bytes);
    const struct input input = {CU_JIT_INPUT_CUBIN, "the program's machine code", opened, bytes};
    bool done = !is_whole || mm_cubin_open(opened, bytes);
    if (!done) snprintf(why, why_bytes, "the image is damaged");
    if (done && mm_cookies_may_be_stored(opened, bytes)) {
        done = mm_cookies_try_make_room(opened, bytes);
        if (!done) snprintf(why, why_bytes, "it stores in front of what malloc returns, and cannot be given room there");
    }
    if (done) done = try_link(l, &input, options, values, count, is_library, why, why_bytes);
    if (done) wrong = put_right(l, is_whole ? image : NULL, bytes, &where);
    if (wrong) snprintf(why, why_bytes, "of the linked image, %s%s%s", where, *where ? " " : "", wrong);
    free(opened);
    if (done && !wrong) return true;
    mm_link_drop(l);
    return false;
}

void mm_link_drop(struct mm_link *l) {
    free(l->image);
    for (unsigned i = 0; i < l->linker_count; i++)
        if (l->log_room[i]) free(l->linker_values[i]);
    memset(l, 0, sizeof *l);
}
