/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_TESTS_GPU_EXPECT_H
#define MM_TESTS_GPU_EXPECT_H
#include <stdint.h>
struct class_facts {
    uint32_t c, bytes, block_shift, slices, blocks, short_slices, last_words; /* words: of the last block */
    uint64_t blocks_mask, last_mask;                                      /* mask: of its last word */
};
struct mm_layout;
#ifdef __cplusplus
extern "C" {
#endif
struct class_facts expect_class(uint32_t bytes);
/* mm_heap_image. */
void expect_image(void *image, const struct mm_layout *l, uint64_t metadata_base, uint64_t user_base, uint64_t mapped_segments);
#ifdef __cplusplus
}
#endif
#endif
