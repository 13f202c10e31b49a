/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sweeps (sample.h) by the lanes of a warp: any subset of them, in any order, and with any interference; the last slices of a heap; classes that are nearly
 * full. */
#define UNIT_WARPS 3
#include <limits.h>

#include "tests/unit/warps.h"

#undef MM_LOCK_POLLS /* each poll takes two lane changes here */
#define MM_LOCK_POLLS 512u
#undef MM_SWEEP_BLOCKS /* so that several lanes pass over blocks of the tests' small classes */
#define MM_SWEEP_BLOCKS 2

#include "tests/unit/blocks.h"
#include "tests/unit/together.h"

static uint32_t c_; /* the class */
static uint32_t need_;
static uint64_t p_of[UNIT_LANES];
static void sweep_mine(uint32_t lane) { p_of[lane] = mm_class_sweep(ref, here_, need_, c_); }
static long looks_;
static void count_looks(void) { looks_++; }

/* Makes n blocks and takes all their slices. Returns how many words they have. */
static uint32_t all_taken(uint32_t c, uint32_t n) {
    new_heap();
    c_ = c;
    while (of(c)->count < n) make(c);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < mm_class_slices(c); s++) unit_lt(0, mm_slices_claim(ref, 1, 1, entry_at(c, i), s, c));
    return n * ref->classes[c].words;
}
/* Slice `bit`, or the last one, of word w of the class. */
static void *slice_of_word(uint32_t w, uint32_t bit) {
    const struct mm_class k = ref->classes[c_];
    const uint32_t most = mm_class_word_slices(k, w % k.words);
    return slice_at(mm_entry_page(entry_at(c_, w / k.words)), c_, (w % k.words << MM_WORD_SHIFT) + mm_at_most(bit, most - 1));
}
static uint32_t sweep(uint32_t here, uint32_t need) {
    need_ = need, looks_ = 0;
    memset(p_of, 0, sizeof p_of);
    unit_warps_each_step = count_looks;
    together(sweep_mine, here, TOGETHER);
    unit_warps_each_step = NULL;
    uint32_t got = 0;
    for (uint32_t i = 0; i < UNIT_LANES; i++) {
        if (p_of[i] == 0) continue;
        got++;
        unit_holds(need >> i & 1, "lane %u wants nothing, and gets a slice", i);
    }
    return got;
}
static uint32_t random_need(uint32_t here) {
    for (;;) {
        const uint32_t need = here & random_here(1);
        if (need != 0) return need;
    }
}
static uint64_t swept_slice(void) {
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (p_of[i] != 0) return p_of[i];
    return 0;
}

/* Wherever the only free slice is and wherever the sweep begins, it finds it for one lane that wants it, and ends there. */
START_TEST(sweep_finds) {
    const uint32_t words = all_taken(mm_class_of(_i ? 48 : 128), 5);
    uint64_t live = 5ull * mm_class_slices(c_) * mm_class_bytes(c_);
    for (uint32_t w = 0; w < words; w++)
        for (uint32_t k = 0; k < words + 4; k++) {
            const uint32_t here = random_here(1), many = mm_popcount(here);
            void *only = slice_of_word(w, random_below(32));
            mm_cpu_free(&heap, only);
            of(c_)->swept = k < words + 2 ? k : k == words + 2 ? words + 100 : ~0u; /* the table may have become shorter */
            unit_eq(sweep(here, random_need(here)), 1);
            unit_eq(swept_slice(), (uint64_t)(uintptr_t)only);
            unit_holds(of(c_)->swept <= w && w < of(c_)->swept + many, "found in word %u, ended at %u", w, of(c_)->swept);
        }
    unit_sound(&heap, live);
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* A sweep continues where the last one ended: of two free slices it finds the one that comes next. */
START_TEST(sweep_goes_on) {
    const uint32_t words = all_taken(mm_class_of(_i ? 48 : 128), 12);
    for (int round = 0; round < 300; round++) {
        const uint32_t here = random_here(1), many = mm_popcount(here);
        const uint32_t one = random_below(words), other = random_below(words), a = mm_at_most(one, other), b = one + other - a;
        if (b - a < many || a + words - b < 2 * many) continue; /* one look covers both */
        mm_cpu_free(&heap, slice_of_word(a, 1)), mm_cpu_free(&heap, slice_of_word(b, 2));
        of(c_)->swept = a + 1 + random_below(b - a);
        const uint32_t need = random_need(here);
        unit_eq(sweep(here, need), 1);
        unit_eq(swept_slice(), (uint64_t)(uintptr_t)slice_of_word(b, 2));
        mm_cpu_free(&heap, slice_of_word(b, 2));
        of(c_)->swept = b + 1 < words ? b + 1 : 0; /* wraps around */
        unit_eq(sweep(here, need), 1);
        unit_eq(swept_slice(), (uint64_t)(uintptr_t)slice_of_word(a, 1));
        unit_eq(sweep(here, need), 1); /* and continues from there */
        unit_eq(swept_slice(), (uint64_t)(uintptr_t)slice_of_word(b, 2));
        /* b's slice is next for the sweep; one freed at an earlier place is not */
        mm_cpu_free(&heap, slice_of_word(b, 2)), mm_cpu_free(&heap, slice_of_word(a, 1));
        unit_eq(sweep(here, need), 1);
        unit_eq(swept_slice(), (uint64_t)(uintptr_t)slice_of_word(b, 2));
        unit_eq(sweep(here, need), 1);
        unit_eq(swept_slice(), (uint64_t)(uintptr_t)slice_of_word(a, 1));
    }
    unit_sound(&heap, 12ull * mm_class_slices(c_) * mm_class_bytes(c_));
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* Nothing is free: the sweep gives up after little more than one complete look. A class without blocks yields nothing. */
START_TEST(sweep_gives_up) {
    for (uint32_t n = 0; n < 6; n++) {
        const uint32_t words = all_taken(mm_class_of(_i ? 48 : 128), n);
        for (uint32_t here = 1; here <= MM_WARP_ALL; here += 1 + here / 8)
            for (uint32_t k = 0; k < 4; k++) {
                const uint32_t many = mm_popcount(here), rounds = (words + many - 1) / many + 1;
                of(c_)->swept = words * k / 3;
                unit_eq(sweep(here, random_need(here)), 0);
                unit_le(looks_, (long)(3 * rounds * many + 2 * many + 1)); /* the class's extent, entry and word each; count, and where it is */
                unit_le((long)words, looks_);
                unit_le(of(c_)->swept, words + many);
            }
        unit_sound(&heap, (uint64_t)n * mm_class_slices(c_) * mm_class_bytes(c_));
    }
}
END_TEST

/* Some slices are free: each sweep gets at least one, for lanes that want one, each slice once, until none is left. Lanes share what one look finds;
 * a word with enough free slices serves all of them. */
START_TEST(sweep_shares) {
    for (int round = 0; round < 60; round++) {
        const uint32_t words = all_taken(mm_class_of(_i ? 48 : 128), 12);
        const uint64_t bytes = mm_class_bytes(c_);
        uint64_t live = 12ull * mm_class_slices(c_) * bytes, taken[40];
        uint32_t left = 0, sweeps = 0, n = 0;
        for (uint32_t i = 1 + random_below(20); i > 0; i--) {
            void *p = slice_of_word(random_below(words), random_below(32));
            int is_new = 1;
            for (uint32_t k = 0; k < left; k++) is_new &= taken[k] != (uint64_t)(uintptr_t)p;
            if (!is_new) continue;
            taken[left++] = (uint64_t)(uintptr_t)p, live -= bytes;
            mm_cpu_free(&heap, p);
        }
        const uint32_t all = left;
        for (; left > 0; sweeps++) {
            const uint32_t here = random_here(1), need = random_need(here), got = sweep(here, need);
            unit_le(1, got);
            unit_le(got, mm_at_most(left, mm_popcount(need)));
            for (uint32_t i = 0; i < UNIT_LANES; i++) {
                if (p_of[i] == 0) continue;
                uint32_t k = 0;
                while (k < all && taken[k] != p_of[i]) k++;
                unit_holds(k < all, "a slice that was not free");
                taken[k] = 0, n++;
            }
            left -= got, live += got * bytes;
            unit_sound(&heap, live);
        }
        unit_eq(n, all);
        unit_eq(sweep(MM_WARP_ALL, MM_WARP_ALL), 0);
        const uint32_t each = ref->classes[c_].words, w = random_below(words - UNIT_LANES);
        of(c_)->swept = w; /* one look finds one slice in each of several words: one for each lane */
        for (uint32_t i = 0; i < UNIT_LANES; i++) mm_cpu_free(&heap, slice_of_word(w + i, 7));
        unit_eq(sweep(MM_WARP_ALL, MM_WARP_ALL), UNIT_LANES);
        if (w % each + 1 < each || each == 1) { /* a word with enough for all, next to one that has a single slice; the last word of a block has few */
            const uint32_t rich = (w + 1) % each + 1 < each || each == 1 ? w + 1 : w, poor = 2 * w + 1 - rich;
            for (uint32_t i = 0; i < UNIT_LANES; i++) mm_cpu_free(&heap, slice_of_word(rich, 3 * i));
            mm_cpu_free(&heap, slice_of_word(poor, 0));
            of(c_)->swept = w;
            unit_eq(sweep(MM_WARP_ALL, MM_WARP_ALL), UNIT_LANES);
            for (uint32_t i = 0; i < UNIT_LANES; i++)
                unit_holds(p_of[i] != (uint64_t)(uintptr_t)slice_of_word(poor, 0), "of two words, although one has enough");
        }
        unit_eq(unit_misuses(&heap), 0);
    }
}
END_TEST

/* Another caller takes the only slice, or frees it, at each step of a sweep: no slice is handed out twice, and the next sweep finds what was left. */
static void *only_;
static uint64_t others_p_;
static void take_only(void) {
    const struct mm_class k = ref->classes[c_];
    const uint32_t page = mm_entry_page(entry_at(c_, 3));
    others_p_ = mm_slices_claim(ref, 1, 1, entry_at(c_, 3), (uint32_t)(((uint64_t)(uintptr_t)only_ - mm_page_address(ref, page)) / k.bytes), c_);
}
static void give_only(void) { mm_cpu_free(&heap, only_); }
static long at_, steps_;
static void (*other_)(void); /* runs at step at_ */
static void sweep_step(void) {
    if (steps_++ == at_) other_();
}
START_TEST(sweep_meets) {
    const uint32_t words = all_taken(mm_class_of(_i % 2 ? 48 : 128), 5), each = ref->classes[c_].words;
    const uint64_t live = 5ull * mm_class_slices(c_) * mm_class_bytes(c_);
    only_ = slice_of_word(3 * each + each / 2, 5);
    other_ = _i / 2 ? give_only : take_only;
    for (at_ = 0, steps_ = LONG_MAX;; at_++) {
        const uint32_t here = random_here(1), need = random_need(here);
        if (other_ == take_only) mm_cpu_free(&heap, only_);
        of(c_)->swept = random_below(words), others_p_ = 0, steps_ = 0;
        need_ = need;
        memset(p_of, 0, sizeof p_of);
        unit_warps_each_step = sweep_step;
        together(sweep_mine, here, 1u << at_ % 8);
        unit_warps_each_step = NULL;
        const int is_over = steps_ <= at_;
        if (is_over) other_();
        uint64_t p = swept_slice();
        if (other_ == give_only && p == 0) {
            unit_eq(sweep(here, need), 1);
            p = swept_slice();
        }
        unit_eq((p == (uint64_t)(uintptr_t)only_) + (others_p_ == (uint64_t)(uintptr_t)only_), 1);
        unit_eq(p != 0 && others_p_ != 0, 0);
        unit_sound(&heap, live);
        if (is_over && at_ > 3L * words) break;
    }
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* Nearly all of the heap is taken: of the lanes that want a slice, as many as there are free slices get one each, wherever those are; the others get NULL. */
static void *malloc_of[UNIT_LANES];
static void malloc_mine(uint32_t lane) { malloc_of[lane] = mm_heap_malloc(ref, mm_class_bytes(c_)); }
START_TEST(last_slices) {
    const uint32_t c = mm_class_of(_i ? 48 : 128), all = SEGMENTS * unit_slices(c), bytes = mm_class_bytes(c);
    void **held = (void **)calloc(all, sizeof *held);
    c_ = c;
    for (uint32_t i = 0; i < all; i++) unit_holds((held[i] = mm_cpu_malloc(&heap, bytes)) != NULL, "NULL before the last slice");
    for (int round = 0; round < 60; round++) {
        const uint32_t here = random_here(1), many = mm_popcount(here), apart = all / 12;
        const uint32_t n = random_below(UNIT_LANES + 3);
        uint64_t nulls = mm_cpu_null_count(&heap);
        uint32_t got = 0, from = random_below(all);
        for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[(from + i * apart) % all]);
        memset(malloc_of, 0, sizeof malloc_of);
        together(malloc_mine, here, 1u << random_below(8));
        for (uint32_t i = 0; i < UNIT_LANES; i++) got += malloc_of[i] != NULL;
        unit_eq(got, mm_at_most(n, many));
        unit_eq(mm_cpu_null_count(&heap), nulls + many - got);
        unit_sound(&heap, ((uint64_t)all - n + got) * bytes);
        for (uint32_t i = got; i < n; i++) unit_holds(mm_cpu_malloc(&heap, bytes) != NULL, "NULL while there is one");
        unit_holds(mm_cpu_malloc(&heap, bytes) == NULL, "more than there is");
    }
    for (uint32_t i = 0; i < all; i++) mm_cpu_free(&heap, held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(held);
}
END_TEST

/* A sweep that loses the slices it found to another caller goes on to the next ones. */
START_TEST(sweep_loses) {
    const uint32_t words = all_taken(mm_class_of(_i ? 48 : 128), 20), each = ref->classes[c_].words;
    const uint64_t live = 20ull * mm_class_slices(c_) * mm_class_bytes(c_);
    only_ = slice_of_word(3 * each, 5);
    void *next = slice_of_word(words - 1, 6);
    uint32_t lost = 0;
    other_ = take_only;
    for (at_ = 0;; at_++) {
        const uint32_t here = random_here(1), need = random_need(here);
        mm_cpu_free(&heap, only_), mm_cpu_free(&heap, next);
        of(c_)->swept = 0, others_p_ = 0, steps_ = 0, need_ = need;
        memset(p_of, 0, sizeof p_of);
        unit_warps_each_step = sweep_step;
        together(sweep_mine, here, TOGETHER);
        unit_warps_each_step = NULL;
        const uint64_t p = swept_slice();
        lost += p == (uint64_t)(uintptr_t)next;
        if (p == (uint64_t)(uintptr_t)only_) {
            unit_eq(others_p_, 0);
            unit_eq(sweep(here, need), 1);
            unit_eq(swept_slice(), (uint64_t)(uintptr_t)next);
        } else {
            unit_eq(p, (uint64_t)(uintptr_t)next);
            unit_eq(others_p_, (uint64_t)(uintptr_t)only_);
        }
        unit_sound(&heap, live);
        if (steps_ <= at_ && at_ > 8L * words) break;
    }
    unit_lt(0, lost);
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* A class with a third of its slices free, scattered, does not grow, whichever lanes call; a class with hardly any free does. */
START_TEST(grows_when_little_is_free) {
    const uint32_t c = mm_class_of(128), n = 24, slices = mm_class_slices(c);
    void **held = (void **)calloc(n * slices, sizeof *held);
    uint32_t left = 0;
    all_taken(c, n);
    for (uint32_t i = 0; i < n * slices;
         i++) { /* two words of eight are full, so both cursors meet them, the others have 14 free slices; or 1 slice of 301 is free */
        void *p = slice_at(mm_entry_page(entry_at(c, i / slices)), c, i % slices);
        if (_i ? i % 301 == 0 : i % 32 < 14 && i / 32 % 8 >= 2) mm_cpu_free(&heap, p);
        else held[left++] = p;
    }
    mm_class_stay(ref, c);
    of(c)->stays_ns = 0; /* not because pages ran out */
    int has_grown = 0;
    for (int round = 0; round < 100 && !has_grown; round++) {
        memset(malloc_of, 0, sizeof malloc_of);
        together(malloc_mine, MM_WARP_ALL, TOGETHER);
        has_grown = of(c)->count > n || mm_class_is_growing(of(c), 0);
        for (uint32_t i = 0; i < UNIT_LANES; i++) mm_cpu_free(&heap, malloc_of[i]);
    }
    unit_eq(has_grown, _i);
    for (uint32_t i = 0; i < left; i++) mm_cpu_free(&heap, held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sweep");
    TCase *tests = tcase_create("sweeps");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const sweeps[] = {sweep_finds, sweep_goes_on, sweep_gives_up, sweep_shares, sweep_loses};
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) tcase_add_loop_test(tests, sweeps[i], 0, 2);
    tcase_add_loop_test(tests, sweep_meets, 0, 4);
    tcase_add_loop_test(tests, last_slices, 0, 2);
    tcase_add_loop_test(tests, grows_when_little_is_free, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
