#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mm_heap_ref ref;
uint64_t cell[16];
static struct mm_layout layout;
static unsigned char *metadata;
static uint64_t metadata_bytes;
/* Per granule: holder + 1 of it as a whole, or (slices) one bit for each 1/64 of it that is live. */
static uint64_t held[WORLD_SEGMENTS_MAX * MM_SEGMENT_GRANULES], live[WORLD_SEGMENTS_MAX * MM_SEGMENT_GRANULES];
#define PIECE_SHIFT (MM_GRANULE_SHIFT - 6)

void world_make(uint32_t segments) {
    if (mm_layout_make(&layout, segments, 128) != 0) abort();
    if (metadata_bytes < layout.total_bytes) {
        free(metadata);
        metadata = aligned_alloc(128, mm_round_up(layout.total_bytes, 128));
        metadata_bytes = layout.total_bytes;
    }
    memset(metadata, 0, layout.total_bytes);
    memset(held, 0, sizeof held);
    memset(live, 0, sizeof live);
    memset(cell, 0, sizeof cell);
    mm_heap_image(metadata, &layout, (uint64_t)(uintptr_t)metadata, 1ull << 40, segments);
    ref = ((struct mm_heap *)metadata)->ref;
}

void world_take(uint32_t first, uint32_t n) {
    for (uint32_t g = first; g < first + n; g++) {
        model_require(held[g] == 0, "granule %u is handed out to %c and to %c at once", g, (char)('A' + held[g] - 1),
                      (char)('A' + model_self()));
        model_set(&held[g], model_self() + 1);
    }
}
void world_drop(uint32_t first, uint32_t n) {
    for (uint32_t g = first; g < first + n; g++) model_set(&held[g], 0);
}

static uint64_t request_bytes(uint32_t bytes) {
    return bytes <= MM_SLICE_BYTES_MAX ? mm_class_bytes(mm_class_of(bytes)) : mm_round_up(bytes, MM_SEGMENT_BYTES);
}
static uint64_t sizes[WORLD_SEGMENTS_MAX * MM_SEGMENT_GRANULES * 4]; /* by 16th of a granule */
static uint64_t *size_of(uint64_t off) { return &sizes[off >> (MM_GRANULE_SHIFT - 2)]; }

void *world_malloc(uint32_t bytes, int must) {
    void *p = mm_heap_malloc(&ref, bytes);
    model_note("malloc", (uint64_t)p);
    model_require(p || !must, "NULL though memory was there all the time");
    model_progress();
    if (!p) return NULL;
    const uint64_t off = (uint64_t)p - ref.user_base, n = request_bytes(bytes);
    model_require(off + n <= ref.user_bytes, "malloc gave an address outside the heap");
    for (uint64_t at = off; at < off + n; at += 1u << PIECE_SHIFT) {
        uint64_t *word = &live[at >> MM_GRANULE_SHIFT];
        const uint64_t bit = 1ull << (at >> PIECE_SHIFT & 63);
        model_require(!(*word & bit), "malloc gave offset %#llx, which is live", (unsigned long long)off);
        model_set(word, *word | bit);
    }
    model_set(size_of(off), bytes);
    return p;
}
void world_free(void *p) {
    const uint64_t off = (uint64_t)p - ref.user_base, n = request_bytes((uint32_t)*size_of(off));
    for (uint64_t at = off; at < off + n; at += 1u << PIECE_SHIFT) {
        uint64_t *word = &live[at >> MM_GRANULE_SHIFT];
        model_set(word, *word & ~(1ull << (at >> PIECE_SHIFT & 63)));
    }
    mm_heap_free(&ref, p);
    model_progress();
    model_note("freed", (uint64_t)p);
}
void world_hold_run(uint32_t s) {
    mm_tree_erase(mm_segment_free_tree(HEAP), s);
    *mm_segment_owner(HEAP, s) = MM_OWNER_RUN | 1 << MM_OWNER_LENGTH_SHIFT;
    *mm_block_ctrl(&ref, s * MM_SEGMENT_GRANULES) = MM_KIND_RUN;
    for (uint32_t g = 0; g < MM_SEGMENT_GRANULES; g++) live[s * MM_SEGMENT_GRANULES + g] = ~0ull;
}
uint32_t world_misuses(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MM_MISUSE_KINDS; i++) n += (uint32_t)HEAP->misuse[i];
    return n;
}

/* ---- Quiescent checks ----------------------------------------------------------------------- */

static int in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }

static void check_tree(struct mm_tree t, const char *name) {
    for (uint32_t leaf = 0; leaf < HEAP->tree_leaves; leaf++) {
        if (*mm_tree_leaf(t, leaf * 64) == 0) continue;
        model_require(t.node[1 + leaf / 64] >> (leaf % 64) & 1, "%s tree: leaf %u is not announced", name, leaf);
        model_require(t.node[0] >> (leaf / 64) & 1, "%s tree: mid %u is not announced", name, leaf / 64);
    }
}

static int granule_held(uint32_t g) { return held[g] != 0 || live[g] != 0; }

static void check_block(uint32_t b, uint32_t c) {
    const uint32_t n = mm_class_block_granules(c), capacity = mm_class_capacity(c);
    if (held[b]) return; /* a scenario of segments holds it; no block was opened */
    const uint64_t ctrl = *mm_block_ctrl(&ref, b);
    model_require(mm_ctrl_kind(ctrl) == c + 1, "block %u: neither free nor open: lost", b);
    uint64_t count = mm_ctrl_count(ctrl), full = 0;
    if (count < capacity) {
        const uint64_t is = HEAP->classes[c].stripe[mm_group_first(mm_ctrl_group(ctrl))];
        model_require(mm_stripe_state(is) == MM_STRIPE_BLOCK && mm_stripe_block(is) == b,
                      "block %u has tickets left and is in no stripe: lost", b);
    }
    if (count > capacity) count = capacity;
    for (uint32_t g = 1; g < n; g++)
        model_require(mm_ctrl_kind(*mm_block_ctrl(&ref, b + g)) == MM_KIND_BODY + c, "block %u: body %u", b, g);
    for (uint32_t i = 0; i < mm_class_words(c); i++) full += mm_block_bits(&ref, b)[i] == ~0ull;
    model_require(full == *mm_block_full_words(&ref, b), "block %u: full words miscounted", b);
    model_require(full < mm_class_words(c), "block %u: all free, not retired", b);
    for (uint32_t at = 0; at < capacity; at++) {
        const uint64_t off = ((uint64_t)b << MM_GRANULE_SHIFT) + (uint64_t)at * mm_class_bytes(c);
        const int is_live = (int)(live[off >> MM_GRANULE_SHIFT] >> (off >> PIECE_SHIFT & 63) & 1);
        const int is_free = (int)(mm_block_bits(&ref, b)[at / 64] >> (at % 64) & 1);
        model_require(is_free == (at < count && !is_live), "block %u, slice %u: live %d, free bit %d", b, at, is_live, is_free);
    }
}

static void check_stripes(uint32_t c) {
    const uint64_t *stripes = HEAP->classes[c].stripe;
    for (uint32_t i = 0; i < MM_STRIPES;) {
        const uint64_t is = stripes[i];
        const uint32_t group = mm_stripe_group(is);
        model_require(mm_group_first(group) == i, "class %u: stripe %u is in no group", c, i);
        model_require(mm_stripe_state(is) != MM_STRIPE_BUSY, "class %u: stripe %u is busy, nobody refills it", c, i);
        for (uint32_t j = i; j < i + mm_group_size(group); j++)
            model_require(stripes[j] == is, "class %u: stripe %u is not what its group is", c, j);
        i += mm_group_size(group);
        if (mm_stripe_state(is) != MM_STRIPE_BLOCK) continue;
        const uint64_t ctrl = *mm_block_ctrl(&ref, mm_stripe_block(is));
        model_require(mm_ctrl_kind(ctrl) == c + 1 && mm_ctrl_group(ctrl) == group && mm_ctrl_count(ctrl) < mm_class_capacity(c),
                      "class %u: group %#x names a block that is not open for it", c, group);
    }
}

void world_check(void) {
    struct mm_heap *h = HEAP;
    check_tree(mm_segment_free_tree(h), "free");
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        check_tree(mm_segment_class_tree(h, c), "class");
        model_require(h->classes[c].fetching == 0, "class %u: fetching is %llu", c, (unsigned long long)h->classes[c].fetching);
        check_stripes(c);
    }
    for (uint32_t s = 0; s < h->segment_count; s++) {
        const uint64_t owner = *mm_segment_owner(h, s), word = *mm_segment_word(h, s);
        const uint32_t kind = (uint32_t)MM_OWNER_KIND(owner), first = s * MM_SEGMENT_GRANULES;
        const int is_free = in_tree(mm_segment_free_tree(h), s);
        int any = 0;
        for (uint32_t g = 0; g < MM_SEGMENT_GRANULES; g++) any |= granule_held(first + g);
        if (is_free || kind == MM_OWNER_NOBODY) {
            model_require(is_free && kind == MM_OWNER_NOBODY, "segment %u: owner %u, in free tree: %d", s, kind, is_free);
            model_require(word == 0, "free segment %u: word %#llx", s, (unsigned long long)word);
            model_require(!any, "segment %u is free, and somebody holds a part of it", s);
            for (uint32_t g = first; g < first + MM_SEGMENT_GRANULES; g++) {
                const uint32_t k = mm_ctrl_kind(*mm_block_ctrl(&ref, g));
                model_require(k == MM_KIND_CLOSED || k >= MM_KIND_BODY, "free segment %u: granule %u is of kind %u", s, g, k);
            }
        } else if (kind <= MM_CLASS_COUNT) {
            const uint64_t all = mm_class_segment_mask(kind - 1);
            model_require((word & ~all) == 0 && word != all, "segment %u: word %#llx", s, (unsigned long long)word);
            model_require(word == 0 || in_tree(mm_segment_class_tree(h, kind - 1), s), "segment %u is not listed: lost", s);
            for (uint64_t rest = all; rest; rest &= rest - 1) {
                const uint32_t b = first + mm_ctz(rest);
                if (!(word >> mm_ctz(rest) & 1)) { check_block(b, kind - 1); continue; }
                for (uint32_t g = b; g < b + mm_class_block_granules(kind - 1); g++)
                    model_require(!granule_held(g), "block %u is free, and somebody holds a part of it", b);
            }
        } else if (kind == MM_OWNER_RUN) {
            const uint32_t n = (uint32_t)(owner >> MM_OWNER_LENGTH_SHIFT);
            model_require(n && s + n <= h->segment_count, "run %u: length %u", s, n);
            model_require(mm_ctrl_kind(*mm_block_ctrl(&ref, first)) == MM_KIND_RUN, "run %u: control word", s);
            for (uint32_t i = s; i < s + n; i++) {
                model_require(i == s || *mm_segment_owner(h, i) == MM_OWNER_RUN_BODY, "run %u: body %u", s, i);
                model_require(!in_tree(mm_segment_free_tree(h), i) && *mm_segment_word(h, i) == 0, "run %u: %u is free", s, i);
                model_require(live[i * MM_SEGMENT_GRANULES] != 0, "run %u: nobody has it: lost", s);
            }
            s += n - 1;
        } else {
            model_fail("segment %u: owner %#llx", s, (unsigned long long)owner);
        }
    }
}

void world_check_drained(void) {
    struct mm_heap *h = HEAP;
    world_check();
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        for (uint32_t i = 0; i < MM_STRIPES; i++) {
            const uint64_t is = h->classes[c].stripe[i];
            model_set(&h->classes[c].stripe[i], 0);
            if (mm_stripe_state(is) != MM_STRIPE_BLOCK || mm_group_first(mm_stripe_group(is)) != i) continue;
            const uint32_t b = mm_stripe_block(is), capacity = mm_class_capacity(c);
            const uint64_t count = mm_ctrl_count(*mm_block_ctrl(&ref, b));
            model_set(mm_block_ctrl(&ref, b), *mm_block_ctrl(&ref, b) + ((capacity - count) << MM_COUNT_SHIFT));
            mm_block_free_range(&ref, b, c, (uint32_t)count, capacity - (uint32_t)count);
        }
    world_check();
    for (uint32_t g = 0; g < h->segment_count * MM_SEGMENT_GRANULES; g++)
        if (granule_held(g)) return;
    for (uint32_t s = 0; s < h->segment_count; s++)
        model_require(in_tree(mm_segment_free_tree(h), s), "all is free and drained, but not segment %u", s);
}

/* What no other thread changes or looks at meanwhile. Control words of granules at which no block of the scenarios'
 * classes begins: nobody adds to them, and who frees looks at them long after they were stored. And the states of all
 * other classes, where nothing happens. */
int model_is_private(const void *p, int stores) {
    const uint64_t at = (uint64_t)p, classes = (uint64_t)HEAP->classes;
    if (at >= ref.ctrl && at < ref.bits) return stores && (at - ref.ctrl) / 8 % (MM_SEGMENT_GRANULES / 8) != 0;
    if (at < classes || at >= classes + sizeof HEAP->classes) return 0;
    const uint32_t c = (uint32_t)((at - classes) / sizeof HEAP->classes[0]);
    for (uint32_t parts = 2; parts <= 8; parts *= 2)
        if (c == mm_class_of((uint32_t)MM_SEGMENT_BYTES / parts)) return 0;
    return 1;
}

/* ---- Names for schedules -------------------------------------------------------------------- */

static int name_tree(const uint64_t *p, struct mm_tree t, const char *what, char *out, uint32_t n) {
    const int64_t i = p - t.node;
    if (i < 0 || i >= (int64_t)(1 + HEAP->tree_mids + HEAP->tree_leaves)) return 0;
    if (i == 0) snprintf(out, n, "%s root", what);
    else if (i <= (int64_t)HEAP->tree_mids) snprintf(out, n, "%s mid %d", what, (int)i - 1);
    else snprintf(out, n, "%s leaf %d", what, (int)(i - 1 - (int64_t)HEAP->tree_mids));
    return 1;
}
void model_name_address(const void *p, char *out, uint32_t n) {
    const uint64_t a = (uint64_t)p;
    const struct mm_heap *h = HEAP;
    char what[24];
    if (name_tree(p, mm_segment_free_tree(HEAP), "free", out, n)) return;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        snprintf(what, sizeof what, "class%u", c);
        if (name_tree(p, mm_segment_class_tree(HEAP, c), what, out, n)) return;
    }
    if (p == &h->supply) snprintf(out, n, "supply");
    else if (p == &h->settled) snprintf(out, n, "settled");
    else if (a >= h->segment_words && a < h->segment_words + 8 * h->segment_count)
        snprintf(out, n, "word[%d]", (int)((a - h->segment_words) / 8));
    else if (a >= h->segment_owners && a < h->segment_owners + 8 * h->segment_count)
        snprintf(out, n, "owner[%d]", (int)((a - h->segment_owners) / 8));
    else if (a >= h->full_words && a < ref.ctrl)
        snprintf(out, n, "full_words[%d]", (int)((a - h->full_words) / 4));
    else if (a >= ref.ctrl && a < ref.bits)
        snprintf(out, n, "ctrl[%d]", (int)((a - ref.ctrl) / 8));
    else if (a >= ref.bits)
        snprintf(out, n, "bits[%d]", (int)((a - ref.bits) / 8));
    else if (a >= (uint64_t)h->classes) {
        const uint32_t c = (uint32_t)((a - (uint64_t)h->classes) / sizeof h->classes[0]);
        const uint64_t i = (a - (uint64_t)&h->classes[c]) / 8;
        if (i < MM_STRIPES) snprintf(out, n, "class%u stripe[%d]", c, (int)i);
        else snprintf(out, n, "class%u %s", c, i == MM_STRIPES ? "opened" : i == MM_STRIPES + 1 ? "dry" : "fetching");
    } else {
        snprintf(out, n, "heap+%d", (int)(a - (uint64_t)h));
    }
}
