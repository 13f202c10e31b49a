/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The contexts that we know of: one entry for each that has a heap, or one prepared, a limit or peers, and for each green context that kernels
 * were launched in. All functions are called under the lock.
 *
 * A green context is a name for its device's primary context with fewer multiprocessors: modules and memory are the primary
 * context's, and outlive it. So has the heap to: an entry of a green context has nothing but its home.
 */
#ifndef MM_INTERPOSE_CONTEXTS_H
#define MM_INTERPOSE_CONTEXTS_H

#include <pthread.h>

#include "runtime/host/heap.h"

struct context {
    struct context *next;
    CUcontext handle;
    CUcontext home; /* of a green one: the primary context that it is part of; NULL: it is none */
    struct mm_host_heap *heap; /* NULL: none made yet */
    struct mm_host_heap *prepared; /* what it will be made of; NULL: nothing, or it is made */
    bool is_ending; /* the driver is ending it: whoever means this handle waits for the outcome */
    bool limit_is_set;
    uint64_t limit_bytes;
    unsigned attaches; /* cuCtxAttach: so many cuCtxDetach do not end it */
    unsigned peer_count;
    CUdevice peers[MM_VM_DEVICES_MAX - 1]; /* that may reach its memory */
};

/* Guards what is here, the handles and the writing of the known kernels. Held while a heap is made:
 * other first launches wait for it. Not held while a module is asked, which may load it. */
extern pthread_mutex_t mm_contexts_lock;
extern struct context *mm_contexts;
extern bool mm_forked; /* this is the child of a process that had a heap */

/* Green contexts may be current from now on. To ask which context is current breaks a capture, since it is the legacy stream that is asked: so
 * nobody is asked in a program that has none. Not under the lock. */
void mm_contexts_green_come(void);

/* NULL: not known. The second waits while the context is ending: only the outcome tells whether the handle still means it, or a new
 * one. The third makes an entry; NULL: no memory. */
struct context *mm_context_listed(CUcontext handle);
struct context *mm_context_find(CUcontext handle);
struct context *mm_context_get(CUcontext handle);

/* The entry that has the heap of what `handle`, which is current, means: its own, or its home's. makes_one: as mm_context_get.
 * May wait as mm_context_find. */
struct context *mm_context_home(const struct mm_driver *d, CUcontext handle, bool makes_one);
/* The same of a context that need not be current, and that was found before. Does not wait. */
struct context *mm_context_home_listed(CUcontext handle);

/* An end begins; it is settled, and then the context is gone or not. The thread does not wait for itself meanwhile. */
void mm_context_ending(struct context *c);
bool mm_context_is_inside_end(void);
void mm_context_settled(struct context *c);
/* Forgets the entry, and those of green contexts whose home it is; the heap is the caller's. */
void mm_context_remove(struct context *c);
/* Forgets which kernels are known in this context, and in green ones whose home it is. */
void mm_context_forget_known(CUcontext handle);

/* In the child of a fork. */
void mm_contexts_in_child(void);

#endif
