/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the files of the stand-in driver. */
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

/* Whether fault injection fails this call. Every driver function except the launches begins with ENTER. */
bool standin_must_fail(const char *name);
#define ENTER()                                                            \
    do {                                                                   \
        if (state.deinitialized) return CUDA_ERROR_DEINITIALIZED;          \
        if (standin_must_fail(__func__)) return (CUresult)state.fail_code; \
    } while (0)

/* For calls that take device memory without a size argument. */
#define NEEDS_MEMORY()                                                            \
    do                                                                            \
        if (state.code_bytes > state.free_bytes) return CUDA_ERROR_OUT_OF_MEMORY; \
    while (0)

/* For calls that need a multiprocessor or wait for kernels. */
#define WAITS()                                                                                         \
    do                                                                                                  \
        if (state.held) __atomic_add_fetch(&state.waits, 1, __ATOMIC_RELAXED), state.waited = __func__; \
    while (0)

/* Waits until the device has done all its work. */
static inline void standin_finish(void) {
    if (standin_state.at_finish) standin_state.at_finish();
    __atomic_store_n(&standin_state.finished, __atomic_load_n(&standin_state.submitted, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
}

/* The objects behind handles. */
enum magic {
    FREE = 0x46524545,
    CONTEXT = 0x43545854,
    MODULE = 0x4d4f4455,
    FUNCTION = 0x46554e43,
    LIBRARY = 0x4c494252,
    KERNEL = 0x4b45524e,
    LINK = 0x4c494e4b,
    EVENT = 0x45564e54,
    STREAM = 0x5354524d,
    OURS = 0x4f555253 /* libmm.so's own module */
};

struct object {
    enum magic magic;
    struct object *owner;   /* module of a function, library of a kernel, context of a module or stream */
    struct object *library; /* of a module that is an instance of it */
    struct object *home;    /* of a green context: the primary context */
    bool holds_variable, capturing;
    char other[32]; /* the end of the name of the heap variable that it has instead, after MM_HEAP_REF_PREFIX */
    bool is_ours;   /* a function or stream of libmm.so */
    char name[32];  /* of a function */
    int pending;    /* of a stream: kernels launched while the device was full */
    int device, uses, uses_registered;
    long covers; /* of an event: the work that was submitted before it */
    size_t limit;
    struct mm_heap_ref variable;
    /* of a link: its options, machine code input, output, and the function that its texts leave undefined */
    unsigned count, target, registers;
    CUjit_option *options;
    void **values;
    void *input, *made;
    size_t input_bytes, made_bytes;
    const char *service;
};

/* New objects take the first free place, so that handles are reused as early as possible. */
#define POOL_OBJECTS 4096
extern struct object standin_pool[POOL_OBJECTS];
struct object *standin_make(enum magic magic, struct object *owner);
void standin_unmake(struct object *o); /* and all objects that it owns */

static inline bool is(const void *handle, enum magic magic) {
    return (uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD && ((const struct object *)handle)->magic == magic;
}

extern __thread struct object *standin_contexts[16];
extern __thread int standin_depth;
#define HOME(context) ((context) && (context)->home ? (context)->home : (context))
#define CURRENT (standin_depth ? standin_contexts[standin_depth - 1] : NULL)

extern int standin_captures;
extern __thread CUstreamCaptureMode standin_mode;
/* Calls that create, wait or copy are not allowed during a capture, unless the mode is relaxed. */
#define ENTER_UNSAFE()                                                        \
    ENTER();                                                                  \
    if (standin_captures && standin_mode != CU_STREAM_CAPTURE_MODE_RELAXED) { \
        state.capture_broken = true;                                          \
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                         \
    }

/* Records a load of code. Returns whether it has the heap variable, or -1: refused. */
int standin_take(const void *image, unsigned count, void **values);

/* No longer in cuda.h. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* During a capture, a stream ordered with the legacy stream breaks the capture as the legacy stream does. */
CUresult standin_check_stream(CUstream stream);

#endif
