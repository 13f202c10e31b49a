/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The physical memory behind a heap: chunks of one driver handle each, in reserved addresses.
 *
 * A chunk is the heap's (its segments are, or were, in the device's free tree) or spare: mapped, and unknown to
 * the device until it is answered (runtime/core/grow.h). The driver maps whole pages of its own, which may be several segments: a chunk begins
 * and ends where one does. Of the metadata (layout.h), what has a part for each segment is mapped from the
 * front on as far as there ever were chunks, and stays. None of these functions is thread-safe.
 */
#ifndef MM_HOST_CHUNKS_H
#define MM_HOST_CHUNKS_H

#include "runtime/core/layout.h"
#include "runtime/host/vm.h"

struct mm_host_chunk {
    uint64_t first, count; /* segments */
    bool is_spare;
};

/* A stretch of the metadata: so many bytes in any case, and so many for each segment. */
struct mm_host_stretch {
    CUdeviceptr base;
    uint64_t bytes; /* addresses */
    uint64_t fixed_bytes, segment_bytes;
    unsigned count;
    uint64_t end[MM_HOST_CHUNKS_MAX]; /* where each of its mappings ends; the next begins there */
};
enum { MM_STRETCH_WORDS, MM_STRETCH_INDEXES, MM_STRETCH_TABLE, MM_STRETCHES }; /* words: and all that lies before them */

struct mm_host_chunks {
    struct mm_vm_access access;
    CUdeviceptr user;                  /* where segments begin */
    uint64_t segment_count;            /* addresses for so many */
    uint64_t page_bytes;               /* the driver's */
    uint64_t unit;                     /* segments of such a page: all numbers of segments here are multiples */
    uint64_t mapped_count, peak_count; /* segments of all chunks: now, and the most there ever were */
    unsigned count;
    struct mm_host_chunk chunk[MM_HOST_CHUNKS_MAX]; /* by address */
    struct mm_host_stretch metadata[MM_STRETCHES];
};

/* Neighbouring segments. */
struct mm_host_segments {
    uint64_t first, count;
};

/* Maps the metadata of segments up to `end`, and all that is not of segments. If it fails, some of it may be there. */
bool mm_chunks_try_describe(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t end, struct mm_driver_error *error);
/* Of the metadata so many bytes are mapped. */
uint64_t mm_chunks_metadata_bytes(const struct mm_host_chunks *c);
/* Where the last chunk ends. */
uint64_t mm_chunks_end(const struct mm_host_chunks *c);

/* Rounds a number of segments up, or down, to what can be mapped. */
static inline uint64_t mm_chunks_up(const struct mm_host_chunks *c, uint64_t segments) { return mm_round_up(segments, c->unit); }
static inline uint64_t mm_chunks_down(const struct mm_host_chunks *c, uint64_t segments) { return segments / c->unit * c->unit; }

/* Maps spare chunks: at least `least` neighbouring segments, up to `most` if there is room, the first at an address that is a multiple of
 * `align` segments, a power of two. Returns them; count 0 if they cannot be had, and then nothing has changed but metadata. */
struct mm_host_segments mm_chunks_grow(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t least, uint64_t most, uint64_t align,
                                       struct mm_driver_error *error);

/* Neighbouring spare segments, whole chunks, of which `least` begin at such an address; count 0: there are none. */
struct mm_host_segments mm_chunks_find_spare(const struct mm_host_chunks *c, uint64_t least, uint64_t align);
/* The chunks of these segments are the heap's now, or spare. */
void mm_chunks_set_spare(struct mm_host_chunks *c, struct mm_host_segments segments, bool is_spare);

/* Unmaps chunk i. Returns its bytes; 0 if the driver would not. */
uint64_t mm_chunks_unmap(const struct mm_driver *d, struct mm_host_chunks *c, unsigned i, struct mm_driver_error *error);

/* Gives a device access to all memory there is and will be, or takes it away. */
bool mm_chunks_try_access(const struct mm_driver *d, struct mm_host_chunks *c, CUdevice device, bool is_allowed,
                          struct mm_driver_error *error);

/* Unmaps everything. Quiet. */
void mm_chunks_drop(const struct mm_driver *d, struct mm_host_chunks *c);

#endif
