/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Prepares finished machine code (a cubin) that calls CUDA's allocator for a linker, and repairs the linked image.
 *
 * In ptxas's output for a whole program, malloc and free are undefined symbols, each called through an address in a constant bank; nothing
 * else in the code refers to them. If the image is not marked as finished, a linker (nvlink, cuLink*) links it with mm's device library and
 * leaves the program's code byte for byte as it was.
 *
 *   mm_cubin_open     makes the image an input: e_type 0xff00, the "extensible whole program" of ptxas -ewp; with ET_REL, nvlink drops the
 *                     kernels' shared memory. Writes shared memory sections as ptxas -ewp does, and sets the toolkit note to the first
 *                     release of its major version, since a linker refuses images from a newer toolkit.
 *   the link          mm_cubin_open's image first, then the device library
 *   mm_cubin_settle   gives data symbols the type that the loader accepts, and shared memory its size; then compares the program's
 *                     sections with the original.
 *
 * All functions but mm_cubin_bytes read only the given bytes, whatever they contain, and accept only 64-bit images for NVIDIA GPUs: others are MM_CUBIN_NONE.
 * The facts were found by experiment with images of CUDA 12.4, 13.0 and 13.5 (docs/explanation/machine-code.md).
 */
#ifndef MM_INTERPOSE_CUBIN_H
#define MM_INTERPOSE_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

enum mm_cubin_kind {
    MM_CUBIN_NONE,       /* not a cubin */
    MM_CUBIN_WHOLE,      /* finished */
    MM_CUBIN_PART,       /* relocatable: for a device link */
    MM_CUBIN_EXTENSIBLE, /* from ptxas -ewp: finished and linkable */
    MM_CUBIN_OTHER
};
enum mm_cubin_kind mm_cubin_kind(const void *image, size_t bytes);

/* Size of an image of which only the address is known, computed from its header and section table; 0 if it is not a cubin. A false header
 * cannot be detected: the driver trusts it as well. */
size_t mm_cubin_bytes(const void *image);

/* Makes a finished image a linker input, in place. Returns false, with the image as it was, if it is not MM_CUBIN_WHOLE or is damaged. */
bool mm_cubin_open(void *image, size_t bytes);

/* Repairs a linked image, in place. original: the finished image before mm_cubin_open; NULL if the input was relocatable or extensible: then only
 * symbols are repaired. Returns NULL, or a few words on what the link changed in the program and must not change; *where is then the name of the
 * section, in one of the images, or "". */
const char *mm_cubin_settle(void *image, size_t bytes, const void *original, size_t original_bytes, const char **where);

#endif
