/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* All ways in which device code allocates; several entry points, one of them limited to 32 registers. */
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <new>
#include "run.h"

struct alignas(64) wide {
    int x[32];
};
struct node {
    virtual ~node() {}
    int x;
};

__global__ void functions(void **p) {
    p[0] = malloc(10);
    free(p[1]);
    p[2] = __nv_aligned_device_malloc(10, 128);
    assert(p[0]);
}
__global__ void operators(void **p) {
    p[0] = new int;
    delete (node *)p[1];
    p[2] = new int[7];
    delete[](int *) p[3];
}
__global__ void over_aligned(void **p) {
    p[0] = new wide;
    delete (wide *)p[1];
}
__global__ void __launch_bounds__(1024, 2) bounded(void **p) {
    p[0] = malloc(16);
    free(p[1]);
    printf("malloc( // \" /* free %d\n", 1);
}
__global__ void untouched(int *p) { *p = 1; }

int main() {
    void *p = malloc(10); /* the host's */
    const int wrong = run(functions, true) | run(operators, true) | run(over_aligned, true) | run(bounded, true);
    free(p);
    return wrong;
}
