/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The physical memory behind a heap: chunks of one driver handle each, in reserved addresses.
 *
 * A chunk either belongs to the heap (its segments are, or were, in the device's free tree) or is spare: it is mapped, but the device does not
 * know it until an answer names it (runtime/core/grow.h). The driver maps in pages of its own size, which may be several segments, so a chunk
 * begins and ends at a multiple of that. The parts of the metadata that grow with the segments (layout.h) are mapped from their beginning up to
 * the end of the last chunk that ever existed, and stay mapped. What must be zero at first is zeroed before the device has the heap; later the
 * device does that (runtime/core/grow.h). None of these functions is thread-safe.
 */
#ifndef MM_HOST_CHUNKS_H
#define MM_HOST_CHUNKS_H

#include "runtime/core/layout.h"
#include "runtime/host/copy.h"
#include "runtime/host/vm.h"

struct mm_host_chunk {
    uint64_t first, count; /* segments */
    bool is_spare;
};

/* A stretch of the metadata: a fixed part, followed by a part for each segment. Two of them begin at the same page of the driver, and one grows towards smaller
 * addresses (is_down); its first parts are in the other one's fixed part. */
struct mm_host_stretch {
    CUdeviceptr base; /* where it begins, a multiple of page_bytes. What follows counts bytes from there, in the direction in which it grows */
    bool is_down;
    uint64_t bytes;         /* reserved */
    int64_t fixed_bytes;    /* of the fixed part; less than 0: so many bytes of the first segments' parts are elsewhere */
    uint64_t segment_bytes; /* of the part of each segment */
    uint64_t zero_bytes;    /* up to here it must be zero at first */
    unsigned count;
    uint64_t end[MM_HOST_CHUNKS_MAX]; /* end of each of its mappings; the next one begins there */
};
/* Owners: with everything before them from the header on; and, in the other direction, struct mm_segment. Words; and the table. */
enum { MM_STRETCH_OWNERS, MM_STRETCH_SEGMENTS, MM_STRETCH_WORDS, MM_STRETCH_TABLE, MM_STRETCHES };

struct mm_host_chunks {
    struct mm_vm_access access;
    CUdeviceptr user;                  /* address of the first segment */
    uint64_t segment_count;            /* reserved segments */
    uint64_t page_bytes;               /* of a page of the driver */
    uint64_t unit;                     /* segments of such a page; all numbers of segments here are multiples of it */
    uint64_t mapped_count, peak_count; /* segments of all chunks: now, and the most so far */
    unsigned count;
    struct mm_host_chunk chunk[MM_HOST_CHUNKS_MAX]; /* sorted by address */
    struct mm_host_stretch metadata[MM_STRETCHES];
    struct mm_copy_zeros zeros; /* see mm_copy_try_zero */
    bool is_used;               /* the device has the heap: a copy could wait for the kernel that asks for growth */
};

/* Divides the metadata of a heap, reserved at `base`, into stretches. c->page_bytes is set. */
void mm_chunks_divide(struct mm_host_chunks *c, const struct mm_layout *l, CUdeviceptr base);

/* Consecutive segments. */
struct mm_host_segments {
    uint64_t first, count;
};

/* Maps the fixed parts of the metadata, and the parts of the segments up to `end`. On failure some of it may be mapped. */
bool mm_chunks_try_describe(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t end, struct mm_driver_error *error);
/* Zeroes all of what is mapped of the metadata that must be zero at first. */
bool mm_chunks_try_zero(const struct mm_driver *d, const struct mm_host_chunks *c, struct mm_driver_error *error);
/* The segments, from the first one on, whose pages have owners that are mapped. */
uint64_t mm_chunks_owned(const struct mm_host_chunks *c);
/* The mapped bytes of the metadata. */
uint64_t mm_chunks_metadata_bytes(const struct mm_host_chunks *c);
/* The end of the last chunk, a segment. */
uint64_t mm_chunks_end(const struct mm_host_chunks *c);

/* Rounds a number of segments up, or down, to a multiple of c->unit. */
static inline uint64_t mm_chunks_up(const struct mm_host_chunks *c, uint64_t segments) { return mm_round_up(segments, c->unit); }
static inline uint64_t mm_chunks_down(const struct mm_host_chunks *c, uint64_t segments) { return segments / c->unit * c->unit; }

/* Maps spare chunks of at least `least` and at most `most` consecutive segments. The first one's address is a multiple of `align` segments, a power of
 * two. Returns them, or count 0 if the memory or the addresses are not available; then only the mappings of metadata may have changed. */
struct mm_host_segments mm_chunks_grow(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t least, uint64_t most, uint64_t align,
                                       struct mm_driver_error *error);

/* Finds consecutive spare chunks that contain `least` segments from such an address on. Returns their segments, or count 0. */
struct mm_host_segments mm_chunks_find_spare(const struct mm_host_chunks *c, uint64_t least, uint64_t align);
/* Marks the chunks of these segments as spare, or as the heap's. */
void mm_chunks_set_spare(struct mm_host_chunks *c, struct mm_host_segments segments, bool is_spare);

/* Unmaps chunk i. Returns its bytes, or 0 if the driver refused. */
uint64_t mm_chunks_unmap(const struct mm_driver *d, struct mm_host_chunks *c, unsigned i, struct mm_driver_error *error);

/* Gives a device access to the memory of all chunks, present and future, or revokes it. */
bool mm_chunks_try_access(const struct mm_driver *d, struct mm_host_chunks *c, CUdevice device, bool is_allowed, struct mm_driver_error *error);

/* Unmaps everything. Ignores errors. */
void mm_chunks_drop(const struct mm_driver *d, struct mm_host_chunks *c);

#endif
