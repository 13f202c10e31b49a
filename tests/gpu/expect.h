#ifndef MM_TESTS_GPU_EXPECT_H
#define MM_TESTS_GPU_EXPECT_H
#include <stdint.h>
struct class_facts {
    uint32_t c, bytes, block_shift, capacity, words;
    uint64_t segment_mask;
};
#ifdef __cplusplus
extern "C"
#endif
struct class_facts expect_class(uint32_t bytes);
#endif
