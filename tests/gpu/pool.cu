/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The host's cudaMalloc and cudaFree with a pool (MM_POOL). Compiled by nvcc, run by mmrun --pool (pool.sh).
 *   pool fuzz OPERATIONS SEED  allocates, frees, launches, records and waits for events, and captures, at random. A kernel stamps its memory when it begins and
 *                              checks the stamp when it ends; each allocation has its own stamp. So memory that is handed out too early shows.
 *   pool times                 microseconds of a pair of cudaMalloc and cudaFree on an idle device, by size; and of pairs by 16 threads
 *   pool waits                 whether cudaFree waits for a kernel of another stream, in milliseconds
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call)                                                                                                  \
    do {                                                                                                          \
        const cudaError_t e = (call);                                                                             \
        if (e != cudaSuccess) printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(e)), exit(1); \
    } while (0)

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- fuzz --------------------------------------------------------------------------------------- */

/* One warp: words of the memory, spread over it, get the stamp; after `cycles` they must still have it. */
__global__ void stamp(unsigned long long *words, size_t count, unsigned long long value, long long cycles, unsigned long long *faults) {
    const size_t step = count / 32 ? count / 32 : 1, i = threadIdx.x * step;
    const long long begin = clock64();
    if (i < count) __stcg(&words[i], value);
    if (threadIdx.x == 0) __stcg(&words[count - 1], value);
    __syncwarp();
    while (clock64() - begin < cycles) continue;
    if ((i < count && __ldcg(&words[i]) != value) || __ldcg(&words[count - 1]) != value) atomicAdd(faults, 1ull);
}

#define STREAMS 8
#define LIVE 512
static unsigned long long state;
static unsigned below(unsigned n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((state >> 33) % n);
}

static int fuzz(long operations) {
    static struct live {
        unsigned long long *at, value;
        size_t count;
    } live[LIVE];
    cudaStream_t streams[STREAMS];
    cudaEvent_t event;
    unsigned long long *faults, stamps = 0, kernels = 0, captures = 0, found;
    OK(cudaMallocHost(&faults, sizeof *faults));
    *faults = 0;
    for (int i = 0; i < STREAMS; i++) OK(cudaStreamCreateWithFlags(&streams[i], i % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (long n = 0; n < operations; n++) {
        struct live *const a = &live[below(LIVE)];
        const cudaStream_t stream = streams[below(STREAMS)];
        const unsigned what = below(1000);
        if (what < 400 && !a->at) {
            const size_t bytes = 8 + (what < 4 ? below(40u << 20) : what < 200 ? below(8) << 9 : below(1u << (4 + below(14))));
            OK(cudaMalloc(&a->at, bytes));
            a->count = bytes / 8, a->value = ++stamps;
        } else if (what < 640 && a->at) {
            OK(cudaFree(a->at));
            a->at = NULL;
        } else if (what < 950 && a->at) {
            stamp<<<1, 32, 0, stream>>>(a->at, a->count, a->value, below(20) == 0 ? 100000 : below(4000), faults);
            OK(cudaGetLastError());
            kernels++;
        } else if (what < 970) {
            OK(cudaEventRecord(event, stream));
            OK(cudaStreamWaitEvent(streams[below(STREAMS)], event, 0));
        } else if (what < 980 && a->at) { /* a graph, launched twice; in its capture the program allocates and frees as far as a relaxed capture allows */
            cudaGraph_t graph;
            cudaGraphExec_t exec;
            void *extra = NULL;
            const bool is_relaxed = below(2);
            OK(cudaStreamBeginCapture(stream, is_relaxed ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal));
            stamp<<<1, 32, 0, stream>>>(a->at, a->count, a->value, below(2000), faults);
            if (is_relaxed) {
                OK(cudaMalloc(&extra, 1000));
                OK(cudaFree(extra));
            }
            stamp<<<1, 32, 0, stream>>>(a->at, a->count, a->value, below(2000), faults);
            OK(cudaStreamEndCapture(stream, &graph));
            OK(cudaGraphInstantiate(&exec, graph, 0));
            for (int i = 0; i < 2; i++) OK(cudaGraphLaunch(exec, stream));
            OK(cudaGraphExecDestroy(exec));
            OK(cudaGraphDestroy(graph));
            captures++;
        } else if (what < 982) {
            OK(cudaStreamSynchronize(stream));
        }
        if (n % 100000 == 99999) OK(cudaDeviceSynchronize());
    }
    for (int i = 0; i < LIVE; i++)
        if (live[i].at) OK(cudaFree(live[i].at));
    OK(cudaDeviceSynchronize());
    found = *faults;
    printf("pool fuzz: %ld operations, %llu allocations, %llu kernels, %llu captures, %llu stamps lost\n", operations, stamps, kernels, captures, found);
    return found != 0 || kernels == 0 || captures == 0;
}

/* ---- times -------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b; }

#define SAMPLES 201
#define PAIRS 1000
static void *pairs(void *bytes) {
    void *p;
    for (int i = 0; i < PAIRS * 10; i++) {
        OK(cudaMalloc(&p, *(size_t *)bytes));
        OK(cudaFree(p));
    }
    return NULL;
}

static int times(void) {
    static const size_t sizes[] = {1u << 10, 16u << 10, 256u << 10, 1u << 20, 2u << 20, 8u << 20, 32u << 20, 64u << 20, 1u << 30};
    double us[SAMPLES];
    void *p;
    OK(cudaFree(0));
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int i = -20; i < SAMPLES; i++) {
            OK(cudaDeviceSynchronize());
            const int count = sizes[s] >= 64u << 20 ? 1 : 8;
            const double begin = now_us();
            for (int k = 0; k < count; k++) {
                OK(cudaMalloc(&p, sizes[s]));
                OK(cudaFree(p));
            }
            if (i >= 0) us[i] = (now_us() - begin) / count;
        }
        qsort(us, SAMPLES, sizeof *us, by_value);
        printf("pair of %9zu KiB: median %8.2f us, 10th percentile %8.2f, 90th %8.2f, longest %8.2f\n", sizes[s] >> 10, us[SAMPLES / 2], us[SAMPLES / 10],
               us[SAMPLES - SAMPLES / 10], us[SAMPLES - 1]);
    }
    for (int n = 1; n <= 16; n *= 4) {
        pthread_t threads[16];
        size_t bytes = 4096;
        const double begin = now_us();
        for (int i = 0; i < n; i++)
            if (pthread_create(&threads[i], NULL, pairs, &bytes)) return 1;
        for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
        printf("%2d threads, 4 KiB: %.3f million pairs a second\n", n, n * PAIRS * 10 / (now_us() - begin));
    }
    return 0;
}

__global__ void spin(long long cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) continue;
}

static int waits(void) {
    cudaStream_t stream;
    void *p, *q;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t bytes = 1024; bytes <= 32u << 20; bytes *= 1024) {
        OK(cudaMalloc(&p, bytes));
        spin<<<1, 1, 0, stream>>>(50000000);
        const double begin = now_us();
        OK(cudaFree(p));
        const double freed = now_us();
        OK(cudaMalloc(&q, bytes));
        const double had = now_us();
        OK(cudaDeviceSynchronize());
        printf("%zu bytes while a kernel runs: cudaFree %.3f ms, cudaMalloc %.3f ms, %s memory; the kernel ended after %.3f ms\n", bytes, (freed - begin) / 1e3,
               (had - freed) / 1e3, p == q ? "the same" : "other", (now_us() - begin) / 1e3);
        OK(cudaFree(q));
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "fuzz") == 0) return state = strtoull(argv[3], NULL, 10), fuzz(atol(argv[2]));
    if (argc == 2 && strcmp(argv[1], "times") == 0) return times();
    if (argc == 2 && strcmp(argv[1], "waits") == 0) return waits();
    fprintf(stderr, "usage: pool fuzz OPERATIONS SEED | times | waits\n");
    return 2;
}
