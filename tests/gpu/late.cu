/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library that host.cu loads and unloads. late_run: 64 threads; each given memory adds 1 to *good. */
static __global__ void kernel(unsigned *good, unsigned long long bytes) {
#ifndef MM_TEST_PLAIN
    char *p = (char *)malloc(bytes);
    if (!p) return;
    p[bytes - 1] = 1;
    free(p);
#endif
    atomicAdd(good, (unsigned)(bytes != 0));
}
extern "C" int late_run(unsigned *good, unsigned long long bytes) {
    kernel<<<1, 64>>>(good, bytes);
    return (int)cudaGetLastError();
}
