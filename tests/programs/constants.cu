/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program with TABLE_BYTES of its own constant memory, which also holds the heap variable. */
#include <cstdlib>
extern "C" {
__constant__ unsigned table[TABLE_BYTES / 4 - 2] = {0x74616231, 2};
__constant__ unsigned written;
static __constant__ unsigned own = 0x6f776e31;
}
__global__ void k(void **p, int i) {
    p[0] = malloc(table[i] + written + own);
    free(p[1]);
}
int main() {
    unsigned x = 3;
    cudaMemcpyToSymbol(written, &x, sizeof x);
    cudaMemcpyToSymbol(own, &x, sizeof x);
    return 0;
}
