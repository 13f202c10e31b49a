/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A small libcuda.so.1 that emulates a device in host memory, for fault injection and machines without a GPU. It is
 * stricter than the real one: any call that creates or waits for something breaks a capture unless the
 * calling thread's mode is relaxed, and using a CUfunction as a CUkernel aborts.
 * An image is a string; "mm" in it means that the module has the heap variable; in PTX, the variable's name does.
 */
#include "standin_internal.h"

#include <unistd.h>

struct standin standin_state = {.vmm = true, .total_bytes = 8ull << 30, .free_bytes = 8ull << 30};
pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;

struct standin *standin_get(void);
struct standin *standin_get(void) {
    return &state;
}

bool standin_must_fail(const char *name) {
    bool fail = false;
    if (!state.armed || (state.only_here && state.only_here != gettid())) return false;
    pthread_mutex_lock(&lock);
    if (state.armed && (state.fail_name ? strcmp(name, state.fail_name) == 0 : ++state.calls == state.fail_at)) {
        fail = true;
        state.failed = name;
    }
    pthread_mutex_unlock(&lock);
    return fail;
}

/* ---- objects -------------------------------------------------------------------------------------------- */

struct object standin_pool[POOL_OBJECTS];

struct object *standin_make(enum magic magic, struct object *owner) {
    pthread_mutex_lock(&lock);
    struct object *o = NULL;
    for (size_t i = 0; i < sizeof standin_pool / sizeof *standin_pool && !o; i++)
        if (standin_pool[i].magic == 0 || standin_pool[i].magic == FREE) o = &standin_pool[i];
    if (!o) abort();
    memset(o, 0, sizeof *o);
    o->magic = magic;
    o->owner = owner;
    pthread_mutex_unlock(&lock);
    return o;
}

static void unmake_owned(struct object *owner) {
    for (size_t i = 0; i < sizeof standin_pool / sizeof *standin_pool; i++) {
        struct object *o = &standin_pool[i];
        if (o == owner || (o->owner != owner && o->library != owner)) continue;
        if (o->magic == 0 || o->magic == FREE || o->magic == CONTEXT) continue;
        if (o->magic == MODULE) state.instances--;
        if (o->magic == STREAM && !o->is_ours) state.streams--;
        if (o->magic == EVENT) state.events--;
        o->magic = FREE;
        unmake_owned(o);
    }
}

void standin_unmake(struct object *o) {
    pthread_mutex_lock(&lock); /* else another thread's new object, in the same place, would be taken for one that it owns */
    if (o->magic == CONTEXT) __atomic_sub_fetch(&state.registrations, o->uses_registered, __ATOMIC_RELAXED);
    o->magic = FREE;
    unmake_owned(o);
    pthread_mutex_unlock(&lock);
}

/* ---- contexts ------------------------------------------------------------------------------------ */

__thread struct object *standin_contexts[16];
__thread int standin_depth;
static struct object *primary[2];

CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count) {
    ENTER();
    *count = 2;
    return CUDA_SUCCESS;
}

static struct object *make_context(int device) {
    struct object *c = standin_make(CONTEXT, NULL);
    c->device = device;
    c->limit = 8u << 20;
    return c;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER();
    if (!primary[device]) primary[device] = make_context(device);
    primary[device]->uses++;
    *context = (CUcontext)primary[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    ENTER();
    *flags = 0;
    *active = primary[device] != NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    ENTER();
    if (state.before_end) state.before_end();
    if (primary[device]) standin_unmake(primary[device]);
    primary[device] = NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER();
    if (!primary[device]) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = --primary[device]->uses ? CUDA_SUCCESS : cuDevicePrimaryCtxReset_v2(device);
    if (state.at_end) state.at_end();
    return r;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    (void)flags;
    ENTER();
    standin_contexts[standin_depth++] = make_context(device);
    *context = (CUcontext)CURRENT;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER();
    if (!is(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (CURRENT == (struct object *)context) standin_depth--;
    standin_unmake((struct object *)context);
    if (state.at_end) state.at_end();
    return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *context, unsigned flags) {
    ENTER();
    if (!CURRENT || flags) return CUDA_ERROR_INVALID_VALUE;
    CURRENT->uses++;
    *context = (CUcontext)CURRENT;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context) {
    ENTER();
    if (!is(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (((struct object *)context)->uses-- != 0) return CUDA_SUCCESS;
    return cuCtxDestroy_v2(context);
}

/* A green context and its CUcontext are the same here. */
CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device, unsigned flags) {
    CUcontext home;
    (void)resources, (void)flags;
    CUresult r = cuDevicePrimaryCtxRetain(&home, device);
    if (r != CUDA_SUCCESS) return r;
    struct object *g = make_context(device);
    g->home = (struct object *)home;
    *green = (CUgreenCtx)g;
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
    ENTER();
    if (!is(green, CONTEXT)) return CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    ENTER();
    if (!is(green, CONTEXT) || !((struct object *)green)->home) return CUDA_ERROR_INVALID_VALUE;
    const int device = ((struct object *)green)->device;
    standin_unmake((struct object *)green);
    return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER();
    if (!standin_depth) standin_depth = 1;
    standin_contexts[standin_depth - 1] = (struct object *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER();
    if (!is(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    standin_contexts[standin_depth++] = (struct object *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    ENTER();
    *context = (CUcontext)CURRENT;
    standin_depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    ENTER();
    __atomic_fetch_add(&state.context_queries, 1, __ATOMIC_RELAXED);
    *context = is(CURRENT, CONTEXT) ? (CUcontext)CURRENT : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER();
    if (!is(CURRENT, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    *device = CURRENT->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    ENTER();
    return flags || !is(peer, CONTEXT) || !CURRENT ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Breaks a capture in any mode. */
CUresult cuCtxSynchronize(void) {
    ENTER();
    if (state.before_synchronize) state.before_synchronize();
    if (standin_captures) return state.capture_broken = true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    WAITS();
    standin_finish();
    if (state.at_synchronize) state.at_synchronize();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    (void)context;
    return cuCtxSynchronize();
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    if (limit != CU_LIMIT_MALLOC_HEAP_SIZE) NEEDS_MEMORY();
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && state.late_limit) return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) HOME(CURRENT)->limit = (value + 131071) / 131072 * 131072; /* rounds up */
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    ENTER();
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    *value = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? HOME(CURRENT)->limit : 1024;
    return CUDA_SUCCESS;
}

/* ---- streams and capture ----------------------------------------------------------------------------- */

int standin_captures;
__thread CUstreamCaptureMode standin_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER();
    CUstreamCaptureMode old = standin_mode;
    standin_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    ENTER_UNSAFE();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    struct object *o = standin_make(STREAM, CURRENT);
    o->uses = (int)flags;
    __atomic_fetch_add(&state.streams, 1, __ATOMIC_RELAXED);
    *stream = (CUstream)o;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER();
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    ENTER_UNSAFE();
    if (!CURRENT || priority != -5) return CUDA_ERROR_INVALID_VALUE;
    struct object *o = standin_make(STREAM, CURRENT);
    o->uses = (int)flags;
    o->is_ours = true;
    *stream = (CUstream)o;
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
    ENTER();
    if (!is(stream, STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    return state.full && ((struct object *)stream)->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER();
    if (((struct object *)stream)->capturing) standin_captures--;
    __atomic_fetch_sub(&state.streams, 1, __ATOMIC_RELAXED);
    standin_unmake((struct object *)stream);
    return CUDA_SUCCESS;
}

CUresult standin_check_stream(CUstream stream) {
    if (!is(stream, STREAM) || ((struct object *)stream)->uses != CU_STREAM_NON_BLOCKING) WAITS();
    if (is(stream, STREAM) && ((struct object *)stream)->uses == CU_STREAM_NON_BLOCKING) return CUDA_SUCCESS;
    if (!standin_captures) return CUDA_SUCCESS;
    state.capture_broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult cuStreamSynchronize(CUstream stream) {
    ENTER_UNSAFE();
    standin_finish();
    return standin_check_stream(stream);
}

__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return cuStreamSynchronize(stream); }

CUresult cuEventSynchronize(CUevent event) {
    if (state.before_synchronize) state.before_synchronize();
    ENTER_UNSAFE();
    (void)event;
    standin_finish();
    if (state.at_synchronize) state.at_synchronize();
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    ENTER();
    if (!CURRENT || flags != CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_VALUE;
    struct object *o = standin_make(EVENT, CURRENT);
    __atomic_fetch_add(&state.events, 1, __ATOMIC_RELAXED);
    *event = (CUevent)o;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
    ENTER_UNSAFE();
    if (!is(event, EVENT)) return CUDA_ERROR_INVALID_HANDLE;
    if (state.at_query) state.at_query();
    return ((struct object *)event)->covers <= __atomic_load_n(&state.finished, __ATOMIC_ACQUIRE) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Breaks a capture in any mode. */
CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
    ENTER();
    if (!is(event, EVENT) || ((struct object *)event)->owner != (struct object *)context) return CUDA_ERROR_INVALID_HANDLE;
    if (standin_captures) return state.capture_broken = true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    ((struct object *)event)->covers = __atomic_load_n(&state.submitted, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(&state.records, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    ENTER();
    if (!is(stream, STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    *context = (CUcontext)((struct object *)stream)->owner;
    return CUDA_SUCCESS;
}

/* A query of the legacy stream while another stream captures breaks the capture. */
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green) {
    ENTER();
    if (!is(stream, STREAM) && standin_captures) return state.capture_broken = true, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    struct object *c = is(stream, STREAM) ? ((struct object *)stream)->owner : CURRENT;
    if (!is(c, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    *context = (CUcontext)HOME(c);
    *green = c->home ? (CUgreenCtx)c : NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER();
    state.last_asked = stream;
    *status = is(stream, STREAM) && ((struct object *)stream)->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return !is(stream, STREAM) && standin_captures ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    (void)mode;
    if (!is(stream, STREAM) || ((struct object *)stream)->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    ((struct object *)stream)->capturing = true;
    standin_captures++;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
                                     CUstreamCaptureMode mode) {
    (void)graph, (void)nodes, (void)edges, (void)count;
    return cuStreamBeginCapture_v2(stream, mode);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (!is(stream, STREAM) || !((struct object *)stream)->capturing) return CUDA_ERROR_ILLEGAL_STATE;
    ((struct object *)stream)->capturing = false;
    standin_captures--;
    *graph = NULL;
    return state.capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
