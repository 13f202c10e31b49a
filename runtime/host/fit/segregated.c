/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segregated fit over a hash table (Bell et al.): a list for each power of two, which holds the lengths from it up to the next power, and a bit for each
 * list that is not empty.
 *
 * A search first looks at the first MM_FIT_LOOKS blocks in the list of the length itself (tlsf.c says why), then takes the first block of the next list
 * that is not empty. The rest of a block stays free, as a block of its length.
 */
#include "mmconfig.h"
#include "runtime/host/fit/hash.h"

enum { LISTS = 64 - MM_ALIGN_SHIFT }; /* grains have at least 16 bytes */

struct segregated {
    struct mm_fit_hash hash;
    uint64_t lists;
    uint32_t head[LISTS];
};

/* The list that holds a length: always rounded down. The paper's algorithm 5 rounds up once, so a block that is shorter than its list is found. */
static unsigned list_of(uint64_t length) { return 63 - (unsigned)__builtin_clzll(length); }

static void put(struct mm_fit_hash *h, uint32_t node) {
    struct segregated *s = (struct segregated *)h;
    const unsigned list = list_of(h->node[node].length);
    mm_fit_list_put(h, &s->head[list], node);
    s->lists |= 1ull << list;
}

/* The paper's algorithm 4 leaves the bit of an emptied list set. */
static void take(struct mm_fit_hash *h, uint32_t node) {
    struct segregated *s = (struct segregated *)h;
    const unsigned list = list_of(h->node[node].length);
    mm_fit_list_take(h, &s->head[list], node);
    if (s->head[list] == 0) s->lists &= ~(1ull << list);
}

static uint32_t search(const struct mm_fit_hash *h, uint64_t length) {
    const struct segregated *s = (const struct segregated *)h;
    const unsigned list = list_of(length);
    const uint32_t node = mm_fit_list_look(h, s->head[list], length);
    if (node != 0) return node;
    MM_FIT_STEPS(1);
    const uint64_t above = s->lists >> (list + 1);
    return above ? s->head[list + 1 + (unsigned)__builtin_ctzll(above)] : 0;
}

static uint64_t largest(struct mm_fit *fit) {
    const struct segregated *s = (const struct segregated *)fit;
    return s->lists ? mm_fit_list_largest(&s->hash, s->head[list_of(s->lists)]) : 0;
}

static const char *check(struct mm_fit *fit) {
    const struct segregated *s = (const struct segregated *)fit;
    uint64_t listed = 0;
    for (unsigned list = 0; list < LISTS; list++) {
        const char *wrong = mm_fit_list_check(&s->hash, s->head[list], 1ull << list, (1ull << list) * 2 - 1, &listed);
        if (wrong) return wrong;
        if ((s->head[list] != 0) != (s->lists >> list & 1)) return "the bit of a list is wrong";
    }
    return mm_fit_hash_check(fit, listed);
}

static const struct mm_fit_lists lists = {put, take, search};

const struct mm_fit_ops mm_fit_segregated = {
    .bytes = sizeof(struct segregated),
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
