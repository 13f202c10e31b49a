/* Every knob of mm and what derives from it: value, unit, reason. No code.
 *
 * Words: a SEGMENT is the unit in which memory moves between size classes; a BLOCK is a piece of a
 * segment cut into equal SLICES of one SIZE CLASS; a RUN is several neighbouring segments that serve
 * one large request. A GRANULE is the smallest block. "Block" is always ours: CUDA's is a CTA.
 */
#ifndef MMCONFIG_H
#define MMCONFIG_H

#ifdef __cplusplus
#define MM_STATIC_ASSERT(cond, why) static_assert(cond, why)
#else
#define MM_STATIC_ASSERT(cond, why) _Static_assert(cond, why)
#endif

/* ---- May be changed ------------------------------------------------------------------------- */

/* Version of the agreement between device code, libmm.so and the name of the heap variable. Raise it
 * when struct mm_heap_ref or anything reached through it changes its meaning. */
#define MM_ABI_VERSION 1

/* Segment, as a shift: 4 MiB. Large requests round up to it, so it must be small; it must be a multiple
 * of the 2 MiB the driver maps at least; and 64 granules of 64 KiB make its free blocks ONE atomic word. */
#define MM_SEGMENT_SHIFT 22

/* Granule, the smallest block, as a shift: 64 KiB, which is 4096 slices of 16 bytes. */
#define MM_GRANULE_SHIFT 16

/* A block holds 2^this slices of the largest class of its doubling: a warp takes up to 32 at once, so
 * one block serves at least 32 full warps before somebody has to fetch the next. */
#define MM_BLOCK_SLICES_SHIFT 10

/* Stripes of a size class, as a shift: 128 serve 132 multiprocessors nearly one each. How many of them have a
 * block of their own follows demand (block.h): one block when calm. */
#define MM_STRIPES_SHIFT 7

/* Most groups a refill splits a group into: the blocks are claimed one after the other, and the groups split
 * again by themselves. */
#define MM_SPLIT_MAX 4

/* Iterations of any waiting loop on the device before it gives up (each sleeps MM_WAIT_NS): at least 0.5 s. */
#define MM_WAIT_ITERATIONS (1u << 21)
#define MM_WAIT_NS 250

/* A caller waiting for a refill looks at another stripe than its own every so many polls. Measured on the H200, 1 M
 * requests: 16 B took 137 us with a round over all groups every 32 polls, 145 with one look every 32, 92 every 2. */
#define MM_STEAL_POLLS 2

/* A search of a bitmap tree starts over when what it found has just gone; after so many times the caller
 * takes it for empty (and looks again while things move, tree.h). */
#define MM_TREE_TRIES 1024

/* Of a class whose free blocks have run out, so many polls until a refill fetches a segment although others
 * of the class are at it. */
#define MM_FETCH_POLLS 64

/* Blocks from this size on (8 granules: a segment is 8 of them) are fetched by everybody who needs one. Measured on the
 * H200: 1 M requests of 512 B to 2 KiB took 500 to 1,100 us with a bound that counted segments, 210 to 290 without. */
#define MM_FETCH_FREELY_GRANULES 8

/* -- The host side of the heap (runtime/host) -- */

/* Variables of the environment that libmm.so reads; any other MM_* is said to be unknown. Those that
 * only mmnvcc reads stand in the second list and are left alone. */
#define MM_HOST_VARIABLES "MM_HEAP_SIZE", "MM_VERBOSE"
#define MM_HOST_VARIABLES_ELSEWHERE "MM_NVCC"

/* Physical memory comes in chunks of one driver handle each. Each chunk is as large as everything before
 * it together, between these two: few handles for a large heap, little to begin with for a small one. */
#define MM_HOST_CHUNK_SEGMENTS_MIN 16   /* 64 MiB */
#define MM_HOST_CHUNK_SEGMENTS_MAX 2048 /* 8 GiB */
#define MM_HOST_CHUNKS_MAX 1024         /* what is tried before the rest is given up */

/* Share of the free memory that is mapped when nobody says how much. */
#define MM_HOST_DEFAULT_FREE_DIVISOR 4

/* Left unmapped even if more is asked for: the driver needs some for modules, stacks and its own copies,
 * and a launch without it fails. The smaller of this and a part of what is free. */
#define MM_HOST_RESERVE_BYTES (512ull << 20)
#define MM_HOST_RESERVE_FREE_DIVISOR 8

/* ---- Derived; do not modify ------------------------------------------------------------------ */

#define MM_STRIPES (1u << MM_STRIPES_SHIFT)
#define MM_ALIGN_SHIFT 4 /* CUDA's promise: 16 bytes */
#define MM_SEGMENT_BYTES (1ull << MM_SEGMENT_SHIFT)
#define MM_GRANULE_BYTES (1ull << MM_GRANULE_SHIFT)
#define MM_SEGMENT_GRANULES (1u << (MM_SEGMENT_SHIFT - MM_GRANULE_SHIFT)) /* 64 */
MM_STATIC_ASSERT(MM_HOST_CHUNK_SEGMENTS_MIN <= MM_HOST_CHUNK_SEGMENTS_MAX, "chunks only grow");
MM_STATIC_ASSERT(MM_SEGMENT_GRANULES == 64, "the free blocks of a segment are one 64-bit word");

/* No block has more slices than a granule of the smallest. */
#define MM_BLOCK_SLICES_MAX (1u << (MM_GRANULE_SHIFT - MM_ALIGN_SHIFT))
MM_STATIC_ASSERT(2u << MM_BLOCK_SLICES_SHIFT <= MM_BLOCK_SLICES_MAX, "nor has a larger block");

/* Largest request served by slices: half a segment. Classes: 16, 32, 48, 64, then four per doubling. */
#define MM_SLICE_BYTES_MAX (MM_SEGMENT_BYTES / 2)
#define MM_CLASS_COUNT 64
MM_STATIC_ASSERT(MM_CLASS_COUNT == 4 * (MM_SEGMENT_SHIFT - 1 - 6) + 4,
                 "four classes to 64 bytes, four per doubling from there to half a segment");

/* One bit per 16 bytes of a granule: its words, and the bytes of slice bits a segment owns. */
#define MM_GRANULE_WORDS (1u << (MM_GRANULE_SHIFT - MM_ALIGN_SHIFT - 6)) /* 64 */
#define MM_SEGMENT_BITMAP_BYTES (8ull * MM_GRANULE_WORDS * MM_SEGMENT_GRANULES) /* 32 KiB */

/* The heap variable that every device image holds (F10): name carries the version, size is fixed. */
#define MM_CAT_(a, b) a##b
#define MM_CAT(a, b) MM_CAT_(a, b)
#define MM_STR_(a) #a
#define MM_STR(a) MM_STR_(a)
#define MM_HEAP_REF MM_CAT(mm_heap_v, MM_ABI_VERSION)
#define MM_HEAP_REF_NAME MM_STR(MM_HEAP_REF)
#define MM_HEAP_REF_BYTES 64

#endif
