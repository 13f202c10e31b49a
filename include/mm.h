/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mm.h: what a program may ask of mm beyond malloc and free. No program needs it; mmnvcc finds it as <mm.h>.
 *
 * In kernels: how many bytes an allocation has, calloc, realloc. On the host: what the heap of the current CUDA context has and
 * what happened in it, and giving back all that kernels allocated there at once. C11, C++11 and later. A program linked by
 * mmnvcc needs nothing else; where another linker does the last link: -lmm (mm.pc, mm::mm), or dlsym under mmrun.
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

/* What the host's functions return. */
enum mm_result {
    MM_OK = 0,
    MM_ERROR_NO_HEAP = 1,     /* the current context has none (yet): it comes with the first launch of a kernel whose module allocates; or
                                 no context is current, or this process was forked from one that used the GPU */
    MM_ERROR_CUDA = 2,        /* the driver refused a call; that of a kernel that failed before may be the reason */
    MM_ERROR_NO_RUN_TIME = 3, /* libmm.so.1 is not where it was when the program was linked, and was not preloaded */
    MM_ERROR_ARGUMENT = 4     /* NULL, or a struct_bytes less than the size of the struct */
};

/* The heap of a context since it was made, or since mm_reset. All of a snapshot: kernels go on meanwhile. */
struct mm_statistics {
    size_t struct_bytes;                /* sizeof(struct mm_statistics): the caller's, who sets it. Later versions append */
    unsigned long long heap_bytes;      /* memory of the device that malloc has to give, or has given: bytes */
    unsigned long long metadata_bytes;  /* memory of the device for mm's own bookkeeping: bytes */
    unsigned long long reserved_bytes;  /* addresses, with memory behind them or not: bytes */
    unsigned long long null_count;      /* requests answered NULL for lack of memory */
    unsigned long long null_first_bytes; /* size of the first of them: bytes, as rounded up to a size class; 0 if there was none */
    /* misuse of free, by kind; see "Misuse" in docs/reference/contract.md */
    unsigned long long misuse_foreign;       /* pointer of another allocator, another heap or the stack */
    unsigned long long misuse_not_allocated; /* pointer into memory that is free */
    unsigned long long misuse_interior;      /* pointer into the middle of an allocation */
    unsigned long long misuse_never;         /* pointer behind the last object of a block, that malloc never gave */
    unsigned long long misuse_double_free;   /* second free of the same pointer; or of an object that is yet to be given */
    /* in a checked run (MM_CHECK=1), as far as free and malloc have come by; else 0 */
    unsigned long long misuse_overrun;       /* writes past the end of an allocation */
    unsigned long long misuse_after_free;    /* writes to it after free */
};

/* Fills *statistics, whose struct_bytes the caller has set, for the heap of the current context of the calling thread. Members that this
 * mm does not know are set to 0. Reads some hundred bytes of the device's memory, on a stream of its own: waits for no kernel and
 * synchronises nothing, is fine during a stream capture, and what kernels count at the same moment may be in it or not.
 * Returns MM_OK, or an error; then *statistics is as it was. */
int mm_get_statistics(struct mm_statistics *statistics);

/* One size class, in struct mm_usage_statistics. */
struct mm_size_class {
    size_t slice_bytes;                              /* of each of its objects, as granted */
    unsigned long long live_objects, live_bytes;     /* handed out, that have not come back; as granted */
    unsigned long long pages, blocks, free_blocks;   /* it has; of those blocks, of which nothing is handed out */
};
#define MM_SIZE_CLASSES_MAX 80
#define MM_NOT_COUNTED (~0ull)

/* What of a heap is in use. */
struct mm_usage_statistics {
    size_t struct_bytes;                  /* sizeof(struct mm_usage_statistics): the caller's, who sets it. Later versions append */
    unsigned long long heap_bytes;        /* memory of the device that malloc has to give, or has given: bytes */
    unsigned long long peak_heap_bytes;   /* the most there ever was */
    unsigned long long segment_bytes;     /* of a segment, in which memory is mapped and given back */
    unsigned long long page_bytes;        /* of a page, in which it moves between size classes */
    unsigned long long paged_segments;    /* segments that are given away by pages */
    unsigned long long run_segments;      /* segments of objects as large as that */
    unsigned long long free_segments;
    unsigned long long spare_segments;    /* mapped, and not yet the heap's, or on their way */
    unsigned long long largest_free_segments; /* neighbours that are free, at most */
    unsigned long long class_pages;       /* of the paged segments: pages of size classes */
    unsigned long long span_pages;        /* pages of objects that are larger than a size class, and less than a segment */
    unsigned long long free_pages;
    unsigned long long spans, runs;       /* such objects; those of segments */
    unsigned long long live_objects;      /* all */
    unsigned long long live_bytes;        /* as granted */
    unsigned long long asked_bytes;       /* of them, as asked for; MM_NOT_COUNTED without MM_CHECK=1 */
    unsigned long long held_bytes;        /* free in blocks of size classes: for objects of that class, until the block is free as a whole */
    unsigned long long growth_count;      /* how often the host gave more memory */
    unsigned long long wait_count;        /* how often kernels waited for that */
    unsigned long long waited_ns;         /* all of them together: nanoseconds */
    unsigned long long given_back_bytes;  /* to the driver */
    double internal_fragmentation;        /* 1 - asked / granted bytes of live objects; negative: not counted */
    double external_fragmentation;        /* 1 - largest_free_segments / free_segments */
    size_t class_count;
    struct mm_size_class classes[MM_SIZE_CLASSES_MAX]; /* by size; those that have pages */
};

/* Fills *usage, whose struct_bytes the caller has set, for the heap of the current context of the calling thread, as MM_STATS=1 prints it:
 * by a walk over a copy of the heap's metadata, some ms and up to 1 % of the heap's size, 2 % with MM_SPACING=16. Beside kernels that allocate it is near
 * the truth; with none at work, exact. Waits for no kernel and synchronises nothing.
 * Returns MM_OK, or an error; then *usage is as it was. */
int mm_get_usage(struct mm_usage_statistics *usage);

/* Gives back everything that kernels allocated in the current context, at once: every pointer that malloc, new, mm_calloc
 * or mm_realloc gave there becomes invalid, no destructor runs, and the counts begin at 0. The heap keeps the memory
 * that it has of the device, all of it free, until a cudaMalloc needs it.
 * The function synchronises the context first (as cuCtxSynchronize: not while a stream captures). The caller guarantees that no other
 * thread launches into this context, by a graph neither, from the call to its return; and that no kernel uses what it allocated
 * before. Kernels, modules and graphs stay as they are and can be launched afterwards.
 * Returns MM_OK, or an error. After MM_ERROR_CUDA the heap is as it was, or it is without memory, every malloc answers NULL and
 * another mm_reset may help. */
int mm_reset(void);

#endif

/* ---- device ---------------------------------------------------------------------------------------- */

#ifdef __CUDACC__

/* Bytes that may be used at p, which malloc, new, __nv_aligned_device_malloc, mm_calloc or mm_realloc gave: at least what was
 * asked for, all of the size class, or of the pages of 16 KiB or segments of 1 MiB. 0 for NULL and for what is no live allocation of the heap: never
 * given, given back, into the middle, of another allocator. Of new[] the pointer may lie behind a count that the compiler keeps.
 * Nothing is counted as misuse. Part of the allocator, as malloc is; __device__ in the program's own code. */
__device__ size_t mm_usable_size(const void *p);

/* Memory for `count` objects of `bytes` each, all 0, aligned to 16; free takes it. NULL if count * bytes overflows or there is no
 * such memory. The calling thread alone writes the zeros. */
static __inline__ __device__ void *mm_calloc(size_t count, size_t bytes) {
    const size_t all = count * bytes, words = all / sizeof(uint4);
    const uint4 zero = {0, 0, 0, 0};
    char *p = __umul64hi(count, bytes) == 0 ? (char *)malloc(all) : (char *)0;
    if (!p) return p;
    for (size_t i = 0; i < words; i++) ((uint4 *)p)[i] = zero;
    for (size_t i = words * sizeof(uint4); i < all; i++) p[i] = 0;
    return p;
}

/* Gives p's allocation the size `bytes`; returns where it is now. p NULL: malloc(bytes). bytes 0: frees p, returns NULL. p stays where
 * it is if its usable size is enough and no more than twice as much, or 32. Else there is a new allocation,
 * aligned to 16, with what both have room for copied by the calling thread, and p is freed. NULL if there is no memory for
 * more than p has: p is then as it was; with no memory for less p stays where it is. A p that is no allocation (mm_usable_size 0)
 * gets NULL and is counted, as free does. */
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
