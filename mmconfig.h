/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every knob of mm and what derives from it: value, unit, reason. No code.
 *
 * Words: a SEGMENT is the unit in which memory moves between size classes; a segment is an
 * array of equal SLICES of one SIZE CLASS; a BLOCK is a stretch of so many slices of it; a LOT is what a number of tickets
 * are good for, the slices of a block for instance (ring.h); a RUN is several neighbouring segments that serve one large
 * request. "Block" is always ours: CUDA's is a CTA.
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
#define MM_ABI_VERSION 7
/* Versions before and after it that libmm.so.1 knows modules of when it sees them, to say so. */
#define MM_ABI_OTHERS 8

/* Segment, as a shift: 4 MiB. Large requests round up to it, so it must be small; it must be a multiple
 * of the 2 MiB the driver maps at least; and its 64 blocks of 64 KiB are ONE atomic word. */
#define MM_SEGMENT_SHIFT 22

/* Slices are marked free in words of this many bits, as a shift: 64, the widest atomic there is. */
#define MM_WORD_SHIFT 6

/* Blocks, the unit that becomes whole again and is then handed out anew from its beginning. At least 64 KiB; from
 * there on 1024 slices, so that a warp, which takes up to 32 at once, seldom comes to the end of one, and so that what
 * a block costs to make ready and to make whole is shared by many; at most a segment (with 1 MiB at most, malloc and free of
 * 1 M times 8 KiB took 140 and 76 us, with 4 MiB 108 and 37). Never less than one word of slices. */
#define MM_BLOCK_BYTES_MIN_SHIFT 16
#define MM_BLOCK_SLICES_SHIFT 10
#define MM_BLOCK_BYTES_MAX_SHIFT 22

/* Stripes of a class, from which callers draw, at most, as a shift. One word takes an atomic every 0.9 ns on an H200, and what
 * is made ready for one is shared by fewer: 64 took 1 M requests of 64 bytes from 40 us to 36, and spread them over 1.19
 * times the addresses instead of 1.06. */
#define MM_STRIPES_SHIFT 5
/* Lots that a ring has at most between being made ready and being used up, as a shift: a warp that draws slices of which
 * there are two to a segment is in 16 of them at once, and the next MM_AHEAD_MAX are ready. */
#define MM_RING_SHIFT 5

/* Lots that a stripe, and a reserve, have made ready ahead of need, at most; fewer for classes whose blocks have more than
 * 2^MM_BLOCK_SLICES_SHIFT slices. A stripe's: 1 M requests of 16 bytes took 22 us with 4, 25 with 1, 28 without; of 64 bytes 27 with 4, 29
 * with 2. A reserve's, 64 bytes: 31 with 2, 27 with 4 (a wave of warps wants some 260 blocks at once), no better with 8 or 16, and
 * then 16 bytes are spread over 2.7 times the addresses instead of 1.3. */
#define MM_AHEAD_MAX 4
#define MM_RESERVE_AHEAD 4

/* What the stripes of a class may hold of a heap of so many bytes: the square of that / 2^MM_HOLD_SHIFT, and from 2^MM_HOLD_KNEE on
 * its cube, but at most 1/2^MM_HOLD_PART_SHIFT of it; its reserve half as much. 4 MiB of 2 GiB, 128 MiB of 8 GiB. Fewer stripes,
 * fewer lots ahead, fewer segments to a reserve's lot if need be. 8 GiB, 1 M requests of 4 KiB: 120 us with 64 MiB, 83 with 128, 65
 * with 256; but then 16..8,192 bytes, 4 GiB of them, took milliseconds, since memory ran short. In 2 GiB with 28 classes in use
 * (16..4,096 bytes) twice as much took all that was free. */
#define MM_HOLD_SHIFT 40
#define MM_HOLD_KNEE 31
#define MM_HOLD_PART_SHIFT 6

/* A heap that grows is taken for one of at most so many segments when it comes to what classes hold: 32 GiB. */
#define MM_HOLD_SEGMENTS_MAX 8192
/* And a lot of its reserves is at most 1/2^MM_GROW_LOT_SHIFT of what is there already. */
#define MM_GROW_LOT_SHIFT 6

/* Segments of a reserve's lot, at most, as a shift; so many that it has some 64 blocks. */
#define MM_RESERVE_ROW_SHIFT 5
/* Lots of a reserve that are made ready at the same time look for segments side by side: so many of them. */
#define MM_RESERVE_SPREAD 4
/* Classes that begin at the same time want single segments at the same place: who met others goes on by up to so many places. 1 M
 * requests of 16..256 bytes in a fresh heap took 164 us, 130 so. Not more than one segment: 8 KiB 152 and then 176. */
#define MM_PARTING 8
/* Segments that are looked through together for whole blocks, at most, as a shift. */
#define MM_WHOLE_ROW_SHIFT 4

/* Slices that came back one by one are used again before the class gets more segments if they are 1/MM_REUSE_SHARE of
 * its slices: a live set that stays as it is takes up to 2 times its size. Less would be memory for time. How many
 * there are is guessed from one word each of so many segments; what was seen earlier counts for less, but not for
 * nothing: by 1/MM_REUSE_DECAY at each look, since one look in ten is wrong by a third. */
#define MM_REUSE_SHARE 4
#define MM_REUSE_TRIES 8
#define MM_REUSE_DECAY 8
/* When a class has got more segments than ever, by 1/MM_REUSE_LOOKS, is the time to look: it takes 7 us, and the kernel waits for
 * who looks last (at every lot of a reserve: 1 M requests of 64 bytes took 40 us, without 33; one lane of each warp 33, 19). */
#define MM_REUSE_LOOKS 4
/* And they are at least so many times what the stripes of the class hold: to be had one by one they cost more than they are
 * worth (1 M requests of 16..512 bytes: 88 us, else 160 to 400). */
#define MM_REUSE_HELD 2
/* With less than 1/MM_SCARCE of the heap's segments free it is this share. Not "any": a few, or hints that are old, send
 * everybody to look in vain (1 M requests of 256 bytes: 1,031 us instead of 100). */
#define MM_REUSE_SHARE_SCARCE 64
#define MM_SCARCE 8
/* Segments that one who wants a slice that came back looks at, each with some eight accesses one after the other. */
#define MM_REUSE_ROUNDS 16
/* How many of them near the front. */
#define MM_REUSE_FRONT 2
/* Searches in vain, of one caller, before there are fresh segments although much has come back. */
#define MM_REUSE_FAILS 4

/* Counters of the version of the supply (tree.h), as a shift: enough that multiprocessors do not get in each other's
 * way. */
#define MM_VERSIONS_SHIFT 4

/* Complete searches that find nothing, with pauses between (2, 4, 8 ... steps, 510 in all, of some half a microsecond), before malloc
 * answers NULL: what others have in hand for the moment comes to light meanwhile. A refill may take 40 us when memory
 * runs short. */
#define MM_NULL_TRIES 9

/* Iterations of any waiting loop on the device before it gives up. Each loads a word that other multiprocessors write, which takes 330
 * cycles and more: at least 0.35 s. */
#define MM_WAIT_ITERATIONS (1u << 21)

/* Looks at a lot that is not ready, some 0.4 us each, before a lane goes on to where all lanes of its warp take steps in turns: if all that
 * are here wait for this lot, and else, since one of the others may have a lot to make ready. 1 M requests of 16 B took 33 us with 64, 67
 * with 16; of 8 KiB 217 with 64, 162 with 512. */
#define MM_DRAW_POLLS 256
#define MM_DRAW_POLLS_APART 16
/* And there, between two turns, if no lane of the warp makes anything ready. */
#define MM_LOOK_POLLS 64

/* A lane that waits, and finds no other lane of its warp at another place of the allocator, lets others of its warp go on all the same after
 * so many steps, 8 to 400 ms: no refill takes as long, and the host's answer seldom (mm_warp_let_go). */
#define MM_LET_GO_STEPS (1u << 14)
/* Warps of a device that are told apart (by multiprocessor and place there): 256 multiprocessors of 64. */
#define MM_WARP_SLOTS_SHIFT 14

/* A search of a bitmap tree starts over when what it found has just gone; after so many times the caller
 * takes it for empty (and looks again while things move, tree.h). */
#define MM_TREE_TRIES 1024

/* Callers that collide part ways over this many words of 64 segments, no more: what is in use stays together. */
#define MM_TREE_SPREAD 8
/* Runs that who met others at the one it wanted leaves out of the next ones it finds: up to 2^MM_RUN_SPREAD_SHIFT, for as many
 * warps at once. */
#define MM_RUN_SPREAD_SHIFT 5

/* Growing (grow.h). Who waits for more memory looks every so often; who has a ticket, for which others wait, only so many times:
 * less than half as long as they do. */
#define MM_GROW_LOOK_NS 4000 /* MM_GROW_WAIT_MS is so many of them */
#define MM_GROW_TICKET_POLLS (1u << 18)
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

/* What a heap has at first if nobody says how much: 16 MiB, twice CUDA's. With the metadata of the largest device, and a mapping
 * of slice bits, that is less than 32 MB. */
#define MM_HOST_FIRST_SEGMENTS 4

/* Zeros that metadata are cleared from, by copies: 3 MiB of them for a device of 128 GiB. Page-locked, one such
 * piece for each heap; else pageable, which the driver copies once more. */
#define MM_HOST_ZEROS_BYTES (1u << 20)
#define MM_HOST_ZEROS_FEW_BYTES (64u << 10)

/* A heap that asks for more gets as much as it has, between these two: few requests for a large heap, little memory for a small
 * one. */
#define MM_HOST_STEP_SEGMENTS_MIN 16   /* 64 MiB */
#define MM_HOST_STEP_SEGMENTS_MAX 1024 /* 4 GiB */
/* In chunks of one driver handle each, which come and go as a whole: one live object keeps one. Beside a running kernel one takes
 * some 100 us: 64 MB to 64 GB inside one kernel took 10 to 16 ms more with 1 GiB, 23 to 29 with 256 MiB; but of smaller ones
 * more can be given back. */
#define MM_HOST_CHUNK_SEGMENTS_MAX 128
#define MM_HOST_CHUNKS_MAX 1024

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

/* Giving back: how long the device may take for its part; how much more than what is needed. */
#define MM_HOST_TRIM_MS 200
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

#define MM_STRIPES (1u << MM_STRIPES_SHIFT)
#define MM_RINGS (MM_STRIPES + 1) /* of a class: its stripes, then its reserve */
#define MM_RING (1u << MM_RING_SHIFT)
#define MM_LOT_CONTENT_BITS 40 /* an offset in the heap; what tells lots apart has the rest */
#define MM_VERSIONS (1u << MM_VERSIONS_SHIFT)
#define MM_WARP_SLOTS (1u << MM_WARP_SLOTS_SHIFT)
#define MM_ALIGN_SHIFT 4 /* CUDA's promise: 16 bytes */
#define MM_SEGMENT_BYTES (1ull << MM_SEGMENT_SHIFT)
MM_STATIC_ASSERT(MM_HOST_STEP_SEGMENTS_MIN <= MM_HOST_STEP_SEGMENTS_MAX, "steps only grow");

/* Largest request served by slices: half a segment. Classes: 16, 32, 48, 64, then four per doubling. */
#define MM_SLICE_BYTES_MAX (MM_SEGMENT_BYTES / 2)
#define MM_CLASS_COUNT (4 * (MM_SEGMENT_SHIFT - 1 - 6) + 4)
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 64, "class + 1 and what else a segment can be fit in a byte");

/* Slices and blocks of a segment, at most; words of slice bits, and their bytes. */
#define MM_SEGMENT_SLICES_MAX (1u << (MM_SEGMENT_SHIFT - MM_ALIGN_SHIFT))
#define MM_SEGMENT_BLOCKS_MAX (1u << (MM_SEGMENT_SHIFT - MM_BLOCK_BYTES_MIN_SHIFT))
MM_STATIC_ASSERT(MM_SEGMENT_BLOCKS_MAX <= 64, "the whole blocks of a segment are one 64-bit word");
#define MM_SEGMENT_WORDS (MM_SEGMENT_SLICES_MAX >> MM_WORD_SHIFT)
#define MM_SEGMENT_BITMAP_BYTES (8ull * MM_SEGMENT_WORDS) /* 32 KiB */

/* The heap variable that every device image holds (F10): name carries the version, size is fixed. */
#define MM_CAT_(a, b) a##b
#define MM_CAT(a, b) MM_CAT_(a, b)
#define MM_STR_(a) #a
#define MM_STR(a) MM_STR_(a)
#define MM_HEAP_REF_PREFIX "mm_heap_v"
#define MM_HEAP_REF MM_CAT(mm_heap_v, MM_ABI_VERSION)
#define MM_HEAP_REF_NAME MM_STR(MM_HEAP_REF)
/* malloc and aligned malloc with room in front (runtime/core/cookie.h), for machine code. No longer than CUDA's names, in the place of which
 * they are written; '$' is for the implementation's use. */
#define MM_LINKED_NEW "mm$new"
#define MM_LINKED_ALIGNED_NEW "mm$aligned_new"
#define MM_HEAP_REF_BYTES 2208

#endif
