/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/fit/fit.h"

#include <stdlib.h>
#include <string.h>

#include "mmconfig.h"
#include "runtime/host/fit/books.h"

#ifdef MM_FIT_COUNTS
uint64_t mm_fit_steps;
#endif

static const struct mm_fit_ops *const kinds[MM_FIT_COUNT] = {
    [MM_FIT_TLSF] = &mm_fit_tlsf,       [MM_FIT_SEGREGATED] = &mm_fit_segregated,
    [MM_FIT_BITMASK] = &mm_fit_bitmask, [MM_FIT_FIRST] = &mm_fit_first,
    [MM_FIT_NEXT] = &mm_fit_next,       [MM_FIT_BEST] = &mm_fit_best,
};

struct mm_fit *mm_fit_create(enum mm_fit_kind kind, uint64_t grain_bytes) {
    struct mm_fit *fit = (struct mm_fit *)calloc(1, kinds[kind]->bytes);
    if (!fit) return NULL;
    fit->ops = kinds[kind];
    fit->grain_shift = (unsigned)__builtin_ctzll(grain_bytes);
    return fit;
}

void mm_fit_destroy(struct mm_fit *fit) {
    if (!fit) return;
    fit->ops->drop(fit);
    free(fit->range);
    free(fit);
}

/* ---- ranges -------------------------------------------------------------------------------------- */

size_t mm_fit_range_from(const struct mm_fit *fit, uint64_t unit) {
    size_t low = 0, high = fit->range_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (fit->range[middle].base + fit->range[middle].length > unit) high = middle;
        else low = middle + 1;
    }
    return low;
}

struct mm_fit_range *mm_fit_range_of(const struct mm_fit *fit, uint64_t unit) {
    const size_t i = mm_fit_range_from(fit, unit);
    return i < fit->range_count && fit->range[i].base <= unit ? &fit->range[i] : NULL;
}

static bool has_room_for_range(struct mm_fit *fit) {
    if (fit->range_count < fit->range_room) return true;
    const size_t room = fit->range_room ? 2 * fit->range_room : MM_FIT_RANGES_FIRST;
    struct mm_fit_range *range = (struct mm_fit_range *)realloc(fit->range, room * sizeof *range);
    if (!range) return false;
    fit->range = range;
    fit->range_room = room;
    return true;
}

static bool is_aligned(const struct mm_fit *fit, uint64_t bytes) { return bytes >> fit->grain_shift << fit->grain_shift == bytes; }

bool mm_fit_add(struct mm_fit *fit, uint64_t base, uint64_t bytes) {
    if (base == 0 || bytes == 0 || !is_aligned(fit, base | bytes) || base + bytes < base) return false;
    struct mm_fit_range range = {base >> fit->grain_shift, bytes >> fit->grain_shift, NULL};
    const size_t at = mm_fit_range_from(fit, range.base);
    if (at < fit->range_count && fit->range[at].base < range.base + range.length) return false;
    if (!has_room_for_range(fit) || !fit->ops->add(fit, &range)) return false;
    memmove(fit->range + at + 1, fit->range + at, (fit->range_count - at) * sizeof *fit->range);
    fit->range[at] = range;
    fit->range_count++;
    fit->free_length += range.length;
    return true;
}

void mm_fit_shrink(struct mm_fit *fit, uint64_t keep_bytes, void (*release)(void *arg, uint64_t base, uint64_t bytes), void *arg) {
    uint64_t unused = 0; /* grains */
    for (size_t i = 0; i < fit->range_count; i++)
        if (fit->ops->is_unused(fit, &fit->range[i])) unused += fit->range[i].length;
    for (size_t i = fit->range_count; i-- > 0 && unused > keep_bytes >> fit->grain_shift;) {
        struct mm_fit_range range = fit->range[i];
        if (!fit->ops->is_unused(fit, &range)) continue;
        fit->ops->remove(fit, &range);
        memmove(fit->range + i, fit->range + i + 1, (--fit->range_count - i) * sizeof *fit->range);
        fit->free_length -= range.length;
        unused -= range.length;
        release(arg, range.base << fit->grain_shift, range.length << fit->grain_shift);
    }
}

/* ---- allocations --------------------------------------------------------------------------------- */

uint64_t mm_fit_allocate(struct mm_fit *fit, uint64_t bytes) {
    if (bytes == 0) return 0;
    const uint64_t length = ((bytes - 1) >> fit->grain_shift) + 1;
    const uint64_t base = length <= fit->free_length ? fit->ops->allocate(fit, length) : 0;
    if (base == 0) return 0;
    fit->free_length -= length;
    fit->live_length += length;
    return base << fit->grain_shift;
}

uint64_t mm_fit_free(struct mm_fit *fit, uint64_t address) {
    if (!is_aligned(fit, address)) return 0;
    const uint64_t length = fit->ops->free(fit, address >> fit->grain_shift);
    fit->free_length += length;
    fit->live_length -= length;
    return length << fit->grain_shift;
}

uint64_t mm_fit_live(struct mm_fit *fit, uint64_t address) {
    return is_aligned(fit, address) ? fit->ops->live(fit, address >> fit->grain_shift) << fit->grain_shift : 0;
}

struct sought {
    uint64_t unit, base, length; /* length 0: not found */
};

static void seek(void *arg, uint64_t base, uint64_t length, bool is_live) {
    struct sought *s = (struct sought *)arg;
    if (is_live && s->unit >= base && s->unit - base < length) s->base = base, s->length = length;
}

bool mm_fit_find(struct mm_fit *fit, uint64_t address, uint64_t *base, uint64_t *bytes) {
    struct sought s = {address >> fit->grain_shift, 0, 0};
    const struct mm_fit_range *range = mm_fit_range_of(fit, s.unit);
    if (range) fit->ops->walk(fit, range, seek, &s);
    if (s.length == 0) return false;
    *base = s.base << fit->grain_shift;
    *bytes = s.length << fit->grain_shift;
    return true;
}

uint64_t mm_fit_largest(struct mm_fit *fit) { return fit->ops->largest(fit) << fit->grain_shift; }
uint64_t mm_fit_free_bytes(const struct mm_fit *fit) { return fit->free_length << fit->grain_shift; }
uint64_t mm_fit_live_bytes(const struct mm_fit *fit) { return fit->live_length << fit->grain_shift; }

/* ---- walks --------------------------------------------------------------------------------------- */

struct walking {
    void (*visit)(void *arg, uint64_t base, uint64_t bytes, bool is_live);
    void *arg;
    unsigned grain_shift;
};

static void visit_bytes(void *arg, uint64_t base, uint64_t length, bool is_live) {
    const struct walking *w = (const struct walking *)arg;
    w->visit(w->arg, base << w->grain_shift, length << w->grain_shift, is_live);
}

void mm_fit_walk(struct mm_fit *fit, void (*visit)(void *arg, uint64_t base, uint64_t bytes, bool is_live), void *arg) {
    struct walking w = {visit, arg, fit->grain_shift};
    for (size_t i = 0; i < fit->range_count; i++) fit->ops->walk(fit, &fit->range[i], visit_bytes, &w);
}

/* What a check has seen. */
struct seen {
    uint64_t end; /* of the last block of this range */
    bool is_after_free;
    uint64_t free_length, live_length, largest;
    const char *wrong; /* the first that is broken */
};

static void see(void *arg, uint64_t base, uint64_t length, bool is_live) {
    struct seen *s = (struct seen *)arg;
    if (!s->wrong && (base != s->end || length == 0)) s->wrong = "the blocks do not tile their range";
    if (!s->wrong && !is_live && s->is_after_free) s->wrong = "two free blocks are adjacent";
    s->end = base + length;
    s->is_after_free = !is_live;
    *(is_live ? &s->live_length : &s->free_length) += length;
    if (!is_live && length > s->largest) s->largest = length;
}

const char *mm_fit_check(struct mm_fit *fit) {
    struct seen s = {0, false, 0, 0, 0, NULL};
    for (size_t i = 0; i < fit->range_count; i++) {
        const struct mm_fit_range *range = &fit->range[i];
        if (i > 0 && range[-1].base + range[-1].length > range->base) return "two ranges overlap, or are not sorted";
        s.end = range->base;
        s.is_after_free = false;
        fit->ops->walk(fit, range, see, &s);
        if (!s.wrong && s.end != range->base + range->length) s.wrong = "the blocks do not reach the end of their range";
    }
    if (s.wrong) return s.wrong;
    if (s.free_length != fit->free_length) return "the free bytes are not the sum over the blocks";
    if (s.live_length != fit->live_length) return "the live bytes are not the sum over the blocks";
    if (s.largest != fit->ops->largest(fit)) return "the largest free block is not the largest of the blocks";
    return fit->ops->check(fit);
}
