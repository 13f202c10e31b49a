/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sequential fits over a hierarchical array list, HAL (Bell et al.): first, next and best fit.
 *
 * Representation: all blocks, sorted by address, in pages of up to MM_FIT_PAGE_BLOCKS; a directory of the pages with the first address, the largest free
 * block and the number of blocks of each. A full page is split in half before a block is added; a page that fits, with a neighbour, into half a page
 * joins it; an empty page is freed. So there are O(n/m) pages for n blocks with m to a page.
 *
 * A search reads the directory, and only those pages where the block may be. The paper's pages form a list, through which it searches from the tail for
 * an address; a binary search of the directory replaces that. Adding and removing a block moves blocks of its page, O(m), and sometimes entries of the
 * directory, O(n/m).
 *
 * Memory: an allocation that leaves a rest may need a page and a larger directory; it has both before it changes a block. A free only merges.
 */
#include <stdlib.h>
#include <string.h>

#include "mmconfig.h"
#include "runtime/host/fit/books.h"

struct block {
    uint64_t base;
    uint64_t length : 62, is_free : 1, is_first : 1; /* first of its range */
};
MM_STATIC_ASSERT(sizeof(struct block) == 16, "a block takes 16 bytes, as in the paper");

struct page {
    struct block *block;
    uint64_t first, largest; /* address of the first block; length of the largest free one */
    size_t count;
};

struct hal {
    struct mm_fit fit;
    struct page *page;
    size_t count, room;
    uint64_t cursor; /* next fit: end of the last allocation */
};

/* The place of a block, or of one to be put in. */
struct place {
    size_t page, i;
};

static struct hal *hal_of(struct mm_fit *fit) { return (struct hal *)fit; }
static struct block *at(const struct hal *h, struct place p) { return &h->page[p.page].block[p.i]; }

/* Sets what the directory says about a page. */
static void refresh(struct hal *h, size_t p) {
    struct page *page = &h->page[p];
    page->largest = 0;
    page->first = page->block[0].base;
    MM_FIT_STEPS(page->count);
    for (size_t i = 0; i < page->count; i++)
        if (page->block[i].is_free && page->block[i].length > page->largest) page->largest = page->block[i].length;
}

/* Returns the place of the last block that begins at or below the address. False: there is none. */
static bool locate(const struct hal *h, uint64_t base, struct place *place) {
    size_t low = 0, high = h->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        MM_FIT_STEPS(1);
        if (h->page[middle].first <= base) low = middle + 1;
        else high = middle;
    }
    if (low == 0) return false;
    place->page = low - 1;
    for (low = 0, high = h->page[place->page].count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        MM_FIT_STEPS(1);
        if (h->page[place->page].block[middle].base <= base) low = middle + 1;
        else high = middle;
    }
    place->i = low - 1;
    return true;
}

/* Finds the block that begins at the address. */
static bool find(const struct hal *h, uint64_t base, struct place *place) { return locate(h, base, place) && at(h, *place)->base == base; }

/* Goes to the next block; false: there is none. */
static bool up(const struct hal *h, struct place *p) {
    if (++p->i < h->page[p->page].count) return true;
    p->i = 0;
    return ++p->page < h->count;
}

/* ---- pages --------------------------------------------------------------------------------------- */

/* Makes an empty page before page p. False: the host has no memory, and nothing changed. */
static bool make_page(struct hal *h, size_t p) {
    if (h->count == h->room) {
        const size_t room = h->room ? 2 * h->room : MM_FIT_PAGES_FIRST;
        struct page *page = (struct page *)realloc(h->page, room * sizeof *page);
        if (!page) return false;
        h->page = page;
        h->room = room;
    }
    struct block *block = (struct block *)malloc(MM_FIT_PAGE_BLOCKS * sizeof *block);
    if (!block) return false;
    MM_FIT_STEPS(h->count - p);
    memmove(h->page + p + 1, h->page + p, (h->count - p) * sizeof *h->page);
    h->page[p] = (struct page){.count = 0};
    h->page[p].block = block;
    h->count++;
    return true;
}

static void drop_page(struct hal *h, size_t p) {
    free(h->page[p].block);
    MM_FIT_STEPS(h->count - p - 1);
    memmove(h->page + p, h->page + p + 1, (--h->count - p) * sizeof *h->page);
}

/* Moves the blocks from i on to the end of another page. */
static void move(struct hal *h, size_t from, size_t i, size_t to) {
    const size_t count = h->page[from].count - i;
    MM_FIT_STEPS(count);
    memcpy(h->page[to].block + h->page[to].count, h->page[from].block + i, count * sizeof(struct block));
    h->page[to].count += count;
    h->page[from].count = i;
}

/* Makes room for a block at a place, which may move to another page. False: the host has no memory, and no block changed. */
static bool has_room(struct hal *h, struct place *place) {
    const size_t p = place->page;
    if (h->count == 0) return make_page(h, 0);
    if (h->page[p].count < MM_FIT_PAGE_BLOCKS) return true;
    if (!make_page(h, p + 1)) return false;
    move(h, p, MM_FIT_PAGE_BLOCKS / 2, p + 1);
    refresh(h, p);
    refresh(h, p + 1);
    if (place->i >= MM_FIT_PAGE_BLOCKS / 2) *place = (struct place){p + 1, place->i - MM_FIT_PAGE_BLOCKS / 2};
    return true;
}

/* Drops an empty page, or joins a page with a neighbour if both together fit into half a page; otherwise refreshes it. */
static void tidy(struct hal *h, size_t p) {
    if (h->page[p].count == 0) {
        drop_page(h, p);
        return;
    }
    for (size_t lower = p ? p - 1 : 0; lower <= p && lower + 1 < h->count; lower++)
        if (h->page[lower].count + h->page[lower + 1].count <= MM_FIT_PAGE_BLOCKS / 2) {
            move(h, lower + 1, 0, lower);
            drop_page(h, lower + 1);
            p = lower;
            break;
        }
    refresh(h, p);
}

/* Puts a block at a place that has room. */
static void insert(struct hal *h, struct place place, struct block block) {
    struct page *page = &h->page[place.page];
    MM_FIT_STEPS(page->count - place.i);
    memmove(page->block + place.i + 1, page->block + place.i, (page->count - place.i) * sizeof block);
    page->block[place.i] = block;
    page->count++;
    refresh(h, place.page);
}

static void erase(struct hal *h, struct place place) {
    struct page *page = &h->page[place.page];
    MM_FIT_STEPS(page->count - place.i - 1);
    memmove(page->block + place.i, page->block + place.i + 1, (--page->count - place.i) * sizeof *page->block);
    tidy(h, place.page);
}

/* ---- the three fits: each returns whether it found a free block of at least that length ---------- */

/* Finds the first that fits in pages [from.page, end), in the first page from block from.i on. */
static bool find_from(const struct hal *h, struct place from, size_t end, uint64_t length, struct place *place) {
    for (size_t p = from.page; p < end; p++) {
        const struct page *page = &h->page[p];
        MM_FIT_STEPS(1);
        if (page->largest < length) continue;
        for (size_t i = p == from.page ? from.i : 0; i < page->count; i++) {
            MM_FIT_STEPS(1);
            if (!page->block[i].is_free || page->block[i].length < length) continue;
            *place = (struct place){p, i};
            return true;
        }
    }
    return false;
}

static bool find_first(const struct hal *h, uint64_t length, struct place *place) { return find_from(h, (struct place){0, 0}, h->count, length, place); }

static bool find_next(const struct hal *h, uint64_t length, struct place *place) {
    struct place from = {0, 0};
    if (locate(h, h->cursor, &from) && at(h, from)->base + at(h, from)->length <= h->cursor && !up(h, &from)) from = (struct place){0, 0};
    return find_from(h, from, h->count, length, place) || find_from(h, (struct place){0, 0}, from.page + (from.i > 0), length, place);
}

static bool find_best(const struct hal *h, uint64_t length, struct place *place) {
    uint64_t least = UINT64_MAX;
    for (size_t p = 0; p < h->count && least > length; p++) {
        const struct page *page = &h->page[p];
        MM_FIT_STEPS(1);
        for (size_t i = 0; page->largest >= length && i < page->count && least > length; i++) {
            MM_FIT_STEPS(1);
            if (!page->block[i].is_free || page->block[i].length < length || page->block[i].length >= least) continue;
            least = page->block[i].length;
            *place = (struct place){p, i};
        }
    }
    return least != UINT64_MAX;
}

/* ---- the functions of struct mm_fit_ops ---------------------------------------------------------- */

static void drop(struct mm_fit *fit) {
    for (size_t p = 0; p < hal_of(fit)->count; p++) free(hal_of(fit)->page[p].block);
    free(hal_of(fit)->page);
}

static bool add(struct mm_fit *fit, struct mm_fit_range *range) {
    struct hal *h = hal_of(fit);
    struct place place = {0, 0};
    if (locate(h, range->base, &place)) place.i++;
    if (!has_room(h, &place)) return false;
    insert(h, place, (struct block){.base = range->base, .length = range->length, .is_free = 1, .is_first = 1});
    return true;
}

static bool is_unused(struct mm_fit *fit, const struct mm_fit_range *range) {
    struct place place;
    return find(hal_of(fit), range->base, &place) && at(hal_of(fit), place)->is_free && at(hal_of(fit), place)->length == range->length;
}

static void remove_range(struct mm_fit *fit, struct mm_fit_range *range) {
    struct place place;
    if (find(hal_of(fit), range->base, &place)) erase(hal_of(fit), place);
}

static uint64_t allocate(struct hal *h, uint64_t length, bool (*find_it)(const struct hal *, uint64_t, struct place *)) {
    struct place place;
    if (!find_it(h, length, &place)) return 0;
    struct block block = *at(h, place);
    if (block.length > length) {
        if (!has_room(h, &place)) return 0;
        struct block *rest = at(h, place);
        rest->base += length;
        rest->length -= length;
        rest->is_first = 0;
        block.length = length;
        block.is_free = 0;
        insert(h, place, block);
    } else {
        at(h, place)->is_free = 0;
        refresh(h, place.page);
    }
    h->cursor = block.base + length;
    return block.base;
}

static uint64_t allocate_first(struct mm_fit *fit, uint64_t length) { return allocate(hal_of(fit), length, find_first); }
static uint64_t allocate_next(struct mm_fit *fit, uint64_t length) { return allocate(hal_of(fit), length, find_next); }
static uint64_t allocate_best(struct mm_fit *fit, uint64_t length) { return allocate(hal_of(fit), length, find_best); }

static uint64_t free_block(struct mm_fit *fit, uint64_t base) {
    struct hal *h = hal_of(fit);
    struct place place, upper;
    if (!find(h, base, &place) || at(h, place)->is_free) return 0;
    const uint64_t length = at(h, place)->length;
    at(h, place)->is_free = 1;
    upper = place;
    if (up(h, &upper) && at(h, upper)->is_free && !at(h, upper)->is_first) {
        at(h, place)->length += at(h, upper)->length;
        erase(h, upper);
        find(h, base, &place); /* pages may have joined */
    }
    struct place lower = {place.page, place.i - 1};
    if (place.i == 0) lower = place.page ? (struct place){place.page - 1, h->page[place.page - 1].count - 1} : place;
    if (!at(h, place)->is_first && at(h, lower)->is_free) {
        at(h, lower)->length += at(h, place)->length;
        if (lower.page != place.page) refresh(h, lower.page);
        erase(h, place);
    } else {
        refresh(h, place.page);
    }
    return length;
}

static uint64_t live(struct mm_fit *fit, uint64_t base) {
    struct place place;
    return find(hal_of(fit), base, &place) && !at(hal_of(fit), place)->is_free ? at(hal_of(fit), place)->length : 0;
}

static uint64_t largest(struct mm_fit *fit) {
    uint64_t most = 0;
    for (size_t p = 0; p < hal_of(fit)->count; p++)
        if (hal_of(fit)->page[p].largest > most) most = hal_of(fit)->page[p].largest;
    return most;
}

static void walk(struct mm_fit *fit, const struct mm_fit_range *range, mm_fit_visit *visit, void *arg) {
    struct place place;
    bool is_more = find(hal_of(fit), range->base, &place);
    for (; is_more && at(hal_of(fit), place)->base - range->base < range->length; is_more = up(hal_of(fit), &place))
        visit(arg, at(hal_of(fit), place)->base, at(hal_of(fit), place)->length, !at(hal_of(fit), place)->is_free);
}

static const char *check(struct mm_fit *fit) {
    const struct hal *h = hal_of(fit);
    uint64_t end = 0;
    size_t firsts = 0;
    for (size_t p = 0; p < h->count; p++) {
        const struct page *page = &h->page[p];
        uint64_t most = 0;
        if (page->count == 0 || page->count > MM_FIT_PAGE_BLOCKS) return "a page is empty, or holds too many blocks";
        if (p > 0 && page[-1].count + page->count <= MM_FIT_PAGE_BLOCKS / 2) return "two pages would fit into half a page";
        if (page->first != page->block[0].base) return "the first address of a page is wrong";
        for (size_t i = 0; i < page->count; end = page->block[i].base + page->block[i].length, i++) {
            if (page->block[i].base < end) return "blocks overlap, or are not sorted";
            if (page->block[i].is_free && page->block[i].length > most) most = page->block[i].length;
            firsts += page->block[i].is_first;
            if (page->block[i].is_first && mm_fit_range_of(fit, page->block[i].base)->base != page->block[i].base)
                return "a block is not the first of its range";
        }
        if (page->largest != most) return "the largest free block of a page is wrong";
    }
    return firsts == fit->range_count ? NULL : "the ranges are not as many as blocks that are the first of one";
}

#define MM_FIT_HAL(fit, allocate_it)                            \
    const struct mm_fit_ops fit = {.bytes = sizeof(struct hal), \
                                   .drop = drop,                \
                                   .add = add,                  \
                                   .is_unused = is_unused,      \
                                   .remove = remove_range,      \
                                   .allocate = allocate_it,     \
                                   .free = free_block,          \
                                   .live = live,                \
                                   .largest = largest,          \
                                   .walk = walk,                \
                                   .check = check}
MM_FIT_HAL(mm_fit_first, allocate_first);
MM_FIT_HAL(mm_fit_next, allocate_next);
MM_FIT_HAL(mm_fit_best, allocate_best);
