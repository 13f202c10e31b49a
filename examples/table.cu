/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A hash table with chaining. All threads insert into one table at the same time; the first thread with a key creates its entry, the others
 * count there.
 *
 *   mmnvcc -arch=native -o table table.cu && ./table
 *   nvcc -arch=native -o table table.cu && mmrun ./table
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

struct entry {
    unsigned key, count;
    entry *next; /* the entry that was first in the chain when this one was inserted */
};

__host__ __device__ static unsigned key_of(unsigned i, unsigned keys) { return (i * 2654435761u >> 7) % keys; }

/* Looks for the key from `first` up to, and without, `end`. */
__device__ static entry *find(entry *first, const entry *end, unsigned key) {
    for (entry *e = first; e != end; e = e->next)
        if (e->key == key) return e;
    return NULL;
}

/* No lock: a chain only grows at its head. If another thread was faster, only its new entries are searched. Returns false if out of memory. */
__device__ static bool count_key(entry **chain, unsigned key) {
    entry *first = *(entry *volatile *)chain, *end = NULL, *mine = NULL;
    for (;;) {
        __threadfence(); /* reads the entries after the head of their chain */
        if (entry *e = find(first, end, key)) {
            delete mine; /* not needed: the key was inserted meanwhile */
            atomicAdd(&e->count, 1);
            return true;
        }
        if (!mine) mine = new entry;
        if (!mine) return false;
        *mine = {key, 1, first};
        __threadfence(); /* the entry is complete before others see it */
        entry *seen = (entry *)atomicCAS((unsigned long long *)chain, (unsigned long long)first, (unsigned long long)mine);
        if (seen == first) return true;
        end = first, first = seen;
    }
}

__global__ void insert(entry **chains, unsigned chain_count, unsigned count, unsigned keys, unsigned *failures) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned key = key_of(i, keys);
    if (!count_key(&chains[key % chain_count], key)) atomicAdd(failures, 1);
}

/* Copies the counts out, and deletes the entries. */
__global__ void take(entry **chains, unsigned chain_count, unsigned *counts) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= chain_count) return;
    for (entry *e = chains[i], *next; e; e = next) {
        counts[e->key] += e->count;
        next = e->next;
        delete e;
    }
}

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("table: FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

int main() {
    const unsigned count = 4000000, keys = 500000, chain_count = 1 << 18, cta = 256;
    entry **chains;
    unsigned *failures, *counts;
    must(cudaMalloc(&chains, chain_count * sizeof *chains));
    must(cudaMemset(chains, 0, chain_count * sizeof *chains));
    must(cudaMallocManaged(&failures, sizeof *failures));
    must(cudaMallocManaged(&counts, keys * sizeof *counts));
    *failures = 0;
    for (unsigned key = 0; key < keys; key++) counts[key] = 0;
    insert<<<(count + cta - 1) / cta, cta>>>(chains, chain_count, count, keys, failures);
    take<<<chain_count / cta, cta>>>(chains, chain_count, counts);
    must(cudaDeviceSynchronize());
    if (*failures != 0) return printf("table: FAILED: out of memory in %u threads\n", *failures), 1;
    std::vector<unsigned> expected(keys);
    for (unsigned i = 0; i < count; i++) expected[key_of(i, keys)]++;
    for (unsigned key = 0; key < keys; key++)
        if (counts[key] != expected[key]) return printf("table: FAILED: key %u was counted %u times, not %u\n", key, counts[key], expected[key]), 1;
    printf("table: ok: %u insertions of %u keys\n", count, keys);
    return 0;
}
