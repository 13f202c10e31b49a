/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Takes addresses of services: in code, and in the initial value of a variable. */
#include <cstdlib>
typedef void *allocate(size_t);
typedef void release(void *);
__device__ allocate *table[1] = {malloc};
__global__ void k(void **p, int i) {
    allocate *a = i ? malloc : table[0];
    release *f = free;
    p[0] = a(10);
    f(p[1]);
}
int main() { return 0; }
