/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program with its own allocator: operators new and delete on the device, and functions called malloc and free in a namespace and in a
 * class. With GLOBAL_TOO the kernel also uses the global malloc. */
#include <cstdio>
#include <cstdlib>
#include "run.h"

__device__ char pool[1 << 16];
__device__ unsigned used;

__device__ void *operator new(size_t n) { return pool + atomicAdd(&used, (unsigned)n); }
__device__ void operator delete(void *) noexcept {}
__device__ void operator delete(void *, size_t) noexcept {}

namespace mine {
__device__ void *malloc(size_t n) { return pool + n; }
__device__ void free(void *) {}
} // namespace mine

struct arena {
    char *at;
    __device__ void *malloc(size_t n) { return at += n; }
    __device__ void free(void *) { at = nullptr; }
};

__global__ void own(void **p) {
    arena a = {pool};
    p[0] = new int;
    p[1] = mine::malloc(7);
    p[2] = a.malloc(8);
    mine::free(p[1]);
    a.free(p[2]);
    delete (int *)p[0];
#ifdef GLOBAL_TOO
    p[3] = ::malloc(16);
    ::free(p[4]);
#endif
}

int main() {
    void *p = malloc(10);
    const int wrong = run(own, true);
    free(p);
    return wrong;
}
