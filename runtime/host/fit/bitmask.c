/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Next fit over a bitmask (Bell et al.).
 *
 * Representation: two bitmaps for each range, of a bit for each grain: whether it is live, and whether an allocation begins there. An allocation ends
 * where the next one begins, or where a grain is free, or with the range. Bits behind the range's end are clear, and are not read.
 *
 * A search begins with the free grains around the end of the last allocation, and goes on in the order of addresses, then from the first range. The
 * bitmaps are made with the range, so an allocation needs no host memory.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/fit/books.h"

struct bitmask {
    struct mm_fit fit;
    uint64_t cursor; /* end of the last allocation */
};

static uint64_t words_of(const struct mm_fit_range *r) { return (r->length - 1) / 64 + 1; }
static const uint64_t *live_of(const struct mm_fit_range *r) { return r->bits; }
static const uint64_t *begins_of(const struct mm_fit_range *r) { return r->bits + words_of(r); }
static bool is_set(const uint64_t *bits, uint64_t i) { return bits[i / 64] >> i % 64 & 1; }

/* Returns the first bit of that value in [from, end), or end. */
static uint64_t next_bit(const uint64_t *bits, uint64_t from, uint64_t end, bool value) {
    const uint64_t flip = value ? 0 : ~0ull;
    if (from >= end) return end;
    MM_FIT_STEPS(1);
    uint64_t word = (bits[from / 64] ^ flip) & ~0ull << from % 64;
    for (from = from / 64 * 64; word == 0;) {
        from += 64;
        if (from >= end) return end;
        MM_FIT_STEPS(1);
        word = bits[from / 64] ^ flip;
    }
    from += (uint64_t)__builtin_ctzll(word);
    return from < end ? from : end;
}

/* Returns where the free grains around `at` begin, or `at` if it is live. */
static uint64_t free_around(const uint64_t *live, uint64_t at) {
    while (at > 0 && !is_set(live, at) && !is_set(live, at - 1)) {
        MM_FIT_STEPS(1);
        at -= at % 64 == 0 && live[at / 64 - 1] == 0 ? 64 : 1;
    }
    return at;
}

static void set_bits(uint64_t *bits, uint64_t from, uint64_t end, bool value) {
    while (from < end) {
        const uint64_t until = from / 64 * 64 + 64 < end ? from / 64 * 64 + 64 : end, count = until - from;
        const uint64_t mask = (count == 64 ? ~0ull : (1ull << count) - 1) << from % 64;
        MM_FIT_STEPS(1);
        if (value) bits[from / 64] |= mask;
        else bits[from / 64] &= ~mask;
        from = until;
    }
}

/* Returns where the allocation that begins at `at` ends. */
static uint64_t end_of(const struct mm_fit_range *r, uint64_t at) {
    const uint64_t next = next_bit(begins_of(r), at + 1, r->length, true);
    return next_bit(live_of(r), at + 1, next, false);
}

/* Whether an allocation begins there. */
static bool begins(const struct mm_fit_range *r, uint64_t unit) { return r && is_set(begins_of(r), unit - r->base); }

static void drop(struct mm_fit *fit) {
    for (size_t i = 0; i < fit->range_count; i++) free(fit->range[i].bits);
}

static bool add(struct mm_fit *fit, struct mm_fit_range *r) {
    (void)fit;
    r->bits = (uint64_t *)calloc(words_of(r), 2 * sizeof *r->bits);
    return r->bits != NULL;
}

static bool is_unused(struct mm_fit *fit, const struct mm_fit_range *r) {
    (void)fit;
    return next_bit(live_of(r), 0, r->length, true) == r->length;
}

static void remove_range(struct mm_fit *fit, struct mm_fit_range *r) {
    (void)fit;
    free(r->bits);
}

/* Allocates in [from, end) of a range. Returns the address, or 0. */
static uint64_t take(struct bitmask *b, struct mm_fit_range *r, uint64_t from, uint64_t end, uint64_t length) {
    while (end - from >= length) {
        const uint64_t at = next_bit(live_of(r), from, end, false);
        if (end - at < length) return 0;
        from = next_bit(live_of(r), at, at + length, true);
        if (from < at + length) continue;
        set_bits(r->bits, at, at + length, true);
        set_bits(r->bits + words_of(r), at, at + 1, true);
        b->cursor = r->base + at + length;
        return r->base + at;
    }
    return 0;
}

static uint64_t allocate(struct mm_fit *fit, uint64_t length) {
    struct bitmask *b = (struct bitmask *)fit;
    const size_t first = mm_fit_range_from(fit, b->cursor);
    uint64_t from = 0, base = 0; /* from: where in the first range the search begins, and ends */
    if (first < fit->range_count && fit->range[first].base < b->cursor) from = free_around(live_of(&fit->range[first]), b->cursor - fit->range[first].base);
    for (size_t i = first; i < fit->range_count && base == 0; i++) base = take(b, &fit->range[i], i == first ? from : 0, fit->range[i].length, length);
    for (size_t i = 0; i < first && base == 0; i++) base = take(b, &fit->range[i], 0, fit->range[i].length, length);
    if (base == 0 && from > 0) base = take(b, &fit->range[first], 0, from, length);
    return base;
}

static uint64_t free_block(struct mm_fit *fit, uint64_t unit) {
    struct mm_fit_range *r = mm_fit_range_of(fit, unit);
    if (!begins(r, unit)) return 0;
    const uint64_t at = unit - r->base, end = end_of(r, at);
    set_bits(r->bits, at, end, false);
    set_bits(r->bits + words_of(r), at, at + 1, false);
    return end - at;
}

static uint64_t live(struct mm_fit *fit, uint64_t unit) {
    const struct mm_fit_range *r = mm_fit_range_of(fit, unit);
    return begins(r, unit) ? end_of(r, unit - r->base) - (unit - r->base) : 0;
}

static void walk(struct mm_fit *fit, const struct mm_fit_range *r, mm_fit_visit *visit, void *arg) {
    (void)fit;
    for (uint64_t at = 0, end; at < r->length; at = end) {
        const bool is_live = is_set(live_of(r), at);
        end = is_live ? end_of(r, at) : next_bit(live_of(r), at, r->length, true);
        visit(arg, r->base + at, end - at, is_live);
    }
}

static void see_largest(void *arg, uint64_t base, uint64_t length, bool is_live) {
    uint64_t *most = (uint64_t *)arg;
    (void)base;
    if (!is_live && length > *most) *most = length;
}

static uint64_t largest(struct mm_fit *fit) {
    uint64_t most = 0;
    for (size_t i = 0; i < fit->range_count; i++) walk(fit, &fit->range[i], see_largest, &most);
    return most;
}

static const char *check(struct mm_fit *fit) {
    for (size_t i = 0; i < fit->range_count; i++) {
        const struct mm_fit_range *r = &fit->range[i];
        for (uint64_t at = 0; at < r->length; at++) {
            if (is_set(begins_of(r), at) && !is_set(live_of(r), at)) return "an allocation begins at a free grain";
            if (is_set(live_of(r), at) && (at == 0 || !is_set(live_of(r), at - 1)) && !is_set(begins_of(r), at)) return "a live grain is in no allocation";
        }
        if (next_bit(live_of(r), r->length, words_of(r) * 64, true) != words_of(r) * 64 ||
            next_bit(begins_of(r), r->length, words_of(r) * 64, true) != words_of(r) * 64)
            return "a bit behind the end of a range is set";
    }
    return NULL;
}

const struct mm_fit_ops mm_fit_bitmask = {
    .bytes = sizeof(struct bitmask),
    .drop = drop,
    .add = add,
    .is_unused = is_unused,
    .remove = remove_range,
    .allocate = allocate,
    .free = free_block,
    .live = live,
    .largest = largest,
    .walk = walk,
    .check = check,
};
