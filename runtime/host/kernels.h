/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which kernel is which, in a checked run: device code knows its kernel by the number of its launch (%gridid, mm_grid), the host by its
 * name.
 *
 * Launches of a context are numbered as they are submitted, whatever the stream. So a kernel of ours is launched (runtime/maintain.cu) right before a
 * launch of the program's, which writes its own number down: the next one is the program's kernel's. (On an H200, driver 580.159.04: 8,000
 * of 8,000 pairs by four threads, beside memsets by two others.) That costs as much as a launch. What lies between two of ours can be counted, unless
 * something else has a number, too (memsets and copies on the device have; a graph's kernels get theirs when it is instantiated): then there are more
 * numbers than launches, and those between have no names, but for the first. So one of ours before each launch; as long as all counts agree one for more and more of them, up to
 * MM_HOST_STRIDE; and one when a name is asked for of a launch after the last. What a graph launches, or the device, has no name here.
 */
#ifndef MM_HOST_KERNELS_H
#define MM_HOST_KERNELS_H

#include "runtime/host/heap.h"

struct mm_host_kernels;

/* Loads what it takes into the heap's context, which is current. NULL, with the error, if that fails. */
struct mm_host_kernels *mm_kernels_create(const struct mm_driver *d, CUcontext context, struct mm_driver_error *error);
/* After the context has ended. */
void mm_kernels_drop(struct mm_host_kernels *kernels);

/* `kernel` (CUfunction or CUkernel) is about to be launched, and not captured. One caller at a time, up to that launch; its context is current. */
void mm_kernels_note(struct mm_host_kernels *kernels, CUfunction kernel);

/* Name of the kernel whose launch had the number (mm_grid) grid - 1, as the compiler has it or, where the C++ run time is at hand, as the source has.
 * grid 0, kernels NULL, or a launch too long ago, or one that cannot be told from its neighbours: "not known". Valid as long as the heap. */
const char *mm_kernels_name(struct mm_host_kernels *kernels, uint64_t grid);
#define MM_KERNEL_NOT_KNOWN "not known"

#endif
