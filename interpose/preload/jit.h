/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Code that comes at run time (NVRTC, CuPy, Numba, the driver API, fat binaries of a plain nvcc) gets the allocator on its way into the driver.
 *
 * PTX that declares a service (load/ptx/names.h), and finished machine code that leaves one undefined (load/cubin.h), is linked with mm's machine code
 * (link.h), and the result is loaded in its place. Of a fat binary it is what the driver would take; of a library on a machine with GPUs of several
 * architectures it is that for each, and the driver gets a new fat binary. What cannot be linked, or is not taken by the driver then, is loaded as it is, and
 * one line in a process says why. Texts of mmnvcc's call the allocator by mm's names and get CUDA's back in any case. Inputs of cuLink* get no allocator of
 * ours: what comes of the link does.
 *
 * With MM_RUN_ALLOCATOR=cuda nothing is linked, and in the place of machine code with mm in it the driver gets the text next to it, with CUDA's names.
 */
#ifndef MM_INTERPOSE_JIT_H
#define MM_INTERPOSE_JIT_H

#include <cuda.h>

#include "interpose/preload/link.h"
#include "interpose/load/ptx/text.h"

/* One loading. */
struct mm_jit {
    const void *image;     /* what the driver gets instead: linked or own */
    CUjit_option *options; /* and how: the link's, or the program's */
    void **values;
    unsigned count;
    void *linked; /* machine code, or a fat binary of it */
    struct mm_link link;
    struct mm_text own;  /* with CUDA's names, if the program's has mm's */
    CUresult refused; /* what the driver said, if it did not take `linked` */
    bool is_library;
    bool has_heap; /* the program's image is machine code with mm's heap variable: mmnvcc's */
    /* The program's options. The driver writes into their values, and a second call must find what the first did. */
    CUjit_option *program_options;
    void **program_values, *saved[MM_JIT_OPTIONS_MAX];
    unsigned program_count, saved_count;
    /* A library's, without CU_LIBRARY_BINARY_IS_PRESERVED, since our image goes at once. */
    CUlibraryOption library_options[MM_JIT_LIBRARY_OPTIONS_MAX];
    void *library_values[MM_JIT_LIBRARY_OPTIONS_MAX];
    unsigned library_count;
};

/* A PTX text of mmnvcc's with CUDA's names; of others, a text without the counts that nvcc stores in front of arrays (load/ptx/counts.h), if
 * it is to get the allocator. A copy in `mended`, which is to be freed, or the text itself if there is nothing to change. */
const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_text *mended);

/* Links the image, or what is in the file; *j is zero. options, values and count are the program's. Returns false if the driver is to get what the
 * program has; then nothing is to be done. Else j->image is for the driver, with j->options; its answer goes to mm_jit_is_taken. */
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
