/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Where everything of a heap lies: the variable in each module, the heap header, the arrays behind it.
 *
 * Two address ranges, each reserved once and never moved:
 *   user       segment_count segments; the memory that malloc hands out, nothing of ours in it
 *   metadata   [struct mm_heap | free tree | class trees | rings | segments | blocks | slice bits]
 * Zero is the idle state of every word but for the image (header and free tree) and the slice bits: no free segment, no region, owner
 * "nobody". What is mapped, and zero, when:
 *   I1  up to the blocks ("fixed"): all of it, before the heap is published. free reads the segment of any address that is reserved.
 *   I2  blocks, and slice bits, of a segment: mapped before the segment is; they stay when it goes. In between, too, as far
 *       as the last segment that ever was there: nothing but a segment that is there, or was, leads to them.
 *   I3  blocks of segments below grow.reached were zero when it became so much: the first ones the host has cleared, the others whoever put
 *       the segments into the free tree (grow.h). Never again: what stale callers look at there outlives the segment's owner (block.h).
 *   Slice bits need no clearing: who makes a block ready does that (stripe.h).
 * Addresses are 64-bit integers, as device addresses are for the host.
 */
#ifndef MM_CORE_LAYOUT_H
#define MM_CORE_LAYOUT_H

#include "mmconfig.h"
#include "runtime/core/class.h"

/* The variable MM_HEAP_REF of a module; the host writes it before the first launch. heap == 0: none. Holds all that
 * never changes: it lies in constant memory, whose cache an acquire does not empty. */
struct mm_heap_ref {
    uint64_t heap;       /* struct mm_heap */
    uint64_t user_base;  /* multiple of MM_SEGMENT_BYTES */
    uint64_t open_bytes; /* user_bytes; or 0: all calls go by closed.h */
    uint64_t segments;   /* struct mm_segment, one each */
    uint64_t blocks;     /* struct mm_blocks, one each */
    uint64_t bits;       /* slice bits, MM_SEGMENT_WORDS per segment */
    uint64_t hold_shift; /* log2 of the bytes that the stripes of a class may hold (class.h) */
    uint64_t mailbox;      /* struct mm_mailbox (grow.h), in memory of the host; 0: the heap stays as it is */
    uint64_t free_tree;    /* addresses */
    uint64_t class_trees;  /* two for each class: whole blocks, single slices (segment.h); one after the other, */
    uint64_t tree_bytes;   /* so many bytes each */
    uint64_t tree_mids;    /* words in the middle level of a tree */
    uint64_t rings;        /* MM_RINGS_BYTES for each class */
    uint64_t grow_polls;   /* how often who wants more memory looks whether it is there, before it gives up */
    uint64_t spacing_mask; /* slices begin at multiples of this + 1 (heap.h); 0: at those that their classes have */
    uint64_t on_misuse;    /* enum mm_on_misuse */
    uint64_t guard;        /* struct mm_guard; 0: this is no checked run */
    uint64_t fill;         /* enum mm_fill */
    uint64_t user_bytes; /* reserved, mapped or not */
    uint64_t spare;      /* what follows begins at a multiple of 16 */
    struct mm_class classes[MM_CLASS_COUNT];
};
MM_STATIC_ASSERT(sizeof(struct mm_heap_ref) == MM_HEAP_REF_BYTES, "programs and modules have this size");

/* Bitmap tree over the segments: 64-way, three levels, each node one word. */
#define MM_TREE_MID_SEGMENTS (64u * 64u) /* below one word of the middle level */
#define MM_TREE_BITS_MAX (64u * MM_TREE_MID_SEGMENTS)
MM_STATIC_ASSERT(MM_TREE_BITS_MAX * MM_SEGMENT_BYTES >= 1ull << 40, "three levels reach 1 TiB");

/* What can be complained of; index of mm_heap.misuse. */
enum mm_misuse {
    MM_MISUSE_FOREIGN = 1,   /* not in the range of this heap */
    MM_MISUSE_NOT_ALLOCATED, /* in a block, run or segment that is free */
    MM_MISUSE_INTERIOR,     /* in the middle of an allocation */
    MM_MISUSE_NEVER,        /* a slice never handed out */
    MM_MISUSE_DOUBLE_FREE,
    /* seen in a checked run only (guarded.h) */
    MM_MISUSE_OVERRUN,    /* a write past the end */
    MM_MISUSE_AFTER_FREE, /* a write after free */
    MM_MISUSE_KINDS
};
/* What follows: MM_ON_MISUSE. It is counted in any case. */
enum mm_on_misuse { MM_ON_MISUSE_REPORT, MM_ON_MISUSE_TRAP, MM_ON_MISUSE_IGNORE };
/* What malloc writes to what it hands out: MM_FILL (fill.h). */
enum mm_fill { MM_FILL_NONE, MM_FILL_ZERO, MM_FILL_JUNK };

/* A segment (segment.h). */
struct mm_segment {
    uint64_t owner;    /* beside unissued: free reads both */
    uint64_t unissued; /* blocks not all of whose slices have been handed out */
    uint64_t whole;    /* blocks to be claimed as a whole */
    uint64_t avail;    /* blocks that may have slices to be used again */
};
MM_STATIC_ASSERT(sizeof(struct mm_segment) % 32 == 0, "sectors of their own");

/* Its blocks (block.h, stripe.h). */
struct mm_blocks {
    uint64_t words[MM_SEGMENT_BLOCKS_MAX];  /* how many words of slice bits are not 0, how many are full, and more */
    uint32_t opener[MM_SEGMENT_BLOCKS_MAX]; /* the lot in which it was handed out (stripe.h) */
};
MM_STATIC_ASSERT(sizeof(struct mm_blocks) % 32 == 0, "sectors of their own");

/* A stripe or a reserve (ring.h). The counter has a cache line of its own, or atomics on neighbours get in each other's
 * way. */
struct mm_slot {
    uint64_t what;
    uint32_t taken, spare;
};
struct mm_ring {
    uint32_t tickets, spare[31];
    struct mm_slot slot[MM_RING];
    uint64_t blocks[]; /* a reserve has MM_RING: which segments, or blocks, are in the lot (reserve.h) */
};
/* The rings of a class: its stripes, then its reserve. */
#define MM_RINGS_BYTES (MM_RINGS * (uint32_t)sizeof(struct mm_ring) + MM_RING * (uint32_t)sizeof(uint64_t))
MM_STATIC_ASSERT(sizeof(struct mm_ring) % 128 == 0 && MM_RINGS_BYTES % 128 == 0, "rings do not share a cache line");

/* A checked run's (guarded.h); zero in the beginning. Memory of its own. */
struct mm_guard {
    uint64_t tickets, spare0[15]; /* of the quarantine */
    uint64_t emptied, spare1[15]; /* tickets at which it was emptied last */
    uint64_t slots[MM_GUARD_SLOTS];
    uint64_t eras[]; /* of each segment: its last owner's word | how often that has become another << MM_ERA_SHIFT */
};
#define MM_ERA_SHIFT 32
MM_FN uint32_t mm_era_number(uint64_t era) { return (uint32_t)(era >> MM_ERA_SHIFT); }

/* A misuse of free (report.h). */
struct mm_report {
    uint64_t number; /* from 1; 0: not written yet. Last of all */
    uint64_t address, bytes; /* of the pointer; of what it points to, as the heap knows it, or 0 */
    uint32_t kind, is_of_warp; /* enum mm_misuse; who did it is `thread` itself, or a thread of its warp */
    uint32_t thread[3], block[3];
    uint64_t grid, made_by, freed_by; /* + 1: of the kernel that saw it, allocated, freed; 0: not known */
};
MM_STATIC_ASSERT(sizeof(struct mm_report) == 80, "no gaps");

/* How device and host talk while kernels run (grow.h, report.h); the host's memory. */
struct mm_mailbox {
    uint64_t wanted, null_bytes, spare0[14]; /* null_bytes: size of the first request answered NULL, + 1 */
    uint64_t answer, spare1[15];
    struct mm_report reports[MM_REPORTS];
};
/* What is asked for: so many segments side by side, the first of them at an address that is a multiple of 1 << align_shift segments. */
#define MM_WANTED_ALIGN_SHIFT 24 /* a warp asks for 32 times all segments at most */
#define MM_WANTED_SEGMENTS(wanted) ((uint32_t)(wanted) & ((1u << MM_WANTED_ALIGN_SHIFT) - 1))
#define MM_WANTED_ALIGN(wanted) ((uint32_t)(wanted) >> MM_WANTED_ALIGN_SHIFT)
MM_STATIC_ASSERT(MM_TREE_BITS_MAX * 32 < 1u << MM_WANTED_ALIGN_SHIFT, "as many as lanes can want fit");
#define MM_ANSWER_COUNT_SHIFT 20
#define MM_ANSWER_SEGMENTS (1u << MM_ANSWER_COUNT_SHIFT)
#define MM_ANSWER_NUMBER_SHIFT 40
#define MM_ANSWER_NUMBERS ((1u << (64 - MM_ANSWER_NUMBER_SHIFT)) - 2) /* 1 and so on: 0 is no request, all bits mean closed */
#define MM_ANSWER_CLOSED (~0ull)
static inline uint64_t mm_answer_make(uint64_t number, uint64_t first, uint64_t count) {
    return number << MM_ANSWER_NUMBER_SHIFT | count << MM_ANSWER_COUNT_SHIFT | first;
}

/* The device's view of that. */
struct mm_grow {
    uint64_t mapped, scarce, refused, refused_at;
    uint64_t lock, asked, taken, late[2], waits, waited_ns, reached, spare[4];
};
MM_STATIC_ASSERT(sizeof(struct mm_grow) == 128, "a cache line");
/* With fewer free segments than this, of so many, memory is scarce. */
MM_FN uint64_t mm_grow_scarce(uint64_t mapped) { return (mapped + MM_SCARCE - 1) / MM_SCARCE; }

/* A chunk that the host wants back (maintain.h). */
struct mm_wanted_chunk {
    uint32_t first, count; /* segments */
    uint32_t is_claimed;   /* whether it got them */
    uint32_t spare;
};

/* A counter in a cache line of its own. */
struct mm_counter {
    uint64_t word, spare[15];
};

/* One size class. */
struct mm_class_state {
    uint64_t dry;  /* version of the supply at which nothing was left, + 1 */
    uint64_t rich; /* how many of its slices had come back, at the last looks, in 1/256 (stripe.h) */
    uint64_t segments; /* that belong to it */
    uint64_t whole_row; /* the first of a row of segments with many whole blocks, + 1; a hint */
    uint64_t looked; /* segments that it had when somebody last looked how many of its slices had come back */
    uint64_t circulating; /* a block is put into circulation: rounds of that (shortage.h) */
    uint64_t spare[10];
};
MM_STATIC_ASSERT(sizeof(struct mm_class_state) % 128 == 0, "classes do not share a cache line");

struct mm_heap {
    uint64_t abi;           /* MM_ABI_VERSION */
    uint64_t segment_count; /* reserved */
    uint64_t tree_leaves;   /* words in the lowest level of a tree */
    struct mm_heap_ref ref; /* what modules hold */
    uint64_t free_near;     /* a segment in whose leaf of the free tree the first free ones may be; a hint */
    uint64_t classes_used;  /* bit c: class c has ever had a region */
    uint64_t null_count;    /* requests answered NULL for lack of memory */
    uint64_t null_first_bytes; /* size of the first of them, + 1 */
    uint64_t null_first_grid;  /* of its kernel, + 1 */
    uint64_t misuse[MM_MISUSE_KINDS];
    uint64_t free_count;       /* segments in the free tree; lags behind it */
    uint64_t flushing; /* rounds of that (shortage.h) */
    uint64_t reports;  /* misuses that were to be told (report.h) */
    struct mm_grow grow;
    struct mm_counter version[MM_VERSIONS]; /* of the supply; monotonic (tree.h) */
    struct mm_class_state classes[MM_CLASS_COUNT];
    uint32_t inside[MM_WARP_SLOTS]; /* of each warp: its lanes that may wait (step.h) */
};

struct mm_layout {
    uint64_t segment_count;
    uint64_t image_bytes;   /* head of the metadata that the host writes (mm_heap_image) */
    uint64_t fixed_bytes;   /* mapped and zeroed before the heap is published; image included. Blocks from here */
    uint64_t bits_offset;   /* of the slice bits; MM_SEGMENT_BITMAP_BYTES per segment from here */
    uint64_t total_bytes;   /* addresses to reserve for metadata */
    /* offsets from the start of the metadata */
    uint64_t free_tree, class_trees, rings, segments;
    uint64_t tree_leaves, tree_mids, tree_bytes;
};

static inline uint64_t mm_round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
static inline uint64_t mm_guard_bytes(uint64_t segment_count) {
    return mm_round_up(sizeof(struct mm_guard) + segment_count * sizeof(uint64_t), 256);
}

/* From the beginning on, so much is mapped and zeroed (image included) in a fresh heap that reaches so far. */
static inline uint64_t mm_layout_fresh_bytes(const struct mm_layout *l, uint64_t reached) {
    return l->fixed_bytes + reached * sizeof(struct mm_blocks);
}

/* Lays out the metadata of a heap of segment_count reserved segments. Returns 0, or -1 if there are none
 * or more than a tree can hold. page_bytes: the granularity of mapping; bits_offset is a multiple. */
static inline int mm_layout_make(struct mm_layout *l, uint64_t segment_count, uint64_t page_bytes) {
    if (segment_count == 0 || segment_count > MM_TREE_BITS_MAX) return -1;
    const uint64_t line = 128;
    l->segment_count = segment_count;
    l->tree_leaves = (segment_count + 63) / 64;
    l->tree_mids = (l->tree_leaves + 63) / 64;
    l->tree_bytes = mm_round_up(8 * (1 + l->tree_mids + l->tree_leaves), line);
    l->free_tree = mm_round_up(sizeof(struct mm_heap), line);
    l->image_bytes = l->free_tree + l->tree_bytes;
    l->class_trees = l->image_bytes;
    l->rings = mm_round_up(l->class_trees + 2 * MM_CLASS_COUNT * l->tree_bytes, line);
    l->segments = l->rings + MM_CLASS_COUNT * MM_RINGS_BYTES;
    /* a row that begins in the heap ends in the array */
    const uint64_t segments = mm_round_up(segment_count, 1u << MM_RESERVE_ROW_SHIFT);
    l->fixed_bytes = mm_round_up(l->segments + sizeof(struct mm_segment) * segments, line);
    l->bits_offset = mm_round_up(mm_layout_fresh_bytes(l, segment_count), page_bytes);
    l->total_bytes = mm_round_up(l->bits_offset + segment_count * MM_SEGMENT_BITMAP_BYTES, page_bytes);
    return 0;
}

#ifndef __CUDACC__ /* the host's side is C */
/* What classes hold ahead of need in a heap that has, or can have, so many segments (mmconfig.h). */
static inline void mm_heap_image_hold(struct mm_heap *h, uint64_t segments) {
    int log = 0;
    while (2ull << log <= segments * MM_SEGMENT_BYTES) log++;
    int hold = 2 * log - MM_HOLD_SHIFT + (log > MM_HOLD_KNEE ? log - MM_HOLD_KNEE : 0);
    if (hold > log - MM_HOLD_PART_SHIFT) hold = log - MM_HOLD_PART_SHIFT;
    h->ref.hold_shift = hold > 0 ? (uint64_t)hold : 0;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) h->ref.classes[c] = mm_class_make(c, (uint32_t)h->ref.hold_shift);
}

/* In an image: segments [first, first + count) are free. */
static inline void mm_heap_image_put(void *image, const struct mm_layout *l, uint64_t first, uint64_t count) {
    uint64_t *tree = (uint64_t *)((char *)image + l->free_tree);
    for (uint64_t s = first; s < first + count; s++) {
        tree[1 + l->tree_mids + s / 64] |= 1ull << (s % 64);
        tree[1 + s / MM_TREE_MID_SEGMENTS] |= 1ull << (s / 64 % 64);
        tree[0] |= 1ull << (s / MM_TREE_MID_SEGMENTS);
    }
    ((struct mm_heap *)image)->free_count += count;
}

/* Writes the image of a fresh heap (l->image_bytes at `image`, any memory of the caller's): addresses as
 * the device will see them, the first mapped_segments segments free, the others not there. */
static inline void mm_heap_image(void *image, const struct mm_layout *l, uint64_t metadata_base,
                                 uint64_t user_base, uint64_t mapped_segments) {
    struct mm_heap *h = (struct mm_heap *)image;
    for (uint64_t i = 0; i < l->image_bytes / 8; i++) ((uint64_t *)image)[i] = 0;
    h->abi = MM_ABI_VERSION;
    h->segment_count = l->segment_count;
    h->tree_leaves = l->tree_leaves;
    h->ref.heap = metadata_base;
    h->ref.user_base = user_base;
    h->ref.user_bytes = h->ref.open_bytes = l->segment_count * MM_SEGMENT_BYTES;
    h->ref.segments = metadata_base + l->segments;
    h->ref.blocks = metadata_base + l->fixed_bytes;
    h->ref.bits = metadata_base + l->bits_offset;
    mm_heap_image_hold(h, mapped_segments);
    h->grow.mapped = h->grow.reached = mapped_segments;
    h->grow.scarce = mm_grow_scarce(mapped_segments);
    h->ref.free_tree = metadata_base + l->free_tree;
    h->ref.class_trees = metadata_base + l->class_trees;
    h->ref.tree_bytes = l->tree_bytes;
    h->ref.tree_mids = l->tree_mids;
    h->ref.rings = metadata_base + l->rings;
    mm_heap_image_put(image, l, 0, mapped_segments < l->segment_count ? mapped_segments : l->segment_count);
}

/* After mm_heap_image: the heap can grow up to so many segments. mailbox: its address for the device; polls: grow_polls. */
static inline void mm_heap_image_grows(void *image, uint64_t segments, uint64_t mailbox, uint32_t polls) {
    struct mm_heap *h = (struct mm_heap *)image;
    mm_heap_image_hold(h, segments < MM_HOLD_SEGMENTS_MAX ? segments : MM_HOLD_SEGMENTS_MAX);
    h->ref.mailbox = mailbox;
    h->ref.grow_polls = polls;
    h->grow.scarce = 0;
}

#endif

#endif
