/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libFuzzer: calls of the books of a pool (runtime/host/fit/fit.h), each compared with the exact oracle of tests/fit/pair.h.
 *
 * Input: a byte for the kind, a byte for the grain, then four bytes for each call: which, a size (or what is kept, or an offset), and a place. Sizes are
 * units << shift, so that they reach from one grain to far more than there is.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fit/pair.h"

enum { CALLS_MAX = 512, COMPARE_CALLS = 8 }; /* compares all blocks after each COMPARE_CALLS calls */
#define PLACES (1ull << 20)                  /* where ranges are: behind it, in grains */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct pair *p, const char *call, const char *wrong) {
    if (!wrong) return;
    fprintf(stderr, "fuzz: %s: %s: %s\n", mm_fit_name(p->kind), call, wrong);
    abort();
}

static void call(struct pair *p, const uint8_t *d) {
    const uint64_t units = (uint64_t)(d[1] & 31u) << (d[1] >> 5), place = (uint64_t)d[2] | (uint64_t)d[3] << 8;
    const uint64_t address = (PLACES + place) * p->grain + d[1] % 3;
    switch (d[0] % 16) {
    case 0: same(p, "add", pair_add(p, (PLACES + place) * p->grain, units * p->grain, NULL)); break;
    case 1: same(p, "add", pair_add(p, address, units * p->grain + d[1] % 5, NULL)); break;
    case 2: same(p, "shrink", pair_shrink(p, units * p->grain)); break;
    case 3: same(p, "free", pair_free(p, address)); break;
    case 4: same(p, "look", pair_look(p, address)); break;
    case 5: same(p, "look", pair_look(p, pair_live(p, place) + d[1])); break;
    case 6: same(p, "allocate", pair_allocate(p, 0 - (uint64_t)d[1], NULL)); break;
    case 7: same(p, "allocate", pair_allocate(p, units * p->grain + d[2] % p->grain, NULL)); break;
    default:
        if (d[0] % 2) same(p, "free", pair_free(p, pair_live(p, place)));
        else same(p, "allocate", pair_allocate(p, units * p->grain, NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pair p;
    if (size < 2) return 0;
    same(&p, "begin", pair_begin(&p, (enum mm_fit_kind)(data[0] % MM_FIT_COUNT), 16ull << data[1] % 8));
    for (size_t i = 0; i < CALLS_MAX && 2 + 4 * i + 4 <= size; i++) {
        call(&p, data + 2 + 4 * i);
        if (i % COMPARE_CALLS == 0) same(&p, "compare", pair_compare(&p));
    }
    for (uint64_t address; (address = pair_live(&p, 0)) != 0;) same(&p, "free", pair_free(&p, address));
    same(&p, "compare", pair_compare(&p));
    pair_end(&p);
    return 0;
}
