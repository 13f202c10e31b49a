/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* TLSF, two-level segregated fit (Masmano, Ripoll, Crespo and Real, ECRTS 2004), with the blocks in a hash table (Bell et al.).
 *
 * Representation: a list for each of MM_FIT_TLSF_LISTS equal steps of each power of two; a list holds the lengths from its step up to the next one. Below
 * MM_FIT_TLSF_LISTS each length has a list. Bits say which lists hold something, and which powers have such a list.
 *
 * A search first looks at the first MM_FIT_LOOKS blocks in the list of the length itself, then takes the first block of the next list that is not empty,
 * where each block fits. Without these looks, which the paper has not, a block would not be found for the length that it was freed with, unless a list
 * begins there.
 */
#include "mmconfig.h"
#include "runtime/host/fit/hash.h"

/* Grains have at least 16 bytes, so lengths are below 2^60. The lists of the last power stay empty: a search may begin there. */
enum { LISTS = MM_FIT_TLSF_LISTS, SHIFT = MM_FIT_TLSF_SHIFT, POWERS = 64 - MM_ALIGN_SHIFT - SHIFT + 2 };

struct tlsf {
    struct mm_fit_hash hash;
    uint64_t powers; /* a bit for each with a list that is not empty */
    uint32_t lists[POWERS];
    uint32_t head[POWERS * LISTS];
};

/* The list that holds a length: rounded down, when a block is put in and when it is taken out. */
static unsigned list_of(uint64_t length) {
    if (length < LISTS) return (unsigned)length;
    const unsigned shift = 63 - (unsigned)__builtin_clzll(length) - SHIFT;
    return shift * LISTS + (unsigned)(length >> shift);
}

/* The least length in a list. */
static uint64_t least_of(unsigned list) {
    if (list < LISTS) return list;
    return (uint64_t)(LISTS + list % LISTS) << (list / LISTS - 1);
}

static void put(struct mm_fit_hash *h, uint32_t node) {
    struct tlsf *t = (struct tlsf *)h;
    const unsigned list = list_of(h->node[node].length);
    mm_fit_list_put(h, &t->head[list], node);
    t->lists[list / LISTS] |= 1u << list % LISTS;
    t->powers |= 1ull << list / LISTS;
}

/* The paper's algorithm 4 leaves the bits of an emptied list set. */
static void take(struct mm_fit_hash *h, uint32_t node) {
    struct tlsf *t = (struct tlsf *)h;
    const unsigned list = list_of(h->node[node].length);
    mm_fit_list_take(h, &t->head[list], node);
    if (t->head[list] == 0) t->lists[list / LISTS] &= ~(1u << list % LISTS);
    if (t->lists[list / LISTS] == 0) t->powers &= ~(1ull << list / LISTS);
}

static uint32_t search(const struct mm_fit_hash *h, uint64_t length) {
    const struct tlsf *t = (const struct tlsf *)h;
    unsigned list = list_of(length), power;
    const uint32_t node = mm_fit_list_look(h, t->head[list], length);
    if (node != 0) return node;
    power = ++list / LISTS;
    MM_FIT_STEPS(1);
    const uint32_t here = t->lists[power] >> list % LISTS;
    if (here != 0) return t->head[list + (unsigned)__builtin_ctz(here)];
    const uint64_t above = t->powers >> (power + 1);
    if (above == 0) return 0;
    power += 1 + (unsigned)__builtin_ctzll(above);
    return t->head[power * LISTS + (unsigned)__builtin_ctz(t->lists[power])];
}

static uint64_t largest(struct mm_fit *fit) {
    const struct tlsf *t = (const struct tlsf *)fit;
    if (t->powers == 0) return 0;
    const unsigned power = 63 - (unsigned)__builtin_clzll(t->powers);
    return mm_fit_list_largest(&t->hash, t->head[power * LISTS + 31 - (unsigned)__builtin_clz(t->lists[power])]);
}

static const char *check(struct mm_fit *fit) {
    const struct tlsf *t = (const struct tlsf *)fit;
    uint64_t listed = 0;
    for (unsigned list = 0; list < POWERS * LISTS; list++) {
        const char *wrong = mm_fit_list_check(&t->hash, t->head[list], least_of(list), least_of(list + 1) - 1, &listed);
        if (wrong) return wrong;
        if ((t->head[list] != 0) != (t->lists[list / LISTS] >> list % LISTS & 1)) return "the bit of a list is wrong";
        if ((t->lists[list / LISTS] != 0) != (t->powers >> list / LISTS & 1)) return "the bit of a power's lists is wrong";
    }
    return mm_fit_hash_check(fit, listed);
}

static const struct mm_fit_lists lists = {put, take, search};

const struct mm_fit_ops mm_fit_tlsf = {
    .bytes = sizeof(struct tlsf),
    .lists = &lists,
    .drop = mm_fit_hash_drop,
    .add = mm_fit_hash_add,
    .is_unused = mm_fit_hash_is_unused,
    .remove = mm_fit_hash_remove,
    .allocate = mm_fit_hash_allocate,
    .free = mm_fit_hash_free,
    .live = mm_fit_hash_live,
    .largest = largest,
    .walk = mm_fit_hash_walk,
    .check = check,
};
