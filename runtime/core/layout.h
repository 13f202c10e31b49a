/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layout of a heap: the variable in each module, the heap header, and the arrays behind it.
 *
 * Two address ranges, each reserved once and never moved:
 *   user       segment_count segments: the memory that malloc returns, without metadata
 *   metadata   [<- segments | struct mm_heap | free tree | classes | room trees | directory | made | firsts | owners ->] [<- table | words ->]
 * The driver maps pages of 2 MiB, and each part that grows with the memory would have the last one to itself. So two parts begin in one page and grow in opposite
 * directions (<-, ->). Segment s and extent e of the table lie before those with smaller numbers.
 * Zero is the idle state of every word except for the image (header and free tree). What is mapped and zeroed, and when:
 *   I1  what does not grow, and the parts of the first segments, before the heap is published. Of owners as many as the last page has room for: free reads the
 *       owner of any page below open_bytes, and beyond that only those of memory that was mapped once (mm_heap_reached).
 *   I2  all that belongs to a segment is mapped before it, and stays when it is unmapped. Before it enters the free tree, the device zeroes its owners and what
 *       else must be zero (grow.h). Words, indexes and the table hold garbage: a block's words and index are written before the block is published, and an
 *       extent of the table before it is attached.
 * Addresses are 64-bit integers, as device addresses are for the host.
 */
#ifndef MM_CORE_LAYOUT_H
#define MM_CORE_LAYOUT_H

#include "mmconfig.h"
#include "runtime/core/handles.h"

/* The variable MM_HEAP_REF of a module; the host writes it before the first launch. heap == 0: no heap. Holds only what
 * never changes, since it is in constant memory, whose cache an acquire does not invalidate. */
struct mm_heap_ref {
    uint64_t heap;       /* struct mm_heap */
    uint64_t user_base;  /* multiple of MM_SEGMENT_BYTES */
    uint64_t open_bytes; /* so many have owners that are mapped (I1); or 0: all calls take the path of closed.h */
    uint64_t user_bytes; /* reserved, mapped or not */
    uint64_t owners;     /* one byte per page */
    uint64_t words;      /* 1 << word_shift per page; a block uses those of its first page */
    uint64_t word_shift;
    uint64_t firsts;     /* the first extent of each class's table. The others (gallatin/table.h) are before the words, in the opposite direction */
    uint64_t classes_at; /* struct mm_class_state, one each */
    uint64_t directory;  /* numbers of extents, plus 1 */
    uint64_t made;       /* for each class, 1 << made_shift words: the places of blocks with tickets (make.h) */
    uint64_t giving_up;  /* a word: single-flight rounds of retiring all free blocks (shortage.h) */
    uint64_t segments;   /* struct mm_segment of segment 0; that of segment s lies s before it */
    uint64_t free_tree;  /* addresses */
    uint64_t room_trees; /* one per kind of room (room.h), one after the other, */
    uint64_t tree_bytes; /* with so many bytes each */
    uint64_t tree_roots; /* words in the upper level of a tree; in the middle level */
    uint64_t tree_mids;
    uint64_t mailbox;      /* struct mm_mailbox (grow.h), in host memory; 0: the heap cannot grow */
    uint64_t grow_polls;   /* looks of a thread that waits for memory, before it gives up */
    uint64_t spacing_mask; /* slices begin at multiples of this + 1; 0: wherever their class places them */
    uint64_t on_misuse;    /* enum mm_on_misuse */
    uint64_t guard;        /* struct mm_guard; 0: not a checked run */
    uint64_t fill;         /* enum mm_fill */
    uint64_t fail;         /* enum mm_fail_kind */
    uint64_t trace;        /* struct mm_trace; 0: not traced. Not both this and guard */
    struct mm_class classes[MM_SHAPES];
};
MM_STATIC_ASSERT(sizeof(struct mm_heap_ref) == MM_HEAP_REF_BYTES, "programs and modules have this size");

/* Bitmap tree over the segments: 64-way, three levels, each node one word; the upper level has up to four. */
#define MM_TREE_MID_SEGMENTS (64u * 64u) /* below one word of the middle level */
#define MM_TREE_ROOT_SEGMENTS (64u * MM_TREE_MID_SEGMENTS)
#define MM_TREE_ROOTS_MAX 4u
#define MM_TREE_BITS_MAX (MM_TREE_ROOTS_MAX * MM_TREE_ROOT_SEGMENTS)
MM_STATIC_ASSERT((MM_TREE_BITS_MAX * MM_SEGMENT_BYTES) >> 40 != 0, "1 TiB");
MM_STATIC_ASSERT(((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_PAGES) <= 1ull << (32 - MM_ENTRY_SHAPE_BITS), "pages fit in an entry");
MM_STATIC_ASSERT(((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_PAGES * MM_BLOCK_WORDS_MAX) <= 1ull << 32, "words are numbered by 32 bits");
MM_STATIC_ASSERT(MM_TREE_BITS_MAX * 32ull <= 1u << MM_WANTED_ALIGN_SHIFT && MM_TREE_BITS_MAX < MM_ANSWER_SEGMENTS, "as many as lanes can want fit");

/* Kinds of misuse; index of mm_heap.misuse. */
enum mm_misuse {
    MM_MISUSE_FOREIGN = 1,   /* not in the range of this heap */
    MM_MISUSE_NOT_ALLOCATED, /* in an unowned page or segment */
    MM_MISUSE_INTERIOR,      /* in the middle of an allocation */
    MM_MISUSE_NEVER,         /* beyond the last slice of a block */
    MM_MISUSE_DOUBLE_FREE,   /* a slice that is free: freed before, or never handed out */
    /* found in checked runs only (guarded.h) */
    MM_MISUSE_OVERRUN,    /* a write past the end */
    MM_MISUSE_AFTER_FREE, /* a write after free */
    MM_MISUSE_KINDS
};
/* The reaction to a misuse: MM_ON_MISUSE. It is counted in any case. */
enum mm_on_misuse { MM_ON_MISUSE_REPORT, MM_ON_MISUSE_TRAP, MM_ON_MISUSE_IGNORE };
/* What malloc writes to allocated memory: MM_FILL (fill.h). */
enum mm_fill { MM_FILL_NONE, MM_FILL_ZERO, MM_FILL_JUNK };
/* Which requests malloc refuses: MM_FAIL (fail.h). */
enum mm_fail_kind { MM_FAIL_NONE, MM_FAIL_SHARE, MM_FAIL_NUMBER, MM_FAIL_KERNEL };

/* A segment (segment.h). */
struct mm_segment {
    uint64_t pages;                   /* the free pages, if the segment is used page by page; else 0 */
    uint64_t run;                     /* see mm_run_make */
    uint32_t index[MM_SEGMENT_PAGES]; /* of the entry of the block that begins at a page */
};

/* Eras (segment.h): the last owner of a segment and of each of its pages, and how often the owner changed. */
struct mm_eras {
    uint64_t segment;
    uint32_t page[MM_SEGMENT_PAGES];
};
/* State of a checked run (guarded.h), initially zero, in separate memory. */
struct mm_guard {
    uint64_t tickets, spare0[15]; /* of the quarantine */
    uint64_t emptied, spare1[15]; /* tickets at which it was emptied last */
    uint64_t slots[MM_GUARD_SLOTS];
    struct mm_eras eras[]; /* one per segment */
};

/* An event of a trace (trace.h). MM_TRACE_RESET, of no launch: by the host, mm_reset freed all that was live. */
enum mm_trace_kind { MM_TRACE_MALLOC = 1, MM_TRACE_FREE, MM_TRACE_RESET };
struct mm_trace_event {
    uint64_t address, bytes; /* 0: malloc returned NULL; the requested bytes, of malloc */
    uint64_t cta;            /* its number in the grid, x first */
    uint64_t what;           /* kind, and from these bits on log2 of the alignment (0: malloc's), thread in the CTA, launch number. 0: incomplete */
};
#define MM_TRACE_ALIGN_SHIFT 8
#define MM_TRACE_THREAD_SHIFT 16
#define MM_TRACE_GRID_SHIFT 32
MM_STATIC_ASSERT(MM_TRACE_GRID_SHIFT + MM_GRID_BITS <= 64, "all fit");
struct mm_trace {
    uint64_t count, room, spare[14]; /* events so far; places */
    struct mm_trace_event events[];
};

/* A misuse of free (report.h). */
struct mm_report {
    uint64_t number;           /* from 1; 0: not written yet. Written last */
    uint64_t address, bytes;   /* the pointer; the size of the allocation, if known, or 0 */
    uint32_t kind, is_of_warp; /* enum mm_misuse; whether a thread of the warp of `thread` did it, perhaps another one */
    uint32_t thread[3], block[3];
    uint64_t grid, made_by, freed_by; /* plus 1: the kernel that found it, that allocated, that freed; 0: unknown */
};
MM_STATIC_ASSERT(sizeof(struct mm_report) == 80, "no gaps");

/* Communication of device and host while kernels run (grow.h, report.h), in host memory. */
struct mm_mailbox {
    uint64_t wanted, null_bytes, need, failed, spare0[12]; /* null_bytes: size of the first request that got NULL, plus 1; failed: see fail.h */
    uint64_t answer, spare1[15];
    struct mm_report reports[MM_REPORTS];
};

/* The device's state of growth (grow.h). */
struct mm_grow {
    uint64_t mapped, refused, refused_at;
    uint64_t lock, asked, taken, late, waits, waited_ns, reached, need, looked_at, spare[4];
};
MM_STATIC_ASSERT(sizeof(struct mm_grow) == 128, "a cache line");

/* Failures on demand (fail.h). Every request writes to `requests`. */
struct mm_fail {
    uint64_t number, seed; /* one in `number` requests, or the number of the one request, from 1 */
    uint64_t inverse;      /* (2^64 - 1) / number */
    uint64_t is_on;        /* MM_FAIL_KERNEL: the kernel runs. The host writes it while no kernel runs */
    uint64_t spare0[12];
    uint64_t requests, failed, spare1[14]; /* so far */
};
MM_STATIC_ASSERT(sizeof(struct mm_fail) == 256, "two cache lines");

/* A chunk that the host wants back (maintain.h). */
struct mm_wanted_chunk {
    uint32_t first, count; /* segments */
    uint32_t is_claimed;   /* whether the device could take them */
    uint32_t spare;
};

/* One size class (gallatin). Words that many threads write have separate cache lines; cursors (gallatin/cursor.h) have MM_CURSOR_BYTES each. */
struct mm_cursor {
    uint32_t place, spare[MM_CURSOR_BYTES / 4 - 1];
};
struct mm_class_state {
    uint32_t count, entered; /* entries of its table; entered: listed/list.h */
    uint32_t tickets, until; /* tickets drawn so far; callers draw tickets up to `until` (make.h). In one sector with count, since malloc reads all three */
    uint32_t narrow;         /* how many of the entries name narrow blocks (narrow.h) */
    uint32_t spare0[27];
    uint64_t wanted; /* listed/list.h, as coming */
    uint32_t spare1[30];
    uint64_t lock;             /* held by the warp that removes entries from the table; listed/list.h */
    uint64_t round;            /* single-flight rounds of sweeps (malloc.h) */
    uint64_t stays_ns;         /* when there were no pages for the class last (malloc.h) */
    uint32_t makers, swept;    /* warps that make blocks (make.h); the word at which the last sweep ended */
    uint32_t most, is_awaited; /* of the last round of sweeps (listed/malloc.h) */
    uint64_t coming;
    uint32_t spare2[20];
    struct mm_cursor cursor[MM_CURSORS];
};
MM_STATIC_ASSERT(sizeof(struct mm_class_state) % 128 == 0, "classes do not share a cache line");
MM_STATIC_ASSERT(__builtin_offsetof(struct mm_class_state, tickets) == 8 && __builtin_offsetof(struct mm_class_state, until) == 12, "mm_gather_u32");

/* Kinds of room (room.h): 1 << k pages at a multiple of that (MM_ROOMS_EVEN kinds, up to half a segment), and 5, 6 or 7 << j pages anywhere. */
#define MM_ROOMS_EVEN (MM_SEGMENT_SHIFT - MM_PAGE_SHIFT)
#define MM_ROOMS (MM_ROOMS_EVEN + 3 * (MM_ROOMS_EVEN - 2))
MM_STATIC_ASSERT(MM_ROOMS_EVEN == 6, "mm_pages_rooms knows those of 64 pages");
MM_STATIC_ASSERT(MM_ROOMS % MM_ROOMS_AT_ONCE == 0, "mm_rooms_insert");

struct mm_heap {
    uint64_t abi;                              /* MM_ABI_VERSION */
    uint64_t segment_count;                    /* reserved */
    uint64_t tree_leaves;                      /* words in the lowest level of a tree */
    struct mm_heap_ref ref;                    /* as in the modules */
    uint64_t spare0[3], giving_up, spare1[15]; /* giving_up: see mm_heap_ref; every waiter polls it */
    uint32_t opening[MM_ROOMS + MM_ROOMS % 2]; /* [r]: warps that take a fresh segment for pages of room r (segment.h) */
    uint64_t extents;                          /* extents attached, without the first of each class */
    uint64_t null_count;                       /* requests that got NULL for lack of memory */
    uint64_t null_first_bytes;                 /* size of the first of them, plus 1 */
    uint64_t null_first_grid;                  /* its kernel, plus 1 */
    uint64_t misuse[MM_MISUSE_KINDS];
    uint64_t reports;              /* misuses that were reported or should have been (report.h) */
    uint32_t run_searches, spare4; /* warps that search for runs (run.h) */
    uint64_t spare2[9];
    uint64_t free_count; /* segments in the free tree, with a lag */
    uint64_t retired;    /* pages that blocks gave back, ever */
    uint64_t spare3[14];
    struct mm_grow grow;
    struct mm_fail fail;
    uint64_t bringing[MM_LISTED_PLACES]; /* listed/list.h */
};
MM_STATIC_ASSERT(__builtin_offsetof(struct mm_heap, giving_up) % 128 == 0 && __builtin_offsetof(struct mm_heap, free_count) % 128 == 0 &&
                     __builtin_offsetof(struct mm_heap, grow) % 128 == 0 && __builtin_offsetof(struct mm_heap, fail) % 128 == 0,
                 "what many write has a cache line of its own");

/* Bytes of the firsts. Other allocators than the default use them, and the table, as they like. */
#define MM_FIRSTS_BYTES (MM_CLASS_COUNT * MM_EXTENT * sizeof(uint64_t))

/* Offsets and sizes in bytes, from the beginning of the metadata. */
struct mm_layout {
    uint64_t segment_count, word_shift;
    uint64_t image_bytes; /* from `heap` on: what the host writes (mm_heap_image) */
    uint64_t heap, free_tree, classes, room_trees, segments, directory, made, firsts, owners;
    uint64_t zero_bytes;                    /* the end of the owners, a multiple of page_bytes: all before it is 0 at first */
    uint64_t words, words_each, table_each; /* each: bytes per segment */
    uint64_t tree_leaves, tree_mids, tree_roots, tree_bytes;
    uint64_t total_bytes;
};

static inline uint64_t mm_round_up(uint64_t x, uint64_t unit) { return (x + unit - 1) / unit * unit; }

#endif
