/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the driver-API programs for a GPU. */
#ifndef MM_GPU_DRIVER_H
#define MM_GPU_DRIVER_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program_check.h"
#include "gpu_look.h"

static inline const char *gpu_name(CUresult r) {
    const char *name = NULL;
    return cuGetErrorName(r, &name) == CUDA_SUCCESS && name ? name : "?";
}

#define OK(call)                                                                \
    do {                                                                        \
        CUresult r_ = (call);                                                   \
        if (r_ != CUDA_SUCCESS) {                                               \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, gpu_name(r_)); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* The image of gpu_module.cu, read from a file. */
static inline void *gpu_image(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        perror(path);
        exit(2);
    }
    long size = ftell(f);
    void *image = malloc((size_t)size + 1);
    rewind(f);
    if (!image || fread(image, 1, (size_t)size, f) != (size_t)size) exit(2);
    ((char *)image)[size] = 0;
    fclose(f);
    return image;
}

#endif
