/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The stand-in driver's memory: physical memory is counted, addresses are those of the process. */
#include "standin_internal.h"

#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES (2ull << 20)
#define FILL_BYTES_MAX (4ull << 20) /* new mappings up to this size are filled with garbage */

struct range {
    unsigned long long base, bytes;
    struct memory *memory;
    bool is_accessible;
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

/* The program's thread and libmm.so's thread call concurrently. */
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void unlock(pthread_mutex_t **held) { pthread_mutex_unlock(*held); }
#define LOCKED()                                                           \
    pthread_mutex_t *held __attribute__((cleanup(unlock))) = &memory_lock; \
    pthread_mutex_lock(held)

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    ENTER();
    const int arch = state.arch[device] ? state.arch[device] : 90;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = state.vmm; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = arch % 10; break;
    default: *value = 0;
    }
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
    if (CURRENT && !is(CURRENT, CONTEXT)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *free_bytes = state.free_bytes;
    *total = state.total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option) {
    (void)prop;
    (void)option;
    ENTER();
    *bytes = PAGE_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
    ENTER_UNSAFE();
    LOCKED();
    if (!bytes || bytes % PAGE_BYTES || (alignment & (alignment - 1)) || hint || flags) return CUDA_ERROR_INVALID_VALUE;
    if (state.reserve_limit && bytes > state.limit_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    struct range *r = SLOT(reservations, 0);
    if (alignment < PAGE_BYTES) alignment = PAGE_BYTES;
    char *p = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!r || p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    char *start = (char *)(((unsigned long long)p + alignment - 1) / alignment * alignment);
    madvise(p, bytes + alignment, MADV_NOHUGEPAGE); /* tests touch few pages of large mappings */
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
    LOCKED();
    struct range *r = SLOT(reservations, address);
    if (!address || !r || r->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (mappings[i].base >= address && mappings[i].base < address + bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap((void *)address, bytes);
    r->base = r->bytes = 0;
    state.reservations--;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    ENTER_UNSAFE();
    __atomic_add_fetch(&state.blocked, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&state.blocks_creates, __ATOMIC_RELAXED)) usleep(100);
    __atomic_sub_fetch(&state.blocked, 1, __ATOMIC_RELAXED);
    LOCKED();
    if (!bytes || bytes % PAGE_BYTES || flags || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > state.free_bytes || (state.piece_bytes && bytes > state.piece_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
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
    LOCKED();
    state.handles--;
    drop_memory((struct memory *)handle);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER_UNSAFE();
    LOCKED();
    struct memory *m = (struct memory *)handle;
    struct range *inside = NULL, *r = SLOT(mappings, 0);
    for (size_t i = 0; i < sizeof reservations / sizeof *reservations; i++)
        if (address >= reservations[i].base && address + bytes <= reservations[i].base + reservations[i].bytes) inside = &reservations[i];
    for (size_t i = 0; i < sizeof mappings / sizeof *mappings; i++)
        if (address < mappings[i].base + mappings[i].bytes && mappings[i].base < address + bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!inside || !r || m->bytes != bytes || offset || flags) return CUDA_ERROR_INVALID_VALUE;
    r->base = address;
    r->bytes = bytes;
    r->is_accessible = false;
    r->memory = m;
    m->references++;
    state.mappings++;
    return CUDA_SUCCESS;
}

/* The range must be fully mapped, by one mapping or several. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    ENTER_UNSAFE();
    LOCKED();
    if (count == 0 || access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr at = address; at < address + bytes;) {
        struct range *r = SLOT(mappings, at);
        if (!r || at + r->bytes > address + bytes) return CUDA_ERROR_INVALID_VALUE;
        if (!r->is_accessible) { /* else the call is for another device's access */
            r->is_accessible = true;
            mprotect((void *)at, r->bytes, PROT_READ | PROT_WRITE);
            if (r->bytes <= FILL_BYTES_MAX) memset((void *)at, 0xa5, r->bytes);
        }
        at += r->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    ENTER();
    LOCKED();
    struct range *r = SLOT(mappings, address);
    if (!address || !r || r->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    madvise((void *)address, bytes, MADV_DONTNEED);
    mprotect((void *)address, bytes, PROT_NONE);
    drop_memory(r->memory);
    r->base = r->bytes = 0;
    state.mappings--;
    return CUDA_SUCCESS;
}

/* ---- cuMemAlloc --------------------------------------------------------------------------------------- */

#define ALLOCATIONS 16384
static struct allocation { unsigned long long base, bytes; } allocations[ALLOCATIONS];

static struct allocation *containing(CUdeviceptr address) {
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].base && address - allocations[i].base < allocations[i].bytes) return &allocations[i];
    return NULL;
}

/* Allocations too large to fill with garbage only get addresses. */
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    ENTER_UNSAFE();
    if (state.at_allocate) state.at_allocate(bytes);
    if (state.slow_allocations) usleep(3000);
    LOCKED();
    int i = 0;
    while (i < ALLOCATIONS && allocations[i].base) i++;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > state.free_bytes || i == ALLOCATIONS) return CUDA_ERROR_OUT_OF_MEMORY;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes <= FILL_BYTES_MAX) memset(p, 0xa5, bytes);
    *address = (CUdeviceptr)p;
    allocations[i] = (struct allocation){*address, bytes};
    state.allocations++;
    state.free_bytes -= bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    ENTER();
    WAITS();
    if (!address) return CUDA_SUCCESS;
    standin_finish();
    LOCKED();
    struct allocation *a = containing(address);
    if (!a || a->base != address) return CUDA_ERROR_INVALID_VALUE;
    state.frees++;
    state.allocations--;
    state.free_bytes += a->bytes;
    munmap((void *)address, a->bytes);
    a->base = 0;
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    (void)stream;
    return cuMemFree_v2(address);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    ENTER();
    LOCKED();
    const struct allocation *a = containing(address);
    if (!a) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = a->base;
    if (bytes) *bytes = a->bytes;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER();
    LOCKED();
    const struct allocation *a = containing(address);
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) *(CUdeviceptr *)data = a->base;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *(size_t *)data = a->bytes;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
}

/* Unlike a single attribute's, the call succeeds for other addresses, and writes zeros. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    for (unsigned i = 0; i < count; i++)
        if (cuPointerGetAttribute(data[i], attributes[i], address) != CUDA_SUCCESS) memset(data[i], 0, sizeof(unsigned));
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    (void)value, (void)attribute;
    ENTER();
    LOCKED();
    return containing(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address) {
    ENTER();
    LOCKED();
    if (!containing(address)) return CUDA_ERROR_INVALID_VALUE;
    memset(handle, 1, sizeof *handle);
    return CUDA_SUCCESS;
}

/* ---- registered memory, and copies -------------------------------------------------------------------- */

CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
    ENTER_UNSAFE();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    if ((unsigned long long)p % 4096 || !bytes || !(flags & CU_MEMHOSTREGISTER_DEVICEMAP)) return CUDA_ERROR_INVALID_VALUE;
    __atomic_add_fetch(&state.registrations, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&CURRENT->uses_registered, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
    (void)p;
    ENTER_UNSAFE();
    WAITS();
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    __atomic_sub_fetch(&state.registrations, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&CURRENT->uses_registered, 1, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *p, unsigned flags) {
    ENTER();
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    *address = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    WAITS(); /* it is a kernel */
    memset((void *)to, value, bytes);
    return standin_check_stream(stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    __atomic_add_fetch(&state.copied_bytes, bytes, __ATOMIC_RELAXED);
    memcpy((void *)to, from, bytes);
    return standin_check_stream(stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_UNSAFE();
    memcpy(to, (const void *)from, bytes);
    return standin_check_stream(stream);
}
