/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The state of the stand-in driver (standin_cuda.c) that a test may read and set; standin_get() of its library returns it. */
#ifndef MM_STANDIN_H
#define MM_STANDIN_H

#include <cuda.h>
#include <stdbool.h>

#include "runtime/core/layout.h"

struct standin {
    /* fault injection: while armed, the fail_at-th driver call that is not a launch returns fail_code; counts only thread only_here, if set */
    bool armed;
    int only_here; /* gettid */
    long calls, fail_at;
    const char *fail_name; /* instead of fail_at: all calls of this function fail */
    int fail_code;
    const char *failed; /* name of the last call that failed */
    /* the device */
    bool vmm;
    unsigned long long total_bytes, free_bytes;
    bool reserve_limit; /* refuse reservations above limit_bytes */
    unsigned long long limit_bytes;
    unsigned long long piece_bytes; /* refuse physical memory in larger pieces; 0: do not */
    bool deinitialized;
    void (*at_end)(void);                          /* called after a context was destroyed or released, before that call returns */
    void (*before_end)(void);                      /* called before a primary context is reset: the driver waits for kernels there */
    void (*before_synchronize)(void);              /* called by cuCtxSynchronize and cuEventSynchronize before they look whether a stream captures */
    void (*at_synchronize)(void);                  /* called by cuCtxSynchronize and cuEventSynchronize: kernels end there */
    bool blocks_creates;                           /* cuMemCreate does not return while this is true, as if it waited for the kernel */
    unsigned long long code_bytes;                 /* free_bytes that a module, an instance of a library, an instantiated graph or a limit requires;
                                      checked, not consumed */
    void (*at_allocate)(unsigned long long bytes); /* called by cuMemAlloc */
    bool slow_allocations;                         /* cuMemAlloc takes 3 ms */
    long blocked;                                  /* calls blocked there now */
    bool full;                                     /* kernels do not start: all multiprocessors are busy */
    bool held; /* a kernel holds all multiprocessors and waits for the host: a call that needs one, or waits for kernels, would deadlock;
                  it is counted in `waits` instead */
    long waits;
    const char *waited;       /* the last such call */
    long submitted, finished; /* work of the device that the test submits, in order, and how much of it is done: events and calls that wait see it */
    void (*at_finish)(void);  /* called before all of it is done, in a call that waits for that */
    void (*at_query)(void);   /* called by cuEventQuery */
    long records;             /* cuCtxRecordEvent */
    long frees;               /* cuMemFree */
    bool late_limit;          /* the driver refuses cuCtxSetLimit(MALLOC_HEAP_SIZE) from now on */
    /* what is alive */
    int handles, mappings, reservations, allocations, events, streams, instances, registrations;
    /* what was called */
    unsigned long long copied_bytes;                                                                /* from the host to the device */
    long lookups, context_queries, global_queries, other_queries, creates, launches, launches_ptsz; /* other: for other versions' variables */
    int last_dims_sum; /* of the last launch's parameters: arguments arrived unchanged */
    /* launches of modules with the heap variable, and its value at the launch */
    long launches_with_variable, launches_without_heap;
    struct mm_heap_ref last_ref;
    long own_modules;                    /* loaded modules of libmm.so */
    long retires, claims, notes;         /* launches of libmm.so's kernels */
    void *last_note_stream, *last_asked; /* last_asked: the last stream of cuStreamIsCapturing */
    unsigned long long grids, last_grid; /* number of launches, libmm.so's included; number of the program's last launch */
    int launch_code;                     /* launches return it */
    bool launches_do_nothing;
    /* loaded code (standin_jit.c): address of the last image, and its options */
    const void *last_image;
    char *last_text; /* a copy, if it is text */
    long loads, loads_by_path;
    unsigned last_options, last_library_options;
    void *last_value;       /* value of the first option, before the driver overwrote it */
    bool last_is_preserved; /* the program keeps the image in place (CU_LIBRARY_BINARY_IS_PRESERVED) */
    bool refuse_mm;         /* refuses images with the heap variable */
    /* of the current link: inputs; inputs with the heap variable */
    int inputs, inputs_with_mm;
    CUjitInputType last_input;
    char *linked_text;  /* a copy of its last PTX input */
    char *linked_cubin; /* a copy of its last machine code input */
    size_t linked_cubin_bytes;
    unsigned link_options; /* its options, and the value of the first */
    CUjit_option link_option[16];
    void *link_value;
    long links;                                    /* existing link states */
    bool last_is_linked;                           /* the last loaded image is the result of a link with mm */
    bool refuse_links, refuse_ours, refuse_linked; /* refuse any link state; mm's code as an input; an image linked with mm */
    long link_creates;
    unsigned most_registers, link_registers; /* a text does not link with a higher limit or none, 0: always links; the last state's limit */
    bool last_is_undefined;                  /* the last image leaves the allocation function undefined */
    unsigned last_archs[4], last_arch_count; /* of the last fat binary's images; 0 if one was not linked for its entry's */
    int leaves_objects;                      /* data symbols in linked images have type 13, which the loader refuses; 2 to 6: and a header field
                           is wrong; 7: and the program's code differs */
    int arch[2];                             /* of the devices; 0: sm_90 */
    bool capture_broken;
};

typedef struct standin *standin_get_function(void);

#endif
