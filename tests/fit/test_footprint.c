/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite footprint: how much memory each kind of books needs for the calls of mmbench's cases "malloc_large" (Bell et al.) and "hostlog" (training). */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/runner.h"
#include "runtime/host/fit/fit.h"
#include "tools/mmbench/child/papers/host.h"

enum { GRAIN = 512 };
#define BASE (1ull << 40)
#define STEP (32ull << 20) /* bytes of a range, unless a request needs more */
#define CHUNK (2ull << 20) /* ranges are multiples of this, as cuMemCreate's */

/* Replays a log. begin: bytes of a first range. steps: whether a range is added where an allocation fails. Returns the bytes of all ranges, or 0 if an
 * allocation failed. */
static uint64_t replay(const struct host_log *l, enum mm_fit_kind kind, uint64_t begin, bool steps) {
    uint64_t *address = (uint64_t *)calloc(l->blocks, sizeof *address), taken = begin, next = BASE + begin;
    struct mm_fit *fit = mm_fit_create(kind, GRAIN);
    ck_assert(address && fit);
    if (begin) ck_assert(mm_fit_add(fit, BASE, begin));
    for (unsigned i = 0; i < l->count && taken + steps; i++) {
        const struct host_call *c = &l->calls[i];
        if (c->size == 0) {
            ck_assert_uint_ge(mm_fit_free(fit, address[c->id]), 1);
            continue;
        }
        address[c->id] = mm_fit_allocate(fit, c->size);
        if (address[c->id] == 0 && !steps) taken = 0;
        if (address[c->id] == 0 && steps) {
            const uint64_t least = c->size > STEP ? c->size : STEP, bytes = (least + CHUNK - 1) / CHUNK * CHUNK;
            ck_assert(mm_fit_add(fit, next, bytes));
            next += bytes;
            taken += bytes;
            address[c->id] = mm_fit_allocate(fit, c->size);
            ck_assert_uint_ne(address[c->id], 0);
        }
    }
    if (taken) ck_assert_uint_eq(mm_fit_live_bytes(fit), 0);
    ck_assert_ptr_eq(mm_fit_check(fit), NULL);
    mm_fit_destroy(fit);
    free(address);
    return taken;
}

struct footprint {
    double one, many; /* in one range, in ranges that are added: bytes over the most live */
};

static struct footprint measure(const char *name, const struct host_log *l, enum mm_fit_kind kind) {
    struct footprint f = {0, 0};
    for (unsigned percent = 100; f.one == 0 && percent <= 400; percent++)
        if (replay(l, kind, l->most_live / 100 * percent / GRAIN * GRAIN, false)) f.one = percent / 100.;
    f.many = (double)replay(l, kind, 0, true) / (double)l->most_live;
    printf("footprint: %s: %s: %.2f in one range, %.2f in ranges of %llu MiB\n", name, mm_fit_name(kind), f.one, f.many, STEP >> 20);
    ck_assert_msg(f.one > 0, "%s: four times the live bytes do not suffice", name);
    return f;
}

/* Claim 15 of Bell et al.: 1.2 for TLSF, 2 for segregated fit. TLSF reaches that in one range, but not in ranges that are added on demand. */
START_TEST(large) {
    struct host_log l;
    host_log_begin(&l);
    ck_assert_ptr_eq(host_log_large(&l), NULL);
    const struct footprint f = measure("malloc_large", &l, (enum mm_fit_kind)_i);
    if (_i == MM_FIT_TLSF) ck_assert_double_le(f.one, 1.2);
    if (_i == MM_FIT_SEGREGATED) ck_assert_double_le(f.one, 2);
    if (_i == MM_FIT_SEGREGATED) ck_assert_double_le(f.many, 2);
    host_log_end(&l);
}
END_TEST

START_TEST(training) {
    struct host_log l;
    host_log_begin(&l);
    ck_assert_ptr_eq(host_log_training(&l), NULL);
    measure("training", &l, (enum mm_fit_kind)_i);
    host_log_end(&l);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("footprint");
    TCase *t = tcase_create("footprint");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, large, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, training, 0, MM_FIT_COUNT);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
