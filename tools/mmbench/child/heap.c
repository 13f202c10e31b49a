/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases about the heap: how much of it can be used, how far allocations spread, what its creation costs, how it ages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/child.h"

#define PAGES (1u << 21) /* of 2 MiB: 4 TiB, more than any GPU reserves in one piece */
#define CHECK_ROUNDS 50u
#define ROUNDS_MAX 100000u
#define ENDURANCE_SHARE 0.6 /* of a request's time limit; then the case stops and reports the rounds so far */

static struct tally *tally_open(void) {
    const struct tally t = child_nothing_found();
    struct tally *on_device = (struct tally *)child_device_alloc(sizeof *on_device);
    child_must(cudaMemcpy(on_device, &t, sizeof t, cudaMemcpyHostToDevice));
    return on_device;
}

static struct tally tally_close(struct tally *on_device) {
    struct tally t;
    child_read(&t, on_device, sizeof t);
    child_must(cudaFree(on_device));
    return t;
}

/* ---- util: the share of the heap that can be handed out -------------------------------------------- */

/* The allocations are not freed; they end with the process. */
void run_util(const struct request *q) {
    void **lists = (void **)child_device_alloc(q->threads * sizeof *lists);
    struct tally *on_device = tally_open();
    alloc_exhaust(lists, q->threads, q->size, on_device);
    alloc_walk(lists, q->threads, on_device);
    struct tally t = tally_close(on_device);
    double before = (double)t.bytes_before_null / (double)child_heap_bytes;
    double all = (double)t.bytes / (double)child_heap_bytes;
    t.nulls = 0; /* expected: one per thread */
    child_row("share", "share", &before, 1, "-", &t, "aligned linked");
    child_row("share_all", "share", &all, 1, "-", &t, "aligned linked");
}

/* ---- frag: how far the first million spreads ------------------------------------------------------- */

void run_frag(const struct request *q) {
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = q->threads;
    a.size = q->size;
    void **pointers = (void **)child_device_alloc(a.count * sizeof *pointers);
    struct tally *on_device = tally_open();
    alloc_malloc(pointers, &a);
    plain_fill(pointers, &a, NULL, -1, 0);
    plain_check(pointers, &a, NULL, 0, on_device);
    struct tally *bounds = tally_open(); /* a separate tally, because both kernels count NULLs */
    plain_bounds(pointers, &a, NULL, bounds);
    struct tally t = tally_close(on_device);
    const struct tally b = tally_close(bounds);
    double span = t.nulls == a.count ? 0 : (double)(b.end - b.lowest) / ((double)a.size * (a.count - (double)t.nulls));
    child_row("span", "ratio", &span, 1, "-", &t, "nonnull aligned filled");
    alloc_free(pointers, &a);
    child_must(cudaDeviceSynchronize());
    child_must(cudaFree(pointers));
}

/* ---- init: what the first launch costs the host ------------------------------------------------------ */

static double launch_ms(void (*launch)(void)) {
    const double begin = child_now_ms();
    launch();
    child_must(cudaGetLastError());
    child_must(cudaDeviceSynchronize());
    return child_now_ms() - begin;
}

/* The first launch of a context costs more than the creation of the heap. So the module without a heap is launched first. */
void run_init(const struct request *q) {
    static double plain[1000], allocating[1000], first[2];
    const struct tally t = child_nothing_found();
    const unsigned runs = q->runs < 1000 ? q->runs : 1000;
    first[0] = launch_ms(plain_empty);
    first[1] = launch_ms(alloc_empty);
    for (unsigned run = 0; run < runs; run++) {
        child_must(cudaDeviceReset());
        child_start_device();
        plain[run] = launch_ms(plain_empty);
        allocating[run] = launch_ms(alloc_empty);
    }
    child_row("plain", "ms", plain, runs, "-", &t, "launched");
    child_row("allocating", "ms", allocating, runs, "-", &t, "launched");
    child_row("plain_process", "ms", &first[0], 1, "-", &t, "launched");
    child_row("allocating_process", "ms", &first[1], 1, "-", &t, "launched");
}

/* ---- endurance: a heap three quarters full, half of which changes every round ------------------------ */

/* MiB of all 2 MiB pages that hold a byte of a live allocation; 0 if they spread over more than PAGES pages. */
static double footprint_mib(void **pointers, const struct asks *a, const unsigned *rounds) {
    static unsigned bits[PAGES / 32];
    struct tally *on_device = tally_open();
    plain_bounds(pointers, a, rounds, on_device);
    const struct tally t = tally_close(on_device);
    const unsigned long long base = t.lowest >> 21 << 21;
    if (t.end <= t.lowest || (t.end - base) >> 21 >= PAGES) return 0;
    unsigned *on_device_bits = (unsigned *)child_device_alloc(sizeof bits);
    unsigned pages = 0;
    plain_pages(pointers, a, rounds, base, on_device_bits, PAGES);
    child_read(bits, on_device_bits, sizeof bits);
    child_must(cudaFree(on_device_bits));
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) pages += (unsigned)__builtin_popcount(bits[i]);
    return pages * 2.0;
}

void run_endurance(const struct request *q) {
    static double malloc_us[ROUNDS_MAX], free_us[ROUNDS_MAX];
    const double stop = child_now_ms() + child_seconds * 1e3 * ENDURANCE_SHARE;
    const unsigned wanted = q->runs < ROUNDS_MAX ? q->runs : ROUNDS_MAX, early = wanted > 100 ? 100 : wanted / 2;
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = q->threads;
    a.size = q->size;
    a.sizing = SIZING_UNIFORM;
    void **pointers = (void **)child_device_alloc(a.count * sizeof *pointers);
    unsigned *rounds = (unsigned *)child_device_alloc(a.count * sizeof *rounds);
    struct tally *on_device = tally_open(), *slots = tally_open();
    double footprint[2] = {0, 0};
    unsigned round = 0;
    for (;; round++) { /* round 0: every slot gets its first allocation */
        child_time_begin();
        alloc_free_half(pointers, rounds, a.count, round);
        const double free_ms = child_time_end_ms();
        child_time_begin();
        alloc_malloc_half(pointers, rounds, &a, round, on_device);
        const double malloc_ms = child_time_end_ms();
        plain_fill(pointers, &a, rounds, (int)round, 0);
        if (round > 0) {
            free_us[round - 1] = free_ms * 1e3;
            malloc_us[round - 1] = malloc_ms * 1e3;
        }
        const int last = round == wanted || child_now_ms() > stop;
        if (round % CHECK_ROUNDS == 0 || last) plain_check(pointers, &a, rounds, 0, slots);
        if (round == early) footprint[0] = footprint_mib(pointers, &a, rounds);
        if (last) break;
    }
    footprint[1] = footprint_mib(pointers, &a, rounds);
    struct tally t = tally_close(on_device);
    t.corrupt = tally_close(slots).corrupt;
    const char *checked = "nonnull aligned filled";
    double live = 0;
    for (unsigned i = 0; i < a.count; i++) live += (double)ask_bytes(&a, i, 0);
    live /= 1 << 20; /* other rounds differ by chance only */
    child_row("malloc", "us", malloc_us, round, "-", &t, checked);
    child_row("free", "us", free_us, round, "-", &t, checked);
    child_row("live", "MiB", &live, 1, "-", &t, checked);
    child_row("footprint_early", "MiB", footprint, round >= early ? 1 : 0, "-", &t, checked);
    child_row("footprint_last", "MiB", footprint + 1, 1, "-", &t, checked);
    child_must(cudaDeviceReset()); /* also ends the live allocations */
    child_start_device();
}
