/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kinds of room in a segment, of whose pages a word says which are free: groups of 1 << k pages at multiples of that, and groups of 5, 6 or 7 << j pages anywhere.
 * Pure arithmetic.
 */
#ifndef MM_CORE_ROOM_H
#define MM_CORE_ROOM_H

#include "runtime/core/layout.h"

/* The bits whose index is a multiple of 1 << k. */
MM_FN uint64_t mm_pages_starts(uint32_t k) {
    /* clang-format off */
    return k == 0 ? ~0ull : k == 1 ? 0x5555555555555555ull : k == 2 ? 0x1111111111111111ull : k == 3 ? 0x0101010101010101ull
         : k == 4 ? 0x0001000100010001ull : k == 5 ? 0x0000000100000001ull : 1;
    /* clang-format on */
}
/* A way to cut segments: groups of `pages` pages, each at a multiple of 1 << align. room: the room tree to search; MM_ROOMS: take a fresh segment. */
struct mm_cut {
    uint32_t pages, align, room;
};
/* Groups of 1 << k pages at multiples of that. */
MM_FN struct mm_cut mm_cut_evenly(uint32_t k) {
    const struct mm_cut cut = {1u << k, k, k < MM_ROOMS_EVEN ? k : MM_ROOMS};
    return cut;
}
MM_FN struct mm_cut mm_room_cut(uint32_t r) {
    if (r < MM_ROOMS_EVEN) return mm_cut_evenly(r);
    const uint32_t i = r - MM_ROOMS_EVEN;
    const struct mm_cut cut = {(5 + i % 3) << i / 3, 0, r};
    return cut;
}
/* The kinds of room that a segment with these free pages has, one bit each. */
MM_FN_RARE uint32_t mm_pages_rooms(uint64_t pages) {
    /* rK: K consecutive free pages begin there */
    const uint64_t r2 = pages & pages >> 1, r4 = r2 & r2 >> 2, r8 = r4 & r4 >> 4, r16 = r8 & r8 >> 8, r32 = r16 & r16 >> 16;
    const uint64_t even[] = {
        pages, r2 & mm_pages_starts(1), r4 & mm_pages_starts(2), r8 & mm_pages_starts(3), r16 & mm_pages_starts(4), r32 & mm_pages_starts(5)};
    const uint64_t odd[] = {r4 & pages >> 4, r4 & r2 >> 4,   r4 & r4 >> 3,    r8 & r2 >> 8,   r8 & r4 >> 8,    r8 & r8 >> 6,
                            r16 & r4 >> 16,  r16 & r8 >> 16, r16 & r16 >> 12, r32 & r8 >> 32, r32 & r16 >> 32, r32 & r32 >> 24};
    uint32_t rooms = 0;
    for (uint32_t r = 0; r < MM_ROOMS_EVEN; r++) rooms |= (uint32_t)(even[r] != 0) << r;
    for (uint32_t r = MM_ROOMS_EVEN; r < MM_ROOMS; r++) rooms |= (uint32_t)(odd[r - MM_ROOMS_EVEN] != 0) << r;
    return rooms;
}
/* The pages in `pages` at which a free group of this cut may begin. Groups may overlap. */
MM_FN_RARE uint64_t mm_cut_starts(struct mm_cut cut, uint64_t pages) {
    MM_ROLLED
    for (uint32_t have = 1, more; have < cut.pages; have += more) {
        more = have < cut.pages - have ? have : cut.pages - have;
        pages &= pages >> more;
    }
    return pages & mm_pages_starts(cut.align);
}
/* The first pages of up to `want` disjoint groups in `pages`, lowest first. */
MM_FN_RARE uint64_t mm_cut_first(struct mm_cut cut, uint64_t pages, uint32_t want) {
    uint64_t places = mm_cut_starts(cut, pages), groups = 0;
    if (cut.pages == 1u << cut.align) return mm_bits_first(places, want);
    MM_ROLLED
    for (; places != 0 && want != 0; want--) {
        groups |= places & -places;
        places &= ~mm_bits_low(mm_ctz(places) + cut.pages);
    }
    return groups;
}
/* All pages of the groups that begin at these pages. The groups are disjoint. */
MM_FN uint64_t mm_cut_pages(struct mm_cut cut, uint64_t groups) { return groups * mm_bits_low(cut.pages); }

#endif
