/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mm.h: mm's optional interface, in addition to malloc and free. No program needs it. mmnvcc finds it as <mm.h>.
 *
 * In kernels: the usable size of an allocation, calloc, and realloc. On the host: statistics of the heaps of the current CUDA context, and a
 * function that frees everything that kernels allocated there. The header is for C11, C++11 and later. A program that mmnvcc links needs
 * nothing else. If another linker does the last link, link with -lmm (mm.pc, mm::mm), or call dlsym in a program that mmrun starts.
 */
#ifndef MM_H
#define MM_H

#ifndef __CUDACC_RTC__
#include <stddef.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- host ------------------------------------------------------------------------------------------ */

#ifndef __CUDACC_RTC__

/* Results of the host functions. */
enum mm_result {
    MM_OK = 0,
    MM_ERROR_NO_HEAP = 1,     /* the current context has no heap: none was created yet (the first launch of a kernel whose module allocates
                                 creates it), no context is current, or this process was forked from one that used the GPU */
    MM_ERROR_CUDA = 2,        /* a driver call failed, perhaps because a kernel failed before */
    MM_ERROR_NO_RUN_TIME = 3, /* libmm.so.1 was not preloaded, and is neither where the loader looks nor where it was when the program was linked */
    MM_ERROR_ARGUMENT = 4     /* the pointer is NULL, or struct_bytes is less than the size of the struct in the first version of mm that had it */
};

/* A snapshot of a context's heap. Counts begin when the heap is created, or at mm_reset. Kernels may run meanwhile. A context has one heap, or one for
 * each allocator that its images have: the values are then sums, and null_first_bytes is that of the first heap created that has one. */
struct mm_statistics {
    size_t struct_bytes;                 /* set by the caller: sizeof(struct mm_statistics). Later versions append members */
    unsigned long long heap_bytes;       /* device memory mapped for allocations, free or in use: bytes */
    unsigned long long metadata_bytes;   /* device memory for mm's bookkeeping: bytes */
    unsigned long long reserved_bytes;   /* reserved addresses, mapped or not: bytes */
    unsigned long long null_count;       /* requests that got NULL for lack of memory */
    unsigned long long null_first_bytes; /* size of the first of them, rounded up to a size class: bytes; 0 if there was none */
    /* misuse of free, by kind; see "Misuse" in docs/reference/contract.md */
    unsigned long long misuse_foreign;       /* pointer of another allocator, of another heap, or to the stack */
    unsigned long long misuse_not_allocated; /* pointer into memory that is free */
    unsigned long long misuse_interior;      /* pointer into the middle of an allocation */
    unsigned long long misuse_never;         /* pointer behind the last object of a block, which malloc never returns */
    unsigned long long misuse_double_free;   /* second free of a pointer; or free of an object that malloc has not returned yet */
    /* in a checked run (MM_CHECK=1), what malloc and free have found so far; else 0 */
    unsigned long long misuse_overrun;    /* writes past the end of an allocation */
    unsigned long long misuse_after_free; /* writes to an allocation after free */
};

/* Fills *statistics for the heaps of the calling thread's current context. The caller has set struct_bytes. Members that this version of mm does not
 * know are set to 0. The function reads some hundred bytes of device memory on a separate stream: it waits for no kernel, synchronises nothing, and
 * leaves stream captures valid. Events that kernels count at the same time may be included or not.
 * Returns MM_OK, or an error. After an error *statistics is unchanged. */
int mm_get_statistics(struct mm_statistics *statistics);

/* One size class, in struct mm_usage_statistics. */
struct mm_size_class {
    size_t slice_bytes;                            /* granted size of each object: bytes */
    unsigned long long live_objects, live_bytes;   /* allocated and not freed; granted bytes */
    unsigned long long pages, blocks, free_blocks; /* of this class; free_blocks: blocks without a live object */
};
#define MM_SIZE_CLASSES_MAX 80
#define MM_NOT_COUNTED (~0ull)

/* How a heap's memory is used. */
struct mm_usage_statistics {
    size_t struct_bytes;                /* set by the caller: sizeof(struct mm_usage_statistics). Later versions append members */
    unsigned long long heap_bytes;      /* device memory mapped for allocations, free or in use: bytes */
    unsigned long long peak_heap_bytes; /* the largest heap_bytes so far */
    unsigned long long segment_bytes;   /* size of a segment, the unit in which memory is mapped and given back */
    unsigned long long page_bytes;      /* size of a page, the unit that moves between size classes */
    unsigned long long paged_segments;  /* segments that are used page by page */
    unsigned long long run_segments;    /* segments of runs: objects of one or more whole segments */
    unsigned long long free_segments;
    unsigned long long spare_segments;        /* mapped segments that the device cannot use yet, or that were changing hands */
    unsigned long long largest_free_segments; /* the largest number of consecutive free segments */
    unsigned long long class_pages;           /* pages of size classes, in the paged segments */
    unsigned long long span_pages;            /* pages of spans: objects of one or more whole pages, less than a segment */
    unsigned long long free_pages;            /* free pages, in the paged segments */
    unsigned long long spans, runs;           /* live spans; live runs */
    unsigned long long live_objects;          /* of all sizes; MM_NOT_COUNTED if the allocator does not count them */
    unsigned long long live_bytes;            /* their granted bytes */
    unsigned long long asked_bytes;           /* their requested bytes; MM_NOT_COUNTED without MM_CHECK=1 */
    unsigned long long held_bytes;            /* bytes of size classes' pages without a live object. Only that class can use them until their block is free */
    unsigned long long growth_count;          /* how often the host gave the heap more memory */
    unsigned long long wait_count;            /* how often kernels waited for that */
    unsigned long long waited_ns;             /* the sum of these waits: nanoseconds */
    unsigned long long given_back_bytes;      /* bytes given back to the driver so far */
    double internal_fragmentation;            /* 1 - requested / granted bytes of live objects; negative: not counted */
    double external_fragmentation;            /* 1 - largest_free_segments / free_segments; 0 if no segment is free */
    size_t class_count;                       /* used entries of classes */
    struct mm_size_class classes[MM_SIZE_CLASSES_MAX]; /* the size classes that have pages or live objects, smallest first */
    char allocator[32];                                /* its name. Others than gallatin count some members in another way: docs/reference/allocators.md */
};

/* Fills *usage for the heap of the calling thread's current context, with the values that MM_STATS=1 prints. If the context has several heaps, for that of the
 * default allocator, or else for the first one created. The caller has set struct_bytes. The function walks over a copy of the heap's metadata: it takes some ms,
 * and host memory of up to 1 % of the heap's size (2 % with MM_SPACING=16, and for other allocators). The values are exact if no kernel allocates or frees
 * meanwhile, else approximate. It waits for no kernel and synchronises nothing.
 * Returns MM_OK, or an error. After an error *usage is unchanged. */
int mm_get_usage(struct mm_usage_statistics *usage);

/* Frees everything that kernels allocated in the current context: every pointer that malloc, new, mm_calloc or mm_realloc returned there becomes
 * invalid, no destructor runs, and the counts restart at 0. A heap keeps its device memory, all of it free, until a cudaMalloc needs it.
 * The function synchronises the context first, like cuCtxSynchronize, so it must not be called while a stream captures. The caller guarantees that
 * no other thread launches anything in this context, not even by a graph, between the call and its return; and that no later kernel uses memory
 * that was allocated before. Kernels, modules and graphs remain valid and can be launched afterwards.
 * Returns MM_OK, or an error. After MM_ERROR_CUDA each heap is reset, as it was, or no longer grows and malloc may return NULL until a later mm_reset
 * succeeds. */
int mm_reset(void);

#endif

/* ---- device ---------------------------------------------------------------------------------------- */

#ifdef __CUDACC__

/* Returns the bytes that may be used at p, a pointer that malloc, new, __nv_aligned_device_malloc, mm_calloc or mm_realloc returned: at least the
 * requested bytes, up to the end of the slice, of the span's pages of 16 KiB, or of the run's segments of 1 MiB. Returns 0 for NULL, and if p is not the
 * beginning of a live allocation of this heap (for example freed memory, the middle of an allocation, or memory of another allocator). A pointer that
 * new[] returned may lie behind an element count that the compiler stores in the allocation. Nothing is counted as misuse. The function is a part of
 * the allocator, like malloc. */
__device__ size_t mm_usable_size(const void *p);

/* Allocates `count` objects of `bytes` bytes each, filled with zeros and aligned to 16 bytes. Returns NULL if count * bytes overflows or there is no
 * memory. free frees it. The calling thread writes all the zeros. */
static __inline__ __device__ void *mm_calloc(size_t count, size_t bytes) {
    const size_t all = count * bytes, words = all / sizeof(uint4);
    const uint4 zero = {0, 0, 0, 0};
    char *p = __umul64hi(count, bytes) == 0 ? (char *)malloc(all) : (char *)0;
    if (!p) return p;
    for (size_t i = 0; i < words; i++) ((uint4 *)p)[i] = zero;
    for (size_t i = words * sizeof(uint4); i < all; i++) p[i] = 0;
    return p;
}

/* Changes the size of p's allocation to `bytes` bytes, and returns its address, which may differ from p.
 *   p NULL         the same as malloc(bytes)
 *   bytes 0        frees p and returns NULL
 *   in place       if the usable size of p is at least `bytes`, and at most twice `bytes` or 32: returns p
 *   else           allocates new memory, aligned to 16 bytes, copies the contents up to the smaller of both sizes in the calling thread, and frees p
 *   no memory      if `bytes` is more than the usable size of p, returns NULL and leaves p unchanged; else returns p
 *   misuse         if p is not an allocation (mm_usable_size returns 0), returns NULL and counts a misuse, like free */
static __inline__ __device__ void *mm_realloc(void *p, size_t bytes) {
    const size_t has = mm_usable_size(p), both = has < bytes ? has : bytes, words = both / sizeof(uint4);
    if (!p) return malloc(bytes);
    if (bytes == 0 || has == 0) {
        free(p);
        return (void *)0;
    }
    if (bytes <= has && (has / 2 <= bytes || has <= 2 * sizeof(uint4))) return p;
    char *to = (char *)malloc(bytes);
    if (!to) return bytes <= has ? p : to;
    for (size_t i = 0; i < words; i++) ((uint4 *)to)[i] = ((const uint4 *)p)[i];
    for (size_t i = words * sizeof(uint4); i < both; i++) to[i] = ((const char *)p)[i];
    free(p);
    return to;
}

#endif

#ifdef __cplusplus
}
#endif

#endif
