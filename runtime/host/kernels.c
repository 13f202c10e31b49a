/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, RTLD_DEFAULT */
#include "runtime/host/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/host/clock.h"
#include "runtime/host/state.h"
#include "runtime/host/trim.h"

/* A probe (kernels.h), and the number of launches of the program before it. */
struct probe {
    uint64_t launches;
    bool is_adjacent; /* it was launched right before the next launch of the program */
};

struct mm_host_kernels {
    const struct mm_driver *driver;
    CUcontext context;
    CUfunction note;
    CUstream stream; /* a separate stream, for which no work of the program waits */
    CUdeviceptr grids_on_device;
    pthread_mutex_t lock; /* protects the members below, except those that the device writes */
    const char **names;   /* kernels of the program's launches, by launch % MM_HOST_LAUNCHES; point into `named` */
    uint64_t launches;
    struct probe *probes;           /* by probe % MM_HOST_LAUNCHES */
    uint64_t *grids;                /* likewise: the probe's launch number + 1, which the probe writes; 0: not yet */
    uint64_t probe_count, verified; /* the stretches between probes were examined up to probe `verified` */
    unsigned stride, since, good;   /* launches per probe; launches since the last probe; consecutive stretches whose numbers agreed */
    struct named *named;
};

struct named {
    struct named *next;
    char *shown; /* the demangled name, or NULL */
    char name[];
};

/* The demangled name, from the C++ runtime if the process contains it; else NULL. */
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

struct mm_host_kernels *mm_kernels_create(const struct mm_driver *d, CUcontext context, struct mm_driver_error *error) {
    CUmodule module = NULL;
    struct mm_host_kernels *k = (struct mm_host_kernels *)calloc(1, sizeof *k);
    void *grids = mmap(NULL, GRIDS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char **names = (const char **)calloc(MM_HOST_LAUNCHES, sizeof *names);
    struct probe *probes = (struct probe *)calloc(MM_HOST_LAUNCHES, sizeof *probes);
    mm_driver_lacks_memory(error); /* unless the driver has another reason */
    if (k && names && probes && grids != MAP_FAILED &&
        MM_DRIVER_TRY(d, error, cuMemHostRegister, grids, GRIDS_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE)) {
        if (MM_DRIVER_TRY(d, error, cuMemHostGetDevicePointer, &k->grids_on_device, grids, 0) &&
            MM_DRIVER_TRY(d, error, cuModuleLoadData, &module, mm_kernels_fatbin) &&
            MM_DRIVER_TRY(d, error, cuModuleGetFunction, &k->note, module, "mm_kernel_note") &&
            MM_DRIVER_TRY(d, error, cuStreamCreate, &k->stream, CU_STREAM_NON_BLOCKING)) {
            pthread_mutex_init(&k->lock, NULL);
            k->driver = d, k->context = context, k->grids = (uint64_t *)grids, k->names = names, k->probes = probes, k->stride = 1;
            error->call = NULL;
            return k;
        }
        d->cuMemHostUnregister(grids);
    }
    if (grids != MAP_FAILED) munmap(grids, GRIDS_BYTES);
    free(names), free(probes), free(k);
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
    pthread_mutex_destroy(&k->lock);
    free(k->names), free(k->probes), free(k);
}

/* The number that probe i wrote: its launch number + 1, which is that of the next launch. 0: not yet. */
static uint64_t seen_by(const struct mm_host_kernels *k, uint64_t i) { return __atomic_load_n(&k->grids[i % MM_HOST_LAUNCHES], __ATOMIC_ACQUIRE); }
static struct probe *probe_at(const struct mm_host_kernels *k, uint64_t i) { return &k->probes[i % MM_HOST_LAUNCHES]; }

/* Whether the program's launches have all numbers between probes i and i + 1, which have both written. */
static bool is_exact(const struct mm_host_kernels *k, uint64_t i) {
    return seen_by(k, i + 1) - seen_by(k, i) == probe_at(k, i + 1)->launches - probe_at(k, i)->launches + 1;
}

/* Examines the new stretches. While their numbers agree with the launches, the stride grows; after one that does not it is 1. */
static void set_stride(struct mm_host_kernels *k) {
    if (k->probe_count - k->verified > MM_HOST_LAUNCHES) k->verified = k->probe_count - MM_HOST_LAUNCHES;
    for (; k->verified + 1 < k->probe_count && seen_by(k, k->verified + 1) != 0; k->verified++) {
        k->good = is_exact(k, k->verified) ? k->good + 1 : 0;
        if (k->good == 0) k->stride = 1;
        if (k->good < MM_HOST_STRIDE_AFTER || k->stride == MM_HOST_STRIDE) continue;
        k->stride *= 2, k->good = 0;
    }
}

static bool try_probe(struct mm_host_kernels *k, bool is_adjacent) {
    const uint64_t i = k->probe_count;
    CUdeviceptr at = k->grids_on_device + i % MM_HOST_LAUNCHES * sizeof *k->grids;
    void *parameters[] = {&at};
    __atomic_store_n(&k->grids[i % MM_HOST_LAUNCHES], 0, __ATOMIC_RELAXED);
    if (k->driver->cuLaunchKernel(k->note, 1, 1, 1, 1, 1, 1, 0, k->stream, parameters, NULL) != CUDA_SUCCESS) return false;
    *probe_at(k, i) = (struct probe){k->launches, is_adjacent};
    k->probe_count++;
    return true;
}

void mm_kernels_note(struct mm_host_kernels *k, CUfunction kernel) {
    const char *name = mm_driver_kernel_name(k->driver, kernel);
    pthread_mutex_lock(&k->lock);
    set_stride(k);
    if (k->since == 0 || k->since >= k->stride) k->since = try_probe(k, true) ? 0 : k->since;
    k->since++;
    k->names[k->launches++ % MM_HOST_LAUNCHES] = name ? intern(k, name) : NULL;
    pthread_mutex_unlock(&k->lock);
}

/* Launches a probe after the last launch, and waits for it, at most MM_HOST_SETTLE_US: it may have to wait for the program's kernels. */
static void settle(struct mm_host_kernels *k) {
    struct mm_driver_visit visit;
    if (seen_by(k, k->probe_count - 1) == 0 || !mm_driver_try_enter(k->driver, k->context, &visit)) return;
    const uint64_t begin = mm_host_now_us();
    if (try_probe(k, false))
        while (seen_by(k, k->probe_count - 1) == 0 && mm_host_now_us() - begin < MM_HOST_SETTLE_US) sched_yield();
    mm_driver_leave(k->driver, &visit);
}

/* Of probes [low, high), which have written increasing numbers: the last one that wrote at most `grid`, or else the first. */
static uint64_t last_before(const struct mm_host_kernels *k, uint64_t grid, uint64_t low, uint64_t high) {
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (seen_by(k, middle) <= grid) low = middle;
        else high = middle;
    }
    return low;
}

static const char *find(struct mm_host_kernels *k, uint64_t wanted, bool may_settle) {
    const uint64_t oldest = k->probe_count > MM_HOST_LAUNCHES ? k->probe_count - MM_HOST_LAUNCHES : 0;
    uint64_t count = k->probe_count;
    while (count > oldest && seen_by(k, count - 1) == 0) count--;
    if (count == oldest) return NULL;
    /* The largest number with these low bits that is not far above the last number that was seen. */
    const uint64_t bits = (1ull << MM_GRID_BITS) - 1, top = seen_by(k, count - 1) + (1ull << (MM_GRID_BITS - 4));
    uint64_t grid = (top & ~bits) | wanted;
    if (grid > top) grid -= bits + 1;
    const uint64_t i = last_before(k, grid, oldest, count), after = grid - seen_by(k, i);
    if (grid < seen_by(k, i)) return NULL;
    const bool is_next = after == 0 && probe_at(k, i)->is_adjacent, is_last = i + 1 == count;
    if (is_last && !is_next && may_settle) {
        settle(k);
        return find(k, wanted, false);
    }
    /* After the last probe it is unknown whether other operations got numbers. Assume that none did. */
    const uint64_t launch = probe_at(k, i)->launches + after, end = is_last ? k->launches : probe_at(k, i + 1)->launches;
    if (launch >= end || k->launches - launch > MM_HOST_LAUNCHES || !(is_next || is_last || is_exact(k, i))) return NULL;
    return k->names[launch % MM_HOST_LAUNCHES];
}

const char *mm_kernels_name(struct mm_host_kernels *k, uint64_t grid) {
    if (!k || grid == 0) return MM_KERNEL_NOT_KNOWN;
    pthread_mutex_lock(&k->lock);
    const char *name = find(k, grid - 1, true);
    pthread_mutex_unlock(&k->lock);
    return name ? name : MM_KERNEL_NOT_KNOWN;
}
