/* What the CPU build says of the size classes, for the GPU build to be compared with. */
#include "tests/gpu/expect.h"

#include "tests/gpu/facts.h"

struct class_facts expect_class(uint32_t bytes) { return facts_of_size(bytes); }
