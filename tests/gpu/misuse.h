/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cases of misuse of free (misuse.cu), as rows of a table (misuse_cases.c): each row defines one case for every combination of its ways. */
#ifndef MM_TESTS_GPU_MISUSE_H
#define MM_TESTS_GPU_MISUSE_H

#ifdef __cplusplus
extern "C" {
#endif

/* How it is counted and reported. */
enum misuse_kind { FOREIGN, NOT_ALLOCATED, INTERIOR, NEVER, DOUBLE_FREE, KINDS };

/* Which kernels allocate, free and misuse: one kernel; three kernels; or three, of which the first two run on the other GPU. */
enum { SAME_KERNEL = 1, LATER_KERNEL = 2, OTHER_GPU = 4, BOTH_KERNELS = SAME_KERNEL | LATER_KERNEL };

/* Which threads misuse: the only thread of a kernel; a thread in the middle of a CTA, also of three dimensions; a warp, likewise; or
 * thread k of a CTA commits misuse k, one after the other. */
enum { ONE = 1, MIDDLE = 2, SPACE = 4, WARP = 8, WARP_SPACE = 16, TURNS = 32 };

/* MM_ON_MISUSE. */
enum { REPORT = 1, TRAP = 2, IGNORE = 4, ALL_MODES = REPORT | TRAP | IGNORE };

/* The pointer to which the offset is added. */
enum misuse_pointer {
    SLOT, /* misuse k: the pointer in slot k */
    END,  /* the end of the stretch that contains slot 0 */
    WILD, /* none: the offset itself. From here on, each misuse is 16 bytes behind the previous one */
    CUDA_MALLOC,
    CUDA_MALLOC_OF_ANOTHER,
    MANAGED,
    PINNED,
    HOST_STACK,
    HOST_HEAP, /* from the host */
    STACK,
    SHARED,
    GLOBAL /* from the kernel */
};

struct misuse_row {
    const char *name;
    unsigned long long bytes; /* of each malloc */
    unsigned count;           /* number of slots, all allocated by one thread */
    unsigned first, released; /* slots [first, released) are freed */
    unsigned live_from;       /* slots from here on are still live after the misuse, and are freed last; 0: from `released` on */
    unsigned stretch;         /* all slots and misused pointers must be in one aligned range of so many bytes; a power of two, 0: no limit */
    enum misuse_pointer pointer;
    unsigned odd_lane; /* a warp: if not 0, the offset applies to this lane only */
    long long offset;
    unsigned times; /* number of misuses, 0 means 1; for a warp, all lanes' frees together are one */
    enum misuse_kind kind;
    unsigned long long size;  /* the size in the report, after "of"; 0: none */
    unsigned when, who, mode; /* 0: BOTH_KERNELS, ONE, REPORT */
    unsigned device;          /* where the misuse happens */
    unsigned spacing;         /* MM_SPACING, 0: 32 */
};
extern const struct misuse_row misuse_rows[];
extern const unsigned misuse_row_count;

#ifdef __cplusplus
}
#endif

#endif
