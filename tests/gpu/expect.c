/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CPU build's size classes, which the GPU build is compared with; and its layout of a fresh heap. */
#include "tests/gpu/expect.h"

#include <stdlib.h>

#include "runtime/core/image.h"
#include "tests/gpu/facts.h"

struct class_facts expect_class(uint32_t bytes) {
    return facts_of_size(bytes);
}

void expect_layout(struct mm_layout *l, uint64_t segments) {
    if (mm_layout_make(l, segments, MM_SEGMENT_BYTES, 16) != 0) abort();
}
void expect_image(void *image, const struct mm_layout *l, uint64_t metadata_base, uint64_t user_base, uint64_t mapped_segments) {
    mm_heap_image(image, l, metadata_base, user_base, mapped_segments);
}
