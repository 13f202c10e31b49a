#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, RTLD_DEFAULT */
#include "runtime/host/kernels.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/host/trim.h"

struct mm_host_kernels {
    CUfunction note;
    CUdeviceptr grids_on_device;
    uint64_t *grids;          /* our kernel's number + 1, by launch % MM_HOST_LAUNCHES: the device writes it; 0: not yet */
    const char **names;       /* of the program's, likewise; in `named` */
    uint64_t launches;
    struct named *named;
};

struct named {
    struct named *next;
    char *shown; /* as it is told */
    char name[];
};

/* As in the source, by the C++ run time that most programs bring; NULL: it cannot be had. */
static char *demangled(const char *name) {
    char *(*demangle)(const char *, char *, size_t *, int *) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    int status = 0;
    memcpy(&demangle, &address, sizeof demangle);
    return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

static const char *intern(struct mm_host_kernels *k, const char *name) {
    struct named *n = k->named;
    while (n && strcmp(n->name, name) != 0) n = n->next;
    if (!n) {
        n = (struct named *)malloc(sizeof *n + strlen(name) + 1);
        if (!n) return NULL;
        strcpy(n->name, name);
        n->shown = demangled(name);
        n->next = k->named;
        k->named = n;
    }
    return n->shown ? n->shown : n->name;
}

#define GRIDS_BYTES (MM_HOST_LAUNCHES * sizeof(uint64_t))

struct mm_host_kernels *mm_kernels_create(const struct mm_driver *d, struct mm_driver_error *error) {
    CUmodule module = NULL;
    struct mm_host_kernels *k = (struct mm_host_kernels *)calloc(1, sizeof *k);
    void *grids = mmap(NULL, GRIDS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char **names = (const char **)calloc(MM_HOST_LAUNCHES, sizeof *names);
    error->call = "malloc";
    error->code = CUDA_ERROR_OUT_OF_MEMORY;
    if (k && names && grids != MAP_FAILED &&
        MM_DRIVER_TRY(d, error, cuMemHostRegister, grids, GRIDS_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE)) {
        if (MM_DRIVER_TRY(d, error, cuMemHostGetDevicePointer, &k->grids_on_device, grids, 0) &&
            MM_DRIVER_TRY(d, error, cuModuleLoadData, &module, mm_kernels_fatbin) &&
            MM_DRIVER_TRY(d, error, cuModuleGetFunction, &k->note, module, "mm_kernel_note")) {
            k->grids = (uint64_t *)grids, k->names = names;
            error->call = NULL;
            return k;
        }
        d->cuMemHostUnregister(grids);
    }
    if (grids != MAP_FAILED) munmap(grids, GRIDS_BYTES);
    free(names), free(k);
    return NULL;
}

void mm_kernels_drop(struct mm_host_kernels *k) {
    if (!k) return;
    while (k->named) {
        struct named *next = k->named->next;
        free(k->named->shown), free(k->named);
        k->named = next;
    }
    munmap(k->grids, GRIDS_BYTES);
    free(k->names), free(k);
}

/* Functions first: asking a function as if it were a kernel crashes. */
static const char *name_of(const struct mm_driver *d, CUfunction kernel) {
    const char *name = NULL;
    if (d->cuFuncGetName && d->cuFuncGetName(&name, kernel) == CUDA_SUCCESS) return name;
    if (d->cuKernelGetName && d->cuKernelGetName(&name, (CUkernel)kernel) == CUDA_SUCCESS) return name;
    return NULL;
}

void mm_kernels_note(const struct mm_driver *d, struct mm_host_kernels *k, CUfunction kernel, CUstream stream) {
    const uint64_t i = k->launches++ % MM_HOST_LAUNCHES;
    const char *name = name_of(d, kernel);
    CUdeviceptr at = k->grids_on_device + i * sizeof *k->grids;
    void *parameters[] = {&at};
    __atomic_store_n(&k->grids[i], 0, __ATOMIC_RELAXED);
    k->names[i] = name ? intern(k, name) : NULL;
    if (k->names[i]) d->cuLaunchKernel(k->note, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

/* The number of the last launch that has one. */
static uint64_t newest_of(const struct mm_host_kernels *k) {
    uint64_t seen = 0;
    for (uint64_t n = 0; n < MM_HOST_LAUNCHES && n < k->launches && seen == 0; n++)
        seen = __atomic_load_n(&k->grids[(k->launches - 1 - n) % MM_HOST_LAUNCHES], __ATOMIC_ACQUIRE);
    return seen;
}

const char *mm_kernels_name(const struct mm_host_kernels *k, uint64_t grid) {
    uint64_t low = 0, high = k ? k->launches : 0; /* launches; their numbers rise, but for those that are not known */
    if (high > MM_HOST_LAUNCHES) low = high - MM_HOST_LAUNCHES;
    if (high == 0 || grid == 0) return MM_KERNEL_NOT_KNOWN;
    /* ours before it, + 1, is the kernel's own number: the last one that ends in those bits */
    const uint64_t wanted = grid - 1, newest = newest_of(k), bits = (1ull << MM_GRID_BITS) - 1;
    grid = (newest & ~bits) | wanted;
    if (grid > newest) grid -= bits + 1;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        uint64_t at = middle, seen = 0;
        for (; at < high; at++)
            if ((seen = __atomic_load_n(&k->grids[at % MM_HOST_LAUNCHES], __ATOMIC_ACQUIRE)) != 0) break;
        if (at < high && seen == grid) return k->names[at % MM_HOST_LAUNCHES];
        if (at < high && seen < grid) low = at + 1;
        else high = middle;
    }
    return MM_KERNEL_NOT_KNOWN;
}
