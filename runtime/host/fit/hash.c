/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/fit/hash.h"

#include <stdlib.h>

#include "mmconfig.h"

static struct mm_fit_hash *hash_of(struct mm_fit *fit) { return (struct mm_fit_hash *)fit; }

/* ---- the table ----------------------------------------------------------------------------------- */

/* The upper bits of a product with 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4): consecutive addresses are spread. */
static uint32_t *bucket_of(const struct mm_fit_hash *h, uint64_t base) {
    return h->bucket + (base * 0x9e3779b97f4a7c15ull >> (64 - (unsigned)__builtin_ctz(h->room)));
}

static uint32_t find(const struct mm_fit_hash *h, uint64_t base) {
    if (h->room == 0) return 0;
    uint32_t n = *bucket_of(h, base);
    MM_FIT_STEPS(1);
    for (; n != 0 && h->node[n].base != base; n = h->node[n].chain) MM_FIT_STEPS(1);
    return n;
}

static void enter(struct mm_fit_hash *h, uint32_t n) {
    uint32_t *bucket = bucket_of(h, h->node[n].base);
    MM_FIT_STEPS(1);
    h->node[n].chain = *bucket;
    *bucket = n;
}

/* Takes a node out of the table and makes it unused. */
static void drop_node(struct mm_fit_hash *h, uint32_t n) {
    uint32_t *at = bucket_of(h, h->node[n].base);
    for (; *at != n; at = &h->node[*at].chain) MM_FIT_STEPS(1);
    *at = h->node[n].chain;
    h->node[n] = (struct mm_fit_node){.next = h->unused};
    h->unused = n;
}

/* Returns whether there is an unused node; if not, doubles the table. */
static bool has_room(struct mm_fit_hash *h) {
    if (h->unused != 0 || h->used < h->room) return true;
    if (h->room > UINT32_MAX / 2) return false;
    const uint32_t room = h->room ? 2 * h->room : MM_FIT_NODES_FIRST;
    uint32_t *bucket = (uint32_t *)calloc(room, sizeof *bucket);
    struct mm_fit_node *node = bucket ? (struct mm_fit_node *)realloc(h->node, room * sizeof *node) : NULL;
    if (!node) {
        free(bucket);
        return false;
    }
    free(h->bucket);
    h->bucket = bucket;
    h->node = node;
    if (h->room == 0) h->used = 1;
    h->room = room;
    for (uint32_t n = 1; n < h->used; n++) enter(h, n); /* all are in use */
    return true;
}

static uint32_t make_node(struct mm_fit_hash *h, struct mm_fit_node node) {
    uint32_t n = h->unused;
    if (n != 0) h->unused = h->node[n].next;
    else n = h->used++;
    h->node[n] = node;
    enter(h, n);
    return n;
}

/* ---- blocks -------------------------------------------------------------------------------------- */

void mm_fit_hash_drop(struct mm_fit *fit) {
    free(hash_of(fit)->node);
    free(hash_of(fit)->bucket);
}

bool mm_fit_hash_add(struct mm_fit *fit, struct mm_fit_range *range) {
    struct mm_fit_hash *h = hash_of(fit);
    if (!has_room(h)) return false;
    fit->ops->lists->put(h, make_node(h, (struct mm_fit_node){.base = range->base, .length = range->length, .is_free = true}));
    return true;
}

bool mm_fit_hash_is_unused(struct mm_fit *fit, const struct mm_fit_range *range) {
    const struct mm_fit_node *node = &hash_of(fit)->node[find(hash_of(fit), range->base)];
    return node->is_free && node->length == range->length;
}

void mm_fit_hash_remove(struct mm_fit *fit, struct mm_fit_range *range) {
    const uint32_t n = find(hash_of(fit), range->base);
    fit->ops->lists->take(hash_of(fit), n);
    drop_node(hash_of(fit), n);
}

uint64_t mm_fit_hash_allocate(struct mm_fit *fit, uint64_t length) {
    struct mm_fit_hash *h = hash_of(fit);
    const uint32_t n = fit->ops->lists->search(h, length);
    if (n == 0 || (h->node[n].length > length && !has_room(h))) return 0;
    fit->ops->lists->take(h, n);
    const struct mm_fit_node was = h->node[n];
    h->node[n].is_free = false;
    if (was.length > length) {
        const uint32_t rest =
            make_node(h, (struct mm_fit_node){.base = was.base + length, .length = was.length - length, .lower = n, .upper = was.upper, .is_free = true});
        h->node[n].length = length;
        h->node[n].upper = rest;
        if (was.upper != 0) h->node[was.upper].lower = rest;
        fit->ops->lists->put(h, rest);
    }
    return was.base;
}

/* Appends the upper neighbour of n to n. */
static void merge(struct mm_fit_hash *h, uint32_t n) {
    const uint32_t upper = h->node[n].upper, above = h->node[upper].upper;
    h->node[n].length += h->node[upper].length;
    h->node[n].upper = above;
    if (above != 0) h->node[above].lower = n;
    drop_node(h, upper);
}

/* A block that grows must not stay in the list of its old length, as in the paper's algorithm 5: neighbours leave their lists first. */
uint64_t mm_fit_hash_free(struct mm_fit *fit, uint64_t base) {
    struct mm_fit_hash *h = hash_of(fit);
    uint32_t n = find(h, base);
    if (n == 0 || h->node[n].is_free) return 0;
    const uint64_t length = h->node[n].length;
    const uint32_t lower = h->node[n].lower, upper = h->node[n].upper;
    h->node[n].is_free = true;
    if (upper != 0 && h->node[upper].is_free) {
        fit->ops->lists->take(h, upper);
        merge(h, n);
    }
    if (lower != 0 && h->node[lower].is_free) {
        fit->ops->lists->take(h, lower);
        merge(h, lower);
        n = lower;
    }
    fit->ops->lists->put(h, n);
    return length;
}

uint64_t mm_fit_hash_live(struct mm_fit *fit, uint64_t base) {
    const uint32_t n = find(hash_of(fit), base);
    return n != 0 && !hash_of(fit)->node[n].is_free ? hash_of(fit)->node[n].length : 0;
}

void mm_fit_hash_walk(struct mm_fit *fit, const struct mm_fit_range *range, mm_fit_visit *visit, void *arg) {
    const struct mm_fit_hash *h = hash_of(fit);
    uint64_t from = range->base; /* addresses rise, so that the walk ends even if the links are broken */
    for (uint32_t n = find(h, from); n != 0 && h->node[n].base >= from; n = h->node[n].upper) {
        from = h->node[n].base + 1;
        visit(arg, h->node[n].base, h->node[n].length, !h->node[n].is_free);
    }
}

/* ---- lists --------------------------------------------------------------------------------------- */

void mm_fit_list_put(struct mm_fit_hash *h, uint32_t *head, uint32_t node) {
    MM_FIT_STEPS(1);
    h->node[node].next = *head;
    h->node[node].previous = 0;
    if (*head != 0) h->node[*head].previous = node;
    *head = node;
}

void mm_fit_list_take(struct mm_fit_hash *h, uint32_t *head, uint32_t node) {
    const uint32_t next = h->node[node].next, previous = h->node[node].previous;
    MM_FIT_STEPS(1);
    if (previous != 0) h->node[previous].next = next;
    else *head = next;
    if (next != 0) h->node[next].previous = previous;
}

uint32_t mm_fit_list_look(const struct mm_fit_hash *h, uint32_t head, uint64_t length) {
    uint32_t n = head;
    for (unsigned looks = 0; n != 0; n = h->node[n].next) {
        MM_FIT_STEPS(1);
        if (h->node[n].length >= length) return n;
        if (++looks == MM_FIT_LOOKS) return 0;
    }
    return 0;
}

uint64_t mm_fit_list_largest(const struct mm_fit_hash *h, uint32_t head) {
    uint64_t largest = 0;
    for (uint32_t n = head; n != 0; n = h->node[n].next)
        if (h->node[n].length > largest) largest = h->node[n].length;
    return largest;
}

const char *mm_fit_list_check(const struct mm_fit_hash *h, uint32_t head, uint64_t least, uint64_t most, uint64_t *count) {
    uint32_t previous = 0;
    for (uint32_t n = head; n != 0; previous = n, n = h->node[n].next) {
        if (++*count >= h->room) return "a list is a circle";
        if (!h->node[n].is_free) return "a live block is in a list";
        if (h->node[n].previous != previous) return "a list's links back differ from those forth";
        if (h->node[n].length < least || h->node[n].length > most) return "a block is in the list of another length";
    }
    return NULL;
}

const char *mm_fit_hash_check(struct mm_fit *fit, uint64_t listed) {
    const struct mm_fit_hash *h = hash_of(fit);
    uint64_t nodes = 0, free_nodes = 0, unused = 0;
    for (size_t i = 0; i < fit->range_count; i++) {
        uint32_t lower = 0;
        for (uint32_t n = find(h, fit->range[i].base); n != 0; lower = n, n = h->node[n].upper) {
            if (h->node[n].lower != lower) return "a block's lower neighbour has another upper one";
            if (find(h, h->node[n].base) != n) return "a block is not in the table";
            nodes++;
            free_nodes += h->node[n].is_free;
        }
    }
    for (uint32_t n = h->unused; n != 0; n = h->node[n].next)
        if (++unused >= h->room) return "the list of unused nodes is a circle";
    if (free_nodes != listed) return "the lists do not hold each free block once";
    if (h->room != 0 && nodes + unused + 1 != h->used) return "a node is neither a block nor unused";
    return NULL;
}
