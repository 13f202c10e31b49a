/* Stripes and reserves: tickets, regions, refills, REUSE, stealing, flushing, what free is told, and when the answer is NULL. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 8

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    heap.ref.hold_shift = 40; /* as many stripes as in the largest heap */
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) heap.ref.classes[c] = mm_class_make(c, 40);
    ref = &heap.ref;
    h = mm_heap_of(ref);
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static struct mm_segment *at(uint32_t s) { return mm_segment_at(ref, s); }
static uint64_t *stripe(uint32_t c, uint32_t k) { return &h->classes[c].stripe[k].word; }
static uint32_t take(uint32_t c, uint32_t k) {
    uint32_t slice;
    return unit_take(ref, c, 1, k, &slice) ? slice : MM_TREE_NONE;
}
static void *address(uint32_t c, uint32_t slice) {
    return mm_slice_address(ref->user_base, slice / mm_class_slices(c), slice % mm_class_slices(c), mm_class_bytes(c));
}

/* One after the other, each once, from segment to segment; blocks are handed out with their last slice, neither before nor
 * later, and each is the stripe's own. */
START_TEST(tickets_in_order) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c), per = 1u << mm_class_block_shift(c), n = slices + slices / 2;
    for (uint32_t i = 0; i < n; i++) {
        unit_eq(take(c, 0), i);
        const uint32_t s = i / slices, j = i % slices / per, ends = (i + 1) % slices == 0 || (i + 1) % slices % per == 0;
        unit_eq(at(s)->unissued >> j & 1, !ends);
        unit_eq(at(s)->opener[j], 1);
        unit_eq(at(s)->owner, c + 1);
        if (i % per == per / 2) unit_sound(&heap, (uint64_t)(i + 1) * mm_class_bytes(c));
    }
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 2);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, i));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Several at once: all get theirs, also where blocks and segments end. */
START_TEST(groups) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c), all = slices < 3000 ? 3 * slices : slices / 16;
    uint8_t *seen = (uint8_t *)malloc(SEGMENTS * slices);
    for (uint32_t n = 2; n <= 32; n += 6) {
        uint32_t slice[32], got = 0;
        memset(seen, 0, SEGMENTS * slices);
        while (got + n <= all) {
            unit_eq(unit_take(ref, c, n, 0, slice), n);
            for (uint32_t i = 0; i < n; i++) {
                unit_holds(slice[i] < SEGMENTS * slices && !seen[slice[i]], "slice %u twice", slice[i]);
                seen[slice[i]] = 1;
            }
            got += n;
        }
        unit_sound(&heap, (uint64_t)got * mm_class_bytes(c));
        for (uint32_t i = 0; i < SEGMENTS * slices; i++)
            if (seen[i]) mm_heap_free(ref, address(c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
    free(seen);
}
END_TEST

/* What free must be told of slice i of segment s (of class c), by a look at all stripes. */
static int expected(uint32_t c, uint32_t s, uint32_t i) {
    const uint32_t slices = mm_class_slices(c), k = at(s)->opener[i >> mm_class_block_shift(c)];
    if (!(at(s)->unissued >> (i >> mm_class_block_shift(c)) & 1)) return 0;
    if (k == 0) return MM_MISUSE_NOT_ALLOCATED;
    const uint64_t w = *stripe(c, k - 1), first = (uint64_t)(mm_stripe_segment(w) - 1) * slices, number = (uint64_t)s * slices + i;
    return mm_stripe_segment(w) != 0 && !mm_stripe_is_waiting(w) && number >= first + mm_stripe_cursor(w) && number < first + mm_stripe_limit(w) ? MM_MISUSE_NEVER : 0;
}

/* The more are waiting, the larger the region, up to several segments in a row; free can tell what of it was handed out. */
START_TEST(regions_by_demand) {
    static const uint32_t classes[] = {4, 16, 24, 32, 40, 52, 60, 63}, waiting[] = {0, 1, 2, 5, 40, 100000};
    const uint32_t c = classes[_i % 8], late = waiting[_i / 8], slices = mm_class_slices(c), fill = 1u << mm_class_block_fill_shift(c);
    uint64_t *word = stripe(c, 0);
    uint32_t slice[32];
    const uint64_t w = mm_stripe_draw(word, 1, 1);
    mm_add_acquire_u64(word, late * fill); /* others, who now wait */
    unit_eq(unit_serve(ref, c, 1, 0, w, slice), 1);
    unit_eq(slice[0], 0);
    const uint32_t limit = mm_stripe_limit(*word), blocks = (limit / slices * slices == limit ? limit / slices * mm_class_blocks(c)
                                                                                             : (limit >> mm_class_block_shift(c)));
    unit_eq(mm_stripe_segment(*word), 1);
    unit_holds(blocks >= 1 && blocks <= MM_REGION_BLOCKS_MAX, "a region of %u blocks", blocks);
    if (mm_class_blocks(c) == 1 && late < SEGMENTS) unit_le(late, blocks);
    if (late == 0) unit_eq(blocks, 1);
    for (uint32_t s = 0; s * slices < limit; s++)
        for (uint32_t i = 0; i < slices; i += 1 + i % 64) unit_eq(mm_stripe_misuse(ref, s, c, i), expected(c, s, i));
    unit_sound(&heap, mm_class_bytes(c));
    uint32_t got = 1;
    while (got < limit && got < 20000) { /* all of it, and what each step does to what free is told */
        const uint32_t n = limit - got < 7 ? limit - got : 7;
        unit_eq(unit_take(ref, c, n, 0, slice), n);
        for (uint32_t i = 0; i < n; i++) unit_eq(slice[i], got + i);
        got += n;
        if (got < limit && got % 5 == 0) {
            const uint64_t never = mm_cpu_misuse_count(&heap, MM_MISUSE_NEVER);
            mm_heap_free(ref, address(c, got));
            mm_heap_free(ref, address(c, limit - 1));
            unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_NEVER), never + 2);
        }
    }
    unit_sound(&heap, (uint64_t)got * mm_class_bytes(c));
    const uint64_t misuses = unit_misuses(&heap);
    for (uint32_t i = 0; i < got; i++) mm_heap_free(ref, address(c, i));
    unit_eq(unit_misuses(&heap), misuses);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Every slice of the heap, whatever the stripes have open: what free is told, against a plain search. */
START_TEST(misuse_against_a_plain_search) {
    const uint32_t c = (uint32_t)_i * 7, slices = mm_class_slices(c);
    uint64_t seed = c + 1;
    for (int round = 0; round < 12; round++) {
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t n = (uint32_t)(unit_random(&seed) % (round % 3 ? 6 : slices / 2 < 3000 ? slices / 2 + 1 : 3000)), slice;
            while (n-- > 0) unit_take(ref, c, 1, k * 5 & (mm_class_stripes(c, (uint32_t)ref->hold_shift) - 1), &slice);
        }
        for (uint32_t s = 0; s < SEGMENTS; s++) {
            if (at(s)->owner != c + 1) continue;
            for (uint32_t i = 0; i < slices; i += 1 + (slices > 1000) * (i % 37))
                if (at(s)->unissued >> (i >> mm_class_block_shift(c)) & 1) {
                    unit_holds(mm_stripe_misuse(ref, s, c, i) == expected(c, s, i), "slice %u of segment %u: %d, not %d", i, s,
                               mm_stripe_misuse(ref, s, c, i), expected(c, s, i));
                }
        }
        unit_sound(&heap, UNIT_ANY);
    }
}
END_TEST

/* With no fresh memory, a stripe sends callers to slices that came back: so many, then it looks again for whole blocks. */
START_TEST(reuse_when_there_is_nothing_else) {
    static const uint32_t classes[] = {0, 16, 30, 38}; /* of several blocks */
    const uint32_t c = classes[_i], n = SEGMENTS * mm_class_slices(c), per = 1u << mm_class_block_shift(c);
    for (uint32_t i = 0; i < n; i++) unit_eq(take(c, 0), i);
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_eq(*stripe(c, 0), 0);
    uint32_t freed = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i % mm_class_slices(c) % per % 3 == 0) mm_heap_free(ref, address(c, i)), freed++;
    unit_lt(8, freed);
    for (uint32_t i = 0; i < freed; i++) {
        const uint32_t slice = take(c, i % 2);
        unit_holds(slice != MM_TREE_NONE && slice % mm_class_slices(c) % per % 3 == 0, "slice %u", slice);
        if (i == 3) unit_eq(mm_stripe_limit(*stripe(c, 0)), MM_REUSE_TICKETS / mm_class_stripes(c, (uint32_t)ref->hold_shift));
        if (i == 3) unit_eq(mm_stripe_segment(*stripe(c, 0)), 0);
        if (i == 5) { /* a whole block comes back: found when the tickets are used up */
            for (uint32_t k = 0; k < per; k++)
                if (k % 3) mm_heap_free(ref, address(c, per + k));
        }
        if (mm_stripe_segment(*stripe(c, 0)) != 0) return; /* it was */
    }
    unit_eq(mm_cpu_null_count(&heap), 0);
}
END_TEST

/* What the reserve has is drawn before blocks that became whole are; those before fresh segments. */
START_TEST(reserve_before_whole_blocks) {
    const uint32_t c = mm_class_of(1024), per = 1u << mm_class_block_shift(c), slices = mm_class_slices(c);
    unit_lt(2 * per, slices);
    for (uint32_t i = 0; i <= per; i++) unit_eq(take(c, 0), i);
    for (uint32_t i = 0; i < per; i++) mm_heap_free(ref, address(c, i));
    unit_eq(at(0)->whole, 1);
    for (uint32_t i = per + 1; i < slices; i++) unit_eq(take(c, 0), i);
    for (uint32_t i = 0; i < per; i++) unit_eq(take(c, 0), i);
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 1);
    unit_eq(take(c, 0), slices);
}
END_TEST

/* Slices that came back are used before the class grows if they are a good part of it, and as many as its stripes may hold;
 * less will do when memory is scarce. */
START_TEST(thrift) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c);
    const uint32_t share = 256 / MM_REUSE_SHARE, scarce = 256 / MM_REUSE_SHARE_SCARCE;
    const uint64_t block = mm_class_blocks(c) == 1 ? slices : 1u << mm_class_block_shift(c); /* the only one may be shorter */
    const uint64_t need = mm_class_stripes(c, (uint32_t)ref->hold_shift) * block * MM_REUSE_HELD;
    const uint64_t enough = (256 * need + share * slices - 1) / (share * slices);
    unit_eq(mm_stripe_is_thrifty(ref, c, share, enough), 1);
    unit_eq(mm_stripe_is_thrifty(ref, c, share, enough - 1), 0);
    unit_eq(mm_stripe_is_thrifty(ref, c, share - 1, 2 * enough), 0);
    unit_eq(mm_stripe_is_thrifty(ref, c, 256, 1 << 20), 1);
    h->free_count = ref->mapped_count / MM_SCARCE;
    unit_eq(mm_stripe_is_thrifty(ref, c, share - 1, 1), 0);
    h->free_count--;
    unit_eq(mm_stripe_is_thrifty(ref, c, scarce, 1), 1);
    unit_eq(mm_stripe_is_thrifty(ref, c, scarce - 1, 1 << 20), 0);
    h->free_count = SEGMENTS;
}
END_TEST

static uint32_t searches, hidden, ticket;
static uint64_t root;
/* The first `hidden` searches for slices of class 0 that came back find nothing: others were quicker. */
static void hide(void) {
    uint64_t *node = mm_segment_class_tree(ref, 0, MM_AVAIL).node;
    const uint64_t w = *stripe(0, 0);
    if (mm_stripe_segment(w) == 0 && !mm_stripe_is_waiting(w) && mm_stripe_cursor(w) > ticket)
        ticket = mm_stripe_cursor(w), searches++;
    if (*node != 0) root = *node;
    *node = searches <= hidden ? 0 : root;
}

/* Much has come back: a search in vain, or some, are not a reason for the class to grow; more of them are. If little has come
 * back the first one is. */
START_TEST(searches_in_vain) {
    const uint32_t c = 0, slices = mm_class_slices(c), rich = _i % 2 ? 255 : 0;
    for (uint32_t i = 0; i < slices; i++) unit_eq(take(c, 0), i);
    for (uint32_t i = 0; i < slices; i += 2) mm_heap_free(ref, address(c, i));
    h->classes[c].rich = rich;
    *stripe(c, 0) = mm_stripe_make(0, MM_REUSE_TICKETS, 0);
    searches = ticket = 0, hidden = (uint32_t)_i / 2;
    const uint64_t w = mm_stripe_draw(stripe(c, 0), 1, 1);
    uint32_t slice = MM_TREE_NONE;
    unit_each_step = hide;
    unit_eq(unit_serve(ref, c, 1, 0, w, &slice), 1);
    unit_each_step = NULL;
    const int grows = rich ? hidden >= MM_REUSE_FAILS : hidden >= 1;
    unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - 1 - grows);
    unit_eq(slice >= slices, grows);
    unit_eq(searches, grows ? (rich ? MM_REUSE_FAILS : 1) : hidden + 1);
}
END_TEST

/* Before NULL, other stripes' tickets are taken: every slice of the heap is had, from any stripe. */
START_TEST(other_stripes_before_null) {
    const uint32_t c = (uint32_t)_i, n = SEGMENTS * mm_class_slices(c), stripes = mm_class_stripes(c, (uint32_t)ref->hold_shift);
    uint8_t *seen = (uint8_t *)calloc(n, 1);
    uint32_t got = 0;
    for (uint32_t k = 0; k < 6; k++) { /* six open regions, some of them */
        const uint32_t slice = take(c, k * 11 % stripes);
        if (slice != MM_TREE_NONE) seen[slice] = 1, got++;
    }
    for (uint32_t slice; (slice = take(c, 3)) != MM_TREE_NONE; got++) {
        unit_holds(slice < n && !seen[slice], "slice %u twice", slice);
        seen[slice] = 1;
    }
    unit_eq(got, n);
    for (uint32_t k = 0; k < stripes; k++) unit_le(mm_stripe_limit(*stripe(c, k)), mm_stripe_cursor(*stripe(c, k)));
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, i));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(seen);
}
END_TEST

/* Stealing takes up to n good tickets and leaves the rest; who steals the last leaves NONE. */
START_TEST(steal) {
    const uint32_t c = mm_class_of(65536), slices = mm_class_slices(c);
    unit_eq(mm_stripe_steal(ref, c, 3), 0);
    for (uint32_t n = 1; n < 9; n++) {
        unit_eq(take(c, 5), 0);
        uint32_t got = 1;
        while (got < slices) {
            const mm_claim claim = mm_stripe_steal(ref, c, n);
            unit_eq(mm_claim_count(claim), slices - got < n ? slices - got : n);
            unit_eq(mm_claim_slice(claim, 0), got);
            got += mm_claim_count(claim);
            unit_eq(at(0)->unissued & 1, got < slices);
        }
        unit_eq(mm_stripe_steal(ref, c, n), 0);
        unit_eq(mm_stripe_is_waiting(*stripe(c, 5)), 0);
        unit_sound(&heap, (uint64_t)slices * mm_class_bytes(c));
        for (uint32_t i = 0; i < slices; i++) mm_heap_free(ref, address(c, i));
        unit_fresh(&heap, SEGMENTS);
    }
    *stripe(c, 2) = mm_stripe_make(0, MM_REUSE_TICKETS, 3); /* no slices */
    unit_eq(mm_stripe_steal(ref, c, 1), 0);
    unit_eq(*stripe(c, 2), mm_stripe_make(0, MM_REUSE_TICKETS, 3));
}
END_TEST

/* What a flush takes is free, to the slice and to the block; what was handed out is not. */
START_TEST(flush) {
    const uint32_t c = (uint32_t)_i, slices = mm_class_slices(c), bytes = mm_class_bytes(c);
    unit_eq(mm_stripe_flush(ref), 0);
    for (uint32_t n = 1; n <= slices && n < 3000; n = n * 2 + 1) {
        for (uint32_t i = 0; i < n; i++) unit_eq(take(c, 0), i);
        for (uint32_t i = 1; i < n; i++) mm_heap_free(ref, address(c, i)); /* the first one stays */
        const uint64_t version = mm_version_read(h);
        const int any = mm_stripe_flush(ref);
        unit_eq(any, n != slices || slices == 1);
        if (any) unit_lt(version, mm_version_read(h) + (mm_class_blocks(c) == 1));
        unit_eq(mm_stripe_flush(ref), 0);
        for (uint32_t k = 0; k < MM_STRIPES + MM_RESERVES; k++) unit_le(mm_stripe_limit(*stripe(c, k)), mm_stripe_cursor(*stripe(c, k)));
        unit_eq(at(0)->whole, mm_class_blocks_mask(c) & ~1ull);
        unit_sound(&heap, bytes);
        mm_heap_free(ref, address(c, 0));
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* A region over several segments, flushed in the middle. */
START_TEST(flush_of_a_row_of_segments) {
    const uint32_t c = mm_class_of(MM_SEGMENT_BYTES / 5), slices = mm_class_slices(c);
    for (uint32_t n = 1; n < 6 * slices; n++) {
        const uint64_t w = mm_stripe_draw(stripe(c, 0), 1, 1);
        mm_add_acquire_u64(stripe(c, 0), 6 * slices);
        uint32_t slice;
        unit_eq(unit_serve(ref, c, 1, 0, w, &slice), 1);
        unit_le(6 * slices, mm_stripe_limit(*stripe(c, 0)));
        for (uint32_t i = 1; i < n; i++) unit_eq(take(c, 0), i);
        unit_eq(mm_stripe_flush(ref), 1);
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        unit_eq(mm_cpu_heap_free_segments(&heap), SEGMENTS - (n + slices - 1) / slices);
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, i));
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

static uint64_t steps, give_at;
static int given;
static void count_steps(void) { steps++; }

static uint64_t raise_at;
static void raise_at_step(void) {
    if (++steps == raise_at) h->version[1].word++;
}

/* Later callers of a class that is dry answer soon, and a dry class does not stop another. What comes to light while it is
 * searched is not forgotten. */
START_TEST(dry_is_remembered) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX), d = mm_class_of(16);
    take(d, 0);
    while (take(c, 0) != MM_TREE_NONE) continue;
    unit_eq(take(c, 0), MM_TREE_NONE); /* the first one flushed what there was, and so saw a change */
    unit_each_step = count_steps;
    steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    const uint64_t once = steps;
    h->classes[c].dry = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_holds(once * 3 < steps - once, "%u steps to say NULL again, %u the first time", (unsigned)once, (unsigned)(steps - once));
    unit_each_step = NULL;
    unit_eq(h->classes[c].dry, mm_version_read(h) + 1);
    unit_holds(take(d, 0) != MM_TREE_NONE, "another class is dry as well");
    mm_version_raise(h); /* something came to light: searched again */
    unit_each_step = count_steps, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_lt(once, steps);
    h->classes[c].dry = 0;
    unit_each_step = raise_at_step, raise_at = steps / 2, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_each_step = NULL;
    unit_lt(raise_at, steps);
    unit_eq(h->classes[c].dry, 0);
}
END_TEST

/* A stripe that somebody is to refill, and never does: NULL after a bound, which is not remembered as dry; a free that waits
 * for it ends, too. */
START_TEST(waiting_is_bounded) {
    const uint32_t c = mm_class_of(256);
    uint32_t slice;
    unit_eq(take(c, 0), 0);
    const uint64_t was = *stripe(c, 0);
    *stripe(c, 0) = mm_stripe_make(1, mm_stripe_limit(was), mm_stripe_limit(was) + 1);
    unit_each_step = count_steps, steps = 0;
    unit_eq(unit_take(ref, c, 1, 0, &slice), 0);
    unit_holds(steps >= MM_WAIT_ITERATIONS && steps < MM_WAIT_ITERATIONS + 1000, "%llu steps", (unsigned long long)steps);
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), 0); /* the region has run out: all handed out */
    steps = 0;
    at(0)->opener[0] |= MM_OPENER_PENDING; /* by one who never publishes it */
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), MM_MISUSE_NOT_ALLOCATED);
    unit_holds(steps >= MM_WAIT_ITERATIONS && steps < MM_WAIT_ITERATIONS + 1000, "%llu steps", (unsigned long long)steps);
    at(0)->opener[0] = 1;
    unit_each_step = NULL;
    unit_eq(h->classes[c].dry, 0);
    unit_eq(mm_stripe_cursor(*stripe(c, 0)), mm_stripe_limit(was) + 2);
    unit_holds(unit_take(ref, c, 1, 1, &slice) == 1, "another stripe waits, too");
}
END_TEST

static void give_at_step(void) {
    if (steps++ != give_at) return;
    unit_each_step = NULL;
    given = 1;
    mm_heap_free(ref, address(mm_class_of(MM_SEGMENT_BYTES / 4), 5));
    unit_each_step = count_steps;
}

/* Memory that comes back at any step of a search that is about to find nothing: it gets it, or the next one does. */
START_TEST(supply_in_the_middle_of_a_search) {
    const uint32_t c = mm_class_of(MM_SEGMENT_BYTES / 4);
    uint32_t nulls = 0, searches = 0;
    for (give_at = 0;; give_at += 1 + give_at / 64, searches++) {
        while (take(c, 0) != MM_TREE_NONE) continue;
        h->classes[c].dry = 0; /* so that it searches */
        steps = 0, given = 0;
        unit_each_step = give_at_step;
        const uint32_t slice = take(c, 0);
        unit_each_step = NULL;
        if (!given) break;
        nulls += slice == MM_TREE_NONE;
        unit_holds(slice != MM_TREE_NONE || take(c, 0) != MM_TREE_NONE, "came back at step %u, still NULL", (unsigned)give_at);
        while (take(c, 0) != MM_TREE_NONE) continue;
    }
    unit_lt(30, searches);
    unit_holds(nulls * 3 < searches, "%u of %u NULL", nulls, searches);
}
END_TEST

/* Stripes that are refilled one after the other share the blocks of a segment. */
START_TEST(reserves_are_shared) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t blocks = mm_class_blocks(c), reserves = mm_class_reserves(c, (uint32_t)ref->hold_shift);
        const uint32_t n = mm_class_stripes(c, (uint32_t)ref->hold_shift) < blocks ? mm_class_stripes(c, (uint32_t)ref->hold_shift) : blocks, most = reserves < n ? reserves : n;
        for (uint32_t k = 0; k < n; k++) unit_holds(take(c, k) != MM_TREE_NONE, "NULL");
        unit_le(SEGMENTS - mm_cpu_heap_free_segments(&heap), most);
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        mm_cpu_heap_destroy(&heap);
        set_up();
    }
}
END_TEST

/* mmbench's endurance in small: 2 GiB, three quarters of them asked for in 28 classes (81 % with the rounding), from as many
 * multiprocessors as an H200 has; every round half of it goes and comes anew. No NULL, and hardly more segments from
 * round to round. */
START_TEST(three_quarters_live) {
    const uint32_t segments = 512, n = (uint32_t)(segments * MM_SEGMENT_BYTES / 4 * 3 / 2056);
    struct mm_cpu_heap large;
    void **held = (void **)calloc(n, sizeof *held);
    uint64_t seed = 1, live = 0, was_free = 0;
    unit_eq(mm_cpu_heap_create(&large, 8 * segments, segments, MM_SEGMENT_BYTES), 0); /* most of it is not mapped */
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (round > 0 && unit_random(&seed) & 1) {
                mm_heap_free(&large.ref, held[i]);
                held[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            if (held[i] != NULL) continue;
            unit_home = i / 256 % 132;
            held[i] = mm_heap_malloc(&large.ref, 16 + unit_random(&seed) % 4081);
            unit_holds(held[i] != NULL, "NULL in round %d", round);
        }
        if (round > 0) unit_le(was_free, mm_cpu_heap_free_segments(&large) + segments / 32);
        was_free = mm_cpu_heap_free_segments(&large);
    }
    char why[200];
    const char *wrong = mm_cpu_heap_check_quiescent(&large, why, sizeof why, &live);
    unit_holds(wrong == NULL, "%s", wrong);
    unit_le(segments * MM_SEGMENT_BYTES / 4 * 3, live);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(&large.ref, held[i]);
    unit_fresh(&large, segments);
    mm_cpu_heap_destroy(&large);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stripe");
    TCase *tests = tcase_create("stripes");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, tickets_in_order, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, groups, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, regions_by_demand, 0, 8 * 6);
    tcase_add_loop_test(tests, misuse_against_a_plain_search, 0, 10);
    tcase_add_loop_test(tests, reuse_when_there_is_nothing_else, 0, 4);
    tcase_add_loop_test(tests, thrift, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, searches_in_vain, 0, 2 * (MM_REUSE_FAILS + 3));
    tcase_add_loop_test(tests, other_stripes_before_null, 16, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, flush, 0, MM_CLASS_COUNT);
    const TTest *const all[] = {steal, flush_of_a_row_of_segments, dry_is_remembered, waiting_is_bounded,
                                supply_in_the_middle_of_a_search, reserve_before_whole_blocks, reserves_are_shared,
                                three_quarters_live};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
