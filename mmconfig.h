/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every knob of mm and what derives from it: value, unit, reason. No code.
 *
 * Words. A SEGMENT is the unit in which memory is mapped and given back, 1 MiB: 64 PAGES of 16 KiB. A BLOCK is an aligned power of two of
 * pages of one segment, cut into equal SLICES of one SIZE CLASS. A SPAN is several pages of one segment, a RUN several neighbouring
 * segments; each serves one request. "Block" is always ours: CUDA's is a CTA.
 */
#ifndef MMCONFIG_H
#define MMCONFIG_H

#ifdef __cplusplus
#define MM_STATIC_ASSERT(cond, why) static_assert(cond, why)
#else
#define MM_STATIC_ASSERT(cond, why) _Static_assert(cond, why)
#endif

/* ---- May be changed ------------------------------------------------------------------------- */

/* Of mm as a whole; Makefile and scripts take it from here. */
#define MM_VERSION "0.1.0"

/* The oldest CUDA toolkit that mmnvcc takes (tested: 12.4, 13.0, 13.5); mm itself is built with 13.0 or later (tools/toolkit.sh). */
#define MM_TOOLKIT_MIN "12.0"

/* Version of the agreement between device code, libmm.so and the name of the heap variable. Raise it
 * when struct mm_heap_ref or anything reached through it changes its meaning. */
#define MM_ABI_VERSION 8
/* Versions before and after it that libmm.so.1 knows modules of when it sees them, to say so. */
#define MM_ABI_OTHERS 8

/* Page and segment, as shifts: 16 KiB and 1 MiB. Small pages go to other classes although a few objects stay: with 1 object of 64 B in 1,000
 * left, a page of 16 KiB is empty with a probability of .77, one of 64 KiB .36. The 64 pages of a segment are ONE atomic word. */
#define MM_PAGE_SHIFT 14
#define MM_SEGMENT_SHIFT 20

/* Largest slice, as a shift: 64 KiB. What is larger gets pages, or segments, of its own. */
#define MM_SLICE_SHIFT_MAX 16

/* A block has at least so many slices, as a shift: 32, what a warp wants at once; fewer if it would be larger than a segment. */
#define MM_BLOCK_SLICES_SHIFT 5

/* Cursors of a class, at most, as a shift; a class has one for each 1 << MM_CURSOR_SLICES_SHIFT slices. One word takes an atomic every ns
 * or so: with one cursor 1 M requests take 35 us for that alone, with 4 or 8 25 in all, and no less with 33. */
#define MM_CURSORS_SHIFT 3
#define MM_CURSOR_SLICES_SHIFT 11

/* Entries of an extent, the unit in which the tables of classes grow, as a shift: 8 KiB. */
#define MM_EXTENT_SHIFT 10
/* Entries in all for each page of the heap: a table is as long as its class has ever been, and each class may have had the whole heap: 16 classes have
 * a block to a page, the others have fewer, 20 entries for a page in all, beside each class's first extent. 1.2 % of the heap. */
#define MM_TABLE_SHARE 24

/* A class grows if fewer than 1/MM_GROW_SHARE of the slices looked at are free, of MM_GROW_SEEN at least, or all there are; then by twice that
 * share, so that it is not short again at once: 1 M requests that come and go took 80 us with once the share, 24 with twice; memory taken is 1.3 to
 * 1.6 times what is live, with once 1.2 to 1.5. */
#define MM_GROW_SHARE 16
#define MM_GROW_SEEN 512

/* How often a warp draws from cursors as long as half of what it draws is served; and if it is not. */
#define MM_DRAWS 4
#define MM_DRAWS_POOR 2
/* A class of so many words is looked through, not sampled: a warp does that at once. */
#define MM_SAMPLE_ALL 32
/* Rounds of samples after which a warp looks for pages whatever it has seen. */
#define MM_SAMPLE_ROUNDS 16
/* If there were no pages for the class in the last MM_GROW_REFUSAL_NS: looks at words after which it does, or as many rounds. In a class that was filled
 * and emptied by whole warps words are all full or all free: of 32 none has room with a probability of .2 if 5 % are free, and who looks for pages then
 * retires blocks for 20 ms; of 256, of 2e-6. */
#define MM_SAMPLE_POOR 256

/* Blocks of a class whose places are remembered for those who wait for them (make.h). Who finds his overwritten draws again: no fewer than as many
 * warps as there may be (8,448 on an H100) want, each a block of 32. 2.9 MB in all. */
#define MM_MADE 8192u
/* Of those who would make blocks of one class one does, and one more for each so many pages that the class has: the others find theirs made. */
#define MM_MAKER_PAGES 32

/* Looks at a block that another warp makes, with so many accesses between them (some 300 cycles each) and fewer in the beginning, before a lane does
 * something else; and looks in all before it goes its own way, some 5 ms. */
#define MM_MAKE_LOOKS 16
#define MM_MAKE_PAUSE 8
#define MM_MAKE_POLLS 1024

/* Of those who find no room at the same time, so many take fresh segments: one for each MM_OPEN_SHARE that are in use. The others look for room
 * so often first. */
#define MM_OPEN_SHARE 8
#define MM_OPEN_POLLS 16

/* Tries for the lock of a class's table, by who retires blocks: else the blocks stay. It is held for some 4 us, and a hundred warps may want it, of
 * which none is the next: an eighth of that left 39 of 8,192 segments. */
#define MM_LOCK_POLLS (1u << 15)
/* Looks for a block's entry, which may be on its way to another place. */
#define MM_ENTRY_LOOKS 4

/* Pages looked at for blocks to retire, by each lane, before the heap grows; and so many at once, if all are looked at. */
#define MM_RETIRE_LOOKS 4
#define MM_RETIRE_AT_ONCE 4

/* Complete searches that find nothing, with pauses between, before malloc answers NULL: what others have in hand for the moment comes to
 * light meanwhile. With 2 one of two spans of a segment, asked for at once, was NULL (tests/unit/test_interleave.c). */
#define MM_NULL_TRIES 3

/* Waits between two searches while somebody else retires all that is free, and finds some. */
#define MM_SHORT_PAUSE 4

/* Iterations of any waiting loop on the device before it gives up. Each loads a word that other multiprocessors write, which takes 330
 * cycles and more: at least 0.35 s. */
#define MM_WAIT_ITERATIONS (1u << 21)
/* Accesses elsewhere between two looks at such a word, at most: with 4,096 warps that did nothing but look, a turn of their loop took
 * 7.4 us. */
#define MM_WAIT_PAUSE 32

/* A search of a bitmap tree starts over when what it found has just gone; after so many times the caller
 * takes it for empty (and looks again while things move, tree.h). */
#define MM_TREE_TRIES 1024

/* Callers that collide part ways over this many words of 64 segments, no more: what is in use stays together. */
#define MM_TREE_SPREAD 8
/* Runs that who met others at the one it wanted leaves out of the next ones it finds: up to 2^MM_RUN_SPREAD_SHIFT, for as many
 * warps at once. */
#define MM_RUN_SPREAD_SHIFT 5

/* Growing (grow.h). Who waits for more memory looks every so often. */
#define MM_GROW_LOOK_NS 4000 /* MM_GROW_WAIT_MS is so many of them */
/* A refusal holds for so long: then the program may have freed some memory. */
#define MM_GROW_REFUSAL_NS 10000000ull

/* Misuses of free that are told one by one, with who and where (report.h); of the others there is the number. */
#define MM_REPORTS 32

/* The checked run (guarded.h). Bytes that an allocation in quarantine takes, at most, and allocations there: 128 MiB in all. How often malloc
 * tries again, when it has emptied that. */
#define MM_GUARD_KEPT_BYTES 8192
#define MM_GUARD_SLOTS (1u << 14)
#define MM_GUARD_TRIES 4

/* MM_FILL=junk (fill.h): the byte that MSVC's debug heap writes to new memory, as MM_GUARD_ZONE and MM_GUARD_POISON are its other two. The same in
 * every byte, so that a field of any size at any offset shows it. As an address it has upper bits that no GPU and no host maps, so
 * that it faults; as float it is -4.3e8, as double -6.3e66, as int -842150451, as unsigned 3.5e9, as bool true. */
#define MM_FILL_JUNK_WORD 0xcdcdcdcdcdcdcdcdull

/* Of the number of a launch device code keeps so many bits: the host knows them again among the last MM_HOST_LAUNCHES. */
#define MM_GRID_BITS 24

/* -- The host side of the heap (runtime/host) -- */

/* Variables of the environment that libmm.so reads; any other MM_* is said to be unknown. Those that
 * only mmnvcc reads stand in the second list and are left alone. */
#define MM_HOST_VARIABLES "MM_HEAP_SIZE", "MM_HEAP_MAX", "MM_GROW_WAIT_MS", "MM_ON_MISUSE", "MM_SPACING", "MM_TRIM", "MM_FILL", "MM_CHECK", "MM_CHECK_EXITCODE", "MM_STATS", "MM_STATS_FILE", "MM_HEAP_MAP", "MM_OFF", "MM_RUN_ALLOCATOR", "MM_VERBOSE"
#define MM_HOST_VARIABLES_ELSEWHERE "MM_NVCC"

/* Launches whose kernels a checked run remembers: 32 bytes each, of the host. A kernel of ours for as many launches at most (kernels.h), twice as many
 * as before after so many that agreed; microseconds that a name waits for one. Kinds of leaks that are told, largest first. */
#define MM_HOST_LAUNCHES (1u << 20)
#define MM_HOST_STRIDE 8
#define MM_HOST_STRIDE_AFTER 32
#define MM_HOST_SETTLE_US 10000
#define MM_HOST_LEAKS_TOLD 100
#define MM_CHECK_EXITCODE_MAX 255 /* what a process can return */

/* MM_SPACING: slices begin at multiples of so many bytes. 32 is a sector, the least that a cache of the GPU fetches; 128 a line. */
#define MM_SPACING_DEFAULT 32u
#define MM_SPACING_MAX 128u

/* Options that a program may give to the driver when it loads a module (there are 34 today) or a library (2) that we link. */
#define MM_JIT_OPTIONS_MAX 64
#define MM_JIT_LIBRARY_OPTIONS_MAX 8
/* Architectures of the GPUs of one machine for which a library is linked, one image each. */
#define MM_LINK_ARCHS_MAX 8

/* What a heap has at first if nobody says how much: 16 MiB, twice CUDA's. The metadata of a device of 80 GB add 16 MiB, of 140 GB 22. */
#define MM_HOST_FIRST_SEGMENTS 16

/* Zeros that metadata are cleared from, by copies: 14 MiB of them for a device of 128 GiB. Page-locked, one such
 * piece for each heap; else pageable, which the driver copies once more. */
#define MM_HOST_ZEROS_BYTES (1u << 20)
#define MM_HOST_ZEROS_FEW_BYTES (64u << 10)

/* A heap that asks for more gets 1/MM_HOST_STEP_PART of what it has, between these two: few requests for a large heap, and little memory
 * that nobody uses for any. */
#define MM_HOST_STEP_PART 8
#define MM_HOST_STEP_SEGMENTS_MIN 16   /* 16 MiB */
#define MM_HOST_STEP_SEGMENTS_MAX 4096 /* 4 GiB */
/* In chunks of one driver handle each, which come and go as a whole: one live object keeps one. Beside a running kernel one takes
 * some 100 us: 64 MB to 64 GB inside one kernel took 10 to 16 ms more with 1 GiB, 23 to 29 with 256 MiB; but of smaller ones
 * more can be given back. */
#define MM_HOST_CHUNK_SEGMENTS_MAX 256 /* 256 MiB */
#define MM_HOST_CHUNKS_MAX 2048

/* A heap that cannot grow (a driver without virtual memory management) takes this share of the free memory. */
#define MM_HOST_FIXED_FREE_DIVISOR 4

/* Not the heap's, if nobody says more: the rest of the device's memory. */
#define MM_HOST_CEILING_DIVISOR 32
/* Left unmapped even if more is asked for: the driver needs some for modules, stacks and its own copies,
 * and a launch without it fails. The smaller of this and a part of the device's memory. */
#define MM_HOST_RESERVE_BYTES (512ull << 20)
#define MM_HOST_RESERVE_DIVISOR 8

/* How long a kernel waits for more memory: default and most. */
#define MM_GROW_WAIT_MS_DEFAULT 2000
#define MM_GROW_WAIT_MS_MAX 60000

/* How often the host looks for requests: every 1/MM_HOST_POLL_PART of the time since the last launch or request, between these
 * two; but who has just got memory may soon want more (64 MB to 64 GB in one kernel: 36 ms added, else), and so may, for a moment, the
 * first launch after a while without one, for which it wakes. Looking takes 6 us of a processor, 22 out of a deep sleep. */
#define MM_HOST_POLL_PART 20
#define MM_HOST_POLL_SOON_US 50
#define MM_HOST_POLL_US 450
#define MM_HOST_POLL_SLOW_US 1000000
#define MM_HOST_ROUSED_US 5000      /* out of a sleep as long as this: after 20 times as long without a launch */
#define MM_HOST_ROUSED_SOON_US 1000

/* So long a line waits for room in standard error; the next ones do not, until there is some. */
#define MM_HOST_SAY_MS 100

/* Giving back: how long the device may take for its part, and by so many warps, which wait for each other at the tables of classes (table.h); how
 * much more than what is needed. */
#define MM_HOST_TRIM_MS 200
#define MM_HOST_TRIM_WARPS 128
#define MM_HOST_TRIM_MORE_BYTES (64ull << 20)
/* Memory goes back after so long without use. MM_TRIM=idle; MM_TRIM=SECONDS: default and most. The default is that of jemalloc's
 * dirty_decay_ms: a pause between two phases of a program is shorter, a program that has ended a phase is not. */
#define MM_HOST_TRIM_IDLE_MS 200
#define MM_TRIM_SECONDS_DEFAULT 10
#define MM_TRIM_SECONDS_MAX 86400

/* How long the end of a context, or of the process, waits for the thread that makes the heap grow. */
#define MM_HOST_STOP_MS 1000
/* So often does mm_reset, which can do nothing before it has ended. */
#define MM_HOST_RESET_STOPS 5

/* ---- Derived; do not modify ------------------------------------------------------------------ */

#define MM_ALIGN_SHIFT 4 /* CUDA's promise: 16 bytes */
#define MM_PAGE_BYTES (1ull << MM_PAGE_SHIFT)
#define MM_SEGMENT_BYTES (1ull << MM_SEGMENT_SHIFT)
#define MM_PAGES_SHIFT (MM_SEGMENT_SHIFT - MM_PAGE_SHIFT) /* pages of a segment */
#define MM_SEGMENT_PAGES (1u << MM_PAGES_SHIFT)
MM_STATIC_ASSERT(MM_SEGMENT_PAGES == 64, "the pages of a segment are one word");
MM_STATIC_ASSERT(MM_HOST_STEP_SEGMENTS_MIN <= MM_HOST_STEP_SEGMENTS_MAX, "steps only grow");

/* Classes: 16, 32, 48, 64, then four per doubling up to the largest slice. */
#define MM_SLICE_BYTES_MAX (1ull << MM_SLICE_SHIFT_MAX)
#define MM_CLASS_COUNT (4 * (MM_SLICE_SHIFT_MAX - 6) + 4)
MM_STATIC_ASSERT(MM_CLASS_COUNT < 64, "a class fits in six bits, class + 1 in a byte beside spans");
#define MM_CURSORS (1u << MM_CURSORS_SHIFT)
#define MM_EXTENT (1u << MM_EXTENT_SHIFT)

/* Slices that one word describes, as a shift. */
#define MM_WORD_SHIFT 5
#define MM_BLOCK_WORDS_MAX (1u << (MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT))

/* The heap variable that every device image holds (F10): name carries the version, size is fixed. */
#define MM_CAT_(a, b) a##b
#define MM_CAT(a, b) MM_CAT_(a, b)
#define MM_STR_(a) #a
#define MM_STR(a) MM_STR_(a)
#define MM_HEAP_REF_PREFIX "mm_heap_v"
#define MM_HEAP_REF MM_CAT(mm_heap_v, MM_ABI_VERSION)
#define MM_HEAP_REF_NAME MM_STR(MM_HEAP_REF)
/* malloc and aligned malloc with room in front (runtime/checked/cookie.h), for machine code. No longer than CUDA's names, in the place of which
 * they are written; '$' is for the implementation's use. */
#define MM_LINKED_NEW "mm$new"
#define MM_LINKED_ALIGNED_NEW "mm$aligned_new"
#define MM_HEAP_REF_BYTES 1608

#endif
