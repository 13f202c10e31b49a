/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "world.h"

#include "../unit/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mm_heap_ref ref;
uint64_t cell[16];
static struct mm_layout layout;
static unsigned char *metadata, *before_drain, *fresh;
static uint64_t metadata_bytes;
/* Of each segment: bit i, its 64th part i is live; and of each 64th part at which an allocation begins its bytes. */
static uint64_t live[WORLD_SEGMENTS_MAX], sizes[WORLD_SEGMENTS_MAX * 64];
#define PIECE_SHIFT (MM_SEGMENT_SHIFT - 6)
static struct mm_check result;
struct mm_mailbox mailbox;
static uint64_t absent[WORLD_SEGMENTS_MAX];

void world_make(uint32_t segments) {
    if (segments > WORLD_SEGMENTS_MAX || mm_layout_make(&layout, segments, 128) != 0) abort();
    if (metadata_bytes < layout.total_bytes) {
        free(metadata), free(before_drain), free(fresh);
        metadata_bytes = mm_round_up(layout.total_bytes, 128);
        metadata = aligned_alloc(128, metadata_bytes);
        before_drain = malloc(metadata_bytes);
        fresh = malloc(metadata_bytes);
        if (!metadata || !before_drain || !fresh) abort();
    }
    memset(metadata, 0, layout.total_bytes);
    memset(live, 0, sizeof live);
    memset(sizes, 0, sizeof sizes);
    memset(cell, 0, sizeof cell);
    memset(absent, 0, sizeof absent);
    memset(&mailbox, 0, sizeof mailbox);
    mm_heap_image(metadata, &layout, (uint64_t)(uintptr_t)metadata, 1ull << 40, segments);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) model_homes[t] = t;
    world_lots(0, 0, 0);
}
void world_lots(uint32_t ahead, uint32_t row_shift, uint32_t reserve_ahead) {
    struct mm_heap *h = (struct mm_heap *)metadata;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        struct mm_class *class_ = &h->ref.classes[c];
        class_->row_lot_shift = (uint8_t)(class_->row_lot_shift - class_->row_shift + row_shift);
        class_->ahead = (uint8_t)ahead, class_->row_shift = (uint8_t)row_shift, class_->reserve_ahead = (uint8_t)reserve_ahead;
    }
    memcpy(fresh, metadata, layout.bits_offset);
    ref = h->ref;
}
void world_grows(uint32_t from, uint32_t polls) {
    struct mm_heap *h = (struct mm_heap *)metadata;
    for (uint32_t s = from; s < layout.segment_count; s++) {
        mm_tree_erase(mm_segment_free_tree(&h->ref), s);
        absent[s] = 1;
    }
    h->free_count = h->grow.mapped = from;
    h->grow.scarce = 0;
    h->ref.mailbox = (uint64_t)(uintptr_t)&mailbox;
    h->ref.grow_polls = polls;
    memcpy(fresh, metadata, layout.bits_offset);
    ref = h->ref;
}
void world_map(uint32_t first, uint32_t count, int is_there) {
    for (uint32_t s = first; s < first + count; s++) {
        model_require(is_there || live[s] == 0, "segment %u is unmapped, and a part of it is live", s);
        model_set(&absent[s], !is_there);
    }
}
void world_late_tickets(uint32_t bytes, uint32_t lots) {
    const uint32_t c = mm_class_of(bytes), shift = ref.classes[c].lot_shift, m = (1u << (32 - shift)) - lots;
    for (uint32_t k = 0; k < MM_STRIPES; k++) {
        struct mm_ring *ring = mm_ring_at(&ref, c, k);
        ring->tickets = m << shift;
        for (uint32_t i = 0; i < MM_RING; i++) {
            const uint32_t lot = mm_lot_after(ring->tickets >> shift, i, shift), before = mm_lot_after(ring->tickets >> shift, i - MM_RING, shift);
            ring->slot[lot % MM_RING].what = mm_lot_tag(i < ref.classes[c].ahead ? lot : before) | MM_LOT_NONE;
            ring->slot[lot % MM_RING].taken = lot >> MM_RING_SHIFT << shift;
        }
    }
}
void world_same_home(void) { memset(model_homes, 0, sizeof model_homes); }

/* The part of [off, off + bytes) that is in segment s, as bits of live. */
static uint64_t pieces(uint64_t s, uint64_t off, uint64_t bytes) {
    const uint64_t base = s << MM_SEGMENT_SHIFT, end = off + bytes - base;
    const uint64_t from = off > base ? off - base : 0, to = end < MM_SEGMENT_BYTES ? end : MM_SEGMENT_BYTES;
    return mm_bits_low((uint32_t)(to >> PIECE_SHIFT)) & ~mm_bits_low((uint32_t)(from >> PIECE_SHIFT));
}
void world_take(uint64_t off, uint64_t bytes) {
    model_require(off + bytes <= ref.user_bytes, "handed out: %#llx, outside the heap", (unsigned long long)off);
    for (uint64_t s = off >> MM_SEGMENT_SHIFT; s << MM_SEGMENT_SHIFT < off + bytes; s++) {
        const uint64_t mine = pieces(s, off, bytes);
        model_require(!absent[s], "handed out: segment %u, which is not there", (uint32_t)s);
        model_require(!(live[s] & mine), "handed out: %#llx, which is live", (unsigned long long)off);
        model_set(&live[s], live[s] | mine);
    }
    model_set(&sizes[off >> PIECE_SHIFT], bytes);
}
void world_drop(uint64_t off, uint64_t bytes) {
    for (uint64_t s = off >> MM_SEGMENT_SHIFT; s << MM_SEGMENT_SHIFT < off + bytes; s++)
        model_set(&live[s], live[s] & ~pieces(s, off, bytes));
    model_set(&sizes[off >> PIECE_SHIFT], 0);
}

static uint64_t request_bytes(uint32_t bytes) {
    return bytes <= MM_SLICE_BYTES_MAX ? mm_class_bytes(mm_class_of(bytes)) : mm_round_up(bytes, MM_SEGMENT_BYTES);
}
void *world_malloc(uint32_t bytes, int must) {
    void *p = mm_heap_malloc(&ref, bytes);
    model_note("malloc", (uint64_t)p);
    model_require(p || !must, "NULL though memory was there all the time");
    if (p) world_take((uint64_t)p - ref.user_base, request_bytes(bytes));
    model_progress();
    return p;
}
void world_free(void *p) {
    if (!p) return;
    const uint64_t off = (uint64_t)p - ref.user_base;
    world_drop(off, sizes[off >> PIECE_SHIFT]);
    mm_heap_free(&ref, p);
    model_progress();
    model_note("freed", (uint64_t)p);
}
static void *got_slice(uint32_t c, uint64_t off) {
    model_note("got", off);
    world_take(off, mm_class_bytes(c));
    return (void *)(ref.user_base + off);
}
uint32_t world_got(mm_claim claim, uint32_t c, void **p) {
    const uint32_t count = mm_claim_count(claim);
    for (uint32_t rank = 0; rank < count; rank++) p[rank] = got_slice(c, mm_claim_offset(ref.classes[c], claim, rank));
    return count;
}
struct gets {
    uint32_t c, n;
    void **p;
};
static void warp_got(void *to, uint64_t off) {
    struct gets *gets = to;
    model_require(gets->n > 0, "more than was asked for");
    *gets->p++ = got_slice(gets->c, off);
    gets->n--;
}
uint32_t world_malloc_warp(uint32_t bytes, uint32_t n, void **p, int must) {
    const uint32_t c = mm_class_of(bytes), k = mm_home() & ref.classes[c].stripe_mask;
    struct gets gets = {c, n, p};
    const uint32_t served = unit_serve_by(&ref, c, n, k, mm_ring_draw(mm_ring_at(&ref, c, k), n), warp_got, &gets);
    model_require(served == n || !must, "NULL though memory was there all the time");
    model_progress();
    return served;
}
uint32_t world_fill(uint32_t bytes, void **p, uint32_t n) {
    uint32_t i = 0;
    while (i < n && (p[i] = world_malloc(bytes, 0)) != NULL) i++;
    return i;
}
void world_hold_run(uint32_t s) {
    mm_tree_erase(mm_segment_free_tree(&HEAP->ref), s);
    HEAP->free_count--;
    mm_store_relaxed_u64(&mm_segment_at(&ref, s)->owner, MM_OWNER_RUN | 1 << MM_OWNER_LENGTH_SHIFT);
    world_take((uint64_t)s << MM_SEGMENT_SHIFT, MM_SEGMENT_BYTES);
}
void world_forget_dry(void) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) HEAP->classes[c].dry = HEAP->classes[c].rich = 0;
}
uint32_t world_misuses(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MM_MISUSE_KINDS; i++) n += (uint32_t)HEAP->misuse[i];
    return n;
}

/* ---- Quiescent checks ----------------------------------------------------------------------- */

static const char *const faults[] = {"",
#define FAULT_NAME(name, text) #name ": " text,
                                     MM_FAULTS(FAULT_NAME)};

/* What stands at `off` is an allocation of `bytes`. */
static void check_live(uint64_t off, uint64_t bytes) {
    const uint32_t s = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    const struct mm_segment *at = mm_segment_at(&ref, s);
    const uint32_t kind = MM_OWNER_KIND(at->owner);
    model_require(!mm_check_in_tree(mm_segment_free_tree(&HEAP->ref), s), "segment %u is free, and somebody holds a part of it", s);
    if (bytes > MM_SLICE_BYTES_MAX) {
        model_require(kind == MM_OWNER_RUN, "segment %u: a run is live here, the owner is %u", s, kind);
        return;
    }
    const uint32_t c = mm_class_of((uint32_t)bytes), i = (uint32_t)(off % MM_SEGMENT_BYTES) / mm_class_bytes(c);
    model_require(kind == c + 1, "segment %u: a slice of class %u is live here, the owner is %u", s, c, kind);
    model_require(!(mm_segment_bits(&ref, s)[i >> MM_WORD_SHIFT] >> (i % (1u << MM_WORD_SHIFT)) & 1),
                  "segment %u: slice %u is live, and marked free", s, i);
    model_require(!(at->whole >> (i >> mm_class_block_shift(c)) & 1), "segment %u: slice %u is live in a whole block", s, i);
}

void world_check(void) {
    uint64_t bytes = 0;
    memset(&result, 0, sizeof result);
    mm_heap_check_quiescent(&ref, 0, 1, &result);
    if (result.fault) model_fail(faults[result.fault], (uint32_t)result.at[0], (uint32_t)result.at[1], (uint32_t)result.at[2]);
    memset(&result, 0, sizeof result); /* what the log takes back later is this */
    for (uint32_t i = 0; i < layout.segment_count * 64; i++)
        if (sizes[i] != 0) check_live((uint64_t)i << PIECE_SHIFT, sizes[i]);
    for (uint32_t s = 0; s < layout.segment_count; s++) {
        bytes += (uint64_t)mm_popcount(live[s]) << PIECE_SHIFT;
        /* The heap's own checker cannot ask for that: a segment that is not mapped yet is nobody's, and not free. */
        const int is_free = mm_check_in_tree(mm_segment_free_tree(&HEAP->ref), s);
        model_require(mm_segment_at(&ref, s)->owner != MM_OWNER_NOBODY || is_free || absent[s],
                      "segment %u is nobody's, but not in the free tree: lost", s);
        model_require(!is_free || !absent[s], "segment %u is free, and not there", s);
    }
    mm_heap_check_quiescent(&ref, 0, 1, &result);
    model_require(bytes == result.live_bytes, "%llu bytes are live, the heap counts %llu: lost", (unsigned long long)bytes,
                  (unsigned long long)result.live_bytes);
}

static void check_fresh(void) {
    struct mm_heap *h = HEAP;
    memset(h->misuse, 0, sizeof h->misuse);
    h->null_count = h->null_first_bytes = h->null_first_grid = 0;
    if (ref.mailbox != 0) return; /* it has grown */
    for (uint64_t i = 0; i < layout.bits_offset / 8; i++) {
        char name[64];
        if (((uint64_t *)metadata)[i] == ((uint64_t *)fresh)[i]) continue;
        model_name_address((uint64_t *)metadata + i, name, sizeof name);
        model_fail("all is free and drained, but %s is %#llx", name, (unsigned long long)((uint64_t *)metadata)[i]);
    }
}
static void drain_and_check(void) {
    uint64_t any = 0;
    for (uint32_t pass = 0; pass < 2; pass++) mm_heap_drain_quiescent(&ref, pass, 0, 1);
    world_check();
    for (uint32_t s = 0; s < layout.segment_count; s++) any |= live[s];
    if (!any) check_fresh();
}
/* The drain also writes plainly. */
void world_check_drained(void) {
    world_check();
    memcpy(before_drain, metadata, layout.bits_offset);
    model_scratch(drain_and_check);
    memcpy(metadata, before_drain, layout.bits_offset);
}

/* Counts that nobody reads; guesses, which are as good when they are a step older (how much is free, how much has come back); and
 * what belongs to classes that no scenario uses. */
int model_is_private(const void *p, enum model_op op) {
    const uint64_t at = (uint64_t)p, classes = (uint64_t)HEAP->classes, counts = (uint64_t)&HEAP->null_count;
    (void)op;
    if (p == &HEAP->grow.waits || p == &HEAP->grow.waited_ns) return 1;
    if (at >= (uint64_t)&HEAP->grow && at < (uint64_t)(&HEAP->grow + 1)) return ref.mailbox == 0; /* else they never change */
    if (p == &HEAP->free_near || (at >= counts && at < (uint64_t)HEAP->version)) return 1;
    if (at < classes || at >= classes + sizeof HEAP->classes) return 0;
    const uint32_t c = (uint32_t)((at - classes) / sizeof HEAP->classes[0]);
    return p != &HEAP->classes[c].dry;
}

/* ---- Names for schedules -------------------------------------------------------------------- */

static int name_tree(const uint64_t *p, struct mm_tree t, const char *what, char *out, uint32_t n) {
    const int64_t i = p - t.node;
    if (i < 0 || i >= (int64_t)(1 + HEAP->ref.tree_mids + HEAP->tree_leaves)) return 0;
    if (i == 0) snprintf(out, n, "%s root", what);
    else if (i <= (int64_t)HEAP->ref.tree_mids) snprintf(out, n, "%s mid %d", what, (int)i - 1);
    else snprintf(out, n, "%s leaf %d", what, (int)(i - 1 - (int64_t)HEAP->ref.tree_mids));
    return 1;
}
static void name_segment(uint64_t in, uint32_t s, char *out, uint32_t n) {
    static const char *const words[] = {"owner", "unissued", "whole", "avail"};
    snprintf(out, n, "%s[%u]", words[in / 8], s);
}
static void name_blocks(uint64_t in, uint32_t s, char *out, uint32_t n) {
    const uint64_t openers = __builtin_offsetof(struct mm_blocks, opener);
    if (in < openers) snprintf(out, n, "words[%u][%u]", s, (uint32_t)in / 8);
    else snprintf(out, n, "opener[%u][%u]", s, (uint32_t)(in - openers) / 4);
}
static void name_ring(uint64_t in, uint32_t c, char *out, uint32_t n) {
    const uint32_t k = in / sizeof(struct mm_ring) < MM_STRIPES ? (uint32_t)(in / sizeof(struct mm_ring)) : MM_STRIPES;
    const uint64_t slots = __builtin_offsetof(struct mm_ring, slot), blocks = __builtin_offsetof(struct mm_ring, blocks);
    in -= k * sizeof(struct mm_ring);
    const uint32_t slot = (uint32_t)((in - slots) / sizeof(struct mm_slot));
    const char *what = k < MM_STRIPES ? "stripe" : "reserve";
    if (in < slots) snprintf(out, n, "class%u %s%u tickets", c, what, k);
    else if (in < blocks) snprintf(out, n, "class%u %s%u %s[%u]", c, what, k, (in - slots) % sizeof(struct mm_slot) ? "taken" : "lot", slot);
    else snprintf(out, n, "class%u %s%u blocks[%u]", c, what, k, (uint32_t)(in - blocks) / 8);
}
void model_name_address(const void *p, char *out, uint32_t n) {
    const uint64_t a = (uint64_t)p;
    if (p == &mailbox.wanted || p == &mailbox.answer) {
        snprintf(out, n, p == &mailbox.wanted ? "wanted" : "answer");
        return;
    }
    const struct mm_heap *h = HEAP;
    char what[24];
    if (name_tree(p, mm_segment_free_tree(&HEAP->ref), "free", out, n)) return;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        snprintf(what, sizeof what, "class%u whole", c);
        if (name_tree(p, mm_segment_class_tree(&HEAP->ref, c, MM_WHOLE), what, out, n)) return;
        snprintf(what, sizeof what, "class%u avail", c);
        if (name_tree(p, mm_segment_class_tree(&HEAP->ref, c, MM_AVAIL), what, out, n)) return;
    }
    if (a >= ref.bits) {
        const uint64_t word = (a - ref.bits) / 8;
        snprintf(out, n, "bits[%u][%u]", (uint32_t)(word / MM_SEGMENT_WORDS), (uint32_t)(word % MM_SEGMENT_WORDS));
    } else if (a >= ref.blocks) {
        const uint64_t in = a - ref.blocks;
        name_blocks(in % sizeof(struct mm_blocks), (uint32_t)(in / sizeof(struct mm_blocks)), out, n);
    } else if (a >= ref.segments) {
        const uint64_t in = a - ref.segments;
        name_segment(in % sizeof(struct mm_segment), (uint32_t)(in / sizeof(struct mm_segment)), out, n);
    } else if (a >= ref.rings) {
        name_ring((a - ref.rings) % MM_RINGS_BYTES, (uint32_t)((a - ref.rings) / MM_RINGS_BYTES), out, n);
    } else if (a >= (uint64_t)h->classes) {
        const uint32_t c = (uint32_t)((a - (uint64_t)h->classes) / sizeof h->classes[0]);
        snprintf(out, n, "class%u %s", c, p == &h->classes[c].dry ? "dry" : p == &h->classes[c].rich ? "rich" : "segments");
    } else if (a >= (uint64_t)h->version) {
        snprintf(out, n, "version[%u]", (uint32_t)(a - (uint64_t)h->version) / (uint32_t)sizeof(struct mm_counter));
    } else if (a >= (uint64_t)&h->grow && a < (uint64_t)(&h->grow + 1)) {
        static const char *const words[] = {"mapped", "scarce", "refused", "refused_at", "lock", "asked", "taken", "late", "late"};
        snprintf(out, n, "grow %s", words[(a - (uint64_t)&h->grow) / 8 % 9]);
    } else {
        snprintf(out, n, p == &h->classes_used ? "classes_used" : p == &h->free_near ? "free near" : p == &h->free_count ? "free count" : "heap+%d",
                 (int)(a - (uint64_t)h));
    }
}
