/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/core/image.h"

struct mm_heap_ref ref;
uint64_t cell[16];
static struct mm_layout layout;
static unsigned char *metadata;
static uint64_t metadata_bytes;
/* For each page: bit i is set if its 64th part i is live; for each 64th part at which an allocation begins: its bytes. */
#define PIECE_SHIFT (MM_PAGE_SHIFT - 6)
#define PIECES(segments) ((uint64_t)(segments) << (MM_SEGMENT_SHIFT - PIECE_SHIFT))
static uint64_t live[WORLD_SEGMENTS_MAX * 64], sizes[PIECES(WORLD_SEGMENTS_MAX)];
static uint64_t held[WORLD_SEGMENTS_MAX]; /* for each segment: pages that are in use for good */
static uint64_t absent[WORLD_SEGMENTS_MAX];
static struct mm_check result;
struct mm_mailbox mailbox;

#define USER_BASE (1ull << 40)
/* The memory that is handed out. Only the headers of ring chunks are accessed. */
static void make_user(void) {
#ifdef MM_RING_UNIT_BYTES
    const size_t bytes = (size_t)layout.segment_count << MM_SEGMENT_SHIFT;
    void *const at = (void *)USER_BASE;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) abort();
#endif
}
#ifdef MM_RING_UNIT_BYTES
#define HEADER_BYTES MM_RING_HEADER_BYTES
#else
#define HEADER_BYTES 0u
#endif

void world_make(uint32_t segments) {
    if (segments > WORLD_SEGMENTS_MAX || mm_layout_make(&layout, segments, 128, 16) != 0) abort();
    if (metadata_bytes < layout.total_bytes) {
        free(metadata);
        metadata_bytes = mm_round_up(layout.total_bytes, 256);
        metadata = aligned_alloc(256, metadata_bytes);
        if (!metadata) abort();
    }
    memset(metadata, 0x5a, layout.total_bytes);
    memset(live, 0, sizeof live);
    memset(sizes, 0, sizeof sizes[0] * PIECES(segments));
    memset(held, 0, sizeof held);
    memset(cell, 0, sizeof cell);
    memset(absent, 0, sizeof absent);
    memset(&mailbox, 0, sizeof mailbox);
    make_user();
    mm_heap_image_in_place(metadata, &layout, USER_BASE, segments);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) model_homes[t] = t, model_lanes[t] = 0;
    ref = ((struct mm_heap *)((char *)metadata + layout.heap))->ref;
    ref.on_misuse = MM_ON_MISUSE_IGNORE;
}
void world_warp(uint32_t first, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++) model_homes[first + i] = first, model_lanes[first + i] = i;
}
void world_same_home(void) { memset(model_homes, 0, sizeof model_homes); }
void world_cut(uint32_t c, uint32_t slices) { ref.classes[c] = mm_class_cut_again(ref.classes[c], c, slices); }
void world_cut_narrow(uint32_t c, uint32_t slices) {
    struct mm_class *k = &ref.classes[mm_shape_narrow(c)];
    *k = mm_class_cut_again(*k, c, slices), k->page_shift = 0;
}
void world_pages(uint32_t s, uint32_t n) {
    const uint64_t rest = ~mm_bits_low(n), page = (uint64_t)s * MM_SEGMENT_PAGES + n, count = MM_SEGMENT_PAGES - n;
    mm_tree_erase(mm_segment_free_tree(&ref), s);
    HEAP->free_count--;
    mm_pages_put(&ref, s, ~rest);
    mm_pages_own(&ref, (uint32_t)page + 1, (uint32_t)count - 1, MM_OWNER_SPAN_BODY);
    mm_pages_own(&ref, (uint32_t)page, 1, MM_OWNER_SPAN + (uint32_t)count);
    *mm_page_words(&ref, (uint32_t)page) = mm_word_make(2, 0);
    held[s] = rest;
    world_take(page << MM_PAGE_SHIFT, count << MM_PAGE_SHIFT);
}
void world_hold_run(uint32_t s) {
    mm_tree_erase(mm_segment_free_tree(&ref), s);
    HEAP->free_count--;
    mm_segment_at(&ref, s)->run = mm_run_make(1);
    held[s] = ~0ull;
    world_take((uint64_t)s << MM_SEGMENT_SHIFT, MM_SEGMENT_BYTES);
}
void world_grows(uint32_t from, uint32_t polls) {
    for (uint32_t s = from; s < layout.segment_count; s++) {
        mm_tree_erase(mm_segment_free_tree(&ref), s);
        absent[s] = 1;
    }
    HEAP->free_count = HEAP->grow.mapped = HEAP->grow.reached = from;
    ref.mailbox = (uint64_t)(uintptr_t)&mailbox;
    ref.grow_polls = polls;
}

/* The part of [off, off + bytes) in page p, as bits of live. */
static uint64_t pieces(uint64_t p, uint64_t off, uint64_t bytes) {
    const uint64_t base = p << MM_PAGE_SHIFT, end = off + bytes - base;
    const uint64_t from = off > base ? off - base : 0, to = end < MM_PAGE_BYTES ? end : MM_PAGE_BYTES;
    return mm_bits_low((uint32_t)(to >> PIECE_SHIFT)) & ~mm_bits_low((uint32_t)(from >> PIECE_SHIFT));
}
void world_map(uint32_t first, uint32_t count, int is_there) {
    for (uint32_t s = first; s < first + count; s++) {
        for (uint32_t p = s * 64; p < s * 64 + 64; p++) model_require(is_there || live[p] == 0, "segment %u is unmapped, and a part of it is live", s);
        model_set(&absent[s], !is_there);
    }
}
void world_take(uint64_t off, uint64_t bytes) {
    model_require(off + bytes <= ref.user_bytes, "handed out: %#llx, outside the heap", (unsigned long long)off);
    for (uint64_t p = off >> MM_PAGE_SHIFT; p << MM_PAGE_SHIFT < off + bytes; p++) {
        const uint64_t mine = pieces(p, off, bytes);
        model_require(!absent[p / 64], "handed out: segment %u, which is not there", (uint32_t)p / 64);
        model_require(!(live[p] & mine), "handed out: %#llx, which is live", (unsigned long long)off);
        model_set(&live[p], live[p] | mine);
    }
    model_set(&sizes[off >> PIECE_SHIFT], bytes);
}
void world_drop(uint64_t off, uint64_t bytes) {
    for (uint64_t p = off >> MM_PAGE_SHIFT; p << MM_PAGE_SHIFT < off + bytes; p++) model_set(&live[p], live[p] & ~pieces(p, off, bytes));
    model_set(&sizes[off >> PIECE_SHIFT], 0);
}

static uint64_t request_bytes(uint32_t bytes) {
#ifdef MM_LISTED_UNITS_MAX
    if (bytes <= MM_SMALL_BYTES_MAX) return mm_listed_bytes(mm_listed_units(bytes));
#else
    if (bytes <= MM_SMALL_BYTES_MAX) return mm_class_bytes(mm_class_of(bytes));
#endif
    return mm_round_up(bytes, bytes + MM_PAGE_BYTES <= MM_SEGMENT_BYTES ? MM_PAGE_BYTES : MM_SEGMENT_BYTES);
}
void *world_malloc(uint32_t bytes, int must) {
    void *p = mm_heap_malloc(&ref, bytes);
    model_note("malloc", (uint64_t)p);
    model_require(p || !must, "NULL though memory was there all the time");
    if (p) world_take((uint64_t)p - ref.user_base - (bytes <= MM_SMALL_BYTES_MAX ? HEADER_BYTES : 0), request_bytes(bytes));
    model_progress();
    return p;
}
void world_free(void *p) {
    if (!p) return;
    const uint64_t off = ((uint64_t)p - ref.user_base) >> PIECE_SHIFT << PIECE_SHIFT;
    world_drop(off, sizes[off >> PIECE_SHIFT]);
    mm_heap_free(&ref, p);
    model_progress();
    model_note("freed", (uint64_t)p);
}
void *world_got(uint64_t address, uint32_t c) {
    model_note("got", address);
    if (address != 0) world_take(address - ref.user_base, ref.classes[c].bytes);
    model_progress();
    return (void *)address;
}
uint32_t world_fill(uint32_t bytes, void **p, uint32_t n) {
    uint32_t i = 0;
    while (i < n && (p[i] = world_malloc(bytes, 0)) != NULL) i++;
    return i;
}
uint32_t world_misuses(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MM_MISUSE_KINDS; i++) n += (uint32_t)HEAP->misuse[i];
    return n;
}
#ifdef MM_GALLATIN_TABLE_H
uint32_t world_free_slices(uint32_t c) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < mm_class_at(&ref, c)->count; e++) {
        const uint64_t entry = mm_table_load(&ref, c, e, 0);
        for (uint32_t w = 0; mm_entry_has(entry, c, w) && w < ref.classes[c].words; w++) {
            const uint64_t word = mm_page_words(&ref, mm_entry_page(entry))[w];
            if (mm_word_generation(word) == mm_entry_generation(entry)) n += mm_popcount(mm_word_free(word));
        }
    }
    return n;
}
#endif

/* ---- Quiescent checks ----------------------------------------------------------------------- */

static const char *const faults[] = {"",
#define FAULT_NAME(name, text) #name ": " text,
                                     MM_FAULTS(FAULT_NAME)};

/* The metadata at `off` describes an allocation of `bytes`. */
static void check_live(uint64_t off, uint64_t bytes) {
    const uint32_t page = (uint32_t)(off >> MM_PAGE_SHIFT), s = page / MM_SEGMENT_PAGES, owner = *mm_page_owner(&ref, page);
    model_require(!mm_check_in_tree(mm_segment_free_tree(&ref), s), "segment %u is free, and somebody holds a part of it", s);
    if (bytes <= MM_SMALL_BYTES_MAX) {
        const uint64_t left = mm_small_locate(&ref, (void *)(ref.user_base + off + HEADER_BYTES), ref.user_bytes);
        model_require(mm_deferred_kind(left) == MM_DEFERRED_SLICE && mm_small_size(&ref, left) == bytes - HEADER_BYTES,
                      "page %u, owner %u: %u bytes at %#llx are live, and the heap does not say so", page, owner, (uint32_t)bytes, (unsigned long long)off);
    } else if (bytes % MM_SEGMENT_BYTES == 0) {
        model_require(mm_run_segments(mm_segment_at(&ref, s)->run) * MM_SEGMENT_BYTES == bytes, "segment %u: a run is live here", s);
    } else {
        model_require(mm_owner_is_span(owner) && (uint64_t)mm_owner_span_pages(owner) << MM_PAGE_SHIFT == bytes,
                      "page %u: a span is live here, the owner is %u", page, owner);
    }
}

static uint64_t live_bytes(void) {
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < layout.segment_count * 64; p++) bytes += (uint64_t)mm_popcount(live[p]) << PIECE_SHIFT;
    return bytes;
}
void world_check(void) {
    memset(&result, 0, sizeof result);
    mm_heap_check_quiescent(&ref, 0, 1, &result);
    if (result.fault) model_fail(faults[result.fault], (uint32_t)result.at[0], (uint32_t)result.at[1], (uint32_t)result.at[2]);
    const uint64_t counted = result.live_bytes;
    memset(&result, 0, sizeof result); /* a value the log can restore */
    for (uint32_t p = 0; p < layout.segment_count * 64; p++)
        for (uint32_t i = 0; live[p] != 0 && i < 64; i++)
            if (sizes[p * 64 + i] != 0) check_live(((uint64_t)p * 64 + i) << PIECE_SHIFT, sizes[p * 64 + i]);
    model_require(HEAP->run_searches == 0, "%u searches for runs are counted, for ever", HEAP->run_searches);
#ifdef MM_GALLATIN_TABLE_H
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        model_require(mm_class_at(&ref, c)->makers == 0, "class %u: %u make blocks, for ever", c, mm_class_at(&ref, c)->makers);
        for (uint32_t i = 0; i < 1u << ref.classes[c].made_shift; i++)
            model_require(mm_made_index(*mm_made_at(&ref, c, i)) != MM_MADE_BUSY, "class %u: a block is being made, by nobody", c);
        for (uint32_t i = 0; i < mm_class_at(&ref, c)->count; i++) { /* stale entries count as holes */
            const uint64_t entry = mm_table_load(&ref, c, i, 0);
            const uint32_t page = mm_entry_page(entry);
            model_require(mm_entry_has(entry, c, 0) && mm_entry_class(entry) == c && page < layout.segment_count * 64 && *mm_page_index(&ref, page) == i &&
                              mm_word_generation(*mm_page_words(&ref, page)) == mm_entry_generation(entry),
                          "class %u: entry %u is no block", c, i);
        }
    }
#endif
    model_require(HEAP->grow.need == 0, "somebody waits for %u pages, for ever", (uint32_t)HEAP->grow.need);
    for (uint32_t r = 0; r < MM_ROOMS; r++) model_require(HEAP->opening[r] == 0, "somebody takes a fresh segment for room %u, for ever", r);
    for (uint32_t s = 0; s < layout.segment_count; s++) {
        /* The heap's own checker cannot require that: a segment that is not mapped yet is unowned, and not free. */
        const int is_free = mm_check_in_tree(mm_segment_free_tree(&ref), s);
        int is_somebodys = mm_segment_at(&ref, s)->run != MM_RUN_NONE || mm_segment_at(&ref, s)->pages != 0;
        for (uint32_t p = s * 64; p < s * 64 + 64; p++) is_somebodys |= *mm_page_owner(&ref, p) != MM_OWNER_NOBODY;
        model_require(is_somebodys || is_free || absent[s], "segment %u is nobody's, but not in the free tree: lost", s);
        model_require(!is_free || !absent[s], "segment %u is free, and not there", s);
    }
    model_require(live_bytes() == counted, "%llu bytes are live, the heap counts %llu: lost", (unsigned long long)live_bytes(), (unsigned long long)counted);
}
static void drain_and_check(void) {
    mm_slices_retire_all(&ref, 1);
    world_check();
    for (uint32_t s = 0; s < layout.segment_count; s++) {
        const uint64_t pages = mm_segment_at(&ref, s)->pages;
        int any = 0;
        for (uint32_t i = 0; i < 64; i++) {
            any |= live[s * 64 + i] != 0;
            model_require(live[s * 64 + i] == 0 || !(pages >> i & 1), "segment %u: page %u is free and live", s, i);
            if (live[s * 64 + i] != 0 || pages >> i & 1 || pages == 0) continue;
            const uint32_t owner = *mm_page_owner(&ref, s * 64 + i); /* of a block of two pages, or of one with another slice live */
            model_require(owner != MM_OWNER_NOBODY, "segment %u: page %u is nobody's, but not free", s, i);
        }
        model_require(any || absent[s] || mm_check_in_tree(mm_segment_free_tree(&ref), s), "segment %u: nothing is live there, and it is not nobody's", s);
    }
}
void world_check_drained(void) {
    world_check();
    model_scratch(drain_and_check);
}

#ifdef MM_OURO_CLASSES
/* Whether the byte so many before the end of the table, at least one, is one of a slot. */
static int is_slot(uint64_t before) {
#if MM_OURO_QUEUE != MM_OURO_S
    return sizeof(struct mm_store) - 1 - (before - 1) % sizeof(struct mm_store) >= offsetof(struct mm_store, slot);
#endif
    return (void)before, 1;
}
#endif
/* Counters that are never read; estimates of free memory; what the host is told but need not act on; constants. */
int model_is_private(const void *p, enum model_op op) {
    const uint64_t at = (uint64_t)p, counts = (uint64_t)&HEAP->null_count, page = at - ref.owners;
#ifdef MM_OURO_CLASSES
    /* slots that are cleared before anybody comes to them; in the models of the queues these are steps */
    if (op == MODEL_STORE && at >= ref.owners + layout.segment_count * MM_SEGMENT_PAGES && at < ref.words && MM_OURO_STORE_SHIFT > 1)
        return is_slot(ref.words - at);
#endif
    (void)op;
    if (p == &HEAP->grow.waits || p == &HEAP->grow.waited_ns || p == &HEAP->grow.need || p == &mailbox.need) return 1;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        if (p == &((struct mm_class_state *)ref.classes_at)[c].stays_ns) return 1;
    if (at >= (uint64_t)&HEAP->grow && at < (uint64_t)(&HEAP->grow + 1)) return ref.mailbox == 0; /* else they never change */
    if (at >= counts && at < (uint64_t)&HEAP->grow) return 1;
    return page < layout.segment_count * 64 && held[page / 64] >> (page % 64) & 1;
}

/* ---- Names for schedules -------------------------------------------------------------------- */

static int name_tree(const uint64_t *p, struct mm_tree t, const char *what, char *out, uint32_t n) {
    const int64_t i = p - t.node;
    if (i < 0 || i >= (int64_t)(t.roots + t.mids + HEAP->tree_leaves)) return 0;
    if (i < t.roots) snprintf(out, n, "%s root", what);
    else if (i < (int64_t)(t.roots + t.mids)) snprintf(out, n, "%s mid %d", what, (int)i - (int)t.roots);
    else snprintf(out, n, "%s leaf %d", what, (int)(i - t.roots - t.mids));
    return 1;
}
static void name_class(uint64_t in, uint32_t c, char *out, uint32_t n) {
    static const char *const words[] = {"count", "tickets", "lock"};
    if (in == __builtin_offsetof(struct mm_class_state, round)) snprintf(out, n, "class%u round", c);
    else if (in == __builtin_offsetof(struct mm_class_state, until)) snprintf(out, n, "class%u until", c);
    else if (in == __builtin_offsetof(struct mm_class_state, makers)) snprintf(out, n, "class%u makers", c);
    else if (in == __builtin_offsetof(struct mm_class_state, swept)) snprintf(out, n, "class%u swept", c);
    else if (in / 128 < 3) snprintf(out, n, "class%u %s", c, words[in / 128]);
    else snprintf(out, n, "class%u cursor[%u]", c, (uint32_t)((in - offsetof(struct mm_class_state, cursor)) / sizeof(struct mm_cursor)));
}
void model_name_address(const void *p, char *out, uint32_t n) {
    const uint64_t a = (uint64_t)p;
    const struct mm_heap *h = HEAP;
    char what[24];
    if (p == &mailbox.wanted || p == &mailbox.answer) {
        snprintf(out, n, p == &mailbox.wanted ? "wanted" : "answer");
        return;
    }
    if (name_tree(p, mm_segment_free_tree(&ref), "free", out, n)) return;
    for (uint32_t k = 0; k < MM_ROOMS; k++) {
        snprintf(what, sizeof what, "room%u", k);
        if (name_tree(p, mm_segment_room_tree(&ref, k), what, out, n)) return;
    }
    if (a >= ref.words) {
        const uint64_t i = (a - ref.words) / 8;
        snprintf(out, n, "word[%u][%u]", (uint32_t)(i >> ref.word_shift), (uint32_t)(i & ((1u << ref.word_shift) - 1)));
    } else if (a >= ref.owners + layout.segment_count * MM_SEGMENT_PAGES) {
        const uint64_t i = (ref.words - a) / 8;
        snprintf(out, n, "table[%u][%u]", (uint32_t)((i - 1) / MM_EXTENT), (uint32_t)((0 - i) % MM_EXTENT));
    } else if (a >= ref.owners) {
        snprintf(out, n, "owner[%u]", (uint32_t)(a - ref.owners));
    } else if (a >= ref.firsts) {
        const uint64_t i = (a - ref.firsts) / 8;
        snprintf(out, n, "first[%u][%u]", (uint32_t)(i / MM_EXTENT), (uint32_t)(i % MM_EXTENT));
    } else if (a >= ref.made) {
        const uint32_t i = (uint32_t)((a - ref.made) / 8);
        uint32_t c = 0;
        while (c + 1 < MM_CLASS_COUNT && ref.classes[c + 1].made <= i) c++;
        snprintf(out, n, "made[%u][%u]", c, i - ref.classes[c].made);
    } else if (a >= ref.directory) {
        snprintf(out, n, "directory[%u]", (uint32_t)(a - ref.directory) / 4);
    } else if (a < ref.heap) {
        const uint64_t before = ref.heap - a, s = (before - 1) / sizeof(struct mm_segment), in = (s + 1) * sizeof(struct mm_segment) - before;
        if (in < offsetof(struct mm_segment, index)) snprintf(out, n, "%s[%u]", in < 8 ? "pages" : "run", (uint32_t)s);
        else snprintf(out, n, "index[%u]", (uint32_t)(s * MM_SEGMENT_PAGES + (in - offsetof(struct mm_segment, index)) / 4));
    } else if (a >= ref.classes_at) {
        name_class((a - ref.classes_at) % sizeof(struct mm_class_state), (uint32_t)((a - ref.classes_at) / sizeof(struct mm_class_state)), out, n);
    } else if (a >= (uint64_t)&h->grow && a < (uint64_t)(&h->grow + 1)) {
        static const char *const words[] = {"mapped", "refused", "refused_at", "lock", "asked", "taken", "late", "waits", "waited", "reached"};
        snprintf(out, n, "grow %s", words[(a - (uint64_t)&h->grow) / 8 % 10]);
    } else {
        snprintf(out, n,
                 p == &h->giving_up                                                   ? "giving up"
                 : p == &h->extents                                                   ? "extents"
                 : a >= (uint64_t)h->opening && a < (uint64_t)(h->opening + MM_ROOMS) ? "opening"
                                                                                      : "heap+%d",
                 (int)(a - (uint64_t)h));
    }
}
