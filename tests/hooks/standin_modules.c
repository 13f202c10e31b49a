/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The stand-in driver's modules, libraries, launches, and cuGetProcAddress. */
#include "standin_internal.h"

#include <stdio.h>

#include "standin_kernels.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuCtxAttach, cuCtxDetach */

static struct object *make_module(bool holds_variable) {
    struct object *m = standin_make(MODULE, HOME(CURRENT));
    m->holds_variable = holds_variable;
    __atomic_fetch_add(&state.instances, 1, __ATOMIC_RELAXED);
    return m;
}

static CUresult global_of(struct object *module, CUdeviceptr *address, size_t *bytes, const char *name) {
    const bool is_todays = strcmp(name, MM_HEAP_REF_NAME) == 0;
    char other[64] = "";
    if (!is(module, OURS)) __atomic_fetch_add(is_todays ? &state.global_queries : &state.other_queries, 1, __ATOMIC_RELAXED);
    if (module->other[0]) snprintf(other, sizeof other, MM_HEAP_REF_PREFIX "%s", module->other);
    if (!(module->holds_variable && is_todays) && strcmp(name, other) != 0) return CUDA_ERROR_NOT_FOUND;
    *address = (CUdeviceptr)&module->variable;
    *bytes = sizeof module->variable;
    return CUDA_SUCCESS;
}

/* The image "other 5" has the heap variable of version 5 of mm, and "other 5_random_walk" that of another allocator. */
static void set_other(struct object *o, const char *image) {
    if (strncmp(image, "other ", 6) == 0) snprintf(o->other, sizeof o->other, "%.31s", image + 6);
}

/* libmm.so's own module is a fatbin; its kernels run from the same source as on the GPU, at the launch unless the device is
 * full. */
#define FATBIN_MAGIC 0xba55ed50u

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER_UNSAFE();
    if (memcmp(image, &(unsigned){FATBIN_MAGIC}, 4) == 0) {
        struct object *ours = standin_make(OURS, CURRENT);
        ours->holds_variable = true;
        state.own_modules++;
        WAITS();
        *module = (CUmodule)ours;
        return CUDA_SUCCESS;
    }
    NEEDS_MEMORY();
    const int has_variable = standin_take(image, 0, NULL);
    if (has_variable < 0) return state.last_is_linked ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
    *module = (CUmodule)make_module(has_variable);
    set_other((struct object *)*module, (const char *)image);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) {
    ENTER();
    if (!f) return CUDA_ERROR_INVALID_VALUE;
    if (is(module, OURS)) {
        struct object *ours = standin_make(FUNCTION, (struct object *)module);
        ours->is_ours = true;
        strncpy(ours->name, name, sizeof ours->name - 1);
        *f = (CUfunction)ours;
        return CUDA_SUCCESS;
    }
    if (!is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *f = (CUfunction)standin_make(FUNCTION, (struct object *)module);
    strncpy(((struct object *)*f)->name, name, sizeof((struct object *)*f)->name - 1);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction f) {
    ENTER();
    if (!is(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *name = ((struct object *)f)->name;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *list, unsigned count, CUmodule module) { return count ? cuModuleGetFunction(list, module, "") : CUDA_SUCCESS; }

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    ENTER_UNSAFE();
    if (!is(module, MODULE) && !is(module, OURS)) return CUDA_ERROR_INVALID_HANDLE;
    return global_of((struct object *)module, address, bytes, name);
}

CUresult cuModuleUnload(CUmodule module) {
    ENTER();
    if (!is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    state.instances--;
    standin_unmake((struct object *)module);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction f) {
    ENTER();
    if (!is(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *module = (CUmodule)((struct object *)f)->owner;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options,
                           void **values, unsigned count) {
    (void)jit, (void)values;
    ENTER();
    const int has_variable = standin_take(code, jit_count, jit_values);
    state.last_library_options = count;
    state.last_is_preserved = false;
    for (unsigned i = 0; i < count; i++) state.last_is_preserved |= options[i] == CU_LIBRARY_BINARY_IS_PRESERVED;
    if (has_variable < 0) return state.last_is_linked ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
    struct object *l = standin_make(LIBRARY, NULL);
    l->holds_variable = has_variable;
    set_other(l, (const char *)code);
    *library = (CUlibrary)l;
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
    ENTER();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    standin_unmake((struct object *)library);
    return CUDA_SUCCESS;
}

/* The library's module in a context; created on first use, as with lazy loading. */
static struct object *instance_of(struct object *library, struct object *context) {
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    struct object *found = NULL;
    context = HOME(context);
    pthread_mutex_lock(&loading);
    for (size_t i = 0; i < sizeof standin_pool / sizeof *standin_pool && !found; i++)
        if (standin_pool[i].magic == MODULE && standin_pool[i].library == library && standin_pool[i].owner == context) found = &standin_pool[i];
    if (!found) {
        found = make_module(library->holds_variable);
        memcpy(found->other, library->other, sizeof found->other);
        found->owner = context;
        found->library = library;
    }
    pthread_mutex_unlock(&loading);
    return found;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    ENTER();
    NEEDS_MEMORY();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    *module = (CUmodule)instance_of((struct object *)library, CURRENT);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    ENTER_UNSAFE();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    NEEDS_MEMORY();
    return global_of(instance_of((struct object *)library, CURRENT), address, bytes, name);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    (void)name;
    ENTER();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    *kernel = (CUkernel)standin_make(KERNEL, (struct object *)library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *list, unsigned count, CUlibrary library) { return count ? cuLibraryGetKernel(list, library, "") : CUDA_SUCCESS; }

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    ENTER();
    if (!is(kernel, KERNEL)) abort();
    *library = (CUlibrary)((struct object *)kernel)->owner;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *f, CUkernel kernel) {
    ENTER();
    if (!is(kernel, KERNEL)) abort();
    *f = (CUfunction)standin_make(FUNCTION, instance_of(((struct object *)kernel)->owner, CURRENT));
    return CUDA_SUCCESS;
}

/* ---- launches -------------------------------------------------------------------------------------- */

static CUresult run(const void *f, CUstream stream, struct object *context) {
    struct object *module = NULL;
    if (state.launches_do_nothing) return CUDA_SUCCESS;
    if (state.deinitialized) return CUDA_ERROR_DEINITIALIZED;
    if (!context) context = is(stream, STREAM) ? ((struct object *)stream)->owner : CURRENT;
    if (is(f, FUNCTION)) module = ((const struct object *)f)->owner;
    if (is(f, KERNEL) && context) module = instance_of(((const struct object *)f)->owner, context);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!module || !is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    state.launches++;
    state.last_grid = ++state.grids;
    if (module->holds_variable || (strchr(module->other, '_') && atoi(module->other) == MM_ABI_VERSION)) {
        state.launches_with_variable++;
        state.last_ref = module->variable;
        state.launches_without_heap += module->variable.heap == 0;
    }
    pthread_mutex_unlock(&lock);
    return (CUresult)state.launch_code;
}

static CUresult run_ours(const struct object *f, struct object *stream, unsigned threads, void **params) {
    if (standin_must_fail("launch of libmm.so's")) return (CUresult)state.fail_code;
    WAITS();
    if (state.full) {
        stream->pending++;
        return CUDA_SUCCESS; /* never run: the test keeps the device full */
    }
    const bool is_retire = strstr(f->name, "retire") != NULL;
    pthread_mutex_lock(&lock);
    const unsigned long long grid = ++state.grids;
    pthread_mutex_unlock(&lock);
    if (strstr(f->name, "note") != NULL) {
        state.notes++;
        state.last_note_stream = stream;
        **(uint64_t **)params[0] = grid + 1;
        return CUDA_SUCCESS;
    }
    if (is_retire) state.retires++;
    else state.claims++;
    for (unsigned i = 0; i < threads; i++) {
        if (is_retire) standin_kernel_retire(&f->owner->variable, i, *(unsigned *)params[0]);
        else standin_kernel_claim(&f->owner->variable, i, *(struct mm_wanted_chunk **)params[0], *(unsigned *)params[1]);
    }
    return CUDA_SUCCESS;
}

#define LAUNCHES(suffix, count)                                                                                                                              \
    CUresult cuLaunchKernel##suffix(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, void **p,  \
                                    void **x) {                                                                                                              \
        if (is(f, FUNCTION) && ((struct object *)f)->is_ours) return run_ours((struct object *)f, (struct object *)s, a * d, p);                             \
        state.last_dims_sum = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * g + 7 * h) + (p == x);                                                           \
        count;                                                                                                                                               \
        return run(f, s, NULL);                                                                                                                              \
    }                                                                                                                                                        \
    CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config, CUfunction f, void **p, void **x) {                                                      \
        (void)p, (void)x;                                                                                                                                    \
        count;                                                                                                                                               \
        return run(f, config->hStream, NULL);                                                                                                                \
    }                                                                                                                                                        \
    CUresult cuLaunchCooperativeKernel##suffix(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h, CUstream s, \
                                               void **p) {                                                                                                   \
        state.last_dims_sum = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * g + 7 * h) + (p == NULL);                                                        \
        count;                                                                                                                                               \
        return run(f, s, NULL);                                                                                                                              \
    }
LAUNCHES(, (void)0)
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
LAUNCHES(_ptsz, state.launches_ptsz++)

/* A node "runs" when it is added: the hook must have published the heap by then. */
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    (void)node, (void)graph, (void)deps, (void)count;
    return run(p->func ? (void *)p->func : (void *)p->kern, NULL, (struct object *)p->ctx);
}

#undef cuGraphAddKernelNode
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    (void)node, (void)graph, (void)deps, (void)count;
    return run(p->func, NULL, NULL);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p) {
    (void)node, (void)graph, (void)deps, (void)edges, (void)count;
    const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
    return run(k->func ? (void *)k->func : (void *)k->kern, NULL, (struct object *)k->ctx);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    ENTER();
    (void)graph, (void)flags;
    NEEDS_MEMORY();
    *exec = NULL;
    return CUDA_SUCCESS;
}
#undef cuGraphInstantiate
typedef CUresult instantiate_11(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
instantiate_11 cuGraphInstantiate, cuGraphInstantiate_v2;
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t log_bytes) {
    if (log_bytes != 7 || !failed || !log) return CUDA_ERROR_INVALID_VALUE;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t log_bytes) {
    return cuGraphInstantiate_v2(exec, graph, failed, log, log_bytes);
}
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    ENTER();
    (void)exec, (void)stream;
    NEEDS_MEMORY();
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { return cuGraphUpload(exec, stream); }

CUresult cuGetErrorName(CUresult code, const char **name) {
    switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_PTX: *name = "CUDA_ERROR_INVALID_PTX"; return CUDA_SUCCESS;
    case CUDA_ERROR_UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- cuGetProcAddress -------------------------------------------------------------------------------- */

#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
__typeof__(cuLinkCreate_v2) cuLinkCreate;
__typeof__(cuLinkAddData_v2) cuLinkAddData;
__typeof__(cuLinkAddFile_v2) cuLinkAddFile;
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);
static const struct {
    const char *base;
    int version;
    bool ptsz;
    void *function;
} entries[] = {
    {"cuLaunchKernel", 4000, false, (void *)cuLaunchKernel},
    {"cuLaunchKernel", 7000, true, (void *)cuLaunchKernel_ptsz},
    {"cuLaunchKernelEx", 11060, false, (void *)cuLaunchKernelEx},
    {"cuLaunchKernelEx", 11060, true, (void *)cuLaunchKernelEx_ptsz},
    {"cuLaunchCooperativeKernel", 9000, false, (void *)cuLaunchCooperativeKernel},
    {"cuLaunchCooperativeKernel", 9000, true, (void *)cuLaunchCooperativeKernel_ptsz},
    {"cuGraphAddKernelNode", 10000, false, (void *)cuGraphAddKernelNode},
    {"cuGraphAddKernelNode", 12000, false, (void *)cuGraphAddKernelNode_v2},
    {"cuGraphAddNode", 12030, false, (void *)cuGraphAddNode_v2},
    {"cuGraphAddNode", 13010, false, (void *)cuMemGetInfo_v2}, /* a later variant that the hooks do not know */
    {"cuGetProcAddress", 11030, false, (void *)cuGetProcAddress},
    {"cuGetProcAddress", 12000, false, (void *)cuGetProcAddress_v2},
    {"cuGraphInstantiate", 10000, false, (void *)cuGraphInstantiate},
    {"cuGraphInstantiate", 11000, false, (void *)cuGraphInstantiate_v2},
    {"cuGraphInstantiate", 12000, false, (void *)cuGraphInstantiateWithFlags},
    {"cuGraphInstantiateWithFlags", 11040, false, (void *)cuGraphInstantiateWithFlags},
    {"cuGraphUpload", 11010, false, (void *)cuGraphUpload},
    {"cuGraphLaunch", 10000, false, (void *)cuGraphLaunch},
    {"cuInit", 2000, false, (void *)cuInit},
    {"cuDriverGetVersion", 2020, false, (void *)cuDriverGetVersion},
    {"cuGetExportTable", 3000, false, (void *)cuGetExportTable},
    {"cuDevicePrimaryCtxRetain", 7000, false, (void *)cuDevicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxReset", 11000, false, (void *)cuDevicePrimaryCtxReset_v2},
    {"cuDevicePrimaryCtxRelease", 11000, false, (void *)cuDevicePrimaryCtxRelease_v2},
    {"cuCtxSetCurrent", 4000, false, (void *)cuCtxSetCurrent},
    {"cuCtxCreate", 3020, false, (void *)cuCtxCreate_v2},
    {"cuCtxDestroy", 4000, false, (void *)cuCtxDestroy_v2},
    {"cuCtxAttach", 2000, false, (void *)cuCtxAttach},
    {"cuCtxDetach", 2000, false, (void *)cuCtxDetach},
    {"cuGreenCtxCreate", 12040, false, (void *)cuGreenCtxCreate},
    {"cuGreenCtxDestroy", 12040, false, (void *)cuGreenCtxDestroy},
    {"cuCtxFromGreenCtx", 12040, false, (void *)cuCtxFromGreenCtx},
    {"cuCtxSetLimit", 3010, false, (void *)cuCtxSetLimit},
    {"cuCtxGetLimit", 3010, false, (void *)cuCtxGetLimit},
    {"cuModuleLoadData", 2000, false, (void *)cuModuleLoadData},
    {"cuModuleGetFunction", 2000, false, (void *)cuModuleGetFunction},
    {"cuModuleEnumerateFunctions", 12040, false, (void *)cuModuleEnumerateFunctions},
    {"cuModuleUnload", 2000, false, (void *)cuModuleUnload},
    {"cuModuleLoad", 2000, false, (void *)cuModuleLoad},
    {"cuModuleLoadDataEx", 2010, false, (void *)cuModuleLoadDataEx},
    {"cuModuleLoadFatBinary", 2000, false, (void *)cuModuleLoadFatBinary},
    {"cuLibraryLoadFromFile", 12000, false, (void *)cuLibraryLoadFromFile},
    {"cuDevicePrimaryCtxGetState", 7000, false, (void *)cuDevicePrimaryCtxGetState},
    {"cuCtxGetCurrent", 4000, false, (void *)cuCtxGetCurrent},
    {"cuLinkCreate", 5050, false, (void *)cuLinkCreate},
    {"cuLinkAddData", 5050, false, (void *)cuLinkAddData},
    {"cuLinkAddFile", 5050, false, (void *)cuLinkAddFile},
    {"cuLinkCreate", 6050, false, (void *)cuLinkCreate_v2},
    {"cuLinkAddData", 6050, false, (void *)cuLinkAddData_v2},
    {"cuLinkAddFile", 6050, false, (void *)cuLinkAddFile_v2},
    {"cuLinkComplete", 5050, false, (void *)cuLinkComplete},
    {"cuLinkDestroy", 5050, false, (void *)cuLinkDestroy},
    {"cuLibraryLoadData", 12000, false, (void *)cuLibraryLoadData},
    {"cuLibraryUnload", 12000, false, (void *)cuLibraryUnload},
    {"cuLibraryGetKernel", 12000, false, (void *)cuLibraryGetKernel},
    {"cuLibraryEnumerateKernels", 12040, false, (void *)cuLibraryEnumerateKernels},
    {"cuLibraryGetModule", 12000, false, (void *)cuLibraryGetModule},
    {"cuKernelGetFunction", 12000, false, (void *)cuKernelGetFunction},
    {"cuMemAlloc", 3020, false, (void *)cuMemAlloc_v2},
    {"cuMemFree", 3020, false, (void *)cuMemFree_v2},
    {"cuStreamCreate", 2000, false, (void *)cuStreamCreate},
    {"cuCtxSynchronize", 2000, false, (void *)cuCtxSynchronize},
    {"cuCtxSynchronize", 13000, false, (void *)cuCtxSynchronize_v2},
    {"cuStreamSynchronize", 2000, false, (void *)cuStreamSynchronize},
    {"cuStreamSynchronize", 7000, true, (void *)cuStreamSynchronize_ptsz},
    {"cuEventSynchronize", 2000, false, (void *)cuEventSynchronize},
    {"cuStreamBeginCapture", 10010, false, (void *)cuStreamBeginCapture_v2},
    {"cuStreamBeginCaptureToGraph", 12030, false, (void *)cuStreamBeginCaptureToGraph},
    {"cuCtxEnablePeerAccess", 4000, false, (void *)cuCtxEnablePeerAccess},
    {"cuStreamDestroy", 4000, false, (void *)cuStreamDestroy_v2},
    {"cuMemFreeAsync", 11020, false, (void *)cuMemFreeAsync},
    {"cuMemGetInfo", 3020, false, (void *)cuMemGetInfo_v2},
    {"cuMemGetAddressRange", 3020, false, (void *)cuMemGetAddressRange_v2},
    {"cuPointerGetAttribute", 4000, false, (void *)cuPointerGetAttribute},
    {"cuPointerGetAttributes", 7000, false, (void *)cuPointerGetAttributes},
    {"cuPointerSetAttribute", 6000, false, (void *)cuPointerSetAttribute},
    {"cuIpcGetMemHandle", 4010, false, (void *)cuIpcGetMemHandle},
    {"cuStreamEndCapture", 10000, false, (void *)cuStreamEndCapture},
};

static CUresult not_here(void) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    if (version > 13020) return CUDA_ERROR_INVALID_VALUE; /* newer than this driver */
    int best = -1;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].base, symbol) != 0 || entries[i].version > version) continue;
        if (entries[i].ptsz && !(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) continue;
        if (best < 0 || entries[i].version >= entries[best].version) best = (int)i;
    }
    state.lookups++;
    *function = best < 0 ? NULL : entries[best].function;
    if (best < 0 && getenv("STANDIN_EVERYTHING")) { /* for cudart, which gives up at the first missing function */
        *function = (void *)not_here;
        best = 0;
    }
    if (status) *status = best < 0 ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
