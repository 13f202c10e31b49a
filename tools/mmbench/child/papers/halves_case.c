/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "tools/mmbench/child/papers/halves.h"

#define ROUNDS_MAX 1000u
#define SHARE_OF_LIMIT 0.7 /* of the time limit, after which no round begins */

struct halves {
    void **slots[ROUNDS_MAX]; /* of each round */
    unsigned count, words;
    struct tally *tally;
};

static struct halves_round round_of(const struct halves *x, unsigned round) {
    struct halves_round r;
    r.slots = x->slots[round];
    r.first = (unsigned long long)round * x->count;
    r.count = x->count;
    r.words = x->words;
    return r;
}

static struct tally tally_of(const struct halves *x) {
    struct tally t;
    child_read(&t, x->tally, sizeof t);
    return t;
}

/* Checks what is left of all rounds. NULLs are the end of the case, and not a fault. */
static struct tally check_all(const struct halves *x, unsigned rounds) {
    struct tally t = tally_of(x);
    t.nulls = 0;
    t.lowest = ~0ull;
    child_must(cudaMemcpy(x->tally, &t, sizeof t, cudaMemcpyHostToDevice));
    for (unsigned round = 0; round < rounds; round++) alloc_halves.check(round_of(x, round), x->tally);
    return tally_of(x);
}

void run_half(const struct request *q) {
    static struct halves x;
    static double malloc_us[ROUNDS_MAX], free_us[ROUNDS_MAX];
    const double stop = child_now_ms() + child_seconds * 1e3 * SHARE_OF_LIMIT;
    unsigned rounds = 0, begun = 0;
    const char *checked = "pattern";
    memset(&x, 0, sizeof x);
    x.count = q->threads;
    x.words = (unsigned)(q->size / sizeof(unsigned));
    x.tally = (struct tally *)child_device_alloc(sizeof *x.tally);
    while (begun < ROUNDS_MAX) {
        if (child_now_ms() > stop) {
            checked = "pattern; time limit";
            break;
        }
        x.slots[begun] = (void **)child_device_alloc(x.count * sizeof(void *));
        const struct halves_round round = round_of(&x, begun++);
        child_time_begin();
        alloc_halves.take(round, NULL, x.tally);
        const double malloc_ms = child_time_end_ms();
        child_time_begin();
        alloc_halves.give_half(round, x.tally);
        const double free_ms = child_time_end_ms();
        if (tally_of(&x).nulls) break;
        malloc_us[rounds] = malloc_ms * 1e3;
        free_us[rounds++] = free_ms * 1e3;
    }
    const struct tally t = check_all(&x, begun);
    const double survived = rounds, share = (double)t.bytes / (double)child_heap_bytes;
    const double span = t.bytes ? (double)(t.end - t.lowest) / (double)t.bytes : 0;
    child_row_of("rounds", "count", (const double[]){survived, survived, survived}, 1, "-", &t, checked);
    child_row_of("share", "share", (const double[]){share, share, share}, 1, "-", &t, checked);
    child_row_of("span", "ratio", (const double[]){span, span, span}, 1, "-", &t, checked);
    child_row("malloc", "us", malloc_us, rounds, "-", &t, checked);
    child_row("free", "us", free_us, rounds, "-", &t, checked);
    child_must(cudaDeviceReset()); /* also ends the live allocations */
    child_start_device();
}
