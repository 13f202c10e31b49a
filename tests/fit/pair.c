/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tests/fit/pair.h"

#include <stdlib.h>
#include <string.h>

#include "mmconfig.h"

const char *pair_begin(struct pair *p, enum mm_fit_kind kind, uint64_t grain) {
    *p = (struct pair){.fit = mm_fit_create(kind, grain), .kind = kind, .grain = grain};
    return p->fit ? NULL : "no books";
}

void pair_end(struct pair *p) {
    mm_fit_destroy(p->fit);
    free(p->block);
}

static void insert(struct pair *p, size_t i, struct pair_block block) {
    if (p->count == p->room) {
        p->room = 2 * p->room + 64;
        p->block = (struct pair_block *)realloc(p->block, p->room * sizeof block);
        if (!p->block) abort();
    }
    memmove(p->block + i + 1, p->block + i, (p->count++ - i) * sizeof block);
    p->block[i] = block;
}

static void erase(struct pair *p, size_t i) { memmove(p->block + i, p->block + i + 1, (--p->count - i) * sizeof *p->block); }

static uint64_t end_of(const struct pair_block *b) { return b->base + b->bytes; }

/* The first block that ends above the address, or count. */
static size_t from(const struct pair *p, uint64_t address) {
    size_t i = 0;
    while (i < p->count && end_of(&p->block[i]) <= address) i++;
    return i;
}

static struct host_memory memory_of(const struct pair *p) { return p->memory ? *p->memory : (struct host_memory){0, 0}; }

const char *pair_add(struct pair *p, uint64_t base, uint64_t bytes, bool *is_added) {
    const unsigned failed = memory_of(p).failed;
    const bool got = mm_fit_add(p->fit, base, bytes);
    bool wanted = base && bytes && base % p->grain == 0 && bytes % p->grain == 0 && base + bytes > base;
    const size_t i = from(p, base);
    if (i < p->count && p->block[i].base < base + bytes) wanted = false;
    if (memory_of(p).failed != failed) wanted = false;
    if (is_added) *is_added = wanted;
    if (got != wanted) return wanted ? "a range was refused" : "a wrong range was added";
    if (wanted) insert(p, i, (struct pair_block){base, bytes, ++p->puts, false, true});
    return NULL;
}

static uint64_t power_of(uint64_t x) {
    uint64_t power = 1;
    while (x >>= 1) power *= 2;
    return power;
}

/* The least length of the list that holds that length, in grains. */
static uint64_t list_of(const struct pair *p, uint64_t length) {
    const uint64_t power = power_of(length), step = p->kind == MM_FIT_SEGREGATED ? power : power < MM_FIT_TLSF_LISTS ? 1 : power / MM_FIT_TLSF_LISTS;
    return length / step * step;
}

/* The block that tlsf and segregated choose, or count. */
static size_t choose_good(const struct pair *p, uint64_t bytes) {
    const uint64_t length = bytes / p->grain, list = list_of(p, length);
    size_t best = p->count;
    uint64_t before = UINT64_MAX, least = UINT64_MAX;
    for (int looks = 0; length != list && looks < MM_FIT_LOOKS; looks++) { /* the list of the length itself, from the block put in last on */
        size_t last = p->count;
        for (size_t i = 0; i < p->count; i++)
            if (!p->block[i].is_live && list_of(p, p->block[i].bytes / p->grain) == list && p->block[i].put < before &&
                (last == p->count || p->block[i].put > p->block[last].put))
                last = i;
        if (last == p->count) break;
        if (p->block[last].bytes >= bytes) return last;
        before = p->block[last].put;
    }
    for (size_t i = 0; i < p->count; i++) { /* the least list above */
        const uint64_t its = list_of(p, p->block[i].bytes / p->grain);
        if (p->block[i].is_live || its < length) continue;
        if (its < least || (its == least && p->block[i].put > p->block[best].put)) best = i, least = its;
    }
    return best;
}

static size_t choose(const struct pair *p, uint64_t bytes) {
    size_t best = p->count;
    const size_t begin = p->kind == MM_FIT_NEXT || p->kind == MM_FIT_BITMASK ? from(p, p->cursor) : 0;
    if (p->kind == MM_FIT_TLSF || p->kind == MM_FIT_SEGREGATED) return choose_good(p, bytes);
    for (size_t k = 0; k < p->count; k++) {
        const size_t i = (begin + k) % p->count;
        if (p->block[i].is_live || p->block[i].bytes < bytes) continue;
        if (p->kind != MM_FIT_BEST) return i;
        if (best == p->count || p->block[i].bytes < p->block[best].bytes) best = i;
    }
    return best;
}

const char *pair_allocate(struct pair *p, uint64_t bytes, uint64_t *address) {
    const unsigned failed = memory_of(p).failed;
    const uint64_t got = mm_fit_allocate(p->fit, bytes), rounded = bytes + (p->grain - bytes % p->grain) % p->grain;
    const size_t i = bytes == 0 || rounded < bytes || memory_of(p).failed != failed ? p->count : choose(p, rounded);
    if (address) *address = got;
    if (got != (i < p->count ? p->block[i].base : 0)) return got ? "an allocation has another address" : "an allocation failed";
    if (i == p->count) return NULL;
    const struct pair_block was = p->block[i];
    p->block[i].is_live = true;
    p->block[i].bytes = rounded;
    p->cursor = was.base + rounded;
    if (was.bytes > rounded) insert(p, i + 1, (struct pair_block){was.base + rounded, was.bytes - rounded, ++p->puts, false, false});
    return NULL;
}

const char *pair_free(struct pair *p, uint64_t address) {
    const unsigned calls = memory_of(p).calls;
    const uint64_t got = mm_fit_free(p->fit, address);
    size_t i = from(p, address);
    if (memory_of(p).calls != calls) return "a free asked the host for memory";
    if (i == p->count || !p->block[i].is_live || p->block[i].base != address) return got ? "a free of what is not live returned bytes" : NULL;
    if (got != p->block[i].bytes) return "a free returned other bytes";
    p->block[i].is_live = false;
    p->block[i].put = ++p->puts;
    if (i + 1 < p->count && !p->block[i + 1].is_live && !p->block[i + 1].is_first) {
        p->block[i].bytes += p->block[i + 1].bytes;
        erase(p, i + 1);
    }
    if (!p->block[i].is_first && !p->block[i - 1].is_live) {
        p->block[i - 1].bytes += p->block[i].bytes;
        p->block[i - 1].put = p->block[i].put;
        erase(p, i);
    }
    return NULL;
}

const char *pair_look(struct pair *p, uint64_t address) {
    const size_t i = from(p, address);
    const bool is_in = i < p->count && p->block[i].is_live && p->block[i].base <= address;
    uint64_t base = 1, bytes = 2;
    if (mm_fit_live(p->fit, address) != (is_in && p->block[i].base == address ? p->block[i].bytes : 0)) return "mm_fit_live differs";
    if (mm_fit_find(p->fit, address, &base, &bytes) != is_in) return "mm_fit_find differs";
    if (is_in ? base != p->block[i].base || bytes != p->block[i].bytes : base != 1 || bytes != 2) return "mm_fit_find found something else";
    return NULL;
}

static bool is_unused(const struct pair *p, size_t i) {
    return p->block[i].is_first && !p->block[i].is_live && (i + 1 == p->count || p->block[i + 1].is_first);
}

struct releasing {
    struct pair *p;
    uint64_t below, unused, keep_bytes;
    const char *wrong;
};

static void release(void *arg, uint64_t base, uint64_t bytes) {
    struct releasing *r = (struct releasing *)arg;
    const size_t i = from(r->p, base);
    if (i == r->p->count || r->p->block[i].base != base || r->p->block[i].bytes != bytes || !is_unused(r->p, i)) r->wrong = "another range was released";
    else if (base >= r->below) r->wrong = "ranges were not released from the highest on";
    else if (r->unused <= r->keep_bytes) r->wrong = "too much was released";
    else {
        for (size_t k = i + 1; k < r->p->count; k++)
            if (is_unused(r->p, k) && r->p->block[k].base < r->below) r->wrong = "an unused range was left out";
        erase(r->p, i);
        r->below = base;
        r->unused -= bytes;
    }
}

const char *pair_shrink(struct pair *p, uint64_t keep_bytes) {
    struct releasing r = {p, UINT64_MAX, 0, keep_bytes, NULL};
    for (size_t i = 0; i < p->count; i++)
        if (is_unused(p, i)) r.unused += p->block[i].bytes;
    mm_fit_shrink(p->fit, keep_bytes, release, &r);
    return r.wrong ? r.wrong : r.unused > keep_bytes ? "too little was released" : NULL;
}

struct comparing {
    const struct pair *p;
    size_t i;
    bool is_same;
};

static void compare(void *arg, uint64_t base, uint64_t bytes, bool is_live) {
    struct comparing *c = (struct comparing *)arg;
    const struct pair_block *b = c->i < c->p->count ? &c->p->block[c->i] : NULL;
    if (!b || b->base != base || b->bytes != bytes || b->is_live != is_live) c->is_same = false;
    c->i++;
}

const char *pair_compare(struct pair *p) {
    struct comparing c = {p, 0, true};
    uint64_t largest = 0, free_bytes = 0, live_bytes = 0;
    const char *wrong = mm_fit_check(p->fit);
    if (wrong) return wrong;
    mm_fit_walk(p->fit, compare, &c);
    if (!c.is_same || c.i != p->count) return "the blocks differ";
    for (size_t i = 0; i < p->count; i++) {
        const struct pair_block *b = &p->block[i];
        *(b->is_live ? &live_bytes : &free_bytes) += b->bytes;
        if (!b->is_live && b->bytes > largest) largest = b->bytes;
    }
    if (mm_fit_largest(p->fit) != largest) return "mm_fit_largest differs";
    if (mm_fit_free_bytes(p->fit) != free_bytes) return "mm_fit_free_bytes differs";
    return mm_fit_live_bytes(p->fit) == live_bytes ? NULL : "mm_fit_live_bytes differs";
}

uint64_t pair_live(const struct pair *p, size_t i) {
    size_t count = 0;
    for (size_t k = 0; k < p->count; k++) count += p->block[k].is_live;
    if (count == 0) return 0;
    i %= count;
    for (size_t k = 0;; k++)
        if (p->block[k].is_live && i-- == 0) return p->block[k].base;
}
