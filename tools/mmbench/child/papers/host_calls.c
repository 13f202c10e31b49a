/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The calls that the host's cases measure, and the number of their runs. */
#include "tools/mmbench/child/papers/host.h"
#include "tools/mmbench/protocol.h"

#define TIME_SHARE 0.6 /* of a request's time limit: a run, and the rest of the case, fit into what remains */

static cudaError_t plain_take(void **p, size_t bytes, cudaStream_t stream) { return (void)stream, cudaMalloc(p, bytes); }
static cudaError_t plain_give(void *p, cudaStream_t stream) { return (void)stream, cudaFree(p); }
static cudaError_t async_take(void **p, size_t bytes, cudaStream_t stream) { return cudaMallocAsync(p, bytes, stream); }
static cudaError_t async_give(void *p, cudaStream_t stream) { return cudaFreeAsync(p, stream); }

/* ASYNC: CUDA's default pool, with its default attributes. At a synchronisation it gives its unused memory back to the device. */
const struct host_kind host_kinds[HOST_KINDS] = {
    {"malloc", "free", "all", "one", "four", "four_over", plain_take, plain_give},
    {"async_malloc", "async_free", "async_all", "async_one", "async_four", "async_four_over", async_take, async_give},
};

void *host_take(const struct host_kind *k, size_t bytes, cudaStream_t stream) {
    void *p = NULL;
    const cudaError_t error = k->take(&p, bytes, stream);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return NULL;
    }
    child_must(error);
    return p;
}

void host_give(const struct host_kind *k, void *p, cudaStream_t stream) { child_must(k->give(p, stream)); }

cudaStream_t host_open_stream(void) {
    cudaStream_t stream;
    child_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); /* the default stream must not order the kernels of others */
    return stream;
}

struct host_runs host_runs_begin(const struct request *q) {
    const unsigned most = q->runs < CHILD_RUNS_MAX ? q->runs : CHILD_RUNS_MAX;
    struct host_runs r;
    r.most = most ? most : 1;
    r.stop_ms = child_now_ms() + child_seconds * 1e3 * TIME_SHARE;
    return r;
}

int host_runs_start(const struct host_runs *r, unsigned run, const struct tally *t) {
    return run < r->most && !t->nulls && !t->corrupt && (run < MM_BENCH_RUNS_SLOW || child_now_ms() < r->stop_ms);
}
