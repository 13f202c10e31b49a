/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap as a kernel of gpu_module.cu sees it. */
#ifndef MM_GPU_LOOK_H
#define MM_GPU_LOOK_H

#include <stdint.h>

struct gpu_look {
    uint64_t heap, abi, user_base, user_bytes, segments, wrong;
};

#endif
