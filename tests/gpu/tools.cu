/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The program for NVIDIA's tools (tools.sh): a kernel that allocates and frees. `tools outside` also writes behind an array from cudaMalloc.
 * Prints "tools: ROWS rows right, heap of mm's" or "..., heap of CUDA's". */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/mm.h"

#define ROWS 64
#define COLUMNS 40

#define OK(call)                                                                   \
    do {                                                                           \
        const cudaError_t error_ = (call);                                         \
        if (error_ != cudaSuccess) {                                               \
            fprintf(stderr, "tools: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(2);                                                               \
        }                                                                          \
    } while (0)

__global__ void fill_rows(unsigned *sums, unsigned past) {
    const unsigned row = threadIdx.x;
    unsigned *p = (unsigned *)malloc(COLUMNS * sizeof *p);
    if (!p) return;
    unsigned sum = row;
    for (unsigned i = 0; i < COLUMNS; i++) p[i] = row + i;
    for (unsigned i = 0; i < COLUMNS; i++) sum += p[i];
    sums[row + past] = sum; /* the line that tools.sh looks for */
    free(p);
}

static bool is_of_mm(void) {
    struct mm_statistics s;
    int (*get)(struct mm_statistics *) = (int (*)(struct mm_statistics *))dlsym(RTLD_DEFAULT, "mm_get_statistics");
    memset(&s, 0, sizeof s);
    s.struct_bytes = sizeof s;
    return get && get(&s) == MM_OK;
}

int main(int argc, char **argv) {
    unsigned *sums, got[ROWS], right = 0;
    const bool is_outside = argc > 1 && strcmp(argv[1], "outside") == 0;
    OK(cudaMalloc((void **)&sums, sizeof got));
    fill_rows<<<1, ROWS>>>(sums, is_outside ? 1 : 0);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost));
    for (unsigned r = 0; r < ROWS; r++) right += got[r] == r + COLUMNS * r + COLUMNS * (COLUMNS - 1) / 2;
    printf("tools: %u rows right, heap of %s\n", right, is_of_mm() ? "mm's" : "CUDA's");
    return right != ROWS;
}
