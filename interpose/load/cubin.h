/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Finished machine code (a cubin) that calls CUDA's allocator, made fit for a linker, and put right after the link.
 *
 * In what ptxas makes of a whole program malloc and free are undefined symbols, and each is called through an address in a constant bank:
 * nothing else in the code knows them. A linker (nvlink, cuLink*) that is told that the image is no finished one takes it together with
 * mm's device library, and the program's code stays byte for byte what it was.
 *
 *   mm_cubin_open     the image as an input: e_type 0xff00, the "extensible whole program" of ptxas -ewp; with ET_REL nvlink drops the
 *                     kernels' shared memory. The sections of shared memory get what ptxas -ewp gives them, and the note of the toolkit
 *                     the first of its major version, since a linker refuses newer images than itself.
 *   the link          mm_cubin_open's image first, then the device library
 *   mm_cubin_settle   symbols of data get the type that the loader takes, shared memory its size; then everything of the program's is
 *                     compared with what it was.
 *
 * All functions read within the given bytes only, whatever is in them, and take images of 64 bits for NVIDIA GPUs only: others are
 * MM_CUBIN_NONE. The facts are by experiment with the images of CUDA 12.4, 13.0 and 13.5 (docs/explanation/machine-code.md).
 */
#ifndef MM_INTERPOSE_CUBIN_H
#define MM_INTERPOSE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

enum mm_cubin_kind {
    MM_CUBIN_NONE,       /* not a cubin */
    MM_CUBIN_WHOLE,      /* finished */
    MM_CUBIN_PART,       /* relocatable: for a device link */
    MM_CUBIN_EXTENSIBLE, /* of ptxas -ewp: finished, and can be linked */
    MM_CUBIN_OTHER
};
enum mm_cubin_kind mm_cubin_kind(const void *image, size_t bytes);

/* How many bytes an image has of which only the address is known, as its header and its table of sections say, which are read; 0: it is no
 * cubin. An image that lies about itself cannot be told: the driver believes it as well. */
size_t mm_cubin_bytes(const void *image);

/* Makes a finished image an input of a linker, in place. Returns false, with the image as it was, if it is not MM_CUBIN_WHOLE or is damaged. */
bool mm_cubin_open(void *image, size_t bytes);

/* Puts a linked image right, in place. original: the finished image that went into the link, before mm_cubin_open; NULL: what went in
 * was relocatable, or extensible, and only symbols are put right. Returns NULL, or what the link changed in the program that must not change, in a few
 * words; *where is then the name of the section, in one of the images, or "". */
const char *mm_cubin_settle(void *image, size_t bytes, const void *original, size_t original_bytes, const char **where);

#endif
