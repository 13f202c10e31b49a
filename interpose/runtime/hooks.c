/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The functions that stand in front of the driver's: each does what it must, then the driver's own answer
 * goes back unchanged. They are written under the name mmh_<symbol> and exported as <symbol>, since
 * cuda.h's macros would rename half of them.
 */
#include <stddef.h>
#include <string.h>

#include "interpose/runtime/attach.h"
#include "interpose/runtime/jit.h"
#include "interpose/runtime/resolve.h"

#define HOOK(symbol) __attribute__((used, visibility("hidden"))) CUresult mmh_##symbol

/* Calls the driver's function behind a hook. */
#define REAL(symbol, ...)                                                                                 \
    (mm_hook_real(MM_HOOK_##symbol) ? ((__typeof__(&mmh_##symbol))mm_hook_real(MM_HOOK_##symbol))(__VA_ARGS__) \
                                    : CUDA_ERROR_NOT_INITIALIZED)

static inline __attribute__((always_inline)) void before(CUfunction kernel, CUstream stream) {
    mm_attach_before_launch(mm_driver_get(), kernel, stream, NULL);
}

/* Whether a call that answered r for lack of memory, now or before, is to be made again: heaps gave some back, the first time about
 * as much as it wants, the second time all they could. */
static __attribute__((cold)) bool has_more(CUresult r, uint64_t bytes, int *times) {
    if (*times == 0) __atomic_add_fetch(&mm_grower_holds, 1, __ATOMIC_ACQ_REL);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && ++*times <= 2 && mm_attach_give_back(mm_driver_get(), *times == 1 ? bytes : UINT64_MAX)) return true;
    __atomic_sub_fetch(&mm_grower_holds, 1, __ATOMIC_ACQ_REL);
    return false;
}
#define WITH_MEMORY(r, bytes, symbol, ...)                                                                \
    int times = 0;                                                                                        \
    CUresult r;                                                                                           \
    do r = REAL(symbol, __VA_ARGS__);                                                                     \
    while (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY || times != 0, 0) && has_more(r, bytes, &times))

/* Between these two a launch is the only one, if it is watched. */
static inline __attribute__((always_inline)) bool watch(CUfunction kernel, CUstream stream) {
    return __builtin_expect(mm_attach_is_watching, 0) && mm_attach_try_watch(mm_driver_get(), kernel, stream);
}
static __attribute__((cold)) CUresult watched(CUresult r, CUstream stream) {
    mm_attach_watched(mm_driver_get(), stream, r == CUDA_SUCCESS);
    return r;
}

/* Which one a launch without a stream means: of that it is asked whether it captures. */
#define STREAM(stream) (stream)
#define STREAM_ptsz(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* ---- launches -------------------------------------------------------------------------------- */

#define LAUNCH_HOOKS(suffix)                                                                              \
    HOOK(cuLaunchKernel##suffix)                                                                          \
    (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,          \
     unsigned shared, CUstream stream, void **params, void **extra) {                                     \
        before(f, stream);                                                                                \
        const bool is_watched = watch(f, STREAM##suffix(stream));                                                        \
        WITH_MEMORY(r, 0, cuLaunchKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);\
        return is_watched ? watched(r, STREAM##suffix(stream)) : r;                                                      \
    }                                                                                                     \
    HOOK(cuLaunchKernelEx##suffix)                                                                        \
    (const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {                           \
        before(f, config ? config->hStream : NULL);                                                       \
        const bool is_watched = config && watch(f, STREAM##suffix(config->hStream));                                     \
        WITH_MEMORY(r, 0, cuLaunchKernelEx##suffix, config, f, params, extra);                            \
        return is_watched ? watched(r, STREAM##suffix(config->hStream)) : r;                                             \
    }                                                                                                     \
    HOOK(cuLaunchCooperativeKernel##suffix)                                                               \
    (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,          \
     unsigned shared, CUstream stream, void **params) {                                                   \
        before(f, stream);                                                                                \
        const bool is_watched = watch(f, STREAM##suffix(stream));                                                        \
        WITH_MEMORY(r, 0, cuLaunchCooperativeKernel##suffix, f, gx, gy, gz, bx, by, bz, shared, stream, params);\
        return is_watched ? watched(r, STREAM##suffix(stream)) : r;                                                      \
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

/* ---- kernels in graphs: published when the node is made, so that graph launches need no look ---- */

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

HOOK(cuGraphAddKernelNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    before_node_v1(p);
    return REAL(cuGraphAddKernelNode, node, graph, deps, count, p);
}

HOOK(cuGraphAddKernelNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
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

HOOK(cuGraphExecKernelNodeSetParams_v2)(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    before_node_v2(p);
    return REAL(cuGraphExecKernelNodeSetParams_v2, exec, node, p);
}

HOOK(cuGraphAddNode)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                     CUgraphNodeParams *p) {
    before_any_node(p);
    return REAL(cuGraphAddNode, node, graph, deps, count, p);
}

HOOK(cuGraphAddNode_v2)(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                        size_t count, CUgraphNodeParams *p) {
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

/* ---- synchronisation ------------------------------------------------------------------------------ */

static CUresult synchronised(CUresult r) {
    mm_attach_tell();
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

/* ---- code that comes at run time (jit.h) ---------------------------------------------------------- */

/* Loads what try_ours made of the program's image, in its place; the program's own, if the driver takes none of that. */
#define LOAD(try_ours, ours, theirs)                                                                      \
    struct mm_jit j;                                                                                      \
    memset(&j, 0, sizeof j);                                                                              \
    for (bool has_one = (try_ours); has_one; has_one = mm_jit_try_next(&j))                               \
        if (mm_jit_is_taken(&j, ours)) return CUDA_SUCCESS;                                               \
    return mm_jit_answer(&j, theirs)

HOOK(cuModuleLoadData)(CUmodule *module, const void *image) {
    LOAD(mm_jit_try_image(&j, image, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image), REAL(cuModuleLoadData, module, image));
}

HOOK(cuModuleLoad)(CUmodule *module, const char *path) {
    LOAD(mm_jit_try_file(&j, path, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image), REAL(cuModuleLoad, module, path));
}

HOOK(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    LOAD(mm_jit_try_image(&j, image, options, values, count), REAL(cuModuleLoadDataEx, module, j.image, j.count, j.options, j.values),
         REAL(cuModuleLoadDataEx, module, image, count, options, values));
}

/* It may not take what is no fat binary, but for text. */
HOOK(cuModuleLoadFatBinary)(CUmodule *module, const void *image) {
    LOAD(mm_jit_try_image(&j, image, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image),
         REAL(cuModuleLoadFatBinary, module, image));
}

HOOK(cuLibraryLoadData)(CUlibrary *library, const void *image, CUjit_option *options, void **values, unsigned count,
                        CUlibraryOption *more, void **more_values, unsigned more_count) {
    LOAD(mm_jit_try_options(&j, false, more, more_values, more_count) && mm_jit_try_image(&j, image, options, values, count),
         REAL(cuLibraryLoadData, library, j.image, j.options, j.values, j.count, j.library_options, j.library_values, j.library_count),
         REAL(cuLibraryLoadData, library, image, options, values, count, more, more_values, more_count));
}

HOOK(cuLibraryLoadFromFile)(CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned count,
                            CUlibraryOption *more, void **more_values, unsigned more_count) {
    LOAD(mm_jit_try_options(&j, true, more, more_values, more_count) && mm_jit_try_file(&j, path, options, values, count),
         REAL(cuLibraryLoadData, library, j.image, j.options, j.values, j.count, j.library_options, j.library_values, j.library_count),
         REAL(cuLibraryLoadFromFile, library, path, options, values, count, more, more_values, more_count));
}

#define LINK_HOOKS(suffix)                                                                                \
    HOOK(cuLinkCreate##suffix)(unsigned count, CUjit_option *options, void **values, CUlinkState *state) {  \
        CUresult r = REAL(cuLinkCreate##suffix, count, options, values, state);                           \
        if (r == CUDA_SUCCESS && state) mm_jit_link_begin(*state, options, values, count);                \
        return r;                                                                                         \
    }                                                                                                     \
    HOOK(cuLinkAddData##suffix)(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name, \
                                unsigned count, CUjit_option *options, void **values) {                   \
        struct mm_splice_text mended = {NULL, 0, 0};                                                      \
        if (type == CU_JIT_INPUT_PTX && data)                                                             \
            data = (void *)(uintptr_t)mm_jit_mend((const char *)data, &bytes, &mended);                   \
        CUresult r = REAL(cuLinkAddData##suffix, state, type, data, bytes, name, count, options, values); \
        if (r == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX)                                                \
            mm_jit_link_add(state, (const char *)data, bytes, NULL, options, values, count);              \
        mm_splice_text_free(&mended);                                                                     \
        return r;                                                                                         \
    }                                                                                                     \
    HOOK(cuLinkAddFile##suffix)(CUlinkState state, CUjitInputType type, const char *path, unsigned count,  \
                                CUjit_option *options, void **values) {                                   \
        CUresult r = REAL(cuLinkAddFile##suffix, state, type, path, count, options, values);              \
        if (r == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX)                                                \
            mm_jit_link_add(state, NULL, 0, path, options, values, count);                                \
        return r;                                                                                         \
    }
LINK_HOOKS()
LINK_HOOKS(_v2)

HOOK(cuLinkComplete)(CUlinkState state, void **image, size_t *bytes) {
    mm_jit_link_complete(state);
    return REAL(cuLinkComplete, state, image, bytes);
}

HOOK(cuLinkDestroy)(CUlinkState state) {
    mm_jit_link_end(state);
    return REAL(cuLinkDestroy, state);
}

/* ---- handles --------------------------------------------------------------------------------- */

static CUcontext current_context(void) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext context = NULL;
    return d && d->cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

/* Functions of a module that is a library's are remembered as the library's. They go with the current
 * context, which is the module's in a program that does nothing odd. */
static void record_function(CUfunction f, CUmodule module) {
    struct mm_handle m = mm_attach_find(module);
    if (m.kind == MM_HANDLE_MODULE)
        mm_attach_record(f, MM_HANDLE_INSTANCE, (const void *)m.owner, current_context());
    else
        mm_attach_record(f, MM_HANDLE_FUNCTION, module, current_context());
}

HOOK(cuModuleGetFunction)(CUfunction *f, CUmodule module, const char *name) {
    CUresult r = REAL(cuModuleGetFunction, f, module, name);
    if (r == CUDA_SUCCESS && f) record_function(*f, module);
    return r;
}

HOOK(cuModuleEnumerateFunctions)(CUfunction *list, unsigned count, CUmodule module) {
    for (unsigned i = 0; list && i < count; i++) list[i] = NULL; /* fewer than `count` may be there */
    CUresult r = REAL(cuModuleEnumerateFunctions, list, count, module);
    for (unsigned i = 0; r == CUDA_SUCCESS && list && i < count && list[i]; i++)
        record_function(list[i], module);
    return r;
}

HOOK(cuLibraryGetKernel)(CUkernel *kernel, CUlibrary library, const char *name) {
    CUresult r = REAL(cuLibraryGetKernel, kernel, library, name);
    if (r == CUDA_SUCCESS && kernel) mm_attach_record(*kernel, MM_HANDLE_KERNEL, library, NULL);
    return r;
}

HOOK(cuLibraryEnumerateKernels)(CUkernel *list, unsigned count, CUlibrary library) {
    for (unsigned i = 0; list && i < count; i++) list[i] = NULL;
    CUresult r = REAL(cuLibraryEnumerateKernels, list, count, library);
    for (unsigned i = 0; r == CUDA_SUCCESS && list && i < count && list[i]; i++)
        mm_attach_record(list[i], MM_HANDLE_KERNEL, library, NULL);
    return r;
}

HOOK(cuKernelGetFunction)(CUfunction *f, CUkernel kernel) {
    CUresult r = REAL(cuKernelGetFunction, f, kernel);
    if (r == CUDA_SUCCESS && f) {
        const struct mm_driver *d = mm_driver_get();
        struct mm_handle k = mm_attach_find(kernel);
        CUlibrary library = k.kind == MM_HANDLE_KERNEL ? (CUlibrary)k.owner : NULL;
        if (!library && d && d->cuKernelGetLibrary && d->cuKernelGetLibrary(&library, kernel) != CUDA_SUCCESS)
            library = NULL;
        if (library) mm_attach_record(*f, MM_HANDLE_INSTANCE, library, current_context());
    }
    return r;
}

HOOK(cuLibraryGetModule)(CUmodule *module, CUlibrary library) {
    CUresult r = REAL(cuLibraryGetModule, module, library);
    if (r == CUDA_SUCCESS && module) mm_attach_record(*module, MM_HANDLE_MODULE, library, current_context());
    return r;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Forgotten before the driver's call: afterwards another thread may be handed the same values anew. */
HOOK(cuModuleUnload)(CUmodule module) {
    mm_attach_forget_owner(module);
    return REAL(cuModuleUnload, module);
}

HOOK(cuLibraryUnload)(CUlibrary library) {
    mm_attach_forget_owner(library);
    return REAL(cuLibraryUnload, library);
}

#define CONTEXT_END_HOOKS(suffix)                                                                         \
    HOOK(cuDevicePrimaryCtxReset##suffix)(CUdevice device) {                                              \
        const struct mm_driver *d = mm_driver_get();                                                      \
        struct context *primary = mm_attach_ending(mm_attach_primary_of(d, device), true);                \
        CUresult r = REAL(cuDevicePrimaryCtxReset##suffix, device);                                       \
        mm_attach_ended(d, primary, r == CUDA_SUCCESS);                                                   \
        return r;                                                                                         \
    }                                                                                                     \
    HOOK(cuDevicePrimaryCtxRelease##suffix)(CUdevice device) {                                            \
        const struct mm_driver *d = mm_driver_get();                                                      \
        struct context *primary = mm_attach_ending(mm_attach_primary_of(d, device), false);               \
        CUresult r = REAL(cuDevicePrimaryCtxRelease##suffix, device);                                     \
        unsigned flags = 0;                                                                               \
        int active = 1;                                                                                   \
        bool has_ended = r == CUDA_SUCCESS && primary &&                                                  \
                         d->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active; \
        mm_attach_ended(d, primary, has_ended);                                                           \
        return r;                                                                                         \
    }                                                                                                     \
    HOOK(cuCtxDestroy##suffix)(CUcontext context) {                                                       \
        struct context *ending = mm_attach_ending(context, true);                               \
        CUresult r = REAL(cuCtxDestroy##suffix, context);                                                 \
        mm_attach_ended(mm_driver_get(), ending, r == CUDA_SUCCESS);                                      \
        return r;                                                                                         \
    }
CONTEXT_END_HOOKS()
CONTEXT_END_HOOKS(_v2)

/* ---- cudaLimitMallocHeapSize ------------------------------------------------------------------- */

HOOK(cuCtxGetLimit)(size_t *value, CUlimit limit) {
    CUresult r = REAL(cuCtxGetLimit, value, limit);
    uint64_t ours = 0;
    if (r == CUDA_SUCCESS && value && limit == CU_LIMIT_MALLOC_HEAP_SIZE &&
        mm_attach_get_limit(current_context(), &ours))
        *value = (size_t)ours;
    return r;
}

/* Once our heap is made it has at least so much from then on, or the call fails. Whether the driver takes it for its own heap then does
 * not count (some refuse a late limit, some do not); if it does, the limit is what it makes of that: it rounds up, and programs
 * print it. */
HOOK(cuCtxSetLimit)(CUlimit limit, size_t value) {
    const bool is_ours = limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    CUcontext context = is_ours ? current_context() : NULL;
    const bool is_made = context && mm_attach_has_heap(context);
    if (is_made && !mm_attach_try_ensure(mm_driver_get(), context, value)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = REAL(cuCtxSetLimit, limit, value);
    if (r != CUDA_SUCCESS && !is_made) return r;
    size_t rounded = 0;
    if (context && r == CUDA_SUCCESS && REAL(cuCtxGetLimit, &rounded, limit) == CUDA_SUCCESS && rounded > value) value = rounded;
    if (context) mm_attach_set_limit(context, value);
    return CUDA_SUCCESS;
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* While the program's device has no memory left but what heaps have and do not need. */
HOOK(cuMemAlloc_v2)(CUdeviceptr *address, size_t bytes) {
    WITH_MEMORY(r, bytes, cuMemAlloc_v2, address, bytes);
    return r;
}
HOOK(cuMemAllocPitch_v2)(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
    WITH_MEMORY(r, UINT64_MAX, cuMemAllocPitch_v2, address, pitch, width, height, element);
    return r;
}
HOOK(cuMemAllocManaged)(CUdeviceptr *address, size_t bytes, unsigned flags) {
    WITH_MEMORY(r, bytes, cuMemAllocManaged, address, bytes, flags);
    return r;
}
#define POOL_HOOKS(suffix)                                                                                \
    HOOK(cuMemAllocAsync##suffix)(CUdeviceptr *address, size_t bytes, CUstream stream) {                  \
        WITH_MEMORY(r, bytes, cuMemAllocAsync##suffix, address, bytes, stream);                           \
        return r;                                                                                         \
    }                                                                                                     \
    HOOK(cuMemAllocFromPoolAsync##suffix)                                                                 \
    (CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {                            \
        WITH_MEMORY(r, bytes, cuMemAllocFromPoolAsync##suffix, address, bytes, pool, stream);             \
        return r;                                                                                         \
    }
POOL_HOOKS()
POOL_HOOKS(_ptsz)
HOOK(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    WITH_MEMORY(r, bytes, cuMemCreate, handle, bytes, prop, flags);
    return r;
}
HOOK(cuArrayCreate_v2)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor) {
    WITH_MEMORY(r, UINT64_MAX, cuArrayCreate_v2, array, descriptor);
    return r;
}
HOOK(cuArray3DCreate_v2)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) {
    WITH_MEMORY(r, UINT64_MAX, cuArray3DCreate_v2, array, descriptor);
    return r;
}
HOOK(cuMipmappedArrayCreate)(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels) {
    WITH_MEMORY(r, UINT64_MAX, cuMipmappedArrayCreate, array, descriptor, levels);
    return r;
}

/* cuCtxEnablePeerAccess does not cover memory that is mapped: the heap of the peer is told. */
static void peer_access(CUcontext peer, bool is_allowed) {
    const struct mm_driver *d = mm_driver_get();
    CUdevice device;
    if (d && d->cuCtxGetDevice(&device) == CUDA_SUCCESS) mm_attach_access(d, peer, device, is_allowed);
}
HOOK(cuCtxEnablePeerAccess)(CUcontext peer, unsigned flags) {
    CUresult r = REAL(cuCtxEnablePeerAccess, peer, flags);
    if (r == CUDA_SUCCESS) peer_access(peer, true);
    return r;
}
HOOK(cuCtxDisablePeerAccess)(CUcontext peer) {
    CUresult r = REAL(cuCtxDisablePeerAccess, peer);
    if (r == CUDA_SUCCESS) peer_access(peer, false);
    return r;
}

/* ---- cuGetProcAddress ------------------------------------------------------------------------- */

HOOK(cuGetProcAddress)(const char *symbol, void **function, int version, cuuint64_t flags);
HOOK(cuGetProcAddress_v2)(const char *symbol, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status);

/* A program newer than our toolkit may mean a variant whose parameters we do not know: hooked only if it
 * is the one that our version gets too. */
static bool is_our_variant(const char *symbol, const void *function, int version, cuuint64_t flags) {
    void *ours = NULL;
    if (version <= CUDA_VERSION) return true;
    return REAL(cuGetProcAddress_v2, symbol, &ours, CUDA_VERSION, flags, NULL) == CUDA_SUCCESS &&
           ours == function;
}

static void replace(const char *symbol, void **function, int version, cuuint64_t flags) {
    if (!symbol || !function || !*function) return;
    struct mm_hook *h =
        mm_hook_of_request(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    if (h && is_our_variant(symbol, *function, version, flags)) *function = mm_hook_take(h, *function);
}

HOOK(cuGetProcAddress)(const char *symbol, void **function, int version, cuuint64_t flags) {
    CUresult r = REAL(cuGetProcAddress, symbol, function, version, flags);
    if (r == CUDA_SUCCESS) replace(symbol, function, version, flags);
    return r;
}

HOOK(cuGetProcAddress_v2)(const char *symbol, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status) {
    CUresult r = REAL(cuGetProcAddress_v2, symbol, function, version, flags, status);
    if (r == CUDA_SUCCESS) replace(symbol, function, version, flags);
    return r;
}

/* ---- the list, and the exported names ----------------------------------------------------------- */

#define TABLE_ENTRY(symbol, base, version, stream)                                                        \
    {#symbol, #base, version, MM_STREAM_##stream, (void *)mmh_##symbol, NULL},
struct mm_hook mm_hooks[MM_HOOK_COUNT] = {MM_HOOKED(TABLE_ENTRY)};

#define EXPORTED(symbol, base, version, stream)                                                           \
    ".globl " #symbol "\n.type " #symbol ", %function\n.set " #symbol ", mmh_" #symbol "\n"
__asm__(MM_HOOKED(EXPORTED));
