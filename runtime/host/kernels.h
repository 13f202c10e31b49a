/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Names of kernels in a checked run. Device code knows a kernel by the number of its launch (%gridid, mm_grid), the host by its name.
 *
 * The launches of a context are numbered in the order in which they are submitted, on whatever stream. A probe is a kernel of ours (mm_kernel_note in
 * runtime/maintain.cu) that is launched right before a launch of the program and records its own number. The program's launch has the next number. (On an
 * H200 with driver 580.159.04 this held for 8,000 of 8,000 pairs, launched by four threads while two others launched memsets.) A probe costs as much
 * as a launch, so one probe may serve several launches: the launches up to the next probe are numbered consecutively, unless other operations got numbers,
 * too. Memsets and copies on the device get numbers; the kernels of a graph get theirs when the graph is instantiated. In that case there are more numbers
 * than launches between the two probes, and only the first of these launches has a name.
 * At first there is a probe before each launch. While the numbers agree, the stride (launches per probe) grows up to MM_HOST_STRIDE; when they do not, it is 1
 * again. One more probe is launched when the name of a launch after the last probe is needed. Kernels that a graph or the device launched have no name here.
 */
#ifndef MM_HOST_KERNELS_H
#define MM_HOST_KERNELS_H

#include <stdint.h>

#include "runtime/host/driver.h"

struct mm_host_kernels;

/* Loads the probe into the heap's context, which is current. Returns NULL, and the error, if that fails. */
struct mm_host_kernels *mm_kernels_create(const struct mm_driver *d, CUcontext context, struct mm_driver_error *error);
/* Frees everything, after the context has ended. */
void mm_kernels_drop(struct mm_host_kernels *kernels);

/* `kernel` (CUfunction or CUkernel) is about to be launched, and not captured. The caller excludes other watched launches from this call to that launch.
 * The kernel's context is current. */
void mm_kernels_note(struct mm_host_kernels *kernels, CUfunction kernel);

/* The name of the kernel whose launch had the number (mm_grid) grid - 1: demangled if the process contains the C++ runtime, else mangled. Returns "not
 * known" if grid is 0, kernels is NULL, the launch is too old, or it cannot be distinguished from its neighbours. Valid as long as the heap. */
const char *mm_kernels_name(struct mm_host_kernels *kernels, uint64_t grid);
#define MM_KERNEL_NOT_KNOWN "not known"

#endif
