/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Timings for tuning the core, in a second or two: tune [NAME [LOW HIGH ONE_IN ASKS]]; with the latter only that case,
 * LOW to HIGH bytes for one thread in so many, at most 1,000,000 ASKS. runtime/device.cu, linked as mmnvcc links it (32 registers), over heaps of
 * its own, without libmm, so that variants can be built side by side and run in one go. What
 * mm is measured by is mmbench: only that goes through mmnvcc, checks payloads and knows the floors. Each line: NAME, the
 * case, microseconds (median [least..most] of 12 after a warm-up), address span over bytes of the first run.
 */
#define PROGRAM "tune"
#include "tests/gpu/standalone.h"

#define THREADS 1000000u
#define WARPS 32768u /* of which one lane asks */
#define CTA 256u
#define RUNS 13
#define SEGMENTS 2048ull        /* 8 GiB, as mmbench */
#define SMALL_SEGMENTS 512ull   /* 2 GiB: endurance */
#define ENDURANCE_THREADS 783371u /* 3/4 of 2 GiB, 2,056 bytes each */
#define ENDURANCE_ROUNDS 30u

extern "C" {
extern __constant__ struct mm_heap_ref MM_HEAP_REF;
__device__ void *mm_device_malloc(size_t bytes);
__device__ void mm_device_free(void *p);
}

struct request {
    void **table;
    unsigned *nulls, threads, low, high; /* sizes from low to high */
};
static __device__ unsigned size_of(struct request q, unsigned i) { return q.low + mix(i) % (q.high - q.low + 1); }

/* One thread in so many; its lanes are neighbours in the table. */
static __global__ void get(struct request q, unsigned one_in) {
    const unsigned i = thread_index() / one_in;
    if (thread_index() % one_in != 0 || i >= q.threads) return;
    q.table[i] = mm_device_malloc(size_of(q, i));
    if (q.table[i] == NULL) atomicAdd(q.nulls, 1);
}
static __global__ void give(struct request q, unsigned one_in) {
    const unsigned i = thread_index() / one_in;
    if (thread_index() % one_in == 0 && i < q.threads) mm_device_free(q.table[i]);
}
static __global__ void churn(struct request q, unsigned rounds) {
    for (unsigned r = 0; r < rounds; r++) {
        void *p = mm_device_malloc(size_of(q, thread_index() * rounds + r));
        if (p == NULL) atomicAdd(q.nulls, 1);
        else mm_device_free(p);
    }
}
/* A random half, everybody in round 0: gives back what it has, or gets anew. */
static __global__ void half(struct request q, unsigned round, int giving) {
    const unsigned i = thread_index();
    if (i >= q.threads || (round != 0 && (mix(i ^ mix(round)) & 1))) return;
    if (giving) {
        if (round != 0) mm_device_free(q.table[i]);
        return;
    }
    q.table[i] = mm_device_malloc(size_of(q, i * 977 + round));
    if (q.table[i] == NULL) atomicAdd(q.nulls, 1);
}

static cudaEvent_t begin, end;
#define TIMED(us, launch)                                 \
    do {                                                  \
        float ms_;                                        \
        CUDA_OK(cudaEventRecord(begin));                  \
        launch;                                           \
        CUDA_OK(cudaEventRecord(end));                    \
        CUDA_OK(cudaEventSynchronize(end));               \
        CUDA_OK(cudaEventElapsedTime(&ms_, begin, end));  \
        (us) = 1e3 * ms_;                                 \
    } while (0)

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void print_times(double *us, unsigned n) {
    qsort(us, n, sizeof *us, by_size);
    printf(" %8.1f [%.1f..%.1f]", us[n / 2], us[0], us[n - 1]);
}

static double span(struct request q) {
    char **host = (char **)malloc(q.threads * sizeof *host), *first = NULL, *last = NULL;
    CUDA_OK(cudaMemcpy(host, q.table, q.threads * sizeof *host, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < q.threads; i++) {
        if (first == NULL || host[i] < first) first = host[i];
        if (host[i] > last) last = host[i];
    }
    free(host);
    return (double)(last - first + q.high) / ((double)q.threads * (q.low + q.high) / 2);
}

/* NULLs and misuses there should be none of. */
static void end_case(struct request *q, struct gpu_heap f) {
    const struct mm_heap head = gpu_heap_header(f.ref);
    unsigned nulls;
    uint64_t misuses = 0;
    CUDA_OK(cudaMemcpy(&nulls, q->nulls, sizeof nulls, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemset(q->nulls, 0, sizeof nulls));
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) misuses += head.misuse[kind];
    if (nulls != 0 || misuses != 0) printf("  %u NULL, %llu misuses", nulls, (unsigned long long)misuses);
    printf("\n");
    gpu_heap_destroy(f);
}

static void one_size(const char *name, struct request q, unsigned low, unsigned high, unsigned one_in) {
    struct gpu_heap f = gpu_heap_create(SEGMENTS);
    double get_us[RUNS], give_us[RUNS], spread = 0;
    const unsigned ctas = (q.threads * one_in + CTA - 1) / CTA;
    CUDA_OK(cudaMemcpyToSymbol(MM_HEAP_REF, &f.ref, sizeof f.ref));
    q.low = low, q.high = high;
    for (int run = 0; run < RUNS; run++) {
        TIMED(get_us[run], (get<<<ctas, CTA>>>(q, one_in)));
        if (run == 0) spread = span(q);
        TIMED(give_us[run], (give<<<ctas, CTA>>>(q, one_in)));
    }
    printf("%s %5u..%-5u %s malloc", name, low, high, one_in == 1 ? "all lanes" : "one lane ");
    print_times(get_us + 1, RUNS - 1);
    printf(" free");
    print_times(give_us + 1, RUNS - 1);
    printf(" span %.3f", spread);
    end_case(&q, f);
}

static void churn_case(const char *name, struct request q) {
    struct gpu_heap f = gpu_heap_create(SEGMENTS);
    double us[4];
    CUDA_OK(cudaMemcpyToSymbol(MM_HEAP_REF, &f.ref, sizeof f.ref));
    q.low = 16, q.high = 512;
    for (int run = 0; run < 4; run++) TIMED(us[run], (churn<<<512, CTA>>>(q, 32)));
    printf("%s churn", name);
    print_times(us + 1, 3);
    end_case(&q, f);
}

static void endurance_case(const char *name, struct request q) {
    struct gpu_heap f = gpu_heap_create(SMALL_SEGMENTS);
    const unsigned ctas = ENDURANCE_THREADS / CTA + 1;
    double get_us[ENDURANCE_ROUNDS], give_us[ENDURANCE_ROUNDS];
    CUDA_OK(cudaMemcpyToSymbol(MM_HEAP_REF, &f.ref, sizeof f.ref));
    q.low = 16, q.high = 4096, q.threads = ENDURANCE_THREADS;
    for (unsigned round = 0; round < ENDURANCE_ROUNDS; round++) {
        TIMED(give_us[round], (half<<<ctas, CTA>>>(q, round, 1)));
        TIMED(get_us[round], (half<<<ctas, CTA>>>(q, round, 0)));
    }
    printf("%s endurance malloc", name);
    print_times(get_us + 1, ENDURANCE_ROUNDS - 1);
    printf(" free");
    print_times(give_us + 1, ENDURANCE_ROUNDS - 1);
    printf(" free segments %llu", (unsigned long long)gpu_heap_free_segments(f.ref));
    end_case(&q, f);
}

int main(int argc, char **argv) {
    static const unsigned sizes[][3] = {{16, 16, 1}, {64, 64, 1}, {128, 128, 1}, {256, 256, 1}, {512, 512, 1},
                                        {640, 640, 1}, {1024, 1024, 1}, {3072, 3072, 1}, {4096, 4096, 1}, {8192, 8192, 1},
                                        {16, 512, 1}, {16, 1024, 1}, {16, 4096, 1}, {16, 8192, 1},
                                        {64, 64, 32}, {1024, 1024, 32}, {65536, 65536, 32}};
    const char *name = argc > 1 ? argv[1] : "mm";
    struct request q;
    memset(&q, 0, sizeof q);
    CUDA_OK(cudaMalloc(&q.table, THREADS * sizeof *q.table));
    CUDA_OK(cudaMalloc(&q.nulls, sizeof *q.nulls));
    CUDA_OK(cudaMemset(q.nulls, 0, sizeof *q.nulls));
    CUDA_OK(cudaEventCreate(&begin));
    CUDA_OK(cudaEventCreate(&end));
    q.threads = THREADS;
    if (argc > 5) {
        q.threads = (unsigned)atoi(argv[5]);
        one_size(name, q, (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
        return 0;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        q.threads = sizes[i][2] == 1 ? THREADS : WARPS;
        one_size(name, q, sizes[i][0], sizes[i][1], sizes[i][2]);
    }
    churn_case(name, q);
    endurance_case(name, q);
    return 0;
}
