/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the stand-in driver share. */
#ifndef MM_STANDIN_INTERNAL_H
#define MM_STANDIN_INTERNAL_H

#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

extern struct standin standin_state;
extern pthread_mutex_t standin_lock;
#define state standin_state
#define lock standin_lock

/* Is it the turn of this call to fail? Every driver function but the launches begins with ENTER. */
bool standin_must_fail(const char *name);
#define ENTER()                                                                                           \
    do {                                                                                                  \
        if (state.deinitialized) return CUDA_ERROR_DEINITIALIZED;                                         \
        if (standin_must_fail(__func__)) return (CUresult)state.fail_code;                                        \
    } while (0)

/* For calls that take memory which the program did not ask for by a number. */
#define NEEDS_MEMORY()                                                                                    \
    do                                                                                                    \
        if (state.code_bytes > state.free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;                         \
    while (0)

/* For calls that need a multiprocessor or wait for kernels. */
#define WAITS()                                                                                           \
    do                                                                                                    \
        if (state.held) __atomic_add_fetch(&state.waits, 1, __ATOMIC_RELAXED), state.waited = __func__;   \
    while (0)

/* The objects behind handles. */
enum magic { FREE = 0x46524545, CONTEXT = 0x43545854, MODULE = 0x4d4f4455, FUNCTION = 0x46554e43,
             LIBRARY = 0x4c494252, KERNEL = 0x4b45524e, LINK = 0x4c494e4b, STREAM = 0x5354524d, OURS = 0x4f555253 /* libmm.so's own module */ };

struct object {
    enum magic magic;
    struct object *owner; /* module of a function, library of a kernel, context of a module or stream */
    struct object *library; /* of a module that is an instance of it */
    struct object *home; /* of a green context: the primary one */
    bool holds_variable, capturing;
    int other_version; /* of the heap variable that it holds instead */
    bool is_ours; /* a function of libmm.so's; a stream of its */
    char name[32]; /* of a function */
    int pending; /* a stream: kernels that were launched when the device was full */
    int device, uses, uses_registered;
    size_t limit;
    struct mm_heap_ref variable;
    /* a link: its options, the machine code that went in, what its texts lack, and what came of it */
    unsigned count, target, registers;
    CUjit_option *options;
    void **values;
    void *input, *made;
    size_t input_bytes, made_bytes;
    const char *service;
};

/* One is made in the first free place: handles come back as soon as they can. */
#define POOL_OBJECTS 4096
extern struct object standin_pool[POOL_OBJECTS];
struct object *standin_make(enum magic magic, struct object *owner);
void standin_unmake(struct object *o); /* and all that it owns */

static inline bool is(const void *handle, enum magic magic) {
    return (uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD && ((const struct object *)handle)->magic == magic;
}

extern __thread struct object *standin_contexts[16];
extern __thread int standin_depth;
#define HOME(context) ((context) && (context)->home ? (context)->home : (context))
#define CURRENT (standin_depth ? standin_contexts[standin_depth - 1] : NULL)

extern int standin_captures;
extern __thread CUstreamCaptureMode standin_mode;
/* Nothing that makes, waits or copies may come while a capture is on, unless the mode is relaxed. */
#define ENTER_UNSAFE()                                                                                    \
    ENTER();                                                                                              \
    if (standin_captures && standin_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {                                      \
        state.capture_broken = true;                                                                      \
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                                     \
    }

/* Notes that code is loaded. Returns whether it holds the heap variable, or -1: refused. */
int standin_take(const void *image, unsigned count, void **values);

/* Not in cuda.h any more. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* A stream that is ordered with the legacy one is as bad as that one while a capture is on. */
CUresult standin_check_stream(CUstream stream);

#endif
