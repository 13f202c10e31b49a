/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing lists. Each thread appends to a list whose final length it does not know before: the steps of the Collatz sequence of its number.
 *
 *   mmnvcc -arch=native -o lists lists.cu && ./lists
 *   nvcc -arch=native -o lists lists.cu && mmrun ./lists
 */
#include <cstdio>
#include <cstdlib>

/* An array that doubles when it is full. Out of memory is a NULL: append returns false, and the list keeps its contents. */
struct list {
    unsigned long long *items;
    unsigned length, room;

    __device__ bool append(unsigned long long item) {
        if (length == room) {
            const unsigned more = room ? 2 * room : 4;
            unsigned long long *larger = (unsigned long long *)malloc(more * sizeof *larger);
            if (!larger) return false;
            for (unsigned i = 0; i < length; i++) larger[i] = items[i];
            free(items);
            items = larger, room = more;
        }
        items[length++] = item;
        return true;
    }
};

__host__ __device__ static unsigned long long next(unsigned long long n) { return n % 2 ? 3 * n + 1 : n / 2; }

__global__ void fill(list *lists, unsigned count, unsigned *failures) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    list mine = {NULL, 0, 0};
    bool good = true;
    for (unsigned long long n = i + 1; good && n != 1; n = next(n)) good = mine.append(n);
    if (!good) atomicAdd(failures, 1);
    lists[i] = mine;
}

/* Another kernel reads the lists and frees them. */
__global__ void sum(list *lists, unsigned count, unsigned long long *sums) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    sums[i] = 0;
    for (unsigned k = 0; k < lists[i].length; k++) sums[i] += lists[i].items[k];
    free(lists[i].items);
}

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("lists: FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

int main() {
    const unsigned count = 200000, cta = 256, grid = (count + cta - 1) / cta;
    list *lists;
    unsigned *failures;
    unsigned long long *sums, items = 0;
    must(cudaMalloc(&lists, count * sizeof *lists));
    must(cudaMallocManaged(&failures, sizeof *failures));
    must(cudaMallocManaged(&sums, count * sizeof *sums));
    *failures = 0;
    fill<<<grid, cta>>>(lists, count, failures);
    sum<<<grid, cta>>>(lists, count, sums);
    must(cudaDeviceSynchronize());
    if (*failures != 0) return printf("lists: FAILED: out of memory in %u threads\n", *failures), 1;
    for (unsigned i = 0; i < count; i++) {
        unsigned long long expected = 0;
        for (unsigned long long n = i + 1; n != 1; n = next(n)) expected += n, items++;
        if (sums[i] != expected) return printf("lists: FAILED: list %u has the sum %llu, not %llu\n", i, sums[i], expected), 1;
    }
    printf("lists: ok: %u lists of %llu items in all\n", count, items);
    return 0;
}
