/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A test program that uses the driver API in each of the ways that programs do; its scenarios are in client_*.c. */
#ifndef MM_CLIENT_H
#define MM_CLIENT_H

#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program_check.h"
#include "standin.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuCtxAttach, cuCtxDetach */

#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* The driver functions that the scenarios call, by whatever lookup. */
/* clang-format off */
#define CLIENT_FUNCTIONS(X)                                                                               \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxRelease)         \
    X(cuDevicePrimaryCtxGetState) X(cuCtxGetCurrent)                                                      \
    X(cuCtxSetCurrent) X(cuCtxDestroy) X(cuCtxSetLimit) X(cuCtxGetLimit) X(cuModuleLoadData)              \
    X(cuModuleGetFunction) X(cuModuleEnumerateFunctions) X(cuModuleUnload) X(cuLibraryLoadData)           \
    X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryEnumerateKernels) X(cuLibraryGetModule)           \
    X(cuKernelGetFunction) X(cuStreamCreate) X(cuStreamBeginCapture) X(cuStreamEndCapture)                \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuGraphAddKernelNode)            \
    X(cuGraphAddNode) X(cuMemAlloc) X(cuMemFree) X(cuModuleLoad) X(cuModuleLoadDataEx)                    \
    X(cuModuleLoadFatBinary) X(cuLibraryLoadFromFile) X(cuLinkCreate) X(cuLinkAddData) X(cuLinkAddFile)   \
    X(cuGraphInstantiateWithFlags) X(cuGraphUpload) X(cuGraphLaunch)                                      \
    X(cuCtxAttach) X(cuCtxDetach) X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuCtxFromGreenCtx)           \
    X(cuLinkComplete) X(cuLinkDestroy) X(cuCtxSynchronize) X(cuStreamSynchronize) X(cuEventSynchronize)      \
    X(cuMemFreeAsync) X(cuMemGetInfo) X(cuMemGetAddressRange) X(cuPointerGetAttribute)                    \
    X(cuPointerGetAttributes) X(cuPointerSetAttribute) X(cuIpcGetMemHandle) X(cuStreamDestroy)            \
    X(cuStreamBeginCaptureToGraph) X(cuCtxEnablePeerAccess)
/* clang-format on */

struct api {
#define CLIENT_MEMBER(name) __typeof__(&name) name;
    CLIENT_FUNCTIONS(CLIENT_MEMBER)
#undef CLIENT_MEMBER
    CUresult (*create)(CUcontext *, unsigned, CUdevice); /* cuCtxCreate_v2: its parameters never changed */
};

extern struct api cu;
extern struct standin *standin;
extern void *libcuda;   /* handle of libcuda.so.1 */
extern const char *way; /* the lookup that filled `cu` */

/* Makes a context of device 0 current and fills `cu`. */
CUcontext client_start(void);
CUfunction client_function(const char *image);
CUfunction client_kernel(const char *image, CUlibrary *library);
CUresult client_launch(CUfunction f, CUstream stream);
/* Checks that this is a valid fresh heap; returns its number of segments. */
unsigned long long client_heap_segments(const struct mm_heap_ref *ref);
/* The real dlsym, past all interposers. */
void *client_past_hooks(const char *symbol);

struct scenario {
    const char *name;
    void (*run)(int argc, char **argv);
};
extern const struct scenario client_scenarios[], client_edge_scenarios[], client_grow_scenarios[], client_back_scenarios[], client_jit_scenarios[],
    client_link_scenarios[], client_cubin_scenarios[], client_fatbin_scenarios[], client_own_scenarios[], client_contexts_scenarios[],
    client_report_scenarios[], client_checked_scenarios[], client_trace_scenarios[], client_allocators_scenarios[], client_pool_scenarios[],
    client_pool_contexts_scenarios[], client_pool_captures_scenarios[], client_pool_frees_scenarios[], client_pool_footprint_scenarios[],
    client_pool_output_scenarios[], client_pool_devices_scenarios[];

#endif
