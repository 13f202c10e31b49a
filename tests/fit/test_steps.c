/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite steps: how the steps of an allocation and a free grow with the number of live allocations, 10^3 to 10^6, for each kind (row 16 of Bell et al.'s
 * claims). Steps are counted (MM_FIT_COUNTS in books.h), so that a busy machine changes nothing; the time is printed only. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mmconfig.h"
#include "runtime/host/fit/books.h"
#include "runtime/host/fit/fit.h"
#include "tests/fit/random.h"
#include "tests/runner.h"

enum { GRAIN = 16, LONGEST = 16, RANGES = 100, DECADES = 4, PAIRS = 2000 };
#define BASE (1ull << 40)

struct work {
    struct mm_fit *fit;
    unsigned n;
    uint64_t *address, *bytes;
    uint64_t random;
    bool is_wrong; /* checked at the end, because each ck_assert is a system call */
};

/* Fills ranges completely with n allocations; the highest range first, so that first fit finds it at once. */
static void fill(struct work *w, enum mm_fit_kind kind, unsigned n) {
    *w = (struct work){mm_fit_create(kind, GRAIN), n, (uint64_t *)malloc(n * sizeof(uint64_t)), (uint64_t *)malloc(n * sizeof(uint64_t)), n, false};
    ck_assert(w->fit && w->address && w->bytes);
    for (unsigned i = 0; i < n; i++) w->bytes[i] = (1 + random_next(&w->random) % LONGEST) * GRAIN;
    for (unsigned r = 0; r < RANGES; r++) {
        const unsigned begin = n / RANGES * r, end = n / RANGES * (r + 1);
        uint64_t sum = 0;
        for (unsigned i = begin; i < end; i++) sum += w->bytes[i];
        ck_assert(mm_fit_add(w->fit, BASE - (uint64_t)r * n * GRAIN * LONGEST / RANGES, sum));
        for (unsigned i = begin; i < end; i++) w->is_wrong |= (w->address[i] = mm_fit_allocate(w->fit, w->bytes[i])) == 0;
    }
    ck_assert_uint_eq(mm_fit_free_bytes(w->fit), 0);
}

static void end(struct work *w) {
    ck_assert(!w->is_wrong);
    mm_fit_destroy(w->fit);
    free(w->address);
    free(w->bytes);
}

/* Full memory: frees one, and allocates as much again. */
static void do_full(struct work *w) {
    const uint64_t i = random_next(&w->random) % w->n;
    w->is_wrong |= mm_fit_free(w->fit, w->address[i]) != w->bytes[i];
    w->is_wrong |= mm_fit_allocate(w->fit, w->bytes[i]) != w->address[i];
}

/* Half of the memory is free, in holes: frees one, and allocates another size. */
static void make_holes(struct work *w) {
    for (unsigned i = 0; i < w->n; i++) {
        const unsigned other = i + (unsigned)(random_next(&w->random) % (w->n - i));
        const uint64_t swapped = w->address[i];
        w->address[i] = w->address[other];
        w->address[other] = swapped;
        if (i < w->n / 2) w->is_wrong |= mm_fit_free(w->fit, w->address[i]) == 0;
    }
}
static void do_holes(struct work *w) {
    const uint64_t i = w->n / 2 + random_next(&w->random) % (w->n - w->n / 2);
    w->is_wrong |= mm_fit_free(w->fit, w->address[i]) == 0;
    w->address[i] = mm_fit_allocate(w->fit, (1 + random_next(&w->random) % LONGEST) * GRAIN);
    w->is_wrong |= w->address[i] == 0;
}

/* The exponent of n in the steps: a line through the logarithms, by least squares. */
static double slope_of(const double *steps) {
    double sum = 0, weight = 0;
    for (int i = 0; i < DECADES; i++) {
        const double x = i - (DECADES - 1) / 2.;
        sum += x * log10(steps[i]);
        weight += x * x;
    }
    return sum / weight;
}

static double measure(int kind, const char *name, void (*prepare)(struct work *), void (*pair)(struct work *), double *steps) {
    unsigned n = 1000;
    for (int i = 0; i < DECADES; i++, n *= 10) {
        struct work w;
        struct timespec begin, after;
        fill(&w, (enum mm_fit_kind)kind, n);
        if (prepare) prepare(&w);
        for (int k = 0; k < PAIRS / 4; k++) pair(&w);
        const uint64_t before = mm_fit_steps;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int k = 0; k < PAIRS; k++) pair(&w);
        clock_gettime(CLOCK_MONOTONIC, &after);
        steps[i] = (double)(mm_fit_steps - before) / PAIRS;
        printf("steps: %s: %s: %u live: %.1f steps, %.2f us\n", mm_fit_name((enum mm_fit_kind)kind), name, n, steps[i],
               ((double)(after.tv_sec - begin.tv_sec) * 1e9 + (double)(after.tv_nsec - begin.tv_nsec)) / 1e3 / PAIRS);
        end(&w);
    }
    const double slope = slope_of(steps);
    printf("steps: %s: %s: slope %.3f\n", mm_fit_name((enum mm_fit_kind)kind), name, slope);
    return slope;
}

/* Pages are half to completely full, and half of the directory is read on average. */
static void check_pages(const double *steps) {
    unsigned n = 1000;
    for (int i = 0; i < DECADES; i++, n *= 10) ck_assert_double_le(steps[i], 1.25 * n / MM_FIT_PAGE_BLOCKS + 3 * MM_FIT_PAGE_BLOCKS);
}

START_TEST(grows) {
    double full[DECADES], holes[DECADES];
    const double slope_full = measure(_i, "full", NULL, do_full, full), slope_holes = measure(_i, "holes", make_holes, do_holes, holes);
    switch (_i) {
    case MM_FIT_TLSF:
    case MM_FIT_SEGREGATED: /* O(1) */
        ck_assert_double_le(slope_full, .1);
        ck_assert_double_le(slope_holes, .1);
        ck_assert_double_le(holes[DECADES - 1], 4 + MM_FIT_LOOKS + 4);
        break;
    case MM_FIT_BITMASK: /* O(grains / 64) */
        ck_assert_double_ge(slope_full, .9);
        ck_assert_double_le(slope_full, 1.1);
        break;
    default: /* O(n/m + m): between both */
        ck_assert_double_ge(slope_full, .2);
        ck_assert_double_le(slope_full, .6);
        check_pages(full);
        if (_i != MM_FIT_BEST) check_pages(holes);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("steps");
    TCase *t = tcase_create("steps");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, grows, 0, MM_FIT_COUNT);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
