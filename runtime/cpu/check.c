/* Heap checker and drain of the CPU build. Reads the metadata as the comments of runtime/core describe it. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/core/heap.h"
#include "runtime/cpu/cpuheap.h"

struct checker {
    const struct mm_heap_ref *ref;
    struct mm_heap *h;
    char *why;
    size_t why_bytes;
    uint64_t live_bytes;
};

__attribute__((format(printf, 2, 3))) static int fail(struct checker *k, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(k->why, k->why_bytes, format, args);
    va_end(args);
    return -1;
}

void mm_cpu_heap_drain_quiescent(struct mm_cpu_heap *heap) {
    const struct mm_heap_ref *ref = &heap->ref;
    struct mm_heap *h = mm_heap_of(ref);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        for (uint32_t i = 0; i < MM_STRIPES; i++) {
            const uint64_t is = h->classes[c].stripe[i];
            h->classes[c].stripe[i] = 0; /* one group again */
            if (mm_stripe_state(is) != MM_STRIPE_BLOCK || mm_group_first(mm_stripe_group(is)) != i) continue;
            const uint32_t b = mm_stripe_block(is), capacity = mm_class_capacity(c);
            const uint64_t count = mm_ctrl_count(*mm_block_ctrl(ref, b));
            *mm_block_ctrl(ref, b) += (uint64_t)(capacity - count) << MM_COUNT_SHIFT;
            mm_block_free_range(ref, b, c, (uint32_t)count, capacity - (uint32_t)count);
        }
}

/* tree.h I1, upwards from the leaves. */
static int check_tree(struct checker *k, struct mm_tree t, const char *name) {
    for (uint32_t leaf = 0; leaf < k->h->tree_leaves; leaf++) {
        if (*mm_tree_leaf(t, leaf * 64) == 0) continue;
        if (!(t.node[1 + leaf / 64] >> (leaf % 64) & 1)) return fail(k, "%s: leaf %u is not announced", name, leaf);
        if (!(t.node[0] >> (leaf / 64) & 1)) return fail(k, "%s: middle word %u is not announced", name, leaf / 64);
    }
    return 0;
}
static int in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }

/* A block that is handed out: words, counts, bodies. */
static int check_block(struct checker *k, uint32_t b, uint32_t c) {
    const uint64_t ctrl = *mm_block_ctrl(k->ref, b);
    if (mm_ctrl_kind(ctrl) != c + 1) return fail(k, "block %u: kind %u, not of class %u", b, mm_ctrl_kind(ctrl), c);
    for (uint32_t g = 1; g < mm_class_block_granules(c); g++)
        if (*mm_block_ctrl(k->ref, b + g) % 256 != MM_KIND_BODY + c) return fail(k, "block %u: granule %u is no body", b, g);
    const uint32_t capacity = mm_class_capacity(c);
    const uint64_t count = mm_ctrl_count(ctrl) < capacity ? mm_ctrl_count(ctrl) : capacity;
    uint32_t full = 0, live = 0;
    for (uint32_t i = 0; i < mm_class_words(c); i++) {
        const uint64_t word = mm_block_bits(k->ref, b)[i];
        const uint64_t there = mm_bits_low(capacity - i * 64), out = count > i * 64 ? mm_bits_low((uint32_t)count - i * 64) : 0;
        if (word & there & ~out) return fail(k, "block %u: slices never handed out are marked free", b);
        if (~word & ~there) return fail(k, "block %u: bits beyond the last slice are clear", b);
        full += word == ~0ull;
        live += mm_popcount(~word & out);
    }
    if (full != *mm_block_full_words(k->ref, b)) return fail(k, "block %u: %u full words, %u counted", b, full, *mm_block_full_words(k->ref, b));
    if (full == mm_class_words(c)) return fail(k, "block %u: all free, not retired", b);
    if (count < capacity) {
        const uint64_t is = k->h->classes[c].stripe[mm_group_first(mm_ctrl_group(ctrl))];
        if (mm_stripe_state(is) != MM_STRIPE_BLOCK || mm_stripe_block(is) != b) return fail(k, "block %u: has tickets left but is in no stripe", b);
    }
    k->live_bytes += (uint64_t)live * mm_class_bytes(c);
    return 0;
}

static int check_class_segment(struct checker *k, uint32_t s, uint32_t c) {
    const uint64_t word = *mm_segment_word(k->h, s), all = mm_class_segment_mask(c);
    if (word & ~all) return fail(k, "segment %u: free blocks that class %u does not have", s, c);
    if (word == all) return fail(k, "segment %u: whole, not retired", s);
    if (word != 0 && !in_tree(mm_segment_class_tree(k->h, c), s)) return fail(k, "segment %u: not in its class tree", s);
    for (uint64_t rest = all; rest; rest &= rest - 1) {
        const uint32_t b = s * MM_SEGMENT_GRANULES + mm_ctz(rest);
        if (word >> mm_ctz(rest) & 1) {
            if (mm_ctrl_kind(*mm_block_ctrl(k->ref, b)) != MM_KIND_CLOSED && mm_ctrl_kind(*mm_block_ctrl(k->ref, b)) < MM_KIND_BODY)
                return fail(k, "block %u: free but not closed", b);
        } else if (check_block(k, b, c) != 0) {
            return -1;
        }
    }
    return 0;
}

/* A segment in the free tree: segment.h I1. */
static int check_free_segment(struct checker *k, uint32_t s) {
    if (*mm_segment_owner(k->h, s) != MM_OWNER_NOBODY) return fail(k, "segment %u: free but owned", s);
    if (*mm_segment_word(k->h, s) != 0) return fail(k, "segment %u: free but has free blocks", s);
    for (uint32_t g = 0; g < MM_SEGMENT_GRANULES; g++) {
        const uint32_t kind = mm_ctrl_kind(*mm_block_ctrl(k->ref, s * MM_SEGMENT_GRANULES + g));
        if (kind != MM_KIND_CLOSED && kind < MM_KIND_BODY) return fail(k, "granule %u of free segment %u: not closed", g, s);
    }
    return 0;
}

static int check_run(struct checker *k, uint32_t first, uint32_t count) {
    if (count == 0 || first + count > k->h->segment_count) return fail(k, "run %u: length %u", first, count);
    if (mm_ctrl_kind(*mm_block_ctrl(k->ref, first * MM_SEGMENT_GRANULES)) != MM_KIND_RUN) return fail(k, "run %u: control word", first);
    for (uint32_t s = first + 1; s < first + count; s++)
        if (*mm_segment_owner(k->h, s) != MM_OWNER_RUN_BODY) return fail(k, "run %u: segment %u", first, s);
    for (uint32_t s = first; s < first + count; s++)
        if (in_tree(mm_segment_free_tree(k->h), s) || *mm_segment_word(k->h, s) != 0)
            return fail(k, "run %u: segment %u can be claimed", first, s);
    k->live_bytes += (uint64_t)count << MM_SEGMENT_SHIFT;
    return 0;
}

static int check_stripes(struct checker *k, uint32_t c) {
    uint32_t i = 0;
    while (i < MM_STRIPES) { /* group by group */
        const uint64_t is = k->h->classes[c].stripe[i];
        const uint32_t group = mm_stripe_group(is), b = mm_stripe_block(is);
        if (mm_group_first(group) != i || mm_group_level(group) > MM_STRIPES_SHIFT || i % mm_group_size(group) != 0)
            return fail(k, "class %u: stripe %u is in no group", c, i);
        for (uint32_t j = i; j < i + mm_group_size(group); j++)
            if (k->h->classes[c].stripe[j] != is) return fail(k, "class %u: stripe %u is not what its group is", c, j);
        if (mm_stripe_state(is) == MM_STRIPE_BUSY) return fail(k, "class %u: stripe %u is busy", c, i);
        if (mm_stripe_state(is) == MM_STRIPE_BLOCK) {
            const uint64_t ctrl = *mm_block_ctrl(k->ref, b);
            if (mm_ctrl_kind(ctrl) != c + 1 || mm_ctrl_group(ctrl) != group || mm_ctrl_count(ctrl) >= mm_class_capacity(c))
                return fail(k, "class %u: stripe %u names a block that is not open for it", c, i);
        }
        i += mm_group_size(group);
    }
    if (k->h->classes[c].fetching != 0) return fail(k, "class %u: somebody is still fetching", c);
    return check_tree(k, mm_segment_class_tree(k->h, c), "class tree");
}

const char *mm_cpu_heap_check_quiescent(const struct mm_cpu_heap *heap, char *why, size_t why_bytes, uint64_t *live_bytes) {
    struct checker k = {&heap->ref, mm_heap_of(&heap->ref), why, why_bytes, 0};
    if (check_tree(&k, mm_segment_free_tree(k.h), "free tree") != 0) return why;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        if (check_stripes(&k, c) != 0) return why;
    for (uint32_t s = 0; s < k.h->segment_count;) {
        const uint64_t owner = *mm_segment_owner(k.h, s);
        const uint32_t kind = (uint32_t)MM_OWNER_KIND(owner);
        uint32_t next = s + 1;
        int bad = 0;
        if (in_tree(mm_segment_free_tree(k.h), s) || kind == MM_OWNER_NOBODY) {
            bad = check_free_segment(&k, s); /* not mapped ones look like free ones that are not in the tree */
        } else if (kind <= MM_CLASS_COUNT) {
            bad = check_class_segment(&k, s, kind - 1);
        } else if (kind == MM_OWNER_RUN) {
            bad = check_run(&k, s, (uint32_t)(owner >> MM_OWNER_LENGTH_SHIFT));
            next = s + (uint32_t)(owner >> MM_OWNER_LENGTH_SHIFT);
        } else {
            bad = fail(&k, "segment %u: owner %llu", s, (unsigned long long)owner);
        }
        if (bad) return why;
        s = next;
    }
    if (live_bytes) *live_bytes = k.live_bytes;
    return NULL;
}
