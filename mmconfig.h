/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* All constants of mm: value, unit, reason. No code.
 *
 * Terms. A SEGMENT, 1 MiB, is the unit in which memory is mapped and given back. It has 64 PAGES of 16 KiB. A BLOCK is an aligned power of two of
 * pages of one segment, cut into equal SLICES of one SIZE CLASS. A SPAN is several consecutive pages of one segment, a RUN several consecutive
 * segments; each serves one request. "Block" never means a CUDA thread block, which is a CTA here.
 */
#ifndef MMCONFIG_H
#define MMCONFIG_H

#ifdef __cplusplus
#define MM_STATIC_ASSERT(cond, why) static_assert(cond, why)
#else
#define MM_STATIC_ASSERT(cond, why) _Static_assert(cond, why)
#endif

/* ---- May be changed ------------------------------------------------------------------------- */

/* Version of mm. Makefile and scripts read it here. */
#define MM_VERSION "0.1.0"

/* The oldest CUDA toolkit that mmnvcc accepts (tested: 12.4, 13.0, 13.5). mm itself is built with 13.0 or later (tools/toolkit.sh). */
#define MM_TOOLKIT_MIN "12.0"

/* Version of the interface between device code and libmm.so.1; a part of the heap variable's name. Raise it when struct mm_heap_ref, or anything that
 * is reached through it, changes its meaning. */
#define MM_ABI_VERSION 18
/* libmm.so.1 recognises modules of this many earlier and this many later versions, to report them. */
#define MM_ABI_OTHERS 8

/* The allocator of small memory: its folder in runtime/, and what its images' heap variable has at the end of its name (nothing: the default). */
#ifndef MM_ALLOCATOR
#define MM_ALLOCATOR gallatin
#endif
#ifndef MM_ALLOCATOR_SUFFIX
#define MM_ALLOCATOR_SUFFIX
#endif
/* The allocators: name for users, suffix. The first is the default; the others, of five kinds, are built by make allocators (runtime/build.mk). */
/* clang-format off */
#define MM_ALLOCATORS(X) \
    X("gallatin", "") \
    MM_SIBLINGS(X)
#define MM_SIBLINGS(X) MM_WALKS(X) MM_BUMPS(X) MM_RINGS(X) MM_PAGES_OF(X) MM_CHUNKS_OF(X)
#define MM_WALKS(X) \
    X("random-walk", "_random_walk") \
    X("random-walk-bitmap", "_random_walk_bitmap") \
    X("random-walk-coop", "_random_walk_coop") \
    X("random-walk-runs", "_random_walk_runs")
#define MM_BUMPS(X) \
    X("atomic", "_atomic") \
    X("aw", "_aw")
#define MM_RINGS(X) \
    X("circular", "_circular") \
    X("circular-fused", "_circular_fused") \
    X("circular-multi", "_circular_multi") \
    X("circular-multi-fused", "_circular_multi_fused")
#define MM_PAGES_OF(X) \
    X("ouroboros-s-p", "_ouroboros_s_p") \
    X("ouroboros-va-p", "_ouroboros_va_p") \
    X("ouroboros-vl-p", "_ouroboros_vl_p")
#define MM_CHUNKS_OF(X) \
    X("ouroboros-s-c", "_ouroboros_s_c") \
    X("ouroboros-va-c", "_ouroboros_va_c") \
    X("ouroboros-vl-c", "_ouroboros_vl_c")
/* clang-format on */
/* The one that hands out memory that is in use; MM_ALLOW_UNSAFE=1 lets it. */
#define MM_ALLOCATOR_UNSAFE "aw"
/* (A space would be part of the name.) */
/* clang-format off */
#define MM_ALLOCATOR_FILE(name) MM_STR(runtime/MM_ALLOCATOR/name)
/* clang-format on */

/* Log2 of page and segment: 16 KiB and 1 MiB. Pages are small so that they become empty although some objects stay: if 1 object of 64 B in 1,000
 * stays, a page of 16 KiB is empty with a probability of 0.77, and one of 64 KiB with 0.36. The 64 pages of a segment fit one atomic word. */
#define MM_PAGE_SHIFT 14
#define MM_SEGMENT_SHIFT 20

/* Log2 of the largest slice. Larger requests are spans or runs. */
#define MM_SLICE_SHIFT_MAX 16

/* Log2 of the least number of slices in a block: 32, one for each lane of a warp. Fewer if the block would be larger than a segment. */
#define MM_BLOCK_SLICES_SHIFT 5

/* Log2 of the largest number of cursors of a class; a class has one for each 1 << MM_CURSOR_SLICES_SHIFT slices. One word sustains an atomic every ns
 * or so: with one cursor 1,000,000 requests take 35 us for the atomics alone; with 4 or 8 they take 25 us in all, and no less with 33. */
#define MM_CURSORS_SHIFT 3
#define MM_CURSOR_SLICES_SHIFT 11
/* Bytes from one cursor of a class to the next. An L2 slice does an atomic every .75 ns, and neighbouring lines share slices: 262,144 warps that add to eight
 * words take 61 to 105 us with 128 B, 51 with 256 to 512, 29 with 1 KiB, which is no more than they take without the atomics (H200, 2026-12-01). An odd
 * number of lines has fewest words in one slice: of 512 places one in ten takes 13 % more with 896 B, 45 % with 1 KiB. */
#define MM_CURSOR_BYTES 896

/* Log2 of the entries of an extent, the unit in which the tables of classes grow: 8 KiB. */
#define MM_EXTENT_SHIFT 10
/* Table entries for each page of the heap. A table never shrinks, and each class may have had the whole heap: 16 classes have one block per page, the
 * others fewer, 20 entries per page in all, in addition to each class's first extent; narrow blocks have up to 3 (gallatin/narrow.h). 1.2 % of the heap. */
#define MM_TABLE_SHARE 24

/* A class grows if at most 1/MM_GROW_SHARE of the sampled slices are free, with at least MM_GROW_SEEN or all of its slices sampled, or if none of
 * MM_GROW_SEEN_FULL is. Words are often full or free as a whole, so 512 slices are a sample of only 16: with 512 for both a class with 64 segments
 * live had up to 94, and now 86; with 2048 for both any size in a fresh heap takes up to 34 % longer, and now 2 to 13 %. It grows by twice that share of its
 * size, or by what it was asked for beyond its last growth (malloc.h), so that it does not have to grow again at once: 1,000,000 requests that were allocated and freed in turn took 80 us with once the share, and 24 with
 * twice. Memory taken is 1.3 to 1.6 times the live bytes; with once the share 1.2 to 1.5. In an ample heap it grows earlier, since nobody has to take memory of
 * the device for that. */
#define MM_GROW_SHARE 16
#define MM_GROW_SHARE_AMPLE 4
#define MM_GROW_SEEN 2048
#define MM_GROW_SEEN_FULL 512

/* A class of at most this many pages (1 MiB) grows, whatever is free, if a caller got nothing in this many rounds of samples: more callers want its slices at
 * once than it has. 8,192 single lanes that free at once what they allocate took 88 to 139 us with 1,024 slices for all of them, and take 17 to 19. With 512
 * pages churn took 6 % longer. */
#define MM_GROW_FREELY_PAGES 64
#define MM_GROW_FREELY_ROUNDS 2

/* Lanes of a warp whose first draw from a cursor gave nothing draw up to so many times more before they sample their classes, as long as this share of them
 * succeeds. */
#define MM_DRAWS 6
#define MM_DRAWS_SHARE 8
/* A class with at most this many words is searched word by word instead of sampled: a warp reads them at once. */
#define MM_SAMPLE_ALL 32
/* Words that the lanes of a group sample together in a round. With one for each lane, a lane that was alone in its class took 720 us for 256 words. */
#define MM_SAMPLE_WORDS 32
/* Blocks that a lane that sweeps looks at together. With one word, a thread that was alone took 58 ms for NULL in a heap of 64 MiB full of slices of 48 B; with
 * four words 0.8 s in one of 2 GiB full of slices of 64 B. */
#define MM_SWEEP_BLOCKS 8
/* Rounds of samples after which a warp searches for pages, whatever it has seen. */
#define MM_SAMPLE_ROUNDS 16
/* Sampled words, or rounds of samples, after which a warp searches for pages although there were none for the class in the last MM_GROW_REFUSAL_NS.
 * In a class that converged warps filled and emptied, each word is either full or free. If 5 % are free, all of 32 sampled words are full with a
 * probability of 0.2, and the following search for pages retires blocks for 20 ms; for 256 words the probability is 2e-6. */
#define MM_SAMPLE_POOR 256

/* Log2 of the most blocks of a class whose places are remembered for waiting lanes (make.h). A lane whose word is overwritten must draw again, so there are
 * about as many words as warps on a GPU (8,448 on an H100), each of which may wait for a block; fewer where a block has more slices than a warp lanes. 2.2 MB
 * for all classes, which have at least MM_MADE_WORDS words. */
#define MM_MADE_SHIFT 13

/* A heap is ample while it has so many free segments, and this share of what is mapped is free. */
#define MM_AMPLE_SEGMENTS 64
#define MM_AMPLE_SHARE 4

/* At most one warp makes blocks of a class, plus one for each MM_MAKER_PAGES pages of the class. The other warps find their blocks made. There is no limit
 * while the heap is ample: the first 1,000,000 of 4 KiB and 8 KiB take 320 and 380 us (H200), with the limit 520 and 570. */
#define MM_MAKER_PAGES 32
#define MM_MAKERS_ALL (1u << 20)

/* A warp that makes blocks makes at least this share of its class, so that it takes whole segments for a large class, and few warps search for pages. */
#define MM_MAKE_SHARE 8
/* While the heap is ample, it makes a whole segment's: mmbench's churn, 131,072 threads, H200: 660 us, 1,400 without. For warps that want one class only
 * 1/MM_MAKE_AHEAD of these are for tickets, or as many as have MM_MAKE_LEAST slices: the first 1,000,000 of 16 B take 95 us, 206 if all are (1 KiB: 150, 235).
 * Without LEAST each warp makes a segment for 32 of 8 KiB, and that takes 860, not 350. */
#define MM_MAKE_AHEAD 4
#define MM_MAKE_LEAST 256

/* A lane that waits for a block which another warp makes. LOOKS: looks at the block in each step, before the other lanes of its warp take theirs.
 * PAUSE: most loads of a pause between two looks (some 300 cycles each). With 8, makers among thousands of waiting warps took longer: the first 1,000,000 of
 * 16 B 207 to 222 us in place of 183 to 195 (H200). POLLS: looks in all, 1.3 ms and more, before the lane waits no longer. */
#define MM_MAKE_LOOKS 16
#define MM_MAKE_PAUSE 32
#define MM_MAKE_POLLS 256
/* Looks of a warp that waits for a block, in code that saves few registers, before it goes to mm_slice_malloc. */
#define MM_TICKET_LOOKS 32

/* Of the warps that find no room at the same time, one for each MM_OPEN_SHARE segments in use takes a fresh segment. Each of the others first searches
 * MM_OPEN_POLLS times for room. */
#define MM_OPEN_SHARE 8
#define MM_OPEN_POLLS 16

/* Tries for the lock of a class's table by a warp that retires blocks; after them the blocks stay. The lock is held for some 4 us, is not fair, and a hundred
 * warps may want it: with an eighth of the tries 39 of 8,192 segments stayed. */
#define MM_LOCK_POLLS (1u << 15)
/* Looks for a block's entry, which another warp may be moving. */
#define MM_ENTRY_LOOKS 4

/* Before the heap grows, a class gets narrow blocks if at least 1/MM_NARROW_SHARE of the pages of as many random segments as a warp has lanes are free
 * (gallatin/narrow.h). With 4, 8, 16 and all (computed, case pinned): 2.6, 2.2, 2.0 and 1.9 times what is live. With 16, 1,000,000 objects of 16 to 8,192 B,
 * half of them replaced 40 times, took 2.1 to 2.2 GB in place of 1.9 (H200, 2026-12-01): there is more room in blocks than in pages then. */
#define MM_NARROW_SHARE 4

/* Random segments in which a warp looks for blocks to retire before the heap grows; pages of a segment that a lane examines at once. */
#define MM_RETIRE_SEGMENTS 32
#define MM_RETIRE_AT_ONCE 8
/* Times that a warp searches again because other warps gave pages back meanwhile, before it asks the host for memory. If each warp asked the host as soon as
 * its search failed, nine sizes of 256 MiB one after another took 2,064 MiB; with 32 searches 972, with 256 the same. */
#define MM_SHORT_AGAIN 32

/* Complete searches that find nothing, with pauses between them, before malloc returns NULL. In the pauses other threads give back pages that they hold
 * for a moment. With 2, one of two concurrent requests for spans of a segment got NULL (tests/unit/test_interleave.c). */
#define MM_NULL_TRIES 3

/* Pauses between two searches while another warp retires all free blocks and has found some. */
#define MM_SHORT_PAUSE 4

/* Iterations of any waiting loop on the device before it gives up. Each loads a word that other multiprocessors write, which takes at least 330
 * cycles: 0.35 s or more. */
#define MM_WAIT_ITERATIONS (1u << 21)
/* Loads of a pause between two looks at such a word, at most. When 4,096 warps polled one word without pauses, an iteration of their loop took
 * 7.4 us. */
#define MM_WAIT_PAUSE 32

/* A search of a bitmap tree starts over when another thread has taken the segment that it found. After this many times the tree counts as empty
 * (tree.h). */
#define MM_TREE_TRIES 1024
/* Leaves of a tree that a lane reads at once when it mends the tree (mm_tree_mend); divides 64. */
#define MM_TREE_AT_ONCE 4

/* Room trees into which a segment is inserted at a time: so many accesses overlap. With 9 the values do not fit in 32 registers. */
#define MM_ROOMS_AT_ONCE 6

/* Callers that collided spread over at most this many words of 64 segments each, so that segments in use stay close to each other. */
#define MM_TREE_SPREAD 8
/* ... and over no more segments than one in so many of those in use, but for two, which double with each collision. */
#define MM_TREE_SHARE 8
/* Log2 of the largest number of runs that a warp skips after a collision, for as many warps that collide at once. */
#define MM_RUN_SPREAD_SHIFT 5
/* Words of 64 segments that a search for a run reads at once, where it needs as many. */
#define MM_RUN_AT_ONCE 2

/* Growing (grow.h). Interval between two looks of a thread that waits for memory. */
#define MM_GROW_LOOK_NS 4000 /* MM_GROW_WAIT_MS is a multiple of it */
/* How long a refusal is valid; after that the program may have freed memory. */
#define MM_GROW_REFUSAL_NS 10000000ull

/* Allocators of listed segments (runtime/listed). The list grows by one segment and this share of what it has, or by what callers wait for. Segments that a
 * warp brings at once: those of a word of the free tree (32: 1 M of 8 KiB in a fresh heap take 2,200 us in place of 1,670, H200). Waits of a lane while other
 * warps bring segments, before it continues as if there were no segment: .25 s or more. With 1024 short ones, some 2 ms, callers got NULL while another warp
 * added 100 segments. Of so many waits, one is followed by a draw. Looks of a wait, each one load; loads of a pause between two looks. Words with a bit for
 * each warp of a multiprocessor: more multiprocessors share words. How often a lane begins anew because a sweep found only what other threads held. Segments
 * that mm_slices_retire_some looks at. Words of a segment that a lane reads at once, and that it takes at once to retire the segment. */
#define MM_LISTED_SHARE 16
#define MM_LISTED_BATCH 64
#define MM_LISTED_BUSY_POLLS (1u << 14)
#define MM_LISTED_BUSY_LOOKS 4
#define MM_LISTED_LOOKS 8
#define MM_LISTED_PAUSE 12
#define MM_LISTED_PLACES 512u
#define MM_LISTED_UNSURE 4
#define MM_LISTED_RETIRE_SOME 4
#define MM_LISTED_AT_ONCE 4
#define MM_LISTED_RETIRE_AT_ONCE 2

/* Random walk (runtime/random_walk). Log2 of the bytes of a unit: 256, the paper's pages. The most units of an allocation; larger ones are runs (the paper's
 * limit). Draws in vain after which the list of segments grows: draws that see words, and those that see one unit; and after which a sweep begins, if it cannot
 * grow. With 16, a million of 8 KiB that fill a heap took 56 ms instead of 1. Words beyond its own length that a search for several units looks at. */
#define MM_WALK_UNIT_SHIFT 8
#define MM_WALK_UNITS_MAX 1024u
#define MM_WALK_PROBES 16
#define MM_WALK_FULL_PROBES 48
#define MM_WALK_UNIT_PROBES 64
#define MM_WALK_WINDOW 32

/* The register-efficient allocators (runtime/regeff). Log2 of the bytes of a unit: the smallest chunk has a header of 16 bytes, and 16 more. The most units of
 * an allocation; larger ones are spans or runs. Hops along the ring before a caller goes on elsewhere; how often it does that before the list grows. Most
 * places at which multiprocessors begin. Times 64 units that a sweep reads at once: with more, the values do not fit in 32 registers. */
#define MM_RING_UNIT_SHIFT 5
#define MM_RING_UNITS_MAX 8191u
#define MM_RING_SPARE_SHIFT 3
#define MM_RING_HOPS 32
#define MM_RING_PATIENCE 16
#define MM_RING_PLACES 256u
#define MM_RING_AT_ONCE 2
#define MM_BUMP_LOOKS 8

/* Ouroboros (runtime/ouroboros). Log2 of the bytes of a chunk and of the slots of a queue chunk: the paper's. Log2 of the most queue chunks of a queue; stacks
 * of free ones; words that a lane reads at once where it looks how far others have come; log2 of the most segments: 256 GiB. Looks of a caller that waits for
 * another warp's entry or chunk; if nobody is cutting a chunk; before it wants its pages again (with 8, 1 M of 16 B in a fresh heap take 620 us in place of
 * 440, H200); for a queue chunk; before it takes over the lock of whoever installs those. Most loads of a pause between two looks. A list becomes longer by
 * 1/AHEAD of its length: 1 M frees of 8 KiB of -vl-p take 2.4 ms, without 3.8 ms (H200). Positions that a caller draws for one entry, and rounds for its pages
 * before it cuts a chunk; all rounds. Draws in vain before the list of segments grows: with 1, 1,000,000 of 1 KiB in a fresh heap take a tenth less, and lists
 * get a tenth longer. Segments that it grows by at least; by a full warp. */
#define MM_OURO_CHUNK_SHIFT 13
#define MM_OURO_STORE_SHIFT 11
#define MM_OURO_RING_SHIFT 13
#define MM_OURO_STACKS 14
#define MM_OURO_AT_ONCE 4
#define MM_OURO_LIST_SHIFT 18
#define MM_OURO_LOOKS 64
#define MM_OURO_SHORT_LOOKS 4
#define MM_OURO_AGAIN 4
#define MM_OURO_LONG_LOOKS 256
#define MM_OURO_LOCK_LOOKS 16
#define MM_OURO_PAUSE 8
#define MM_OURO_AHEAD 2
#define MM_OURO_TRIES 8
#define MM_OURO_ROUNDS (MM_OURO_ENTRY == MM_OURO_CHUNKS ? 64 : 2 * MM_OURO_TRIES)
#define MM_OURO_PATIENCE 2
#define MM_OURO_LEAST 4
#define MM_OURO_FULL_WARP 16
/* Segments for each caller that looks for what a queue refused. */
#define MM_OURO_VISITORS 4
/* Cells of a class (cells.h): 137 multiprocessors of 64 warps have one each; classes that have them, the smallest ones, the last one of chunk allocators for free
 * chunks; cells that a caller looks at together before it cuts a chunk, and how often a lane that is alone does so, or one that finds chunks there that are not
 * free any more. */
#define MM_OURO_CELLS 8768u
#define MM_OURO_CELL_CLASSES 7u
#define MM_OURO_CELL_LOOKS 8
#define MM_OURO_CELL_TRIES 4

/* Misuses of free that are reported one by one, with thread and address (report.h). The others are counted. */
#define MM_REPORTS 32

/* Checked runs (guarded.h). Largest allocation that goes into quarantine, and most allocations there: 128 MiB in all. Times that malloc empties the
 * quarantine and tries again. */
#define MM_GUARD_KEPT_BYTES 8192
#define MM_GUARD_SLOTS (1u << 14)
#define MM_GUARD_TRIES 4

/* MM_FILL=junk (fill.h): the byte that MSVC's debug heap writes to new memory; MM_GUARD_ZONE and MM_GUARD_POISON are its other two. Every byte is the same,
 * so a field of any size at any offset shows it. As an address it faults, since neither GPU nor host maps such upper bits. As float it is -4.3e8, as
 * double -6.3e66, as int -842150451, as unsigned 3.5e9, as bool true. */
#define MM_FILL_JUNK_WORD 0xcdcdcdcdcdcdcdcdull

/* MM_FAIL (fail.h): the largest N, K and seed. */
#define MM_FAIL_NUMBER_MAX 0xffffffffffffull

/* Traces (trace.h, tools/mmbench/child/trace.h). EVENTS: places, of 32 bytes, in the device's memory: 128 MiB. HEAD: the first line of a file, with the
 * format's version. *_MAX: the largest numbers there: bytes, since a heap has at most 1 TiB; CTAs, threads and launches as device code has them. */
#define MM_TRACE_EVENTS (1u << 22)
#define MM_TRACE_HEAD "mm-trace 1"
#define MM_TRACE_BYTES_MAX (1ull << 40)
#define MM_TRACE_CTA_MAX 0xffffffffffffull
#define MM_TRACE_THREAD_MAX 1023u
#define MM_TRACE_LAUNCH_MAX 0xffffffu

/* Low bits of a launch number that device code keeps. They identify the launch among the last MM_HOST_LAUNCHES. */
#define MM_GRID_BITS 24

/* -- The host side of the heap (runtime/host) -- */

/* Environment variables that libmm.so reads; it reports any other MM_* as unknown. The second list has those that only mmnvcc reads, which libmm.so
 * ignores. */
#define MM_HOST_VARIABLES                                                                                                                                  \
    "MM_HEAP_SIZE", "MM_HEAP_MAX", "MM_GROW_WAIT_MS", "MM_ON_MISUSE", "MM_SPACING", "MM_TRIM", "MM_FILL", "MM_FAIL", "MM_CHECK", "MM_CHECK_EXITCODE",      \
        "MM_STATS", "MM_STATS_FILE", "MM_HEAP_MAP", "MM_MAP_SERIES", "MM_TRACE", "MM_PROFILE", "MM_OFF", "MM_RUN_ALLOCATOR", "MM_ALLOW_UNSAFE", "MM_POOL", \
        "MM_POOL_FIT", "MM_POOL_CARVE", "MM_VERBOSE"
#define MM_HOST_VARIABLES_ELSEWHERE "MM_NVCC"

/* Checked runs (kernels.h, inspect.c).
 *   LAUNCHES       launches whose kernels are remembered, 32 bytes of host memory each
 *   STRIDE         most launches of the program per probe, a kernel of ours that notes launch numbers
 *   STRIDE_AFTER   consecutive stretches between probes that must agree before the stride doubles
 *   SETTLE_US      how long the look-up of a kernel's name waits for a probe
 *   LEAKS_TOLD     leaks that are listed, one for each kernel and size class, largest first */
#define MM_HOST_LAUNCHES (1u << 20)
#define MM_HOST_STRIDE 8
#define MM_HOST_STRIDE_AFTER 32
#define MM_HOST_SETTLE_US 10000
#define MM_HOST_LEAKS_TOLD 100
/* MM_MAP_SERIES (map_series.h): most frames of launches. */
#define MM_HOST_MAP_FRAMES 24
#define MM_CHECK_EXITCODE_MAX 255 /* the largest exit status of a process */

/* MM_SPACING, in bytes: slices begin at multiples of it. 32 is a sector, the least that a GPU's cache fetches; 128 is a cache line. */
#define MM_SPACING_DEFAULT 32u
#define MM_SPACING_MAX 128u

/* Most options that a program may pass to the driver with a module (34 exist today) or a library (2) that libmm links. */
#define MM_JIT_OPTIONS_MAX 64
#define MM_JIT_LIBRARY_OPTIONS_MAX 8
/* Most architectures in one machine for which a library is linked, one image each. */
#define MM_LINK_ARCHS_MAX 8

/* Initial size of a heap by default: 16 MiB, twice CUDA's. The metadata add 6 MiB. */
#define MM_HOST_FIRST_SEGMENTS 16
/* Where the header of a heap begins in a page of the driver (layout.h): before it lie what describes the first 240 segments. A power of two, so that the words
 * that all threads access lie as they would at the beginning of a page. */
#define MM_NEAR_BYTES (64u << 10)

/* Size of the buffer of zeros from which metadata are cleared by copies (4 MiB). ZEROS is in each heap's page-locked host memory. ZEROS_FEW is used where there is
 * none; it is pageable, so the driver copies it once more. */
#define MM_HOST_ZEROS_BYTES (1u << 20)
#define MM_HOST_ZEROS_FEW_BYTES (64u << 10)

/* A heap grows by 1/MM_HOST_STEP_PART of its size, within these two limits: a large heap needs few requests, and no heap gets much unused memory. With 1/8 and
 * 16 MiB the memory taken was 1.34 to 1.56 times what was live, from 250 MiB live on; so 1.27 to 1.45. 64 GiB in one kernel take as long. */
#define MM_HOST_STEP_PART 16
#define MM_HOST_STEP_SEGMENTS_MIN 8    /* 8 MiB */
#define MM_HOST_STEP_SEGMENTS_MAX 4096 /* 4 GiB */
/* Largest chunk, and most chunks of a heap. A chunk has one driver handle and is mapped and unmapped as a whole, so one live object keeps it mapped.
 * Mapping a chunk while a kernel runs takes some 100 us: growing from 64 MB to 64 GB in one kernel added 10 to 16 ms with chunks of 1 GiB, and
 * 23 to 29 ms with 256 MiB. But with smaller chunks more memory can be given back. */
#define MM_HOST_CHUNK_SEGMENTS_MAX 256 /* 256 MiB */
#define MM_HOST_CHUNKS_MAX 2048

/* A heap that cannot grow begins with 1/MM_HOST_FIXED_FREE_DIVISOR of the free memory, if that is more than the program's limit, and MM_HEAP_SIZE is not set.
 * */
#define MM_HOST_FIXED_FREE_DIVISOR 4

/* By default a heap may grow to the device's memory less 1/MM_HOST_CEILING_DIVISOR of it. */
#define MM_HOST_CEILING_DIVISOR 32
/* Device memory that a heap leaves free even if more is requested: the driver needs some for modules, stacks and copies, and launches fail without it.
 * MM_HOST_RESERVE_BYTES, or 1/MM_HOST_RESERVE_DIVISOR of the device's memory if that is less. */
#define MM_HOST_RESERVE_BYTES (512ull << 20)
#define MM_HOST_RESERVE_DIVISOR 8

/* How long a kernel waits for more memory, in ms: default and maximum. */
#define MM_GROW_WAIT_MS_DEFAULT 2000
#define MM_GROW_WAIT_MS_MAX 60000

/* Interval between two looks of the host for requests: 1/MM_HOST_POLL_PART of the time since the last launch or request, at least POLL_US and at most
 * POLL_SLOW_US. The minimum is POLL_SOON_US after a request that got memory, since the next one may follow soon (otherwise growing from 64 MB to 64 GB in
 * one kernel took 36 ms more). It is POLL_SOON_US as well for ROUSED_SOON_US after a launch that woke the host from a pause of ROUSED_US or more. A look
 * takes 6 us of a processor, 22 after a deep sleep. */
#define MM_HOST_POLL_PART 20
#define MM_HOST_POLL_SOON_US 50
#define MM_HOST_POLL_US 450
#define MM_HOST_POLL_SLOW_US 1000000
#define MM_HOST_ROUSED_US 5000 /* the interval after MM_HOST_POLL_PART times as long without a launch */
#define MM_HOST_ROUSED_SOON_US 1000

/* How long a message waits for room in standard error. After that, messages do not wait until one finds room again. */
#define MM_HOST_SAY_MS 100

/* Giving back. MS: how long the device may take for its part (maintain.h). WARPS: warps that do it; more would contend for the locks of the classes
 * (table.h). MORE_BYTES: how much more than the missing memory is given back. */
#define MM_HOST_TRIM_MS 200
#define MM_HOST_TRIM_WARPS 128
#define MM_HOST_TRIM_MORE_BYTES (64ull << 20)
/* Time without use after which memory goes back: with MM_TRIM=idle, in ms; with MM_TRIM=SECONDS, default and maximum, in s. The default is that of
 * jemalloc's dirty_decay_ms: longer than a pause between two steps of a program, shorter than the time to its next phase. */
#define MM_HOST_TRIM_IDLE_MS 200
#define MM_TRIM_SECONDS_DEFAULT 10
#define MM_TRIM_SECONDS_MAX 86400

/* How long the end of a context or process waits for the thread that grows the heap. */
#define MM_HOST_STOP_MS 1000
/* How many times mm_reset waits for MM_HOST_STOP_MS: it can do nothing before that thread has stopped. */
#define MM_HOST_RESET_STOPS 5

/* Books of a pool (runtime/host/fit/fit.h).
 *   TLSF_SHIFT    log2 of the lists for each power of two: 32, the more of the two numbers of Bell et al. Free blocks at least 1/32 longer than a request are
 *                 always found. The heads of the lists take 7 KiB.
 *   LOOKS         blocks that tlsf and segregated look at in a list of which not all fit. Memory taken by segregated for mmbench's log of training, in ranges
 *                 of 32 MiB: 2.93 times what was live with 1 look, 1.65 with 4, 1.48 with 8, 1.41 with 64; by tlsf 1.12 with each.
 *   PAGE_BLOCKS   blocks in a page of the sequential fits: 4 KiB. The paper has 254, with a header in the page.
 *   *_FIRST       room of the tables at first; each doubles when it is full */
#define MM_FIT_TLSF_SHIFT 5
#define MM_FIT_LOOKS 8
#define MM_FIT_PAGE_BLOCKS 256
#define MM_FIT_NODES_FIRST 64u /* a power of two: bits of a hash */
#define MM_FIT_PAGES_FIRST 16
#define MM_FIT_RANGES_FIRST 16

/* Host-based pooling (runtime/host/pool).
 *   GRAIN_SHIFT     log2 of the unit in bytes that slabs are carved in: the driver's own addresses are multiples of 512
 *   RANGE_BYTES     the driver's unit of memory, and its smallest range that it does not carve itself
 *   SLAB_PART       a slab has this part of the bytes that the slabs before it have, or
 *   SLAB_REQUESTS   so many times the request for which it is made, or as often as fits, if that is more: blocks that fill a slab each leave gaps that
 *                   serve few requests. At most
 *   SLAB_BYTES_MAX  this, so that a pool has few slabs, and little memory that is not used yet
 *   WASTE_PART      a range that is kept whole serves requests that leave at most this part of it unused
 *   BYTES_MAX       larger requests go to the driver; no device has as much
 *   CARVE_MAX       the largest MM_POOL_CARVE
 *   FENCES          events in flight for each context; with fewer, frees that follow each other within a kernel's time share one
 *   FENCE_MS        time that an event of a context without work needs at most to be done, for the thread that gives memory back
 *   BATCH           frees that an event is recorded for
 *   BATCH_BYTES     or for fewer, if they have as much: a batch of larger ones would hold too much memory
 *   WAIT_US         how long a request waits for such an event before the driver is asked: a tenth of what it takes for a slab, 66 us and more
 *   WAITS_*         all requests since the last slab wait no longer than 1 us for each WAITS_BYTES that the pool has, between LEAST_US and MOST_US: then the
 *                   pool grows, since waiting has cost as much (ski rental). A small pool grows sooner, since a pair of large blocks needs four of them to
 *                   wait seldom; a large pool later, since its slabs are large
 *   ROUND_LOOKS     how often a free of keep looks whether another thread's cuCtxSynchronize has served it: some 3 us, two such
 *                   calls of an idle device
 *   CAPTURE_MS      how long the beginning of a capture waits for such calls to begin: longer than a thread is suspended by others now and then
 *   TRIES           how often a request tries to be faster than other threads at memory that it got from the driver
 *   FIRST_PLACES    of a table of allocations, and of a queue of frees, a power of two
 *   MAP_ROWS        ranges that a picture of a pool draws
 *   SETS, SET_*     a thread's magazine: log2 of its lengths, blocks of each, and the largest length, so that it has 16 MiB at most. Half as many blocks wait
 *                   for an event before one is recorded for them */
#define MM_POOL_GRAIN_SHIFT 9
#define MM_POOL_RANGE_BYTES (2ull << 20)
#define MM_POOL_SLAB_PART 8
#define MM_POOL_SLAB_REQUESTS 4
#define MM_POOL_SLAB_BYTES_MAX (64ull << 20)
#define MM_POOL_WASTE_PART 8
#define MM_POOL_BYTES_MAX (1ull << 46)
#define MM_POOL_CARVE_MAX (1ull << 30)
#define MM_POOL_FENCES 32
#define MM_POOL_FENCE_MS 10
#define MM_POOL_BATCH 8
#define MM_POOL_BATCH_BYTES (64ull << 20)
#define MM_POOL_WAIT_US 6
#define MM_POOL_WAITS_BYTES (2ull << 20)
#define MM_POOL_WAITS_LEAST_US 16
#define MM_POOL_WAITS_MOST_US 1024
#define MM_POOL_ROUND_LOOKS 64
#define MM_POOL_CAPTURE_MS 10
#define MM_POOL_TRIES 3
#define MM_POOL_FIRST_PLACES 64u
#define MM_POOL_MAP_ROWS 256u
#define MM_POOL_SETS_SHIFT 4
#define MM_POOL_SETS (1u << MM_POOL_SETS_SHIFT)
#define MM_POOL_SET_PLACES 16u
#define MM_POOL_SET_BYTES_MAX (64u << 10)

/* ---- Derived; do not modify ------------------------------------------------------------------ */

#define MM_ALIGN_SHIFT 4 /* 16 bytes, as CUDA promises */
#define MM_PAGE_BYTES (1ull << MM_PAGE_SHIFT)
#define MM_SEGMENT_BYTES (1ull << MM_SEGMENT_SHIFT)
#define MM_PAGES_SHIFT (MM_SEGMENT_SHIFT - MM_PAGE_SHIFT) /* log2 of the pages of a segment */
#define MM_SEGMENT_PAGES (1u << MM_PAGES_SHIFT)
MM_STATIC_ASSERT(MM_SEGMENT_PAGES == 64, "the pages of a segment are one word");
MM_STATIC_ASSERT(MM_HOST_STEP_SEGMENTS_MIN <= MM_HOST_STEP_SEGMENTS_MAX, "steps only grow");

/* Size classes: 16, 32, 48, 64 bytes, then four per doubling up to the largest slice. */
#define MM_SLICE_BYTES_MAX (1ull << MM_SLICE_SHIFT_MAX)
#define MM_CLASSES_TO(shift) ((shift) < 6 ? (1 << (shift)) >> 4 : 4 * ((shift)-6) + 4) /* those of at most 1 << shift bytes */
#define MM_CLASS_COUNT MM_CLASSES_TO(MM_SLICE_SHIFT_MAX)
/* Classes with narrow blocks (core/class.h): more bytes than a page has for each slice of a block, and at most half a page. */
#define MM_NARROW_FIRST MM_CLASSES_TO(MM_PAGE_SHIFT - MM_BLOCK_SLICES_SHIFT)
#define MM_NARROW_END MM_CLASSES_TO(MM_PAGE_SHIFT <= MM_SLICE_SHIFT_MAX ? MM_PAGE_SHIFT - 1 : MM_SLICE_SHIFT_MAX)
#define MM_SHAPES (MM_CLASS_COUNT + MM_NARROW_END - MM_NARROW_FIRST)
MM_STATIC_ASSERT(MM_SHAPES < 64, "a shape fits in six bits, shape + 1 in a byte beside spans");
#define MM_CURSORS (1u << MM_CURSORS_SHIFT)
#define MM_MADE_WORDS (32u << MM_MADE_SHIFT)
#define MM_EXTENT (1u << MM_EXTENT_SHIFT)

#define MM_FIT_TLSF_LISTS (1u << MM_FIT_TLSF_SHIFT)
MM_STATIC_ASSERT(MM_FIT_TLSF_LISTS <= 32, "the bits of the lists of a power of two are one word of 32");

/* Log2 of the slices that one word describes. */
#define MM_WORD_SHIFT 5
#define MM_BLOCK_WORDS_MAX (1u << (MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT))

/* The heap variable that every device image holds. Its name contains the version; its size is fixed. */
#define MM_CAT_(a, b) a##b
#define MM_CAT(a, b) MM_CAT_(a, b)
#define MM_STR_(a) #a
#define MM_STR(a) MM_STR_(a)
#define MM_HEAP_REF_PREFIX "mm_heap_v"
#define MM_HEAP_REF MM_CAT(MM_CAT(mm_heap_v, MM_ABI_VERSION), MM_ALLOCATOR_SUFFIX)
#define MM_HEAP_REF_NAME MM_STR(MM_HEAP_REF)
#define MM_HEAP_REF_NAME_OF(suffix) MM_HEAP_REF_PREFIX MM_STR(MM_ABI_VERSION) suffix
/* Names of malloc and aligned malloc with room in front of the allocation (runtime/checked/cookie.h), for machine code. They are written over CUDA's
 * names, so they must not be longer. '$' is reserved for implementations. */
#define MM_LINKED_NEW "mm$new"
#define MM_LINKED_ALIGNED_NEW "mm$aligned_new"
#define MM_HEAP_REF_BYTES 2128

#endif
