/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cases of misuse of free (misuse.cu), as rows of a table (misuse_cases.c): a row stands for a case of each way that it names. */
#ifndef MM_TESTS_GPU_MISUSE_H
#define MM_TESTS_GPU_MISUSE_H

#ifdef __cplusplus
extern "C" {
#endif

/* What it is counted as, and told as. */
enum misuse_kind { FOREIGN, NOT_ALLOCATED, INTERIOR, NEVER, DOUBLE_FREE, KINDS };

/* When memory is got, given back and then misused: by one kernel; by three; or the first two on the other GPU. */
enum { SAME_KERNEL = 1, LATER_KERNEL = 2, OTHER_GPU = 4, BOTH_KERNELS = SAME_KERNEL | LATER_KERNEL };

/* By whom: a kernel of one thread; a thread in the middle of a block, also in three dimensions; a warp, likewise; thread k of
 * a block does misuse k, one after the other. */
enum { ONE = 1, MIDDLE = 2, SPACE = 4, WARP = 8, WARP_SPACE = 16, TURNS = 32 };

/* MM_ON_MISUSE. */
enum { REPORT = 1, TRAP = 2, IGNORE = 4, ALL_MODES = REPORT | TRAP | IGNORE };

/* The pointer to which the offset is added. */
enum misuse_pointer {
    SLOT,   /* misuse k: what malloc gave as slot k */
    END,    /* of the stretch that slot 0 lies in */
    WILD,   /* none: the offset itself. Misuse k of this and what follows: 16 bytes behind the last one */
    CUDA_MALLOC, CUDA_MALLOC_OF_ANOTHER, MANAGED, PINNED, HOST_STACK, HOST_HEAP, /* from the host */
    STACK, SHARED, GLOBAL                                                        /* from the kernel */
};

struct misuse_row {
    const char *name;
    unsigned long long bytes; /* of each malloc */
    unsigned count;           /* slots: so many of them, got by one thread */
    unsigned first, released; /* slots [first, released) are given back */
    unsigned live_from;       /* slots from here on are live after the misuse, and then given back; 0: from `released` on */
    unsigned stretch;         /* all slots, and what is misused, must lie in one of so many bytes; a power of two, 0 if it does not matter */
    enum misuse_pointer pointer;
    unsigned odd_lane;        /* a warp: the offset is this lane's only, if it is not 0 */
    long long offset;
    unsigned times;           /* misuses, 0 as 1; or a warp's, all of which are one */
    enum misuse_kind kind;
    unsigned long long size;  /* what the line says behind "of", 0: it says none */
    unsigned when, who, mode; /* 0: BOTH_KERNELS, ONE, REPORT */
    unsigned device;          /* where it is misused */
    unsigned spacing;         /* MM_SPACING, 0: 32 */
};
extern const struct misuse_row misuse_rows[];
extern const unsigned misuse_row_count;

#ifdef __cplusplus
}
#endif

#endif
