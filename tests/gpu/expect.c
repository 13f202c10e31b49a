/* What the CPU build says of the size classes, for the GPU build to be compared with. */
#include "tests/gpu/expect.h"

#include "runtime/core/class.h"

struct class_facts expect_class(uint32_t bytes) {
    const uint32_t c = mm_class_of(bytes);
    const struct class_facts f = {c, mm_class_bytes(c), mm_class_block_shift(c), mm_class_capacity(c),
                                  mm_class_words(c), mm_class_segment_mask(c)};
    return f;
}
