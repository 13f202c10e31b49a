/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* occupy MIB: takes all memory of the device except MIB MiB, reports that, and holds it until standard input ends (crowded.sh). Compiled by nvcc. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const size_t left = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) << 20 : 0;
    size_t free_bytes = 0, total_bytes;
    void *p;
    if (left == 0) return fprintf(stderr, "usage: occupy MIB\n"), 2;
    for (size_t piece = (size_t)1 << 30; piece >= (size_t)1 << 20; piece /= 2)
        while (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess && free_bytes >= left + piece && cudaMalloc(&p, piece) == cudaSuccess) continue;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) return fprintf(stderr, "occupy: no device\n"), 1;
    printf("%zu MiB of %zu are free\n", free_bytes >> 20, total_bytes >> 20);
    fflush(stdout);
    while (getchar() != EOF) continue;
    return 0;
}
