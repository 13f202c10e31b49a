#include "kernel.h"
__device__ void *give(size_t n);
struct giver {
    __device__ void *operator()(size_t n) const { return give(n); }
};
__global__ void k() { use(giver()); }
extern "C" int run() {
    k<<<100, 100>>>();
    return outcome();
}
#ifndef NO_MAIN
int main() { return run(); }
#endif
