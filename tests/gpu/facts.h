/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* All that class.h says of the class that serves `bytes`: compiled for the CPU and for the GPU. */
#ifndef MM_TESTS_GPU_FACTS_H
#define MM_TESTS_GPU_FACTS_H

#include "runtime/core/class.h"
#include "tests/gpu/expect.h"

MM_FN struct class_facts facts_of_size(uint32_t bytes) {
    const uint32_t c = mm_class_of(bytes), blocks = mm_class_blocks(c), slices = mm_class_slices(c);
    const struct class_facts f = {c, mm_class_bytes(c), mm_class_block_shift(c), slices, blocks, mm_class_make(c, 63).short_slices,
                                  mm_class_block_words(mm_class_make(c, 0), blocks - 1), mm_class_blocks_mask(c),
                                  mm_class_word_mask(mm_class_make(c, 0), (slices - 1) >> MM_WORD_SHIFT)};
    return f;
}

#endif
