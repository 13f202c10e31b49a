/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hooks that launch kernels, directly or in a graph, and hooks that wait for them. */
#include "interpose/preload/hooks.h"

static inline __attribute__((always_inline)) void before(CUfunction kernel, CUstream stream) { mm_attach_before_launch(mm_driver_get(), kernel, stream, NULL); }

/* If `watch` returns true, no other launch is watched until `watched` is called. */
static inline __attribute__((always_inline)) bool watch(CUfunction kernel, CUstream stream) {
    return __builtin_expect(mm_attach_is_watching, 0) && mm_attach_try_watch(mm_driver_get(), kernel, stream);
}
static __attribute__((cold)) CUresult watched(CUresult r, CUstream stream) {
    mm_attach_watched(mm_driver_get(), stream, r == CUDA_SUCCESS);
    return r;
}

/* The stream to query for capture: NULL means the legacy stream, in _ptsz functions the per-thread one. */
#define STREAM(stream) (stream)
#define STREAM_ptsz(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* ---- launches -------------------------------------------------------------------------------- */

#define LAUNCH_HOOKS(suffix)                                                                                                                        \
    HOOK(cuLaunchKernel##suffix)                                                                                                                    \
    (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,   \
     void **extra) {                                                                                                                                \
        before(f, stream);                                                                                                                          \
        const bool is_watched = watch(f, STREAM##suffix(stream));                                                                                   \
        const CUresult r = WITH_MEMORY(0, REAL(cuLaunchKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra));                  \
        return is_watched ? watched(r, STREAM##suffix(stream)) : r;                                                                                 \
    }                                                                                                                                               \
    HOOK(cuLaunchKernelEx##suffix)                                                                                                                  \
    (const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {                                                                     \
        before(f, config ? config->hStream : NULL);                                                                                                 \
        const bool is_watched = config && watch(f, STREAM##suffix(config->hStream));                                                                \
        const CUresult r = WITH_MEMORY(0, REAL(cuLaunchKernelEx##suffix, config, f, params, extra));                                                \
        return is_watched ? watched(r, STREAM##suffix(config->hStream)) : r;                                                                        \
    }                                                                                                                                               \
    HOOK(cuLaunchCooperativeKernel##suffix)                                                                                                         \
    (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params) { \
        before(f, stream);                                                                                                                          \
        const bool is_watched = watch(f, STREAM##suffix(stream));                                                                                   \
        const CUresult r = WITH_MEMORY(0, REAL(cuLaunchCooperativeKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params));              \
        return is_watched ? watched(r, STREAM##suffix(stream)) : r;                                                                                 \
    }
LAUNCH_HOOKS()
LAUNCH_HOOKS(_ptsz)

HOOK(cuLaunchCooperativeKernelMultiDevice)(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags) {
    for (unsigned i = 0; list && i < count; i++) before(list[i].function, list[i].hStream);
    return REAL(cuLaunchCooperativeKernelMultiDevice, list, count, flags);
}

HOOK(cuLaunch)(CUfunction f) {
    before(f, NULL);
    return REAL(cuLaunch, f);
}

HOOK(cuLaunchGrid)(CUfunction f, int width, int height) {
    before(f, NULL);
    return REAL(cuLaunchGrid, f, width, height);
}

HOOK(cuLaunchGridAsync)(CUfunction f, int width, int height, CUstream stream) {
    before(f, stream);
    return REAL(cuLaunchGridAsync, f, width, height, stream);
}

/* ---- kernels in graphs: attached when the node is made, so graph launches need no look-up -------- */

static void before_node_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    if (p) before(p->func, NULL);
}

static void before_node_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    if (p) mm_attach_before_launch(mm_driver_get(), p->func ? p->func : (CUfunction)p->kern, NULL, p->ctx);
}

static void before_any_node(const CUgraphNodeParams *p) {
    if (!p || p->type != CU_GRAPH_NODE_TYPE_KERNEL) return;
    const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
    mm_attach_before_launch(mm_driver_get(), k->func ? k->func : (CUfunction)k->kern, NULL, k->ctx);
}

HOOK(cuGraphAddKernelNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    before_node_v1(p);
    return REAL(cuGraphAddKernelNode, node, graph, deps, count, p);
}

HOOK(cuGraphAddKernelNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    before_node_v2(p);
    return REAL(cuGraphAddKernelNode_v2, node, graph, deps, count, p);
}

HOOK(cuGraphKernelNodeSetParams)(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    before_node_v1(p);
    return REAL(cuGraphKernelNodeSetParams, node, p);
}

HOOK(cuGraphKernelNodeSetParams_v2)(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    before_node_v2(p);
    return REAL(cuGraphKernelNodeSetParams_v2, node, p);
}

HOOK(cuGraphExecKernelNodeSetParams)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    before_node_v1(p);
    return REAL(cuGraphExecKernelNodeSetParams, exec, node, p);
}

HOOK(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    before_node_v2(p);
    return REAL(cuGraphExecKernelNodeSetParams_v2, exec, node, p);
}

HOOK(cuGraphAddNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *p) {
    before_any_node(p);
    return REAL(cuGraphAddNode, node, graph, deps, count, p);
}

HOOK(cuGraphAddNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p) {
    before_any_node(p);
    return REAL(cuGraphAddNode_v2, node, graph, deps, edges, count, p);
}

HOOK(cuGraphNodeSetParams)(CUgraphNode node, CUgraphNodeParams *p) {
    before_any_node(p);
    return REAL(cuGraphNodeSetParams, node, p);
}

HOOK(cuGraphExecNodeSetParams)(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p) {
    before_any_node(p);
    return REAL(cuGraphExecNodeSetParams, exec, node, p);
}

/* Kernels of a graph are attached already, but the grower must know that some will run. The driver takes memory for a graph when it is
 * instantiated, uploaded or launched. */
#define GRAPH_HOOKS(suffix)                                                                                                              \
    HOOK(cuGraphLaunch##suffix)(CUgraphExec exec, CUstream stream) {                                                                     \
        mm_grower_before_launch();                                                                                                       \
        return WITH_MEMORY(0, REAL(cuGraphLaunch##suffix, exec, stream));                                                                \
    }                                                                                                                                    \
    HOOK(cuGraphUpload##suffix)(CUgraphExec exec, CUstream stream) { return WITH_MEMORY(0, REAL(cuGraphUpload##suffix, exec, stream)); } \
    HOOK(cuGraphInstantiateWithParams##suffix)                                                                                           \
    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * params) {                                                        \
        return WITH_MEMORY(0, REAL(cuGraphInstantiateWithParams##suffix, exec, graph, params));                                          \
    }
GRAPH_HOOKS()
GRAPH_HOOKS(_ptsz)

/* Names of CUDA 11 and before. */
#define INSTANTIATE_HOOKS(suffix)                                                                     \
    HOOK(cuGraphInstantiate##suffix)                                                                  \
    (CUgraphExec * exec, CUgraph graph, CUgraphNode * failed, char *log, size_t log_bytes) {          \
        return WITH_MEMORY(0, REAL(cuGraphInstantiate##suffix, exec, graph, failed, log, log_bytes)); \
    }
INSTANTIATE_HOOKS()
INSTANTIATE_HOOKS(_v2)

HOOK(cuGraphInstantiateWithFlags)(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return WITH_MEMORY(0, REAL(cuGraphInstantiateWithFlags, exec, graph, flags));
}

/* ---- synchronisation ------------------------------------------------------------------------------ */

static CUresult synchronised(CUresult r) {
    mm_attach_report();
    return r;
}
static CUresult idle(CUresult r, CUcontext context) {
    if (r == CUDA_SUCCESS) mm_attach_idle(mm_driver_get(), context);
    return synchronised(r);
}
HOOK(cuCtxSynchronize)(void) { return idle(REAL(cuCtxSynchronize), NULL); }
HOOK(cuCtxSynchronize_v2)(CUcontext context) { return idle(REAL(cuCtxSynchronize_v2, context), context); }
HOOK(cuStreamSynchronize)(CUstream stream) { return synchronised(REAL(cuStreamSynchronize, stream)); }
HOOK(cuStreamSynchronize_ptsz)(CUstream stream) { return synchronised(REAL(cuStreamSynchronize_ptsz, stream)); }
HOOK(cuEventSynchronize)(CUevent event) { return synchronised(REAL(cuEventSynchronize, event)); }
