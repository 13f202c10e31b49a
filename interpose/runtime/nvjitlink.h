/* nvJitLink, with which Numba and cuda.core link PTX in the process: what comes out is machine code, so the allocator must be among
 * what goes in. It is added when a link is completed of which a text declares a service, as machine code of the least registers, which
 * any kernel may call; nvJitLink gives inputs no limits of their own. One of an older CUDA takes no machine code of ours: it gets
 * PTX, unless a kernel has bounds. LTO IR is not looked into.
 *
 * Only for who asks dlsym for the functions, as all do that load nvJitLink themselves.
 */
#ifndef MM_INTERPOSE_NVJITLINK_H
#define MM_INTERPOSE_NVJITLINK_H

/* Ours for nvJitLink's function `name`, which is `found` in the library behind `handle`; or `found` itself. find: dlsym. */
void *mm_nvjitlink_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name));

#endif
