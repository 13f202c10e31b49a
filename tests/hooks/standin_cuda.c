/* A small libcuda.so.1 that plays device in host memory, for fault injection and machines without a GPU. It is
 * stricter than the real one: any call that makes or waits for something breaks a capture unless the
 * calling thread's mode is relaxed, and asking a CUfunction as if it were a CUkernel aborts.
 * An image is a string; "mm" in it means that the module holds the heap variable.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "standin.h"

#define PAGE_BYTES (2ull << 20)
#define FILL_BYTES_MAX (32ull << 20) /* fresh memory holds rubbish, up to this size of a mapping */

static struct standin state = {.vmm = true,
                               .total_bytes = 8ull << 30,
                               .free_bytes = 8ull << 30};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct standin *standin_get(void);
struct standin *standin_get(void) { return &state; }

static bool must_fail(const char *name) {
    bool fail = false;
    if (!state.armed) return false;
    pthread_mutex_lock(&lock);
    if (state.armed && ++state.calls == state.fail_at) {
        fail = true;
        state.failed = name;
    }
    pthread_mutex_unlock(&lock);
    return fail;
}

#define ENTER()                                                                                           \
    do {                                                                                                  \
        if (state.deinitialized) return CUDA_ERROR_DEINITIALIZED;                                         \
        if (must_fail(__func__)) return (CUresult)state.fail_code;                                        \
    } while (0)

/* ---- objects, whose handles are used again as soon as they are free --------------------------------- */

enum magic { FREE = 0x46524545, CONTEXT = 0x43545854, MODULE = 0x4d4f4455, FUNCTION = 0x46554e43,
             LIBRARY = 0x4c494252, KERNEL = 0x4b45524e, STREAM = 0x5354524d };

struct object {
    enum magic magic;
    struct object *owner; /* module of a function, library of a kernel, context of a module or stream */
    struct object *library; /* of a module that is an instance of it */
    bool holds_variable, capturing;
    int device, uses;
    size_t limit;
    struct mm_heap_ref variable;
};

static struct object pool[4096];

static struct object *make(enum magic magic, struct object *owner) {
    pthread_mutex_lock(&lock);
    struct object *o = NULL;
    for (size_t i = 0; i < sizeof pool / sizeof *pool && !o; i++)
        if (pool[i].magic == 0 || pool[i].magic == FREE) o = &pool[i];
    if (!o) abort();
    memset(o, 0, sizeof *o);
    o->magic = magic;
    o->owner = owner;
    pthread_mutex_unlock(&lock);
    return o;
}

static bool is(const void *handle, enum magic magic) {
    return handle && ((const struct object *)handle)->magic == magic;
}

static void unmake_owned(struct object *owner) {
    for (size_t i = 0; i < sizeof pool / sizeof *pool; i++) {
        struct object *o = &pool[i];
        if (o == owner || (o->owner != owner && o->library != owner)) continue;
        if (o->magic == 0 || o->magic == FREE || o->magic == CONTEXT) continue;
        if (o->magic == MODULE) state.instances--;
        if (o->magic == STREAM) state.streams--;
        o->magic = FREE;
        unmake_owned(o);
    }
}

static void unmake(struct object *o) {
    o->magic = FREE;
    unmake_owned(o);
}

/* ---- contexts ------------------------------------------------------------------------------------ */

static __thread struct object *stack[16];
static __thread int depth;
static struct object *primary[2];
#define CURRENT (depth ? stack[depth - 1] : NULL)

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

static struct object *make_context(int device) {
    struct object *c = make(CONTEXT, NULL);
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
    if (primary[device]) unmake(primary[device]);
    primary[device] = NULL;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER();
    if (!primary[device]) return CUDA_ERROR_INVALID_CONTEXT;
    return --primary[device]->uses ? CUDA_SUCCESS : cuDevicePrimaryCtxReset_v2(device);
}

#undef cuCtxCreate
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    (void)flags;
    ENTER();
    stack[depth++] = make_context(device);
    *context = (CUcontext)CURRENT;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER();
    if (!is(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    if (CURRENT == (struct object *)context) depth--;
    unmake((struct object *)context);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER();
    if (!depth) depth = 1;
    stack[depth - 1] = (struct object *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER();
    if (!is(context, CONTEXT)) return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = (struct object *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    ENTER();
    *context = (CUcontext)CURRENT;
    depth--;
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

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && state.late_limit) return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) CURRENT->limit = value + 4096; /* it rounds */
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    ENTER();
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    *value = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? CURRENT->limit : 1024;
    return CUDA_SUCCESS;
}

/* ---- streams and capture ----------------------------------------------------------------------------- */

static int captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Nothing that makes, waits or copies may come while a capture is on, unless the mode is relaxed. */
#define ENTER_UNSAFE()                                                                                    \
    ENTER();                                                                                              \
    if (captures && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {                                      \
        state.capture_broken = true;                                                                      \
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                                     \
    }

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    ENTER();
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    ENTER_UNSAFE();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    struct object *o = make(STREAM, CURRENT);
    o->uses = (int)flags;
    __atomic_fetch_add(&state.streams, 1, __ATOMIC_RELAXED);
    *stream = (CUstream)o;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER();
    __atomic_fetch_sub(&state.streams, 1, __ATOMIC_RELAXED);
    unmake((struct object *)stream);
    return CUDA_SUCCESS;
}

/* A stream that is ordered with the legacy one is as bad as that one while a capture is on. */
static CUresult check_stream(CUstream stream) {
    if (is(stream, STREAM) && ((struct object *)stream)->uses == CU_STREAM_NON_BLOCKING) return CUDA_SUCCESS;
    if (!captures) return CUDA_SUCCESS;
    state.capture_broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult cuStreamSynchronize(CUstream stream) {
    ENTER_UNSAFE();
    return check_stream(stream);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    ENTER();
    if (!is(stream, STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    *context = (CUcontext)((struct object *)stream)->owner;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    (void)mode;
    ((struct object *)stream)->capturing = true;
    captures++;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    ((struct object *)stream)->capturing = false;
    captures--;
    *graph = NULL;
    return state.capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------------ */

struct range {
    unsigned long long base, bytes;
    struct memory *memory;
};

struct memory {
    unsigned long long bytes;
    int references;
};

static struct range reservations[64], mappings[4096];

static struct range *slot(struct range *list, size_t count, unsigned long long base) {
    for (size_t i = 0; i < count; i++)
        if (list[i].base == base) return &list[i];
    return NULL;
}
#define SLOT(list, base) slot(list, sizeof list / sizeof *list, base)

static void drop_memory(struct memory *m) {
    if (--m->references) return;
    state.free_bytes += m->bytes;
    free(m);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    ENTER();
    *value = attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? state.vmm : 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    (void)device;
    ENTER();
    *bytes = state.total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER();
    *free_bytes = state.free_bytes;
    *total = state.total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    (void)prop;
    (void)option;
    ENTER();
    *bytes = PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
    ENTER_UNSAFE();
    if (!bytes || bytes % PAGE_BYTES || (alignment & (alignment - 1)) || hint || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (state.reserve_limit && bytes > state.limit_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    struct range *r = SLOT(reservations, 0);
    if (alignment < PAGE_BYTES) alignment = PAGE_BYTES;
    char *p = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!r || p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    char *start = (char *)(((unsigned long long)p + alignment - 1) / alignment * alignment);
    if (start > p) munmap(p, (size_t)(start - p));
    if (p + alignment > start) munmap(start + bytes, (size_t)(p + alignment - start));
    r->base = (unsigned long long)start;
    r->bytes = bytes;
    state.reservations++;
    *address = r->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    ENTER();
    struct range *r = SLOT(reservations, address);
    if (!address || !r || r->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (mappings[i].base >= address && mappings[i].base < address + bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)address, bytes);
    r->base = r->bytes = 0;
    state.reservations--;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
    ENTER_UNSAFE();
    if (!bytes || bytes % PAGE_BYTES || flags || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > state.free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    struct memory *m = malloc(sizeof *m);
    m->bytes = bytes;
    m->references = 1;
    state.free_bytes -= bytes;
    state.handles++;
    state.creates++;
    *handle = (CUmemGenericAllocationHandle)m;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER();
    state.handles--;
    drop_memory((struct memory *)handle);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    ENTER_UNSAFE();
    struct memory *m = (struct memory *)handle;
    struct range *inside = NULL, *r = SLOT(mappings, 0);
    for (size_t i = 0; i < sizeof reservations / sizeof *reservations; i++)
        if (address >= reservations[i].base && address + bytes <= reservations[i].base + reservations[i].bytes)
            inside = &reservations[i];
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (address < mappings[i].base + mappings[i].bytes && mappings[i].base < address + bytes)
            return CUDA_ERROR_INVALID_VALUE;
    if (!inside || !r || m->bytes != bytes || offset || flags) return CUDA_ERROR_INVALID_VALUE;
    r->base = address;
    r->bytes = bytes;
    r->memory = m;
    m->references++;
    state.mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER_UNSAFE();
    struct range *r = SLOT(mappings, address);
    if (!r || r->bytes != bytes || count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    mprotect((void *)address, bytes, PROT_READ | PROT_WRITE);
    if (bytes <= FILL_BYTES_MAX) memset((void *)address, 0xa5, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    ENTER();
    struct range *r = SLOT(mappings, address);
    if (!address || !r || r->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    madvise((void *)address, bytes, MADV_DONTNEED);
    mprotect((void *)address, bytes, PROT_NONE);
    drop_memory(r->memory);
    r->base = r->bytes = 0;
    state.mappings--;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    ENTER_UNSAFE();
    if (bytes > state.free_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    char *p = malloc(bytes);
    memset(p, 0xa5, bytes);
    *address = (CUdeviceptr)p;
    state.allocations++;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    ENTER();
    state.allocations--;
    free((void *)address);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    memset((void *)to, value, bytes);
    return check_stream(stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    memcpy((void *)to, from, bytes);
    return check_stream(stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    memcpy(to, (const void *)from, bytes);
    return check_stream(stream);
}

/* ---- modules and libraries ----------------------------------------------------------------------------- */

static struct object *make_module(bool holds_variable) {
    struct object *m = make(MODULE, CURRENT);
    m->holds_variable = holds_variable;
    __atomic_fetch_add(&state.instances, 1, __ATOMIC_RELAXED);
    return m;
}

static CUresult global_of(struct object *module, CUdeviceptr *address, size_t *bytes, const char *name) {
    __atomic_fetch_add(&state.global_queries, 1, __ATOMIC_RELAXED);
    if (!module->holds_variable || strcmp(name, MM_HEAP_REF_NAME) != 0) return CUDA_ERROR_NOT_FOUND;
    *address = (CUdeviceptr)&module->variable;
    *bytes = sizeof module->variable;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER();
    *module = (CUmodule)make_module(strstr(image, "mm") != NULL);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name) {
    (void)name;
    ENTER();
    if (!f) return CUDA_ERROR_INVALID_VALUE;
    if (!is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    *f = (CUfunction)make(FUNCTION, (struct object *)module);
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *list, unsigned count, CUmodule module) {
    return count ? cuModuleGetFunction(list, module, "") : CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    ENTER_UNSAFE();
    if (!is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    return global_of((struct object *)module, address, bytes, name);
}

CUresult cuModuleUnload(CUmodule module) {
    ENTER();
    if (!is(module, MODULE)) return CUDA_ERROR_INVALID_HANDLE;
    state.instances--;
    unmake((struct object *)module);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction f) {
    ENTER();
    if (!is(f, FUNCTION)) return CUDA_ERROR_INVALID_HANDLE;
    *module = (CUmodule)((struct object *)f)->owner;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values, unsigned count) {
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    ENTER();
    struct object *l = make(LIBRARY, NULL);
    l->holds_variable = strstr(code, "mm") != NULL;
    *library = (CUlibrary)l;
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
    ENTER();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    unmake((struct object *)library);
    return CUDA_SUCCESS;
}

/* The library's module in a context; made when first needed, as lazy loading does. */
static struct object *instance_of(struct object *library, struct object *context) {
    static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
    struct object *found = NULL;
    pthread_mutex_lock(&loading);
    for (size_t i = 0; i < sizeof pool / sizeof *pool && !found; i++)
        if (pool[i].magic == MODULE && pool[i].library == library && pool[i].owner == context) found = &pool[i];
    if (!found) {
        found = make_module(library->holds_variable);
        found->owner = context;
        found->library = library;
    }
    pthread_mutex_unlock(&loading);
    return found;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    ENTER();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    *module = (CUmodule)instance_of((struct object *)library, CURRENT);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    ENTER_UNSAFE();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    return global_of(instance_of((struct object *)library, CURRENT), address, bytes, name);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    (void)name;
    ENTER();
    if (!is(library, LIBRARY)) return CUDA_ERROR_INVALID_HANDLE;
    *kernel = (CUkernel)make(KERNEL, (struct object *)library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *list, unsigned count, CUlibrary library) {
    return count ? cuLibraryGetKernel(list, library, "") : CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    ENTER();
    if (!is(kernel, KERNEL)) abort();
    *library = (CUlibrary)((struct object *)kernel)->owner;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *f, CUkernel kernel) {
    ENTER();
    if (!is(kernel, KERNEL)) abort();
    *f = (CUfunction)make(FUNCTION, instance_of(((struct object *)kernel)->owner, CURRENT));
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
    if (module->holds_variable) {
        state.launches_with_variable++;
        state.last_ref = module->variable;
        state.launches_without_heap += module->variable.heap == 0;
    }
    pthread_mutex_unlock(&lock);
    return (CUresult)state.launch_code;
}

#define LAUNCHES(suffix, count)                                                                           \
    CUresult cuLaunchKernel##suffix(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, \
                                    unsigned g, unsigned h, CUstream s, void **p, void **x) {             \
        state.last_dims_sum = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * g + 7 * h) + (p == x);        \
        count;                                                                                            \
        return run(f, s, NULL);                                                                           \
    }                                                                                                     \
    CUresult cuLaunchKernelEx##suffix(const CUlaunchConfig *config, CUfunction f, void **p, void **x) {   \
        (void)p, (void)x;                                                                                 \
        count;                                                                                            \
        return run(f, config->hStream, NULL);                                                             \
    }                                                                                                     \
    CUresult cuLaunchCooperativeKernel##suffix(CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, \
                                               unsigned e, unsigned g, unsigned h, CUstream s, void **p) { \
        state.last_dims_sum = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * g + 7 * h) + (p == NULL);     \
        count;                                                                                            \
        return run(f, s, NULL);                                                                           \
    }
LAUNCHES(, (void)0)
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             CUstream, void **, void **);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                        unsigned, CUstream, void **);
LAUNCHES(_ptsz, state.launches_ptsz++)

/* A node "runs" when it is added: the hook must have published by then. */
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *p) {
    (void)node, (void)graph, (void)deps, (void)count;
    return run(p->func ? (void *)p->func : (void *)p->kern, NULL, (struct object *)p->ctx);
}

#undef cuGraphAddKernelNode
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    (void)node, (void)graph, (void)deps, (void)count;
    return run(p->func, NULL, NULL);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *p) {
    (void)node, (void)graph, (void)deps, (void)edges, (void)count;
    const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
    return run(k->func ? (void *)k->func : (void *)k->kern, NULL, (struct object *)k->ctx);
}

CUresult cuGetErrorName(CUresult code, const char **name) {
    switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return CUDA_SUCCESS;
    case CUDA_ERROR_NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return CUDA_SUCCESS;
    case CUDA_ERROR_UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- cuGetProcAddress -------------------------------------------------------------------------------- */

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
    {"cuGraphAddNode", 13010, false, (void *)cuMemGetInfo_v2}, /* a later variant that nobody knows */
    {"cuGetProcAddress", 11030, false, (void *)cuGetProcAddress},
    {"cuGetProcAddress", 12000, false, (void *)cuGetProcAddress_v2},
    {"cuInit", 2000, false, (void *)cuInit},
    {"cuDriverGetVersion", 2020, false, (void *)cuDriverGetVersion},
    {"cuGetExportTable", 3000, false, (void *)cuGetExportTable},
    {"cuDevicePrimaryCtxRetain", 7000, false, (void *)cuDevicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxReset", 11000, false, (void *)cuDevicePrimaryCtxReset_v2},
    {"cuDevicePrimaryCtxRelease", 11000, false, (void *)cuDevicePrimaryCtxRelease_v2},
    {"cuCtxSetCurrent", 4000, false, (void *)cuCtxSetCurrent},
    {"cuCtxCreate", 3020, false, (void *)cuCtxCreate_v2},
    {"cuCtxDestroy", 4000, false, (void *)cuCtxDestroy_v2},
    {"cuCtxSetLimit", 3010, false, (void *)cuCtxSetLimit},
    {"cuCtxGetLimit", 3010, false, (void *)cuCtxGetLimit},
    {"cuModuleLoadData", 2000, false, (void *)cuModuleLoadData},
    {"cuModuleGetFunction", 2000, false, (void *)cuModuleGetFunction},
    {"cuModuleEnumerateFunctions", 12040, false, (void *)cuModuleEnumerateFunctions},
    {"cuModuleUnload", 2000, false, (void *)cuModuleUnload},
    {"cuLibraryLoadData", 12000, false, (void *)cuLibraryLoadData},
    {"cuLibraryUnload", 12000, false, (void *)cuLibraryUnload},
    {"cuLibraryGetKernel", 12000, false, (void *)cuLibraryGetKernel},
    {"cuLibraryEnumerateKernels", 12040, false, (void *)cuLibraryEnumerateKernels},
    {"cuLibraryGetModule", 12000, false, (void *)cuLibraryGetModule},
    {"cuKernelGetFunction", 12000, false, (void *)cuKernelGetFunction},
    {"cuStreamCreate", 2000, false, (void *)cuStreamCreate},
    {"cuStreamBeginCapture", 10010, false, (void *)cuStreamBeginCapture_v2},
    {"cuStreamEndCapture", 10000, false, (void *)cuStreamEndCapture},
};

static CUresult not_here(void) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
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
    if (best < 0 && getenv("STANDIN_EVERYTHING")) { /* for cudart, which gives up at the first that is not there */
        *function = (void *)not_here;
        best = 0;
    }
    if (status)
        *status = best < 0 ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
