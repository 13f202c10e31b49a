/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Everything that class.h computes for the class that serves `bytes`; compiled for the CPU and for the GPU. */
#ifndef MM_TESTS_GPU_FACTS_H
#define MM_TESTS_GPU_FACTS_H

#include "runtime/core/class.h"
#include "tests/gpu/expect.h"

MM_FN struct class_facts facts_of_size(uint32_t bytes) {
    const uint32_t c = mm_class_of(bytes);
    const struct mm_class k = mm_class_make(c);
    uint32_t slice = 0;
    const uint32_t block = mm_class_block_of(k, 0xfffffff0u - bytes, &slice);
    const struct class_facts f = {c, k.bytes, k.page_shift, k.slices, k.words, mm_class_word_mask(k, k.words - 1u), k.slices_reciprocal, block, slice};
    return f;
}

#endif
