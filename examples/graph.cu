/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An object graph. Kernels create nodes and edges with new, walk the graph from node to node, and delete it.
 *
 *   mmnvcc -arch=native -o graph graph.cu && ./graph
 *   nvcc -arch=native -o graph graph.cu && mmrun ./graph
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

struct node;
struct edge {
    node *to;
    edge *next;
};
struct node {
    int level; /* distance from node 0, or -1 */
    edge *edges;
};

/* The edges of a node. They depend on the node alone, so that the host can check the result. */
__host__ __device__ static unsigned degree(unsigned i) { return (i + 1) * 2654435761u >> 30; }
__host__ __device__ static unsigned neighbour(unsigned i, unsigned k, unsigned count) { return (i * 48271ull + k * 16807 + 1) % count; }

__global__ void make_nodes(node **nodes, unsigned count, unsigned *failures) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    if (!(nodes[i] = new node{i == 0 ? 0 : -1, NULL})) atomicAdd(failures, 1);
}

__global__ void make_edges(node **nodes, unsigned count, unsigned *failures) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (unsigned k = 0; k < degree(i); k++) {
        edge *e = new edge{nodes[neighbour(i, k, count)], nodes[i]->edges};
        if (e) nodes[i]->edges = e;
        else atomicAdd(failures, 1);
    }
}

/* One step of a breadth-first search: the first thread that reaches a node sets its level. */
__global__ void step(node **nodes, unsigned count, int level, unsigned *reached) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || nodes[i]->level != level) return;
    for (const edge *e = nodes[i]->edges; e; e = e->next)
        if (atomicCAS(&e->to->level, -1, level + 1) == -1) atomicAdd(reached, 1);
}

__global__ void destroy(node **nodes, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (edge *e = nodes[i]->edges, *next; e; e = next) next = e->next, delete e;
    delete nodes[i];
}

static void must(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("graph: FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

/* The same search on the host. Returns the number of nodes that it reaches, and adds their distances to `sum`. */
static unsigned expected(unsigned count, unsigned long long *sum) {
    std::vector<int> levels(count, -1);
    std::vector<unsigned> queue{0};
    levels[0] = 0;
    for (size_t at = 0; at < queue.size(); *sum += levels[queue[at++]])
        for (unsigned k = 0; k < degree(queue[at]); k++) {
            const unsigned to = neighbour(queue[at], k, count);
            if (levels[to] == -1) levels[to] = levels[queue[at]] + 1, queue.push_back(to);
        }
    return (unsigned)queue.size();
}

int main() {
    const unsigned count = 1000000, cta = 256, grid = (count + cta - 1) / cta;
    node **nodes;
    unsigned *counters, reached = 1, found = 1; /* counters: failures, nodes that this step reached */
    must(cudaMalloc(&nodes, count * sizeof *nodes));
    must(cudaMallocManaged(&counters, 2 * sizeof *counters));
    counters[0] = 0;
    make_nodes<<<grid, cta>>>(nodes, count, &counters[0]);
    must(cudaDeviceSynchronize());
    if (counters[0] == 0) make_edges<<<grid, cta>>>(nodes, count, &counters[0]);
    must(cudaDeviceSynchronize());
    if (counters[0] != 0) return printf("graph: FAILED: out of memory, %u times\n", counters[0]), 1;
    unsigned long long sum = 0, expected_sum = 0;
    for (int level = 0; found; reached += found, sum += ++level * (unsigned long long)found) {
        counters[1] = 0;
        step<<<grid, cta>>>(nodes, count, level, &counters[1]);
        must(cudaDeviceSynchronize());
        found = counters[1];
    }
    destroy<<<grid, cta>>>(nodes, count);
    must(cudaDeviceSynchronize());
    const bool ok = reached == expected(count, &expected_sum) && sum == expected_sum;
    printf("graph: %s: node 0 reaches %u of %u nodes, at a mean distance of %.2f\n", ok ? "ok" : "FAILED", reached, count, (double)sum / reached);
    return !ok;
}
