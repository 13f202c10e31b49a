/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* NVRTC, where a program takes machine code from it, which came with CUDA's malloc: it gets the PTX of the same program instead, if that
 * allocates. The driver takes PTX wherever it takes a cubin, and puts the allocator into it then (jit.h). What a program
 * keeps of that on disk (CuPy does) is plain PTX, which works with mm and without.
 *
 * Only for who asks dlsym for the functions, as all do that load NVRTC themselves (CuPy, PyTorch, Numba).
 */
#ifndef MM_INTERPOSE_NVRTC_H
#define MM_INTERPOSE_NVRTC_H

/* Ours for NVRTC's function `name`, which is `found` in the library behind `handle`; or `found` itself. find: dlsym. */
void *mm_nvrtc_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name));

#endif
