/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc of a slice. A group is the lanes of a warp that call together and want the same size class; it acts as one.
 *
 * The first draw (cursor.h) nearly always returns the address; it gives the other lanes a token. They take a few steps in functions that save few registers
 * (mm_slice_malloc_soon): they draw again, now with the rare cases, as long as some of the draws succeed; sample the class; draw tickets for slices that are yet
 * to be made, if little of the class is free; wait for their blocks. Who has nothing then comes to mm_slice_malloc, which passes through the same steps as
 * stages until there is a slice, and makes the blocks that others wait for. Without pages it goes through a shortage (shortage.h), then
 * sweeps the whole class.
 *
 * Progress. All lanes take their steps in one loop, and leave it together (single_flight.h). No lane waits for a lane of its own warp. A lane that waits for a
 * block that another warp makes gives up after a bounded number of looks, and draws another ticket, or makes the block if it has the block's first ticket.
 *
 * NULL. After a shortage that found nothing, no page for a narrow block (narrow.h), and two complete sweeps of the class that found no slice, each single-flight for all lanes that want one.
 */
#ifndef MM_GALLATIN_MALLOC_H
#define MM_GALLATIN_MALLOC_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"
#include "runtime/gallatin/narrow.h"
#include "runtime/gallatin/sample.h"

/* mm_cursor_draw_first for any lanes. */
MM_FN_LEAF uint64_t mm_slice_draw(const struct mm_heap_ref *ref, uint32_t c) { return mm_cursor_draw_first(ref, mm_warp_group(c >> 8), 0, c); }

enum mm_stage { MM_STAGE_DRAW, MM_STAGE_SAMPLE, MM_STAGE_GROW, MM_STAGE_TICKET, MM_STAGE_MAKE, MM_STAGE_SHORT, MM_STAGE_SWEEP, MM_STAGE_DONE };

/* The state of a shortage. The first lane of a group that lacks pages handles it for the group. */
struct mm_slice_shortage {
    struct mm_shortage shortage;
    uint64_t before, awaited; /* mapped segments when pages were searched for; the awaited round of sweeps */
    uint32_t sweeps;
};

/* One step of a shortage, for lanes that want class c. Returns the next stage; *is: for mm_shortage_help; *is_to_sweep: the caller runs the next round of
 * sweeps. */
MM_FN_RARE enum mm_stage mm_slice_short(const struct mm_heap_ref *ref, uint32_t c, enum mm_stage stage, struct mm_slice_shortage *s, enum mm_short *is,
                                        int *is_to_sweep) {
    if (stage == MM_STAGE_SHORT) {
        *is = mm_shortage_step(ref, 1, s->before, &s->shortage);
        if (*is == MM_SHORT_NONE) s->shortage.polls = 0; /* the next wait has a separate bound */
        return *is == MM_SHORT_SEARCH || *is == MM_SHORT_SOME ? MM_STAGE_GROW : *is == MM_SHORT_NONE ? MM_STAGE_SWEEP : MM_STAGE_SHORT;
    }
    const enum mm_flight flight = s->shortage.polls++ < MM_WAIT_ITERATIONS ? mm_flight_begin(&mm_class_at(ref, c)->round, &s->awaited) : MM_FLIGHT_NOTHING;
    *is_to_sweep = flight == MM_FLIGHT_MINE;
    return flight != MM_FLIGHT_NOTHING || ++s->sweeps < 2 ? MM_STAGE_SWEEP : MM_STAGE_DONE; /* after a round that found something there may be more */
}

/* Little of class c is free: lets it grow by 2/MM_GROW_SHARE of its size, or to twice its size if that is at most a segment. If callers have
 * drawn more tickets than that since the last growth ended, it grows by as many, at most to twice its size: these found out for themselves that little is free,
 * or that the class had nothing. Until then callers draw tickets at once, and do not search for slices that do not exist. */
MM_FN void mm_class_raise(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t wide = mm_class_wide(ref, c), count = wide != 0 ? wide : 1, few = mm_at_most(count, MM_SEGMENT_PAGES >> ref->classes[c].page_shift);
    const uint32_t share = 2 * count / MM_GROW_SHARE, least = (share > few ? share : few) * ref->classes[c].slices;
    uint32_t tickets, until;
    mm_gather_u32(&of->tickets, &tickets, &until);
    if ((int32_t)(until - tickets) > 0) return;
    const uint32_t over = mm_at_most(tickets - until, count * ref->classes[c].slices);
    mm_store_relaxed_u32(&of->until, tickets + (over > least ? over : least));
}

/* There are no pages: callers search for freed slices instead of drawing tickets, and for a while, unless the heap gets free segments, search longer before the
 * class grows. */
MM_FN void mm_class_stay(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    mm_store_relaxed_u32(&of->until, mm_load_relaxed_u32(&of->tickets));
    mm_store_relaxed_u64(&of->stays_ns, mm_now_ns());
}
MM_FN int mm_class_is_poor(const struct mm_heap_ref *ref, uint32_t c) {
    const int64_t ago_ns = (int64_t)(mm_now_ns() - mm_load_relaxed_u64(&mm_class_at(ref, c)->stays_ns)); /* clocks of multiprocessors differ by some ns */
    return ago_ns < (int64_t)MM_GROW_REFUSAL_NS && mm_load_relaxed_u64(&mm_heap_of(ref)->free_count) == 0;
}
/* Whether class c should grow, given what a group has seen of it in so many rounds. *is_low: it should, since little of the class is free, or it is small, and
 * more callers want its slices than it has. */
MM_FN int mm_class_should_grow(const struct mm_heap_ref *ref, uint32_t c, uint32_t entries, struct mm_seen seen, uint32_t rounds, int is_poor, int *is_low) {
    const uint32_t part = mm_heap_is_ample(ref) ? MM_GROW_SHARE_AMPLE : MM_GROW_SHARE;
    const uint32_t words = entries * ref->classes[c].words;
    const int is_all = words <= MM_SAMPLE_ALL && seen.words >= words;
    const uint32_t enough = seen.free == 0 ? MM_GROW_SEEN_FULL : MM_GROW_SEEN;
    const int is_full = seen.free * part <= seen.slices && (seen.slices >= enough || is_all);
    const int is_crowded = rounds >= MM_GROW_FREELY_ROUNDS && entries << ref->classes[c].page_shift <= MM_GROW_FREELY_PAGES;
    *is_low = !is_poor && (is_full || is_crowded);
    if (is_poor) return is_all || seen.words >= MM_SAMPLE_POOR || rounds >= MM_SAMPLE_POOR;
    return *is_low || rounds >= MM_SAMPLE_ROUNDS;
}

/* A round of samples for the lanes of `need`, a part of `group`, which want class c and had `rounds` before; *seen: what they saw in them. Raises the class if
 * it is to grow; then the lanes without a slice draw tickets. Returns the caller's address, or its ticket as mm_token_grow makes it, or 0. All lanes of the
 * group call. */
MM_FN_RARE uint64_t mm_class_look(const struct mm_heap_ref *ref, uint32_t group, uint32_t need, uint32_t c, uint32_t random, uint32_t rounds,
                                  struct mm_seen *seen) {
    const uint32_t lane = mm_warp_lane(), first = mm_ctz(need);
    const uint32_t entries = mm_warp_shuffle(group, mm_load_relaxed_u32(&mm_class_at(ref, c)->count), first);
    uint64_t q = 0;
    if (entries != 0) q = mm_sample_round(ref, group, need, c, entries, random, mm_warp_number() + mm_warp_sum(group, seen->words), seen);
    const struct mm_seen all = {mm_warp_sum(group, seen->slices), mm_warp_sum(group, seen->free), mm_warp_sum(group, seen->words)};
    const int is_poor = (int)mm_warp_shuffle(group, mm_class_is_poor(ref, c), first);
    int is_low = 0;
    const int grows = mm_class_should_grow(ref, c, entries, all, rounds + 1, is_poor, &is_low),
              is_many = mm_popcount(need) << MM_WORD_SHIFT >= MM_GROW_SEEN_FULL;
    const uint32_t left = mm_warp_ballot(group, q == 0) & need;
    if (lane == first && is_low && entries != 0 && (is_many || left != 0)) mm_class_raise(ref, c); /* a few lanes may fill the class up */
    const uint32_t draws = mm_warp_ballot(group, grows) & left;                                    /* only some may, since lanes have had different rounds */
    if (draws == 0) return q;
    const uint32_t ticket = mm_tickets_draw(ref, group, draws, c);
    return draws >> lane & 1 ? mm_token_grow(c, ticket) : q;
}

/* The first round, for lanes with `go`. All lanes of `here` call. */
MM_FN_RARE uint64_t mm_class_look_soon(const struct mm_heap_ref *ref, uint32_t here, int go, uint32_t c) {
    struct mm_seen seen = {0, 0, 0};
    const uint32_t group = mm_warp_match(here, c), need = mm_warp_ballot(here, go) & group;
    uint64_t q = 0;
    if (need != 0) q = mm_class_look(ref, group, need, c, mm_random() + mm_warp_lane() * 0x9e3779b1u, 0, &seen);
    mm_warp_sync(here);
    return q;
}

/* Lanes with `go`, which want class c and got nothing from their first draw, draw again: up to MM_DRAWS times, as long as 1/MM_DRAWS_SHARE of those who draw
 * succeed, whatever their classes. Returns the address, or a ticket as mm_token_grow makes it, or 0. All lanes of `here` call. A function of its own: with such a
 * loop in the middle of malloc a benchmark crashed, and why is not known (docs/explanation/lessons.md). */
MM_FN_RARE uint64_t mm_slices_draw(const struct mm_heap_ref *ref, uint32_t here, int go, uint32_t c) {
    const uint32_t group = mm_warp_match(here, c);
    uint32_t need = mm_warp_ballot(here, go), turn = 0;
    uint64_t result = 0;
    MM_ROLLED
    do {
        const uint32_t before = need;
        const uint64_t q = mm_cursor_draw(ref, here, need & group, go, c, ++turn);
        if (go && q != 0) result = q, go = 0;
        need = mm_warp_ballot(here, go);
        if ((mm_popcount(before) - mm_popcount(need)) * MM_DRAWS_SHARE < mm_popcount(before)) turn = MM_DRAWS;
    } while (need != 0 && turn < MM_DRAWS);
    mm_warp_sync(here);
    return result;
}

/* The steps of malloc that come first for lanes that got a token from a draw, in functions that save few registers (mm_slice_malloc saves 70). Returns the
 * address, or the token for mm_slice_malloc. All lanes of `here` call. */
MM_FN uint64_t mm_slice_malloc_soon(const struct mm_heap_ref *ref, uint32_t here, uint64_t token) {
    const uint32_t c = mm_token_class(token);
    uint64_t q = 0;
    int go = !(token & MM_TOKEN_GROW);
    if (mm_warp_ballot(here, go) != 0) q = mm_slices_draw(ref, here, go, c);
    if (q != 0) token = q;
    go = (token & (MM_TOKEN | MM_TOKEN_GROW)) == MM_TOKEN, q = 0;
    if (mm_warp_ballot(here, go) != 0) q = mm_class_look_soon(ref, here, go, c);
    if (q != 0) token = q;
    go = (token & (MM_TOKEN | MM_TOKEN_GROW)) == (MM_TOKEN | MM_TOKEN_GROW), q = 0;
    const uint32_t with = mm_warp_ballot(here, go), same = mm_warp_match(here, go ? c : ~0u);
    if (with != 0 && mm_warp_ballot(here, go && same != with) == 0) /* lanes of several classes would wait for each other's blocks */
        q = mm_ticket_claim(ref, here, go, c, mm_token_ticket(token));
    return q != 0 ? q : token;
}

/* malloc for lanes that got a token from a draw. Returns the address, or NULL, which it counts. */
MM_FN_RARE void *mm_slice_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t c = mm_token_class(token);
    const uint32_t here = mm_warp_group(token >> 63), group = mm_warp_match(here, c), lane = mm_warp_lane();
    uint32_t random = mm_random() + lane * 0x9e3779b1u, rounds = 0, polls = 0, ticket = mm_token_ticket(token), number = 0, slice = 0;
    uint64_t p = 0;
    int is_short = 0; /* of pages, once: the lane samples once more before the shortage */
    enum mm_stage stage = token & MM_TOKEN_GROW ? MM_STAGE_TICKET : MM_STAGE_DRAW;
    struct mm_seen seen = {0, 0, 0};
    struct mm_slice_shortage shortage = {MM_SHORTAGE_NONE, mm_grow_mapped(ref), 0, 0};
    MM_ROLLED
    do {
        random = mm_random_next(random);
        if (mm_warp_ballot(here, stage == MM_STAGE_DRAW) != 0) {
            const uint64_t q = mm_slices_draw(ref, here, stage == MM_STAGE_DRAW, c);
            if (stage == MM_STAGE_DRAW) {
                if (q & MM_TOKEN) ticket = mm_token_ticket(q), stage = MM_STAGE_TICKET;
                else if (q != 0) p = q, stage = MM_STAGE_DONE;
                else stage = MM_STAGE_SAMPLE, rounds = 0;
            }
        }
        const uint32_t samples = mm_warp_ballot(here, stage == MM_STAGE_SAMPLE) & group;
        if (samples != 0) {
            if (stage == MM_STAGE_SAMPLE) shortage.before = mm_grow_mapped(ref);
            const uint64_t q = mm_class_look(ref, group, samples, c, random, rounds, &seen);
            if (stage == MM_STAGE_SAMPLE) {
                rounds++;
                if (q & MM_TOKEN) ticket = mm_token_ticket(q), stage = MM_STAGE_TICKET;
                else if (q != 0) p = q, stage = MM_STAGE_DONE;
            }
        }
        const uint32_t all_grow = mm_warp_ballot(here, stage == MM_STAGE_GROW);
        if (all_grow != 0) {
            if (stage == MM_STAGE_GROW) shortage.before = mm_grow_mapped(ref);
            const uint32_t drawn = mm_tickets_draw(ref, here, all_grow & group, c);
            if (stage == MM_STAGE_GROW) ticket = drawn, stage = MM_STAGE_TICKET;
        }
        if (stage == MM_STAGE_TICKET) number = mm_class_block_of(ref->classes[c], ticket, &slice), polls = 0, stage = MM_STAGE_MAKE;
        if (mm_warp_ballot(here, stage == MM_STAGE_MAKE) != 0) {
            int is_made = stage == MM_STAGE_MAKE;
            const int is_first = is_made && slice == 0;
            const enum mm_first first = mm_warp_ballot(here, is_made && group != here) == 0 ? MM_FIRST_ONE : MM_FIRST_SOME;
            enum mm_ticket sees = MM_TICKET_WAITS;
            uint64_t made = 0;
            MM_ROLLED
            for (uint32_t looks = 0; looks < MM_MAKE_LOOKS; looks++) { /* few instructions: the maker may run on the same multiprocessor */
                if (is_made) sees = mm_ticket_look(ref, c, number, !is_first ? MM_FIRST_NOT : polls >= MM_MAKE_POLLS ? MM_FIRST_LATE : first, &made);
                polls++; /* also if another lane ends this loop */
                if (mm_warp_ballot(here, stage != MM_STAGE_DONE && (!is_made || sees >= MM_TICKET_MADE)) != 0) break;
                mm_pause(ref, mm_at_most(1u << looks, MM_MAKE_PAUSE));
            }
            const uint32_t makes = mm_warp_ballot(here, sees == MM_TICKET_MAKE);
            if (makes != 0) {
                const uint32_t of = mm_ctz(makes), class_ = mm_warp_shuffle(here, c, of), which = mm_warp_shuffle(here, number, of);
                const int is_mine = is_made && c == class_ && number == which;
                const uint32_t taken = mm_warp_or(here, is_mine && slice < 1u << MM_WORD_SHIFT ? 1u << slice : 0);
                const uint32_t now = mm_blocks_make(ref, here, class_, which, mm_warp_shuffle(here, polls, of) > MM_MAKE_POLLS ? MM_FIRST_LATE : first, taken);
                if (is_mine && now < MM_MADE_BUSY && slice < 1u << MM_WORD_SHIFT) p = mm_slice_address(ref, now, c, slice), stage = MM_STAGE_DONE;
                is_made = stage == MM_STAGE_MAKE;
                if (is_made && sees != MM_TICKET_GONE) sees = mm_ticket_look(ref, c, number, MM_FIRST_NOT, &made);
                if (is_made && is_mine && now == MM_MADE_NO_PAGES)
                    sees = MM_TICKET_MADE, made = mm_made_make(number, now); /* a later block may have its word */
            }
            mm_warp_sync(here);
            if (mm_warp_ballot(here, is_made) == 0) continue; /* all that were to wait have slices */
            const int is_there = is_made && sees == MM_TICKET_MADE, is_gone = is_made && sees == MM_TICKET_GONE;
            const int is_block = is_there && mm_made_index(made) != MM_MADE_NO_PAGES;
            uint64_t *at = is_block ? mm_table_find(ref, c, mm_made_index(made)) : NULL;
            const uint64_t entry = at != NULL ? mm_load_relaxed_u64(at) : MM_ENTRY_NONE;
            const uint64_t q = mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
            if (is_there && q == 0) mm_tickets_skip(ref, c, number);
            if (q != 0) p = q, stage = MM_STAGE_DONE;
            else if (is_gone) stage = MM_STAGE_DRAW;
            else if (is_block || (is_made && !is_there && !(is_first && sees != MM_TICKET_BUSY) && polls >= MM_MAKE_POLLS)) stage = MM_STAGE_GROW;
            else if (is_there) {
                const struct mm_seen none = {0, 0, 0};
                mm_class_stay(ref, c);
                stage = is_short ? MM_STAGE_SHORT : MM_STAGE_SAMPLE;
                is_short = 1, rounds = 0, seen = none;
            }
        }
        const uint32_t all_short = mm_warp_ballot(here, stage == MM_STAGE_SHORT || stage == MM_STAGE_SWEEP), shorts = all_short & group;
        if (all_short == 0) continue;
        enum mm_short is = MM_SHORT_WAIT;
        int is_to_sweep = 0;
        if (shorts != 0) {
            const uint32_t first = mm_ctz(shorts);
            const enum mm_stage was = (enum mm_stage)mm_warp_shuffle(group, stage, first);
            uint32_t next = 0;
            if (lane == first) next = mm_slice_short(ref, c, was, &shortage, &is, &is_to_sweep);
            mm_warp_sync(group);
            next = mm_warp_shuffle(group, next, first);
            if (shorts >> lane & 1) stage = (enum mm_stage)next, rounds = 0;
            if (lane == first && !is_to_sweep && (next == MM_STAGE_SWEEP || next == MM_STAGE_SHORT) && is <= MM_SHORT_WAIT_HOST)
                mm_shortage_wait(ref, is == MM_SHORT_WAIT_HOST, &shortage.shortage);
        }
        const uint32_t helped = mm_shortage_help(ref, here, is, &shortage.shortage);
        if (helped != 0) shortage.shortage.has_looked = 0; /* try once more before the heap grows */
        const uint64_t narrow = mm_narrow_malloc(ref, here, shorts, c, is == MM_SHORT_SOME && helped != 0 ? MM_SHORT_WAIT : is);
        if (narrow != 0) p = narrow, stage = MM_STAGE_DONE;
        MM_ROLLED
        for (uint32_t turns = mm_warp_ballot(here, is_to_sweep); turns != 0; turns &= turns - 1) {
            const uint32_t of = mm_ctz(turns), want = mm_warp_shuffle(here, c, of), need = mm_warp_shuffle(here, shorts, of);
            const uint64_t q = mm_class_sweep(ref, here, need, want);
            const int any = mm_warp_ballot(here, q != 0) != 0;
            uint32_t next = MM_STAGE_SWEEP;
            if (lane == of) {
                mm_flight_end(&mm_class_at(ref, c)->round, any);
                if (!any && ++shortage.sweeps >= 2) next = MM_STAGE_DONE;
            }
            mm_warp_sync(here);
            next = mm_warp_shuffle(here, next, of);
            if (need >> lane & 1) p = q, stage = q != 0 ? MM_STAGE_DONE : (enum mm_stage)next;
        }
    } while (mm_warp_ballot(here, stage != MM_STAGE_DONE) != 0);
    mm_warp_sync(here); /* the lanes leave together */
    if (p == 0) mm_null_count(ref, ref->classes[c].bytes);
    return (void *)p;
}

#endif
