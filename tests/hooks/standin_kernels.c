/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of libmm.so's own module (runtime/maintain.cu), from the same source. */
#include "standin_kernels.h"

#include "runtime/maintain.h"

void standin_kernel_retire(const struct mm_heap_ref *ref, unsigned i, unsigned parts) {
    if (i < parts) mm_maintain_retire(ref, 1, i, parts);
}
void standin_kernel_claim(const struct mm_heap_ref *ref, unsigned i, struct mm_wanted_chunk *chunks, unsigned n) {
    if (i < n) mm_maintain_claim(ref, &chunks[i]);
}
