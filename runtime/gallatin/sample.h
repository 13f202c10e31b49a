/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Samples: where a size class has free slices, and whether it has any.
 *
 * The lanes that want a slice read MM_SAMPLE_WORDS random words of the class in a round, the same number each, and share the result: if one word has enough
 * free slices for all of them, it serves all, so that full words stay full; otherwise each lane's best word serves some. The share of free bits in random words
 * is an estimate for the whole class. Neighbouring words would not do, since they were filled and emptied together. A class with at most MM_SAMPLE_ALL words is
 * searched word by word instead; so is any class before malloc returns NULL (a sweep).
 */
#ifndef MM_GALLATIN_SAMPLE_H
#define MM_GALLATIN_SAMPLE_H

#include "runtime/gallatin/cursor.h"

/* What this lane has seen for its group. */
struct mm_seen {
    uint32_t slices, free, words;
};

/* Shares what a group found. Each lane of `group` found the free bits `best` (or 0) in word w of the block of `entry`, class c. The lanes of `need`, a part of
 * the group, get slices of these words, beginning at a random bit of each. Returns the caller's address, or 0. All lanes of the group call. */
MM_FN uint64_t mm_words_share(const struct mm_heap_ref *ref, uint32_t group, uint32_t need, uint32_t c, uint64_t entry, uint32_t w, uint32_t best,
                              uint32_t random) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(need & mm_bits_low(lane)), count = mm_popcount(need);
    const int go = (int)(need >> lane & 1);
    uint32_t page = mm_entry_page(entry);
    /* The lane whose word serves this lane, and the rank of the bit there. */
    const uint32_t most = mm_warp_max(group, mm_popcount(best) << 5 | (31 - lane));
    uint32_t from = 31 - (most & 31), offset = rank, take = 0;
    int is_served = go;
    if (most >> 5 >= count) {
        take = lane == from ? count : 0;
    } else {
        uint32_t before = 0;
        is_served = 0;
        MM_ROLLED
        for (uint32_t rest = mm_warp_ballot(group, best != 0); rest != 0; rest &= rest - 1) {
            const uint32_t other = mm_ctz(rest), has = mm_warp_shuffle(group, mm_popcount(best), other);
            if (lane == other) take = before < count ? mm_at_most(has, count - before) : 0;
            if (go && rank >= before && rank < before + has) from = other, offset = rank - before, is_served = 1;
            before += has;
        }
    }
    uint32_t got = 0;
    if (take != 0) { /* from a random bit on; otherwise all groups that see this word claim the same bits */
        const uint32_t turn = random >> 27, turned = turn ? best >> turn | best << (32 - turn) : best;
        const uint32_t some = (uint32_t)mm_bits_first(turned, take), want = turn ? some << turn | some >> (32 - turn) : some;
        got = mm_word_claim(mm_page_words(ref, page) + w, mm_entry_generation(entry), want) & want;
    }
    mm_warp_sync(group);
    got = mm_warp_shuffle(group, got, from);
    page = mm_warp_shuffle(group, page, from), w = mm_warp_shuffle(group, w, from);
    if (!is_served || offset >= mm_popcount(got)) return 0;
    return mm_slice_address(ref, page, c, (w << MM_WORD_SHIFT) + mm_bits_select(got, offset));
}

/* The free bits of word w of the block of `entry` (which may be empty), class c. */
MM_FN uint32_t mm_word_scan(const struct mm_heap_ref *ref, uint64_t entry, uint32_t w) {
    const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, mm_entry_page(entry)) + w);
    return mm_word_generation(word) == mm_entry_generation(entry) ? mm_word_free(word) : 0;
}

/* One round of samples for the lanes of `need`, a part of `group`. entries: of the class, not 0. position: of the word at which a search word by word
 * continues. Returns the caller's address, or 0. All lanes of the group call. */
MM_FN_RARE uint64_t mm_sample_round(const struct mm_heap_ref *ref, uint32_t group, uint32_t need, uint32_t c, uint32_t entries, uint32_t random,
                                    uint32_t position, struct mm_seen *seen) {
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), count = mm_popcount(need), each = MM_SAMPLE_WORDS / count, most = mm_at_most(count, mm_class_word_slices(k, 0));
    const int is_all = entries <= MM_SAMPLE_ALL && entries * k.words <= MM_SAMPLE_ALL;
    uint32_t best = 0, best_word = 0, at = position + mm_popcount(need & mm_bits_low(lane)) * each;
    uint64_t best_entry = MM_ENTRY_NONE;
    MM_ROLLED
    for (uint32_t i = 0; need >> lane & 1 && i < each && mm_popcount(best) < most; i++, at++) {
        uint32_t e = mm_mulhi(random, entries), w = k.words == 1 ? 0 : mm_mulhi(random * 0x9e3779b1u, k.words);
        if (is_all) e = at % (entries * k.words), w = e % k.words, e /= k.words;
        const uint64_t entry = mm_table_load(ref, c, e, 0);
        random = mm_random_next(random);
        uint32_t slices = mm_class_word_slices(k, w);
        if (!mm_entry_is_of(entry, c)) { /* narrow, or nothing. Else constants are not read: the lanes' classes differ */
            if (!mm_entry_has(entry, c, 0)) continue;
            slices = ref->classes[mm_entry_shape(entry)].slices, w = 0;
        }
        const uint32_t free = mm_word_scan(ref, entry, w);
        seen->words++, seen->slices += slices, seen->free += mm_popcount(free);
        if (mm_popcount(free) > mm_popcount(best)) best = free, best_word = w, best_entry = entry;
    }
    return mm_words_share(ref, group, need, c, best_entry, best_word, best, random);
}

/* Whether any of MM_SWEEP_BLOCKS blocks of class c, from `block` on, may have a free slice: a filter, which does not look at generations. Loads of different
 * blocks overlap, since the loops are unrolled. */
MM_FN int mm_blocks_have_any(const struct mm_heap_ref *ref, uint32_t c, uint32_t block) {
    uint32_t page[MM_SWEEP_BLOCKS], free = 0;
    for (uint32_t k = 0; k < MM_SWEEP_BLOCKS; k++) {
        const uint64_t entry = mm_table_load(ref, c, block + k, 0);
        page[k] = mm_entry_has(entry, c, 0) ? mm_entry_page(entry) : MM_TREE_NONE;
    }
    MM_ROLLED
    for (uint32_t w = 0; free == 0 && w < ref->classes[c].words; w++) {
        uint64_t word[MM_SWEEP_BLOCKS];
        for (uint32_t k = 0; k < MM_SWEEP_BLOCKS; k++) word[k] = page[k] != MM_TREE_NONE ? mm_load_relaxed_u64(mm_page_words(ref, page[k]) + w) : 0;
        for (uint32_t k = 0; k < MM_SWEEP_BLOCKS; k++) free |= mm_word_free(word[k]);
    }
    return free != 0;
}

/* A sweep: searches all words of class c, beginning where the last sweep ended, until there are slices for the lanes of `need`, a part of `here`; passes over
 * blocks in which nothing is free, many at a time. Returns the caller's address, or 0. All lanes of `here` call, with the same class and need. */
MM_FN_RARE uint64_t mm_class_sweep(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here), each = ref->classes[c].words;
    const uint32_t words = mm_warp_shuffle(here, mm_load_relaxed_u32(&of->count), leader) * each;
    uint32_t at = mm_warp_shuffle(here, mm_load_relaxed_u32(&of->swept), leader), until = 0;
    uint64_t p = 0;
    MM_ROLLED
    for (uint32_t seen = 0; seen < words + many; seen += many, at += many) { /* the last step is a short one */
        if (at >= words) at = 0;
        const uint32_t ahead = many * MM_SWEEP_BLOCKS * each - at % each; /* to the end of the blocks that the lanes look at together */
        if (seen >= until && at + ahead <= words && seen + ahead <= words + many) {
            const int any = mm_blocks_have_any(ref, c, at / each + rank * MM_SWEEP_BLOCKS);
            until = seen + ahead;
            if (mm_warp_ballot(here, any) == 0) {
                seen += ahead - many, at += ahead - many;
                continue;
            }
        }
        const uint32_t i = at + rank, w = i % each;
        const uint64_t entry = i < words ? mm_table_load(ref, c, i / each, 0) : MM_ENTRY_NONE;
        const uint32_t best = mm_entry_has(entry, c, w) ? mm_word_scan(ref, entry, w) : 0;
        if (mm_warp_ballot(here, best != 0) == 0) continue;
        p = mm_words_share(ref, here, need, c, entry, w, best, 0);
        if (mm_warp_ballot(here, p != 0) != 0) break;
    }
    if (mm_warp_lane() == leader) mm_store_relaxed_u32(&of->swept, at);
    return p;
}

#endif
