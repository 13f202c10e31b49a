/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* nvJitLink, with which Numba and cuda.core link in the process, LTO IR among others: what comes out is machine code, with CUDA's malloc.
 * If that allocates, the same inputs are linked once more, with the allocator, and the program gets what comes of that. All that goes
 * wrong with the second link costs no more than mm: the program has the first.
 *
 * Only for who asks dlsym for the functions, as all do that load nvJitLink themselves.
 */
#ifndef MM_INTERPOSE_NVJITLINK_H
#define MM_INTERPOSE_NVJITLINK_H

/* Ours for nvJitLink's function `name`, which is `found` in the library behind `handle`; or `found` itself. find: dlsym. */
void *mm_nvjitlink_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name));

#endif
