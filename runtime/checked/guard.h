/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The tag and redzone of an allocation in a checked run (MM_CHECK=1): how they are written, and how they are read, on the device and, in a copy, by the host.
 * guarded.h has the malloc and free that use them.
 *
 * Of the `granted` bytes at p, [0, asked) are the program's. Behind them is the redzone, filled with MM_GUARD_ZONE: up to 32 bytes from the last multiple of 16
 * that is not above asked, or 16 if there is no room for more. So at least 16 bytes do not belong to the program. free writes MM_GUARD_POISON into the first 32
 * bytes. The tag holds the requested size and the allocating kernel, and a seal: a hash of these with p and the era. After free the seal is the complement of
 * its lower bits, with the freeing kernel above them. The tag of a small slice (up to MM_GUARD_KEPT_BYTES) lies at the end of the block, slice 0's last; in a
 * checked run blocks of such classes have correspondingly fewer slices. Tags of neighbouring slices are neighbours there, which matters, since they are most of
 * the cost of a checked malloc or free (docs/explanation/checked-runs.md). The tag of any other allocation is the last part of its granted bytes.
 * era: for allocations that are not small, how often the owner of their segment and first page has changed (segment.h); 0 for small slices.
 */
#ifndef MM_CHECKED_GUARD_H
#define MM_CHECKED_GUARD_H

#include "runtime/core/grow.h"

struct mm_guard_tag {
    uint64_t made; /* requested bytes | grid << MM_GUARD_GRID_SHIFT */
    uint64_t seal;
};
#define MM_GUARD_GRID_SHIFT 40
MM_STATIC_ASSERT(MM_GRID_BITS + MM_GUARD_GRID_SHIFT == 64, "both fit");
#define MM_GUARD_BYTES 32 /* of poison; and of the redzone, at most */

/* Whether an allocation with this many granted bytes goes into quarantine, and has no era. (The limit is the size of a class, for any spacing.) */
MM_FN int mm_guard_is_small(uint64_t bytes) { return bytes <= MM_GUARD_KEPT_BYTES; }
MM_STATIC_ASSERT((MM_GUARD_KEPT_BYTES & (MM_GUARD_KEPT_BYTES - 1)) == 0, "powers of two are classes");
/* The bytes that malloc adds to a request. */
#define MM_GUARD_MORE_SMALL 16
#define MM_GUARD_MORE (MM_GUARD_MORE_SMALL + sizeof(struct mm_guard_tag))

MM_FN uint64_t mm_guard_block_bytes(struct mm_class k) { return MM_PAGE_BYTES << k.page_shift; }

#ifndef __CUDACC__ /* the host's side is C */
/* Gives the blocks of the heap in an image room for tags. */
static inline void mm_heap_image_guard(void *image) {
    struct mm_heap *h = (struct mm_heap *)image;
    for (uint32_t c = 0; c < MM_CLASS_COUNT && mm_guard_is_small(mm_class_bytes(c)); c++) {
        const struct mm_class was = h->ref.classes[c];
        h->ref.classes[c] = mm_class_cut_again(was, c, (uint32_t)(mm_guard_block_bytes(was) / (was.bytes + sizeof(struct mm_guard_tag))));
    }
}
/* The size of struct mm_guard. */
static inline uint64_t mm_guard_bytes(uint64_t segment_count) { return mm_round_up(sizeof(struct mm_guard) + segment_count * sizeof(struct mm_eras), 256); }
#endif

#define MM_GUARD_ZONE 0xfdfdfdfdfdfdfdfdull
#define MM_GUARD_POISON 0xddddddddddddddddull
enum mm_guard_state { MM_GUARD_LOST, MM_GUARD_LIVE, MM_GUARD_FREED };

/* An allocation: its device address, and where its memory can be read here (on the host: in a copy). */
struct mm_guarded {
    uint64_t p, granted;
    char *at;
    struct mm_guard_tag *tag; /* here, too */
};
/* An allocation whose tag is the last part of its granted bytes. */
MM_FN struct mm_guarded mm_guard_run(uint64_t p, char *at, uint64_t granted) {
    const struct mm_guarded g = {p, granted, at, (struct mm_guard_tag *)(at + granted) - 1};
    return g;
}
/* Slice i of a block of a small class. block_end: the end of the block's memory, here. */
MM_FN struct mm_guarded mm_guard_small(uint64_t p, char *at, uint32_t bytes, char *block_end, uint32_t i) {
    const struct mm_guarded g = {p, bytes, at, (struct mm_guard_tag *)block_end - 1 - i};
    return g;
}
/* Slice i of a block of any class k. block_at: the block's memory, here. */
MM_FN struct mm_guarded mm_guard_slice(struct mm_class k, uint64_t block, char *block_at, uint32_t i) {
    const uint64_t p = block + (uint64_t)i * k.bytes;
    char *at = block_at + (uint64_t)i * k.bytes;
    return mm_guard_is_small(k.bytes) ? mm_guard_small(p, at, k.bytes, block_at + mm_guard_block_bytes(k), i) : mm_guard_run(p, at, k.bytes);
}
/* The era of an allocation that is not small and begins in page `page` of a segment. */
MM_FN uint32_t mm_guard_era_of(struct mm_eras *eras, uint32_t page) {
    return (uint32_t)(mm_load_relaxed_u64(&eras->segment) >> 32) + (mm_load_relaxed_u32(&eras->page[page]) >> 8);
}
/* The most bytes that the program can own of an allocation. */
MM_FN uint64_t mm_guard_room(struct mm_guarded g) { return g.granted - (mm_guard_is_small(g.granted) ? MM_GUARD_MORE_SMALL : MM_GUARD_MORE); }

/* The contents of a tag, and what they mean. */
struct mm_guard_said {
    uint64_t made, seal;
    enum mm_guard_state state;
};
MM_FN uint32_t mm_guard_grid(uint64_t made) { return (uint32_t)(made >> MM_GUARD_GRID_SHIFT); }
MM_FN uint64_t mm_guard_asked(uint64_t made) { return made & mm_bits_low(MM_GUARD_GRID_SHIFT); }

MM_FN uint64_t mm_guard_seal(uint64_t p, uint64_t made, uint32_t era) {
    const uint64_t x = (p ^ (uint64_t)era << 32) * 0x9e3779b97f4a7c15ull;
    return (x ^ x >> 29 ^ made) * 0xbf58476d1ce4e5b9ull;
}
/* Turns the seal of a live allocation into that of a freed one, which contains the calling kernel; returns the kernel in such a seal. */
MM_FN uint64_t mm_guard_freed(uint64_t seal) { return (~seal & mm_bits_low(MM_GUARD_GRID_SHIFT)) | mm_grid() << MM_GUARD_GRID_SHIFT; }
MM_FN uint32_t mm_guard_freed_by(uint64_t seal) { return mm_guard_grid(seal); }

MM_FN struct mm_guard_said mm_guard_ask(struct mm_guarded g, uint32_t era) {
    struct mm_guard_said said = {0, 0, MM_GUARD_LOST};
    mm_gather_two(&g.tag->made, &said.made, &said.seal);
    const uint64_t differs = said.seal ^ mm_guard_seal(g.p, said.made, era);
    if (differs == 0) said.state = MM_GUARD_LIVE;
    if ((~differs & mm_bits_low(MM_GUARD_GRID_SHIFT)) == 0) said.state = MM_GUARD_FREED;
    return said;
}

/* The redzone, and whether the program wrote to it, word by word. Little-endian, as GPUs and their hosts are. */
MM_FN uint64_t *mm_guard_zone(struct mm_guarded g, uint64_t asked) { return (uint64_t *)(g.at + asked / 16 * 16); }
/* Whether the redzone has four words; if there is no room for four it has two, and no byte of those belongs to the program. */
MM_FN int mm_guard_zone_is_long(struct mm_guarded g, uint64_t asked) { return asked / 16 * 16 + MM_GUARD_BYTES <= mm_guard_room(g) + MM_GUARD_MORE_SMALL; }
/* Of its first two words a and b, the first one that does not belong to the program completely. */
MM_FN uint64_t mm_guard_first(uint64_t asked, uint64_t a, uint64_t b) { return asked & 8 ? b : a; }
MM_FN int mm_guard_is_overrun(struct mm_guarded g, uint64_t asked) {
    uint64_t *zone = mm_guard_zone(g, asked), word[4] = {0, 0, MM_GUARD_ZONE, MM_GUARD_ZONE};
    mm_gather_two(zone, &word[0], &word[1]);
    if (mm_guard_zone_is_long(g, asked)) mm_gather_two(zone + 2, &word[2], &word[3]);
    for (int i = 0; i < 4; i++) word[i] ^= MM_GUARD_ZONE;
    return (mm_guard_first(asked, word[0], word[1]) >> asked % 8 * 8 | (asked & 8 ? 0 : word[1]) | word[2] | word[3]) != 0;
}
/* Whether the program wrote after free. */
MM_FN int mm_guard_is_unpoisoned(struct mm_guarded g) {
    uint64_t word[4];
    mm_gather_two((uint64_t *)g.at, &word[0], &word[1]);
    mm_gather_two((uint64_t *)g.at + 2, &word[2], &word[3]);
    return ((word[0] ^ MM_GUARD_POISON) | (word[1] ^ MM_GUARD_POISON) | (word[2] ^ MM_GUARD_POISON) | (word[3] ^ MM_GUARD_POISON)) != 0;
}

/* Writes tag and redzone, for malloc. Where there is room, whole cache sectors are written, since partial ones would have to be read first; the program's bytes
 * in them get `fill`, like its other bytes (fill.h). */
MM_FN void mm_guard_write(struct mm_guarded g, uint32_t era, uint64_t asked, uint64_t fill) {
    const uint64_t made = asked | mm_grid() << MM_GUARD_GRID_SHIFT, mine = mm_bits_low((uint32_t)(asked % 8 * 8));
    const uint64_t first = (MM_GUARD_ZONE & ~mine) | (fill & mine);
    uint64_t *zone = mm_guard_zone(g, asked);
    mm_store_two(&g.tag->made, made, mm_guard_seal(g.p, made, era));
    mm_store_two(zone, asked & 8 ? fill : first, mm_guard_first(asked, MM_GUARD_ZONE, first));
    if (mm_guard_zone_is_long(g, asked)) mm_store_two(zone + 2, MM_GUARD_ZONE, MM_GUARD_ZONE);
}

/* First part of free: changes the seal; of several frees one succeeds. Returns the tag's previous contents. */
MM_FN struct mm_guard_said mm_guard_end(struct mm_guarded g, uint32_t era) {
    struct mm_guard_said said = mm_guard_ask(g, era);
    if (said.state == MM_GUARD_LIVE && !mm_cas_relaxed_u64(&g.tag->seal, said.seal, mm_guard_freed(said.seal))) said.state = MM_GUARD_FREED;
    return said;
}
/* Last part: poison. Last, since it may overlap the redzone. */
MM_FN void mm_guard_poison(struct mm_guarded g) {
    mm_store_two((uint64_t *)g.at, MM_GUARD_POISON, MM_GUARD_POISON);
    mm_store_two((uint64_t *)g.at + 2, MM_GUARD_POISON, MM_GUARD_POISON);
}

#endif
