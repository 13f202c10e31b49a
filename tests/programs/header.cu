/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The functions of mm.h; with SIZE_ONLY just one of them, a service that the driver does not have. */
#include <mm.h>
#include "run.h"

__global__ void size(void **p) { p[1] = (void *)mm_usable_size(p[0]); }
#ifdef SIZE_ONLY
#define KERNEL size
#else
#define KERNEL some
__global__ void some(void **p) {
    p[1] = mm_calloc(3, 5);
    p[2] = mm_realloc(p[1], 100);
    p[0] = mm_usable_size(p[2]) >= 100 ? p[2] : nullptr;
}
#endif

int main() {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    return run(size, false) || run(KERNEL, KERNEL != size) || mm_get_statistics(&s) != MM_OK || mm_reset() != MM_OK;
}
