/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The contexts that libmm knows: an entry for each context with a heap, a prepared heap, a limit or peers, and for each green context in which kernels were
 * launched. The caller of every function holds the lock.
 *
 * A green context is another handle of its device's primary context, with fewer multiprocessors. Modules and memory belong to the primary context, and
 * outlive the green one. So must the heaps: the entry of a green context holds nothing but its home.
 *
 * A context has one heap for each allocator that its images have (mmconfig.h). They share nothing: each has its addresses, memory, mailbox and thread.
 */
#ifndef MM_INTERPOSE_CONTEXTS_H
#define MM_INTERPOSE_CONTEXTS_H

#include <pthread.h>

#include "runtime/host/heap.h"
#include "runtime/host/vm.h"

#define MM_CONTEXT_ONE(name, suffix) +1
enum { MM_CONTEXT_HEAPS = 0 MM_ALLOCATORS(MM_CONTEXT_ONE) };

struct context {
    struct context *next;
    CUcontext handle;
    CUcontext home; /* of a green context: the primary context that it is a part of; else NULL */
    unsigned heap_count;
    struct mm_host_heap *heaps[MM_CONTEXT_HEAPS]; /* those that were created, in this order; no two have the same allocator */
    struct mm_host_heap *prepared;                /* a prepared heap, from which the default allocator's will be created; NULL: none, or it is created */
    bool is_ending;                               /* the driver is ending it: callers with this handle wait for the outcome */
    bool limit_is_set;
    uint64_t limit_bytes;
    unsigned attaches; /* calls of cuCtxAttach: as many calls of cuCtxDetach do not end it */
    unsigned peer_count;
    CUdevice peers[MM_VM_DEVICES_MAX - 1]; /* devices that may access its memory */
};

/* Guards the contexts, the handles, and writes to the kernel cache. Held while a heap is created, so other first launches wait for that. Not held
 * while a module is queried for its variable, since that may load the module. */
extern pthread_mutex_t mm_contexts_lock;
extern struct context *mm_contexts;
extern bool mm_forked; /* this process is the child of one that had a heap */

/* Green contexts may be current from now on. Finding out which one is current queries the legacy stream, which breaks a capture, so it is not done in a
 * program without green contexts. The caller does not hold the lock. */
void mm_contexts_green_come(void);
bool mm_contexts_have_green(void);

/* The entry of a handle, or NULL if there is none. mm_context_find waits while the context is ending: only the outcome shows whether the handle still means
 * this context, or a new one. mm_context_get makes an entry; NULL: no memory. */
struct context *mm_context_listed(CUcontext handle);
struct context *mm_context_find(CUcontext handle);
struct context *mm_context_get(CUcontext handle);

/* The entry with the heap of `handle`, which is current: its own, or its home's. makes_one: makes an entry as mm_context_get does. May wait as
 * mm_context_find does. */
struct context *mm_context_home(const struct mm_driver *d, CUcontext handle, bool makes_one);
/* The same for a context that need not be current and was found before. Does not wait. */
struct context *mm_context_home_listed(CUcontext handle);

/* mm_context_ending: the end of a context begins. mm_context_settled: its outcome is known. In between, mm_context_is_inside_end is true in the calling thread,
 * which must not wait for the outcome. */
void mm_context_ending(struct context *c);
bool mm_context_is_inside_end(void);
void mm_context_settled(struct context *c);
/* Removes the entry, and those of green contexts whose home it is. The caller has ended its heaps. */
void mm_context_remove(struct context *c);
/* Removes the kernels of this context, and of green contexts whose home it is, from the kernel cache. */
void mm_context_forget_known(CUcontext handle);

/* In the child of a fork. */
void mm_contexts_in_child(void);

#endif
