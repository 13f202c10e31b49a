/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Linking at load time: code that reaches the driver at run time (from NVRTC, CuPy, Numba, the driver API, fat binaries of a plain nvcc) gets the allocator.
 *
 * PTX that declares a function of the allocator (load/ptx/names.h), and machine code that leaves one undefined (load/cubin.h), is linked with mm's machine
 * code (link.h), and the result is loaded instead. From a fat binary, the image that the driver would choose is linked. For a library on a machine with GPUs
 * of several architectures, one image per architecture is linked, and the driver gets a new fat binary. If an image cannot be linked, or the driver refuses
 * the result, the original is loaded, and one line per process says why. PTX of mmnvcc calls the allocator by mm's names; they are changed back to CUDA's in
 * any case. Inputs of cuLink* are not linked with mm; the result of the link is.
 *
 * With MM_RUN_ALLOCATOR=cuda nothing is linked. Instead of machine code that contains mm, the driver gets the PTX of the same image, with CUDA's names.
 */
#ifndef MM_INTERPOSE_JIT_H
#define MM_INTERPOSE_JIT_H

#include <cuda.h>

#include "interpose/preload/link.h"
#include "interpose/load/ptx/text.h"

/* One load. */
struct mm_jit {
    const void *image;     /* the image for the driver: linked or own */
    CUjit_option *options; /* and its options: the link's, or the program's */
    void **values;
    unsigned count;
    void *linked; /* machine code, or a fat binary of it */
    struct mm_link link;
    struct mm_text own; /* a copy of the program's text with CUDA's names, if it has mm's */
    CUresult refused;   /* the driver's error, if it refused `linked` */
    bool is_library;
    bool has_heap; /* the program's image is machine code with mm's heap variable, made by mmnvcc */
    /* The program's options. The driver writes into their values, and a second call must find the same values as the first. */
    CUjit_option *program_options;
    void **program_values, *saved[MM_JIT_OPTIONS_MAX];
    unsigned program_count, saved_count;
    /* A library's options, without CU_LIBRARY_BINARY_IS_PRESERVED, since our image is freed at once. */
    CUlibraryOption library_options[MM_JIT_LIBRARY_OPTIONS_MAX];
    void *library_values[MM_JIT_LIBRARY_OPTIONS_MAX];
    unsigned library_count;
};

/* In PTX of mmnvcc, changes mm's names to CUDA's. From other PTX that is to get the allocator, removes the counts that nvcc stores in front of
 * arrays (load/ptx/counts.h). Returns a copy in `mended`, which the caller frees, or the text itself if there is nothing to change. */
const char *mm_jit_mend(const char *text, size_t *bytes, struct mm_text *mended);

/* Links the image, or the contents of the file; *j must be zero. options, values and count are the program's. If it returns false, load the program's
 * own image, as after mm_jit_try_next. Otherwise load j->image with j->options, and pass the driver's result to mm_jit_is_taken. */
bool mm_jit_try_image(struct mm_jit *j, const void *image, CUjit_option *options, void **values, unsigned count);
bool mm_jit_try_file(struct mm_jit *j, const char *path, CUjit_option *options, void **values, unsigned count);
/* For a library, call this first, with its options. False means the same as above. is_file: for cuLibraryLoadFromFile, which refuses
 * CU_LIBRARY_BINARY_IS_PRESERVED. */
bool mm_jit_try_options(struct mm_jit *j, bool is_file, const CUlibraryOption *options, void **values, unsigned count);

/* Takes the driver's result for j->image. Returns whether the driver accepted it. */
bool mm_jit_is_taken(struct mm_jit *j, CUresult r);
/* Returns whether there is another j->image to try. If not, load the program's own image, and return the driver's result through
 * mm_jit_answer. */
bool mm_jit_try_next(struct mm_jit *j);
CUresult mm_jit_answer(const struct mm_jit *j, CUresult r);

#endif
