/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/mmbench/child/papers/registers.h"

void run_registers(const struct request *q) {
    static const char *const registers[REGISTERS_KERNELS] = {"plain", "malloc", "free", "pair"};
    static const char *const stack[REGISTERS_KERNELS] = {NULL, "malloc_stack", "free_stack", "pair_stack"};
    struct tally t = child_nothing_found();
    void **pointer = (void **)child_device_alloc(sizeof *pointer), *p;
    alloc_registers.launch(REGISTERS_MALLOC, q->size, pointer);
    child_read(&p, pointer, sizeof p);
    t.nulls += p == NULL;
    alloc_registers.launch(REGISTERS_FREE, q->size, pointer);
    alloc_registers.launch(REGISTERS_PAIR, q->size, pointer);
    child_must(cudaDeviceSynchronize());
    child_must(cudaFree(pointer));
    for (int k = 0; k < REGISTERS_KERNELS; k++) {
        struct cudaFuncAttributes a;
        child_must(alloc_registers.attributes(&a, (enum registers_kernel)k));
        const double used = a.numRegs, bytes = (double)a.localSizeBytes;
        child_row_of(registers[k], "count", (const double[]){used, used, used}, 1, "-", &t, "nonnull");
        if (stack[k]) child_row_of(stack[k], "bytes", (const double[]){bytes, bytes, bytes}, 1, "-", &t, "nonnull");
    }
}
