/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Lists of objects that kernels create and delete: a program for which CUDA's default device heap is too small.
 *
 *   objects [COUNT [HEAP_MIB]]   number of objects (1,000,000); CUDA heap size to set (0: CUDA's default)
 *
 * Prints one line: the times of the kernels, or the failure. Exits with 1 after a failure. The program does not know
 * mm: compiled by nvcc it runs on CUDA's allocator, compiled by mmnvcc on mm.
 */
#include <cstdio>
#include <cstdlib>

struct object {
    object *next;
    unsigned value;
    __device__ object(unsigned v, object *n) : next(n), value(v) {}
};

/* Every thread makes one object and inserts it into one of many lists. */
__global__ void make(object **lists, unsigned count, unsigned list_count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    object *o = new object(i, NULL);
    o->next = (object *)atomicExch((unsigned long long *)&lists[i % list_count], (unsigned long long)o);
}

/* Every thread walks one list. */
__global__ void sum(object **lists, unsigned list_count, unsigned long long *total) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= list_count) return;
    unsigned long long mine = 0;
    for (const object *o = lists[i]; o != NULL; o = o->next) mine += o->value;
    atomicAdd(total, mine);
}

__global__ void destroy(object **lists, unsigned list_count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= list_count) return;
    for (object *o = lists[i], *next; o != NULL; o = next) {
        next = o->next;
        delete o;
    }
    lists[i] = NULL;
}

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

static float milliseconds(cudaEvent_t from, cudaEvent_t to) {
    float ms;
    must(cudaEventSynchronize(to));
    must(cudaEventElapsedTime(&ms, from, to));
    return ms;
}

int main(int argc, char **argv) {
    const unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1000000;
    const size_t heap_mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    const unsigned list_count = 65536, cta = 256;
    object **lists;
    unsigned long long *total, result;
    cudaEvent_t begin, made, walked, done;
    if (heap_mib) must(cudaDeviceSetLimit(cudaLimitMallocHeapSize, heap_mib << 20));
    must(cudaMalloc(&lists, list_count * sizeof *lists));
    must(cudaMalloc(&total, sizeof *total));
    must(cudaMemset(lists, 0, list_count * sizeof *lists));
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&made));
    must(cudaEventCreate(&walked));
    must(cudaEventCreate(&done));
    float make_ms = 0, delete_ms = 0;
    for (int round = 0; round < 2; round++) { /* the second round is reported: the first includes loading and set-up */
        must(cudaMemset(total, 0, sizeof *total));
        must(cudaEventRecord(begin));
        make<<<(count + cta - 1) / cta, cta>>>(lists, count, list_count);
        must(cudaGetLastError());
        must(cudaEventRecord(made));
        sum<<<list_count / cta, cta>>>(lists, list_count, total);
        must(cudaEventRecord(walked));
        destroy<<<list_count / cta, cta>>>(lists, list_count);
        must(cudaEventRecord(done));
        make_ms = milliseconds(begin, made);
        delete_ms = milliseconds(walked, done);
        must(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost));
        if (result != (unsigned long long)count * (count - 1) / 2) {
            printf("FAILED: the sum of the objects is wrong\n");
            return 1;
        }
    }
    printf("%u objects: new %.3f ms, delete %.3f ms\n", count, make_ms, delete_ms);
    return 0;
}
