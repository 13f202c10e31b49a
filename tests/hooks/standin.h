/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a test may see and set of the stand-in driver (standin_cuda.c): standin_get() of its library. */
#ifndef MM_STANDIN_H
#define MM_STANDIN_H

#include <cuda.h>
#include <stdbool.h>

#include "runtime/core/layout.h"

struct standin {
    /* fault injection: while armed, the fail_at-th driver call that is not a launch answers fail_code; of only_here's calls, if that is set */
    bool armed;
    int only_here; /* gettid */
    long calls, fail_at;
    const char *fail_name; /* in place of fail_at: calls of this function fail */
    int fail_code;
    const char *failed; /* name of the call that did */
    /* the device */
    bool vmm;
    unsigned long long total_bytes, free_bytes;
    bool reserve_limit; /* refuse reservations above limit_bytes */
    unsigned long long limit_bytes;
    unsigned long long piece_bytes; /* refuse physical memory in larger pieces; 0: do not */
    bool deinitialized;
    void (*at_end)(void); /* called when a context was destroyed or released, before that call returns */
    void (*before_end)(void); /* called before a primary context is reset: there the driver waits for kernels */
    void (*at_synchronize)(void); /* called by cuCtxSynchronize: kernels end there */
    bool blocks_creates; /* cuMemCreate does not come back until this is false, as if it waited for the kernel */
    unsigned long long code_bytes; /* what a module, an instance of a library, an instantiated graph, or a limit needs of free_bytes; it is
                                      not taken */
    bool slow_allocations; /* cuMemAlloc takes 3 ms */
    long blocked;        /* calls that do so now */
    bool full;           /* kernels do not begin: all multiprocessors are taken */
    bool held; /* a kernel holds all multiprocessors and waits for the host: what needs one, or waits for kernels, would wait for ever. It
                  is counted instead */
    long waits;
    const char *waited; /* the last one */
    bool late_limit; /* the driver refuses cuCtxSetLimit(MALLOC_HEAP_SIZE) from now on */
    /* what is alive */
    int handles, mappings, reservations, allocations, streams, instances, registrations;
    /* what was called */
    unsigned long long copied_bytes; /* from the host to the device */
    long lookups, context_queries, global_queries, other_queries, creates, launches, launches_ptsz; /* other: of other versions' variables */
    int last_dims_sum; /* of the last launch's parameters: arguments arrived unchanged */
    /* kernels of modules that hold the heap variable: what it held when they ran */
    long launches_with_variable, launches_without_heap;
    struct mm_heap_ref last_ref;
    long own_modules; /* of libmm.so that were loaded */
    long retires, claims, notes; /* kernels of libmm.so that ran */
    void *last_note_stream, *last_asked; /* of which it was asked whether it captures */
    unsigned long long grids, last_grid; /* launches are numbered, with those; the last one of the program's */
    int launch_code; /* what launches answer */
    bool launches_do_nothing;
    /* code that came (standin_jit.c): the last image, where it lay, and what came with it */
    const void *last_image;
    char *last_text; /* a copy, of text */
    long loads, loads_by_path;
    unsigned last_options, last_library_options;
    void *last_value; /* of the first option, before the driver wrote into it */
    bool last_is_preserved; /* the program lets it lie where it is */
    bool refuse_mm;   /* what holds the heap variable */
    /* of the state that is being linked: inputs, how many hold it */
    int inputs, inputs_with_mm;
    CUjitInputType last_input;
    char *linked_text;     /* a copy of the PTX that went into it last */
    char *linked_cubin;    /* and of the machine code */
    size_t linked_cubin_bytes;
    unsigned link_options; /* what it was made with, and the value of the first */
    CUjit_option link_option[16];
    void *link_value;
    long links;          /* states that there are */
    bool last_is_linked; /* the last image that was loaded is what came of a link with mm */
    bool refuse_links, refuse_ours, refuse_linked; /* any state; mm's code in it; an image of one */
    long link_creates;
    unsigned most_registers, link_registers; /* a text with .maxntid does not link with more, 0: never; the last state's limit */
    bool last_is_undefined; /* the last image leaves the service undefined */
    unsigned last_archs[4], last_arch_count; /* of the last fat binary; each image in it was linked for that */
    int leaves_objects; /* symbols of data in such images have type 13, for which no loader takes them; 2 to 6: and what says where they
                           are leads out of the image; 7: and the program's code is another */
    int arch[2];         /* of the devices; 0: sm_90 */
    bool capture_broken;
};

typedef struct standin *standin_get_function(void);

#endif
