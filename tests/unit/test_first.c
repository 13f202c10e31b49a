/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The first draw of Ouroboros' page allocators (runtime/ouroboros/first.h): cells, tokens, entries that are not there, and callers that
 * are suspended at any step. Warps of several lanes: test_first_warps.c. */
#include "tests/unit/steps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"

/* A heap that has chunks of all classes, and nothing is live. Of classes with cells the caller's has an entry. */
static void begin(void) {
    for (uint32_t i = 0; i < 3 * MM_OURO_CLASSES; i++) mm_heap_free(ref, take(16ull << i / 3)); /* the first slot of a list is not found at once */
}
static uint64_t count(uint32_t q) { return mm_queue_of(ref, q)->count; }
static uint32_t *cell(uint32_t q) { return mm_cell_of(ref, q); }
/* Both halves of malloc. */
static uint64_t draw(uint64_t bytes) { return mm_pages_draw_soon(ref, bytes); }
static void *go_on(uint64_t token) { return token & MM_TOKEN ? mm_small_malloc(ref, token) : (void *)token; }

/* What goes into a token comes out of it. */
START_TEST(tokens) {
    static const uint64_t offsets[] = {0, 16, 8192 - 16, (1ull << 40) - 16};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) {
            const uint64_t left = MM_PAGE_LAST | MM_PAGE_AGAIN | (uint64_t)(q * 409) << MM_PAGE_WORD_SHIFT, token = mm_page_got(left, q, offsets[i]);
            unit_holds((token & MM_TOKEN) != 0 && token < MM_TOKEN_LARGE, "a token of another kind");
            unit_eq(mm_page_kind(token), MM_PAGE_GOT);
            unit_eq(mm_page_class(token), q);
            unit_eq(mm_page_offset(token), offsets[i]);
            unit_eq(mm_page_word(token), q * 409);
            unit_eq(token & left, left);
        }
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++)
        for (uint32_t i = 0; i < mm_chunk_masks(q); i++)
            for (uint32_t bit = 0; bit < mm_at_most(mm_chunk_pages(q), 64); bit += 1 + bit / 2) {
                const uint32_t mask = 77 * MM_OURO_MASKS + i;
                unit_eq(mm_page_mask(mm_page_got(0, q, mm_chunk_address(ref, mask, bit, q) - ref->user_base)), mask);
            }
    for (uint64_t bytes = 0; bytes <= 8192; bytes += 4096) {
        const uint64_t lost = mm_page_left(MM_PAGE_LAST, MM_QUEUE_NONE, bytes), some = mm_page_left(MM_PAGE_AGAIN, 123456789, bytes);
        unit_eq(mm_page_kind(mm_page_token(bytes)), MM_PAGE_NONE);
        unit_eq(mm_page_kind(lost), MM_PAGE_LEFT);
        unit_eq(lost & MM_PAGE_AGAIN, 0);
        unit_eq((uint32_t)(some >> MM_PAGE_BYTES_BITS) % (1u << MM_PAGE_ENTRY_BITS), 123456789);
        unit_eq(mm_page_bytes(lost) + mm_page_bytes(some) + mm_page_bytes(mm_page_token(bytes)), 3 * bytes);
        for (uint64_t p = 5; p != 0; p = p < 1ull << 60 ? p * 9 : 0)
            for (uint64_t ahead = 1; ahead < 1ull << 40; ahead *= 17) {
                const uint64_t token = mm_page_take(p, bytes);
                unit_eq(mm_page_kind(token), MM_PAGE_TAKE);
                unit_eq(mm_page_position(token, p + ahead), p);
                unit_eq(mm_page_bytes(token), bytes);
            }
    }
}
END_TEST

/* What is left of a mask goes into the cell, and the next caller takes from there: no queue has it. The last page leaves the cell empty. */
START_TEST(a_cell) {
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) {
        const uint32_t pages = mm_at_most(mm_chunk_pages(q), 64), has_cell = q < MM_OURO_CELL_CLASSES;
        uint8_t *const p = take(16ull << q);
        for (uint32_t i = 0; i < pages; i++) {
            uint64_t const before = count(q), front = mm_queue_of(ref, q)->front;
            const uint32_t held = *cell(q);
            uint8_t *const next = take(16ull << q);
            unit_holds(next != NULL && next != p, "NULL, or a page twice");
            if (!has_cell || held == 0) continue;
            unit_eq(count(q), before);
            unit_eq(mm_queue_of(ref, q)->front, front);
            unit_eq(*cell(q), *mm_chunk_mask(ref, held - 1) != 0 ? held : 0);
        }
        if (has_cell && pages > 1) unit_holds(mm_queue_of(ref, q)->back < pages, "%u pages: %u entries were put", pages, (uint32_t)mm_queue_of(ref, q)->back);
    }
    unit_sound(&heap, UNIT_ANY);
}
END_TEST

/* A lane that got no page, and has no entry, puts nothing. */
START_TEST(nothing_to_put) {
    begin();
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) {
        const uint64_t bytes = 16ull << q, back = mm_queue_of(ref, q)->back;
        unit_eq(mm_pages_settle(ref, mm_page_left(0, MM_QUEUE_NONE, bytes)), mm_page_token(bytes));
        unit_eq(mm_queue_of(ref, q)->back, back);
    }
    unit_sound(&heap, UNIT_ANY);
}
END_TEST

/* Two chunks of 512 B are cut, and free: two entries. */
static void two_masks(void) {
    uint8_t *pages[17];
    for (uint32_t i = 0; i < 17; i++) pages[i] = take(512);
    for (uint32_t i = 0; i < 17; i++) mm_heap_free(ref, pages[i]);
}
/* The cell is filled at any step, while a caller has an entry of the queue: what is left goes back into the queue then. _i: a sweep takes the page that the caller wants, too, and
 * the caller gets another one. */
static void *one_page;
static uint64_t one_token;
static void take_one(void *arg) { (void)arg, one_page = go_on(one_token = draw(512)); }
START_TEST(a_cell_that_is_full) {
    uint32_t entries[4], queued = 0, without = 0;
    int done = 0;
    unit_actor_home[0] = mm_warp_slot();
    two_masks();
    for (long steps = 0; !done; steps++) {
        unit_eq(drain(5, entries, 4), 2);
        const uint32_t sum = entries[0] + entries[1];
        unit_eq(mm_entry_put(ref, 5, entries[0], 1, MM_OURO_LONG_LOOKS), 1);
        unit_actor_make(0, take_one, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        const int is_filled = !done && *cell(5) == 0;
        if (is_filled) *cell(5) = entries[1] + 1;
        uint64_t rest, swept = is_filled && _i ? mm_mask_take(ref, entries[0], 1, &rest) : 0;
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        queued += count(5) != 0, without += mm_page_kind(one_token) == MM_PAGE_LEFT && (one_token & MM_TOKEN) != 0;
        if (swept != 0) mm_heap_free(ref, (void *)mm_chunk_address(ref, entries[0], mm_ctz(swept), 5));
        if (!is_filled) unit_eq(mm_entry_put(ref, 5, entries[1], 1, MM_OURO_LONG_LOOKS), 1);
        mm_heap_free(ref, one_page);
        unit_sound(&heap, 0);
        unit_eq(drain(5, entries, 4), 2);
        unit_eq(entries[0] + entries[1], sum);
        for (uint32_t i = 0; i < 2; i++) unit_eq(mm_entry_put(ref, 5, entries[i], 1, MM_OURO_LONG_LOOKS), 1);
    }
    unit_lt(0, queued);
    if (_i) unit_lt(0, without);
}
END_TEST

/* Another caller, in another cell, comes at each step of a first draw or of what follows; and so do two of the same cell. No page is handed out twice, none is
 * lost, and all entries are somewhere. */
static uint64_t bytes_now;
static uint8_t *got[2];
static void get(void *arg) { *(uint8_t **)arg = take(bytes_now); }
static void get_two(void *arg) {
    uint8_t *const first = take(bytes_now);
    *(uint8_t **)arg = take(bytes_now);
    mm_heap_free(ref, first);
}
static void get_or_two(void *arg) { (arg == &got[0] ? get : get_two)(arg); }
START_TEST(two_callers) {
    static const uint64_t sizes[] = {16, 128, 256, 4096, 8192};
    bytes_now = sizes[_i % 5];
    unit_actor_home[0] = 0, unit_actor_home[1] = _i / 5;
    begin();
    void *args[2] = {&got[0], &got[1]};
    int ended = 0;
    for (long a = 0; !(ended & 1); a++)
        for (long b = 0; b < 80; b += 1 + b / 8) {
            ended = unit_interleave(get_or_two, args, a, b, 1);
            unit_holds(got[0] != NULL && got[1] != NULL && got[0] != got[1], "after %ld and %ld steps: %p, %p", a, b, (void *)got[0], (void *)got[1]);
            unit_sound(&heap, 2 * bytes_now);
            mm_heap_free(ref, got[0]), mm_heap_free(ref, got[1]);
            unit_sound(&heap, 0);
        }
    unit_eq(refused(), 0);
}
END_TEST

/* A putter is suspended at any step, and another one that came later is done. The caller gets its right, and a position whose entry may not be there: it gets a
 * page nevertheless, and both entries are somewhere at the end. */
static void put_late(void *arg) { mm_entry_put(ref, 5, *(uint32_t *)arg, 1, MM_OURO_LONG_LOOKS); }
START_TEST(an_entry_that_is_late) {
    uint32_t entries[4], late = 0;
    two_masks();
    int done = 0;
    for (long steps = 0; !done; steps++) {
        unit_eq(drain(5, entries, 4), 2);
        const uint32_t sum = entries[0] + entries[1];
        unit_actor_make(0, put_late, &entries[0]);
        unit_go(0, steps);
        done = unit_actor[0].done;
        unit_eq(mm_entry_put(ref, 5, entries[1], 1, MM_OURO_LONG_LOOKS), 1);
        const uint64_t token = draw(512);
        late += (token & MM_TOKEN) != 0 && mm_page_kind(token) == MM_PAGE_TAKE;
        void *const p = go_on(token);
        unit_holds(p != NULL, "NULL");
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        mm_heap_free(ref, p);
        unit_eq(drain(5, entries, 4), 2);
        unit_eq(entries[0] + entries[1], sum);
        for (uint32_t i = 0; i < 2; i++) unit_eq(mm_entry_put(ref, 5, entries[i], 1, MM_OURO_LONG_LOOKS), 1);
        unit_sound(&heap, 0);
    }
    unit_lt(0, late);
#if MM_OURO_QUEUE == MM_OURO_VA /* all have passed in the positions that were drawn */
    unit_eq(drain(5, entries, 4), 2);
    const uint64_t front = mm_queue_of(ref, 5)->front;
    unit_eq(front, mm_queue_of(ref, 5)->back);
    unit_lt(front, MM_STORE_SLOTS);
    unit_eq(*mm_store_passed(ref, 5, 0), 2 * front);
#endif
}
END_TEST

/* One page of a mask is left, and a lane that is alone takes it, while its entry stays in the cell. At any of its steps, a page of the mask is freed. _i: 1 and 2:
 * before, another caller, in the same cell or in another one, takes the page; 3: after that, others take it, drop the entry, and put the one that comes with the
 * next free into the cell. The mask keeps an entry. */
static void others_take_it(uint32_t entry, uint8_t **pages) {
    uint32_t dropped[256];
    uint8_t *const one = take(512);
    if (*mm_chunk_mask(ref, entry) == 0) unit_le(drain(5, dropped, 256), 2);
    mm_heap_free(ref, one), mm_heap_free(ref, pages[1]);
    pages[1] = take(512);
}
START_TEST(the_last_page) {
    uint8_t *pages[15];
    uint32_t entries[256], freed = 0;
    int done = 0;
    unit_actor_home[0] = mm_warp_slot();
    begin();
    for (long steps = 0; !done; steps++) {
        uint64_t rest;
        uint8_t *other = NULL;
        const uint32_t n = drain(5, entries, 256), entry = entries[0];
        unit_lt(0, n);
        for (uint32_t i = 0; i < 15; i++) pages[i] = (uint8_t *)mm_chunk_address(ref, entry, mm_ctz(mm_mask_take(ref, entry, 1, &rest)), 5);
        *cell(5) = entry + 1;
        unit_actor_make(0, take_one, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        if (_i == 1) other = take(512);
        if (_i == 2) other = (uint8_t *)mm_cells_take(ref, 1, 1, 5);
        mm_heap_free(ref, pages[0]);
        if (_i == 3) others_take_it(entry, pages);
        for (uint32_t i = 1; i < n; i++) unit_eq(mm_entry_put(ref, 5, entries[i], 1, MM_OURO_LONG_LOOKS), 1);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        unit_holds(one_page != NULL && one_page != other, "after %ld steps: %p, %p", steps, one_page, (void *)other);
        unit_sound(&heap, UNIT_ANY);
        freed += *mm_chunk_mask(ref, entry) != 0;
        mm_heap_free(ref, one_page), mm_heap_free(ref, other);
        for (uint32_t i = 1; i < 15; i++) mm_heap_free(ref, pages[i]);
        unit_sound(&heap, 0);
    }
    unit_lt(0, freed);
}
END_TEST

/* In each group of cells, one has a mask without pages, and another one pages: callers that look find these, all of them. */
START_TEST(cells_without_pages) {
    uint32_t entries[4];
    begin();
    two_masks();
    unit_lt(1, drain(5, entries, 4));
    uint64_t *const none = mm_chunk_mask(ref, entries[0]), *const some = mm_chunk_mask(ref, entries[1]);
    for (uint32_t order = 0; order < 2; order++) {
        *none = 0;
        *some = 0xfff;
        for (uint32_t i = 0; i < MM_OURO_CELLS; i++) *mm_cell_at(ref, 5, i) = i % 8 == 2 ? entries[order] + 1 : i % 8 == 6 ? entries[!order] + 1 : 0;
        for (uint32_t i = 0; i < 1000 && *some != 0; i++) (void)mm_cells_take(ref, 1, 1, 5);
        unit_eq(*some, 0);
    }
}
END_TEST

/* A sweep takes the page that a caller has found in the cell of others, at any of its steps. */
static void take_of_others(void *arg) { (void)arg, one_page = (void *)mm_cells_take(ref, 1, 1, 5); }
START_TEST(a_page_that_goes) {
    uint32_t entries[4], gone = 0;
    int done = 0;
    begin();
    unit_lt(0, drain(5, entries, 4));
    const uint32_t entry = entries[0];
    uint64_t *const mask = mm_chunk_mask(ref, entry), all = *mask;
    for (uint32_t i = 0; i < MM_OURO_CELLS; i++) *mm_cell_at(ref, 5, i) = entry + 1;
    for (long steps = 0; !done; steps++) {
        uint64_t rest;
        *mask = all & (0 - all);
        unit_actor_make(0, take_of_others, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        const uint64_t swept = mm_mask_take(ref, entry, 1, &rest);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        unit_holds((swept == 0) == (one_page != NULL), "after %ld steps: %p, and %d pages for a sweep", steps, one_page, (int)mm_popcount(swept));
        gone += swept != 0;
    }
    unit_lt(1, gone);
}
END_TEST

#if MM_OURO_QUEUE == MM_OURO_VL
/* The slot of position p, by the links alone; NULL: its queue chunk is not in the list. */
static uint32_t *linked_slot(uint64_t p) {
    const uint32_t number = mm_links_number(9, (uint32_t)(p / MM_STORE_SLOTS));
    uint64_t word = mm_queue_of(ref, 9)->oldest;
    while ((uint32_t)word != 0 && word >> 32 != number) word = mm_store_at(ref, (uint32_t)word)->next;
    return (uint32_t)word != 0 ? &mm_store_at(ref, (uint32_t)word)->slot[p % MM_STORE_SLOTS] : NULL;
}
/* A slot that is found soon is that of the position; there is none in a queue chunk that is not in the list, and none for the first position of one. A list
 * becomes longer by a share of its length; a short one does not. */
START_TEST(slots_of_a_list) {
    struct mm_queue *const of = mm_queue_of(ref, 9);
    uint32_t found = 0, times = 0;
    mm_heap_free(ref, take(8192));
    for (uint32_t i = 0; i < 5 * MM_STORE_SLOTS; i++) {
        const uint64_t p = of->front, view = mm_queue_view(ref, 9);
        uint32_t *const slot = mm_queue_slot_soon(ref, 9, p, view);
        unit_holds(slot == NULL || (p % MM_STORE_SLOTS != 0 && slot == linked_slot(p)), "position %llu", (unsigned long long)p);
        found += slot != NULL;
        for (uint64_t ahead = 2; ahead < 6; ahead++)
            unit_holds(mm_queue_slot_soon(ref, 9, p + ahead * MM_STORE_SLOTS, view) == NULL, "position %llu, %u ahead", (unsigned long long)p, (uint32_t)ahead);
        mm_heap_free(ref, take(8192));
    }
    unit_lt(9 * MM_STORE_SLOTS / 2, found);
    uint64_t newest = of->newest;
    for (uint32_t i = 0; i < 15 * MM_STORE_SLOTS; i++) {
        unit_eq(mm_entry_put(ref, 9, 1, 1, MM_OURO_LONG_LOOKS), 1);
        times += of->newest != newest;
        newest = of->newest;
        const uint32_t back = (uint32_t)(of->back / MM_STORE_SLOTS), length = (back - (uint32_t)(of->oldest >> 32)) % MM_LINKS_NUMBERS;
        unit_le(((uint32_t)(newest >> 32) - back) % MM_LINKS_NUMBERS, 1 + length / MM_OURO_AHEAD); /* other queues need some, too */
    }
    unit_lt(0, times);
    unit_lt(times, 6);
    for (uint64_t p = of->front | 1; p < of->back; p += MM_STORE_SLOTS) {
        uint32_t *const slot = mm_queue_slot_soon(ref, 9, p, mm_queue_view(ref, 9));
        unit_holds(slot != NULL && slot == linked_slot(p), "position %llu of a long list", (unsigned long long)p);
        unit_holds(mm_queue_slot_soon(ref, 9, p + (uint64_t)MM_STORE_NUMBERS * MM_STORE_SLOTS, 0) == NULL, "position %llu, a lap later", (unsigned long long)p);
    }
}
END_TEST
#endif

/* A caller that finds nothing in the queue looks into cells of others, before it cuts a chunk. */
START_TEST(cells_before_a_chunk_is_cut) {
    begin();
    uint32_t entries[4];
    unit_lt(0, drain(5, entries, 4));
    const uint64_t fresh = mm_queue_of(ref, MM_OURO_FRESH)->front;
    for (uint32_t i = 1; i < MM_OURO_CELLS; i += 2) *mm_cell_at(ref, 5, mm_warp_slot() + i) = entries[0] + 1; /* not the caller's */
    uint8_t *const p = take(512);
    unit_holds(p == (uint8_t *)mm_chunk_address(ref, entries[0], mm_ctz(~*mm_chunk_mask(ref, entries[0])), 5), "another page");
    unit_eq(mm_queue_of(ref, MM_OURO_FRESH)->front, fresh);
    uint32_t held = 0;
    for (uint32_t i = 0; i < MM_OURO_CELLS; i++) held += *mm_cell_at(ref, 5, i) != 0;
    unit_eq(held, MM_OURO_CELLS / 2);
    unit_eq(count(5), 0);
    for (uint32_t i = 0; i < MM_OURO_CELLS; i++) *mm_cell_at(ref, 5, i) = 0;
    drain(5, entries, 4);
    unit_holds(take(512) != NULL, "NULL");
    unit_lt(fresh, mm_queue_of(ref, MM_OURO_FRESH)->front);
}
END_TEST

/* A sweep's claim of a free chunk puts all masks in which pages are left, once each. */
START_TEST(a_claim_puts_what_is_left) {
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) {
        uint32_t entries[16], chunk = MM_QUEUE_NONE, seen = 0;
        mm_heap_free(ref, take(16ull << q));
        drain(q, entries, 16);
        for (uint32_t i = 0; i < SEGMENTS * MM_OURO_SEGMENT_CHUNKS && chunk == MM_QUEUE_NONE; i++)
            if (mm_list_has(ref, i / MM_OURO_SEGMENT_CHUNKS) && (uint32_t)*mm_chunk_header(ref, i) == 0) chunk = i;
        const uint32_t masks = mm_chunk_masks(q), left = mm_chunk_pages(q) > 1 ? masks : 0;
        unit_holds(mm_listed_claim(ref, chunk, q + 1) == mm_chunk_address(ref, chunk * MM_OURO_MASKS, 0, q), "class %u: another page", q);
        unit_eq(drain(q, entries, 16), left);
        for (uint32_t i = 0; i < left; i++) seen |= 1u << (entries[i] - chunk * MM_OURO_MASKS);
        unit_eq(seen, (1u << left) - 1);
    }
}
END_TEST

/* An entry without free pages is dropped; there is memory nevertheless. */
START_TEST(an_old_entry) {
    begin();
    uint64_t *const mask = mm_chunk_mask(ref, *cell(2) - 1), all = *mask;
    unit_lt(0, *cell(2));
    *mask = 0;
    const uint64_t token = draw(64);
    unit_eq(token, mm_page_token(64));
    unit_eq(*cell(2), 0);
    *mask = all;
    unit_holds(go_on(token) != NULL, "NULL");
}
END_TEST

/* Objects come and go one after the other, far beyond the positions of a queue chunk: the memory of the queue is used again, each time by the caller that passes
 * last, whether it has a page or not. */
START_TEST(on_and_on) {
    const uint64_t bytes = 8192;
    uint8_t *kept[64];
    for (uint32_t i = 0; i < 64; i++) kept[i] = take(bytes);
    for (uint32_t i = 0; i < 40000; i++) {
        const uint32_t k = i % 64;
        mm_heap_free(ref, kept[k]);
        unit_holds((kept[k] = take(bytes)) != NULL, "NULL");
    }
    unit_sound(&heap, 64 * bytes);
    unit_lt(20000, mm_queue_of(ref, 9)->front);
    unit_eq(refused(), 0);
#if MM_OURO_QUEUE == MM_OURO_VA
    unit_le(mm_queue_of(ref, MM_OURO_FREE)->pool_fresh, 8);
    unit_le(mm_queue_of(ref, 9)->front / MM_STORE_SLOTS, mm_queue_of(ref, 9)->oldest + 1);
#endif
}
END_TEST

/* Entries in cells of other places: a caller finds their pages before it gets NULL. */
START_TEST(cells_of_others) {
    const uint32_t all = SEGMENTS * MM_SEGMENT_BYTES / 64;
    static uint8_t *held[SEGMENTS * MM_SEGMENT_BYTES / 64];
    uint32_t entries[16];
    for (uint32_t i = 0; i < all; i++) unit_holds((held[i] = take(64)) != NULL, "NULL");
    unit_holds(take(64) == NULL, "more than there is");
    for (uint32_t i = 0; i < 10; i++) mm_heap_free(ref, held[i * 1001]);
    const uint32_t n = drain(2, entries, 16);
    unit_eq(n, 10);
    for (uint32_t i = 0; i < n; i++) *mm_cell_at(ref, 2, 100 + i) = entries[i] + 1;
    unit_sound(&heap, (all - 10) * 64ull);
    for (uint32_t i = 0; i < 10; i++) unit_holds(take(64) != NULL, "page %u is lost", i);
    unit_holds(take(64) == NULL, "more than there is");
    unit_sound(&heap, all * 64ull);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("first");
    TCase *tests = tcase_create("first");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, two_callers, 0, 10);
    tcase_add_loop_test(tests, a_cell_that_is_full, 0, 2);
    tcase_add_loop_test(tests, the_last_page, 0, 4);
    const TTest *const all[] = {tokens,
                                a_cell,
                                nothing_to_put,
                                an_entry_that_is_late,
                                an_old_entry,
                                on_and_on,
                                cells_of_others,
                                cells_before_a_chunk_is_cut,
                                a_page_that_goes,
                                cells_without_pages,
                                a_claim_puts_what_is_left};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
#if MM_OURO_QUEUE == MM_OURO_VL
    tcase_add_test(tests, slots_of_a_list);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
