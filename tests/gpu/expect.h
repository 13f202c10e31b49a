/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_TESTS_GPU_EXPECT_H
#define MM_TESTS_GPU_EXPECT_H
#include <stdint.h>
struct class_facts {
    uint32_t c, bytes, page_shift, slices, words, last_mask; /* of a block; of its last word */
    uint32_t slices_reciprocal, block, slice;                /* for an offset near 2^32: its block and slice */
};
struct mm_layout;
#ifdef __cplusplus
extern "C" {
#endif
struct class_facts expect_class(uint32_t bytes);
/* Calls mm_layout_make, which must not fail, with slices from 16 bytes on; and mm_heap_image. */
void expect_layout(struct mm_layout *l, uint64_t segments);
void expect_image(void *image, const struct mm_layout *l, uint64_t metadata_base, uint64_t user_base, uint64_t mapped_segments);
#ifdef __cplusplus
}
#endif
#endif
