/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver functions that libmm.so hooks: one list for dlsym, cuGetProcAddress, the exported symbols,
 * and the forwarders of mmhook.o.
 *
 * X(symbol, base, version, stream): symbol as libcuda exports it; base and version as cuGetProcAddress
 * knows it (the highest version not above the requested one wins); stream: ANY, or which default stream
 * the variant means, LEGACY or PTSZ. No header is included here: mmhook.o is built without cuda.h.
 */
#ifndef MM_INTERPOSE_NAMES_H
#define MM_INTERPOSE_NAMES_H

#define MM_HOOKED(X)                                                                         \
    /* look-up of functions */                                                               \
    X(cuGetProcAddress, cuGetProcAddress, 11030, ANY)                                        \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000, ANY)                                     \
    /* launches of kernels, directly or in a graph */                                        \
    X(cuLaunchKernel, cuLaunchKernel, 4000, LEGACY)                                          \
    X(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, PTSZ)                                       \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, LEGACY)                                     \
    X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060, PTSZ)                                  \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, LEGACY)                    \
    X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, 9000, PTSZ)                 \
    X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, ANY) \
    X(cuLaunch, cuLaunch, 2000, ANY)                                                         \
    X(cuLaunchGrid, cuLaunchGrid, 2000, ANY)                                                 \
    X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, ANY)                                       \
    X(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, ANY)                                \
    X(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, ANY)                             \
    X(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000, ANY)                    \
    X(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000, ANY)                 \
    X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, ANY)            \
    X(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, ANY)         \
    X(cuGraphAddNode, cuGraphAddNode, 12020, ANY)                                            \
    X(cuGraphAddNode_v2, cuGraphAddNode, 12030, ANY)                                         \
    X(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, ANY)                                \
    X(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, ANY)                        \
    X(cuGraphLaunch, cuGraphLaunch, 10000, LEGACY)                                           \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, PTSZ)                                        \
    X(cuGraphUpload, cuGraphUpload, 11010, LEGACY)                                           \
    X(cuGraphUpload_ptsz, cuGraphUpload, 11010, PTSZ)                                        \
    X(cuGraphInstantiate, cuGraphInstantiate, 10000, ANY)                                    \
    X(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, ANY)                                 \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, ANY)                  \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, LEGACY)             \
    X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, 12000, PTSZ)          \
    /* loading of code, possibly as PTX */                                                   \
    X(cuModuleLoad, cuModuleLoad, 2000, ANY)                                                 \
    X(cuModuleLoadData, cuModuleLoadData, 2000, ANY)                                         \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, ANY)                                     \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, ANY)                               \
    X(cuLibraryLoadData, cuLibraryLoadData, 12000, ANY)                                      \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, ANY)                              \
    X(cuLinkAddData, cuLinkAddData, 5050, ANY)                                               \
    X(cuLinkAddData_v2, cuLinkAddData, 6050, ANY)                                            \
    X(cuLinkAddFile, cuLinkAddFile, 5050, ANY)                                               \
    X(cuLinkAddFile_v2, cuLinkAddFile, 6050, ANY)                                            \
    X(cuLinkComplete, cuLinkComplete, 5050, ANY)                                             \
    /* synchronisation, after which misuse that kernels reported is printed */               \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, ANY)                                         \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, ANY)                                     \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, LEGACY)                                \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, PTSZ)                             \
    X(cuEventSynchronize, cuEventSynchronize, 2000, ANY)                                     \
    /* calls that return handles of kernels */                                               \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, ANY)                                   \
    X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, ANY)                    \
    X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, ANY)                                    \
    X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, ANY)                      \
    X(cuKernelGetFunction, cuKernelGetFunction, 12000, ANY)                                  \
    X(cuLibraryGetModule, cuLibraryGetModule, 12000, ANY)                                    \
    /* ends of handles and contexts */                                                       \
    X(cuModuleUnload, cuModuleUnload, 2000, ANY)                                             \
    X(cuLibraryUnload, cuLibraryUnload, 12000, ANY)                                          \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, ANY)                           \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, ANY)                       \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, ANY)                       \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, ANY)                   \
    X(cuCtxDestroy, cuCtxDestroy, 2000, ANY)                                                 \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, ANY)                                              \
    X(cuCtxAttach, cuCtxAttach, 2000, ANY)                                                   \
    X(cuCtxDetach, cuCtxDetach, 2000, ANY)                                                   \
    X(cuGreenCtxDestroy, cuGreenCtxDestroy, 12040, ANY)                                      \
    X(cuCtxFromGreenCtx, cuCtxFromGreenCtx, 12040, ANY)                                      \
    /* calls that may fail for lack of memory */                                             \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, ANY)                                                  \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, ANY)                                        \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, ANY)                                       \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, LEGACY)                                       \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, PTSZ)                                    \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, LEGACY)                       \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, PTSZ)                    \
    X(cuMemCreate, cuMemCreate, 10020, ANY)                                                  \
    X(cuArrayCreate_v2, cuArrayCreate, 3020, ANY)                                            \
    X(cuArray3DCreate_v2, cuArray3DCreate, 3020, ANY)                                        \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, ANY)                             \
    /* the pool: frees, questions about memory, captures */                                  \
    X(cuMemFree_v2, cuMemFree, 3020, ANY)                                                    \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, LEGACY)                                         \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, PTSZ)                                      \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, ANY)                                              \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, ANY)                              \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, ANY)                               \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, ANY)                             \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, ANY)                               \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, ANY)                                       \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, LEGACY)                             \
    X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, PTSZ)                          \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, LEGACY)                          \
    X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, PTSZ)                       \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, LEGACY)               \
    X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, PTSZ)            \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, LEGACY)                                 \
    X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, PTSZ)                              \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, ANY)                                        \
    /* peer access */                                                                        \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, ANY)                               \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, ANY)                             \
    /* the heap size that the program requests */                                            \
    X(cuCtxSetLimit, cuCtxSetLimit, 3010, ANY)                                               \
    X(cuCtxGetLimit, cuCtxGetLimit, 3010, ANY)

/* The functions of include/mm.h that libmm.so exports for programs. */
#define MM_OWN(X) X(mm_get_statistics) X(mm_get_usage) X(mm_reset)

#endif
