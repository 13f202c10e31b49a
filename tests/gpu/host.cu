/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The host's part while a program runs; built by mmnvcc and, for comparison, by nvcc. `host CASE` runs in a separate process, prints a line,
 * and returns 0 if the case passes:
 *   busy               the first launch, next to a kernel that holds all multiprocessors and waits for the host: milliseconds
 *   graph SECONDS      the first growth in a graph's kernel, SECONDS after the last launch: the longest malloc
 *   late LIBRARY MANY  40 rounds of dlopen, a kernel, dlclose: how much device memory each round takes, and how much of that is the
 *                      heap's. MANY: 0, each round requests 64 bytes; 1, each requests another size, to use new size classes
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "include/mm.h"

extern "C" int hold_all(volatile int *go, unsigned *late, cudaStream_t stream);

#define OK(call)                                                   \
    do {                                                           \
        const cudaError_t error_ = (call);                         \
        if (error_ != cudaSuccess) {                               \
            printf("%s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(1);                                               \
        }                                                          \
    } while (0)

static double host_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static __global__ void kernel(unsigned *good, unsigned long long bytes, unsigned long long *longest_ns) {
    unsigned long long begin, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    char *p = (char *)malloc(bytes);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
    atomicMax(longest_ns, end - begin);
    if (!p) return;
    p[bytes - 1] = 1;
    atomicAdd(good, 1);
    free(p);
}

static struct {
    unsigned good, late;
    int go;
    unsigned long long longest_ns;
} * shared;

static int busy(void) {
    cudaStream_t a, b;
    cudaFuncAttributes attributes;
    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    shared->go = 1; /* runs once, so that it is loaded; so is the other kernel: lazy loading is not measured */
    OK((cudaError_t)hold_all(&shared->go, &shared->late, a));
    OK(cudaStreamSynchronize(a));
    OK(cudaFuncGetAttributes(&attributes, kernel));
    shared->go = 0;
    OK((cudaError_t)hold_all(&shared->go, &shared->late, a));
    usleep(100000);
    const double begin = host_ms();
    kernel<<<1, 64, 0, b>>>(&shared->good, 100, &shared->longest_ns);
    const double took = host_ms() - begin;
    __atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    /* host.sh compares with CUDA's malloc: any change of the device's page tables takes 8 to 30 ms here, because the waiting kernel reads host
     * memory all the time. CUDA's takes 21 to 43 on an H100. */
    printf("busy: the first launch took %.2f ms; %u of 64 served, %u CTAs waited in vain\n", took, shared->good, shared->late);
    return took > 1000 || shared->good != 64 || shared->late != 0;
}

static int graph(unsigned seconds) {
    cudaStream_t stream;
    cudaGraph_t captured;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    kernel<<<1, 64, 0, stream>>>(&shared->good, 8u << 20, &shared->longest_ns);
    OK(cudaStreamEndCapture(stream, &captured));
    OK(cudaGraphInstantiate(&exec, captured, 0));
    sleep(seconds);
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    printf("graph: after %u s without a launch the longest malloc took %.2f ms; %u of 64 served\n", seconds, (double)shared->longest_ns * 1e-6, shared->good);
    return shared->longest_ns > 50000000 || shared->good != 64;
}

/* Free memory of the device; and memory of the heap with its metadata, 0 if there is no heap. */
static double free_mib(void) {
    size_t free_bytes = 0, total_bytes;
    OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    return (double)free_bytes / 1048576;
}
static double heap_mib(void) {
    struct mm_statistics s;
    int (*get)(struct mm_statistics *) = (int (*)(struct mm_statistics *))dlsym(RTLD_DEFAULT, "mm_get_statistics");
    memset(&s, 0, sizeof s);
    s.struct_bytes = sizeof s;
    return get && get(&s) == MM_OK ? (double)(s.heap_bytes + s.metadata_bytes) / 1048576 : 0;
}

static int late(const char *path, int is_many) {
    double free_before = 0, heap_before = 0;
    const unsigned warm = 4, rounds = 40;
    for (unsigned i = 0; i < rounds; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*run)(unsigned *, unsigned long long) = library ? (int (*)(unsigned *, unsigned long long))dlsym(library, "late_run") : NULL;
        if (!run) return printf("late: %s\n", dlerror()), 1;
        OK((cudaError_t)run(&shared->good, is_many ? 50 + 100 * i : 64));
        OK(cudaDeviceSynchronize());
        dlclose(library);
        if (i + 1 == warm) free_before = free_mib(), heap_before = heap_mib();
    }
    const double less = free_before - free_mib(), more = heap_mib() - heap_before, others = (less - more) / (rounds - warm);
    printf("late: %u rounds took %.1f MiB of the device, the heap grew by %.1f MiB; %.3f MiB a round are neither's; %u of %u served\n", rounds - warm, less,
           more, others, shared->good, 64 * rounds);
    return shared->good != 64 * rounds;
}

int main(int argc, char **argv) {
    OK(cudaHostAlloc((void **)&shared, sizeof *shared, cudaHostAllocMapped));
    memset(shared, 0, sizeof *shared);
    if (argc == 2 && strcmp(argv[1], "busy") == 0) return busy();
    if (argc == 3 && strcmp(argv[1], "graph") == 0) return graph((unsigned)atoi(argv[2]));
    if (argc == 4 && strcmp(argv[1], "late") == 0) return late(argv[2], atoi(argv[3]));
    printf("usage: host busy | graph SECONDS | late LIBRARY MANY\n");
    return 2;
}
