/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Many pairs of malloc and free on the GPU: pairs [PAIRS [SEGMENTS]]. Sizes are random, 16 to 8192 B; three in four are
 * freed at once, one in four is held in a table until another thread replaces it. Each is stamped, at its ends and at
 * some places between, with words keyed to its address. The last line is the result; exit 0 if nothing failed. NULL is
 * counted, but is no failure (table and threads hold a small part of the heap). Not part of check-gpu.
 */
#define PROGRAM "pairs"
#include "tests/gpu/standalone.h"

#define PAIRS 1000000000ull
#define SEGMENTS 16384ull
#define TABLE (1u << 19)
#define THREADS (1u << 17)
#define ROUNDS 512u /* per kernel */
#define MOST_BYTES 8192u

struct counts {
    unsigned long long pairs, failures, nulls;
};

static __device__ void give_up(const struct mm_heap_ref *ref, uint64_t *p, struct counts *mine) {
    mine->failures += !unstamp(p, MOST_BYTES);
    heap_free(ref, p);
    mine->pairs++;
}

__global__ void churn(struct mm_heap_ref ref, unsigned long long *table, unsigned rounds, unsigned salt, struct counts *all) {
    struct counts mine = {0, 0, 0};
    unsigned seed = mix(thread_index() * 0x9e3779b9u + salt);
    for (unsigned r = 0; r < rounds; r++) {
        seed = mix(seed + r);
        const unsigned bytes = (16 + mix(seed ^ 0x5bd1e995u) % (MOST_BYTES - 16 + 8)) & ~7u;
        uint64_t *p = (uint64_t *)heap_malloc(&ref, bytes);
        if (p == NULL) {
            mine.nulls++;
            continue;
        }
        if (!in_heap(&ref, p, bytes)) {
            mine.failures++;
            continue;
        }
        stamp(p, bytes);
        if (seed >> 30 == 0) {
            __threadfence();
            p = (uint64_t *)atomicExch(&table[seed % TABLE], (unsigned long long)p);
            __threadfence();
        }
        if (p != NULL) give_up(&ref, p, &mine);
    }
    atomicAdd(&all->pairs, mine.pairs);
    atomicAdd(&all->failures, mine.failures);
    atomicAdd(&all->nulls, mine.nulls);
}
__global__ void end_all(struct mm_heap_ref ref, unsigned long long *table, struct counts *all) {
    struct counts mine = {0, 0, 0};
    for (unsigned i = thread_index(); i < TABLE; i += THREADS)
        if (table[i] != 0) give_up(&ref, (uint64_t *)table[i], &mine);
    atomicAdd(&all->pairs, mine.pairs);
    atomicAdd(&all->failures, mine.failures);
}

int main(int argc, char **argv) {
    const unsigned long long pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : PAIRS;
    const uint64_t segments = argc > 2 ? strtoull(argv[2], NULL, 10) : SEGMENTS;
    struct gpu_heap f = gpu_heap_create(segments);
    unsigned long long *table, failures = 0;
    struct counts *all, host = {0, 0, 0};
    char why[300];
    CUDA_OK(cudaMalloc(&table, TABLE * sizeof *table));
    CUDA_OK(cudaMemset(table, 0, TABLE * sizeof *table));
    CUDA_OK(cudaMalloc(&all, sizeof *all));
    CUDA_OK(cudaMemset(all, 0, sizeof *all));
    setvbuf(stdout, NULL, _IONBF, 0);
    for (unsigned kernel = 1; host.pairs < pairs && kernel < 1u << 20; kernel++) {
        unsigned long long rounds = (pairs - host.pairs) / THREADS + 1;
        if (rounds > ROUNDS) rounds = ROUNDS;
        churn<<<THREADS / 256, 256>>>(f.ref, table, (unsigned)rounds, kernel, all);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaDeviceSynchronize());
        CUDA_OK(cudaMemcpy(&host, all, sizeof host, cudaMemcpyDeviceToHost));
        printf("pairs: %llu so far, %llu failures, %llu NULL, %llu segments in use\n", host.pairs, host.failures, host.nulls,
               (unsigned long long)(segments - gpu_heap_free_segments(f.ref)));
    }
    uint64_t live = 0;
    const char *wrong = gpu_heap_wrong(f.ref, why, sizeof why, &live);
    if (wrong != NULL) printf("pairs: heap not sound: %s\n", wrong), failures++;
    end_all<<<THREADS / 256, 256>>>(f.ref, table, all);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&host, all, sizeof host, cudaMemcpyDeviceToHost));
    wrong = gpu_heap_drain_wrong(f.ref, segments, why, sizeof why);
    if (wrong != NULL) printf("pairs: drained: %s\n", wrong), failures++;
    const struct mm_heap head = gpu_heap_header(f.ref);
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++)
        if (head.misuse[kind]) {
            printf("pairs: %llu misuses of kind %d\n", (unsigned long long)head.misuse[kind], kind);
            failures += head.misuse[kind];
        }
    failures += host.failures;
    printf("pairs: %llu pairs, %llu failures, %llu NULL\n", host.pairs, failures, host.nulls);
    gpu_heap_destroy(f);
    return failures != 0;
}
