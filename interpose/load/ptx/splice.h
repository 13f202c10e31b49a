/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Putting the allocator into PTX modules.
 *
 * nvcc leaves device-side allocation as three external functions, and mm.h adds mm_usable_size (the "services"). A module that
 * declares at least one of them as .extern gets the whole fragment behind its header, all services and the
 * one heap variable, and loses those declarations: calls, and places that take an address, then mean the
 * definitions. A module that declares none is left as it is, byte for byte: no allocator, no variable.
 */
#ifndef MM_SPLICE_H
#define MM_SPLICE_H

#include "interpose/load/ptx/module.h"
#include "mmconfig.h"

enum mm_splice_result {
    MM_SPLICE_FAILED = -1,
    MM_SPLICE_DONE,     /* out is the spliced module */
    MM_SPLICE_UNTOUCHED /* nothing to do: no service declared, or all of ours there already; out is empty */
};

/* Text made by this library; free it by mm_splice_text_free. */
struct mm_splice_text {
    char *data; /* zero-terminated */
    size_t bytes;
    size_t room;
};
void mm_splice_text_free(struct mm_splice_text *t);

/* Names of the services, in PTX and in runtime/device.cu. */
#define MM_SPLICE_SERVICES 4
extern const char *const mm_splice_service[MM_SPLICE_SERVICES];
extern const char *const mm_splice_service_source[MM_SPLICE_SERVICES];

/* Splices `fragment` (as mm_splice_fragment wrote it) into the module `text`. Errors name the line of the
 * module; a fragment that does not serve the module's .version or .target is one of them, and so is a
 * module that defines a service itself or holds the heap variable of another version of mm. */
enum mm_splice_result mm_splice_module(const char *text, size_t bytes, const char *fragment, size_t fragment_bytes,
                                       struct mm_splice_text *out, struct mm_splice_error *error);

/* In front of the allocator's internal names: no other version's begins with it, and, as '$' is for the
 * implementation's use, no user's in C. One that does all the same is refused. */
#define MM_SPLICE_PREFIX "mm$v" MM_STR(MM_ABI_VERSION) "_"

/* Makes a fragment of what nvcc -rdc=true -ptx wrote for runtime/device.cu: a PTX module of `version`
 * ("7.0") in which the entry points have the services' names and are weak, the heap variable is weak
 * and aligned to 16, everything else is local and has a name of our own, comments are gone. */
enum mm_splice_result mm_splice_fragment(const char *text, size_t bytes, const char *version,
                                         struct mm_splice_text *out, struct mm_splice_error *error);

/* The services that are declared .extern, as a mask, as far as the text can be read: what follows may be anything. */
int mm_splice_declared(const char *text, size_t bytes);

/* What a PTX text is for. */
struct mm_splice_header {
    int version; /* 900 of .version 9.0 */
    int target;  /* 90 of .target sm_90a */
};

/* Reads the two; false if one is not where it belongs. */
bool mm_splice_read_header(const char *text, size_t bytes, struct mm_splice_header *header);

/* Whether a fragment suits a module better than `best` (target 0: none so far). One for a newer .target suits none; of those whose
 * .version is not later than the module's the newest .target is best. An older .target may need a later .version, sm_88 9.0 and sm_89
 * 7.8. If all are too late, the one that is least so is best: the splicer says what it needs. */
bool mm_splice_is_better(const struct mm_splice_header *fragment, const struct mm_splice_header *best,
                         const struct mm_splice_header *module);

/* Whether these are LTO IR or LLVM bitcode rather than text, by their first bytes. */
bool mm_splice_is_binary_ir(const char *data, size_t bytes);

#endif
