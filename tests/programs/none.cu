/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Declares no service: their names occur only in debug information, in strings, and in names of other functions. */
#include <cstdio>

namespace foo {
__device__ __noinline__ void *malloc(size_t n) { return (void *)n; }
__device__ __noinline__ void free(void *p) { *(int *)p = 1; }
} // namespace foo
__device__ int malloc_count;
__global__ void k(void **p) {
    int free = malloc_count;
    p[0] = foo::malloc(free);
    foo::free(p[1]);
    printf("malloc free __cuda_syscall_aligned_malloc mm_heap_v2\n");
}
int main() { return 0; }
