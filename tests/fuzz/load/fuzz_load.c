/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The fuzzer of what is read at load time: the input is a fat binary, a cubin and PTX at once. Its sum says which entries are changed. */
#include "tests/load/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint32_t sum = 0;
    if (!bytes) return 0;
    for (size_t i = 0; i < bytes; i++) sum = sum * 31 + data[i];
    exercise(data, bytes, sum >> 8 & 15);
    mm_wants_of_elf(data, bytes);
    mm_wants_of_ptx((const char *)data, bytes);
    return 0;
}
