/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Samples: where a class has room, and whether it has any.
 *
 * Each lane that wants a slice looks at a word of the class, chosen at random, and so do the others of its group; what they find
 * is shared: a word that has enough for all serves all of them, so that words stay whole; else each word serves some. The share
 * of bits that were free is an estimate for the class, unlike that of neighbours, which were filled and emptied together.
 * A class that has few words is looked through instead, word by word.
 */
#ifndef MM_GALLATIN_SAMPLE_H
#define MM_GALLATIN_SAMPLE_H

#include "runtime/gallatin/cursor.h"

/* What a group has seen, by this lane's part. */
struct mm_seen {
    uint32_t slices, free, words;
};

/* One round of samples, by the lanes of `need`, the caller's group's, if it is one of them. entries: of the class, not 0; position: where its
 * group begins to look, if it looks through. Returns an address, or 0. All lanes of `group` call. */
MM_FN uint64_t mm_sample_round(const struct mm_heap_ref *ref, uint32_t group, uint32_t need, uint32_t c, uint32_t entries, uint32_t random,
                               uint32_t position, struct mm_seen *seen) {
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(need & mm_bits_low(lane)), count = mm_popcount(need);
    const int go = (int)(need >> lane & 1);
    uint32_t best = 0, page = 0, w = 0;
    uint64_t entry = MM_ENTRY_NONE;
    if (go) {
        uint32_t e = mm_mulhi(random, entries);
        w = k.words == 1 ? 0 : mm_mulhi(random * 0x9e3779b1u, k.words);
        if (entries <= 32 && entries * k.words <= 32) {
            const uint32_t at = (position + rank) % (entries * k.words);
            e = at / k.words, w = at % k.words;
        }
        entry = mm_table_look(ref, c, e, 0);
        page = mm_entry_page(entry);
    }
    if (mm_entry_is_of(entry, c)) {
        const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, page) + w);
        if (mm_word_generation(word) == mm_entry_generation(entry)) best = mm_word_free(word);
        seen->words++, seen->slices += mm_class_word_slices(k, w), seen->free += mm_popcount(best);
    }
    /* Whose word serves this lane, and which of its bits. */
    const uint32_t most = mm_warp_max(group, mm_popcount(best) << 5 | (31 - lane));
    uint32_t from = 31 - (most & 31), offset = rank, take = 0;
    int is_served = go;
    if (most >> 5 >= count) {
        take = lane == from ? count : 0;
    } else {
        uint32_t before = 0;
        is_served = 0;
        MM_ROLLED
        for (uint32_t rest = need; rest != 0; rest &= rest - 1) {
            const uint32_t other = mm_ctz(rest), has = mm_warp_shuffle(group, mm_popcount(best), other);
            if (lane == other) take = before < count ? mm_at_most(has, count - before) : 0;
            if (go && rank >= before && rank < before + has) from = other, offset = rank - before, is_served = 1;
            before += has;
        }
    }
    uint32_t got = 0;
    if (take != 0) { /* from a random bit on, or all who see this word want the same ones */
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

#endif
