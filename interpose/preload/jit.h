/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Code that comes at run time (NVRTC, CuPy, Numba, the driver API) gets the allocator on its way into the driver.
 *
 * A module or library whose text declares a service (interpose/load/ptx) is loaded as machine code: the text linked with the allocator
 * (link.h). If the driver does not link the two, or does not take the result, it gets a spliced copy of the text. If that cannot be
 * made, or the driver does not take it either, the driver gets the program's own text, its answer is the program's, and one line in a
 * process says why. Texts of mmnvcc's call the allocator by mm's names (load/ptx/names.h) and get CUDA's back first; so does the text that
 * the driver would compile from a fat binary of mmnvcc's. Whatever else an image is goes to the driver as it came.
 *
 * Finished machine code that calls CUDA's allocator is linked with mm's (load/cubin.h). That is how code arrives that the program had
 * compiled or linked itself: by NVRTC, by nvJitLink, or by the driver (cuLink*), whose inputs get no allocator of ours. What cannot be
 * linked is loaded as it is.
 */
#ifndef MM_INTERPOSE_JIT_H
#define MM_INTERPOSE_JIT_H

#include <cuda.h>

#include "interpose/preload/link.h"
#include "interpose/load/ptx/splice.h"

/* One loading. */
struct mm_jit {
    const void *image; /* what the driver gets instead: link.image, text.data or own.data */
    CUjit_option *options; /* and how: of the link's, or the program's */
    void **values;
    unsigned count;
    struct mm_link link;
    struct mm_splice_text text; /* with the allocator's text */
    struct mm_splice_text own;  /* with CUDA's names, if the program's has mm's */
    CUresult refused; /* what the driver said, if it did not take one of these */
    bool is_library;
    bool has_heap; /* the program's image is machine code with mm's heap variable: mmnvcc's */
    /* The program's options. The driver writes into their values, and a second call must find what the first did. */
    CUjit_option *program_options;
    void **program_values, *saved[MM_JIT_OPTIONS_MAX];
    unsigned program_count, saved_count;
    /* A library's, without CU_LIBRARY_BINARY_IS_PRESERVED, since our text goes at once. */
    CUlibraryOption library_options[MM_JIT_LIBRARY_OPTIONS_MAX];
    void *library_values[MM_JIT_LIBRARY_OPTIONS_MAX];
    unsigned library_count;
};

/* A PTX text of mmnvcc's with CUDA's names; of others, a text without the counts that nvcc stores in front of arrays (load/ptx/counts.h), if
 * it is to get the allocator. A copy in `mended`, which is to be freed, or the text itself if there is nothing to change. */
const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_splice_text *mended);

/* Links and splices the image, or what is in the file; *j is zero. options, values and count are the program's. Returns false if the
 * driver is to get what the program has; then nothing is to be done. Else j->image is for the driver, with j->options; its answer goes
 * to mm_jit_is_taken. */
bool mm_jit_try_image(struct mm_jit *j, const void *image, CUjit_option *options, void **values, unsigned count);
bool mm_jit_try_file(struct mm_jit *j, const char *path, CUjit_option *options, void **values, unsigned count);
/* To be called before one of these: the options of the library. Returns false as they do. is_file: for cuLibraryLoadFromFile, which
 * refuses CU_LIBRARY_BINARY_IS_PRESERVED. */
bool mm_jit_try_options(struct mm_jit *j, bool is_file, const CUlibraryOption *options, void **values, unsigned count);

/* The driver's answer to j->image. Returns whether it took it. */
bool mm_jit_is_taken(struct mm_jit *j, CUresult r);
/* Whether there is another j->image to try. If not, the program's own is to be loaded, and that answer goes through mm_jit_answer to the
 * program. */
bool mm_jit_try_next(struct mm_jit *j);
CUresult mm_jit_answer(const struct mm_jit *j, CUresult r);

#endif
