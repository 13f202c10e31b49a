/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "tools/mmbench/child/papers/words.h"

struct words_result words_expected(const struct words_input *in) {
    struct words_result r = {0, 0};
    for (unsigned i = 0; i < in->lists; i++) {
        const unsigned words = words_of(in, i);
        r.words += words;
        for (unsigned w = 0; w < words; w++) r.sum += word_at(i, w);
    }
    return r;
}

unsigned long long words_bump_bytes(const struct words_input *in) {
    unsigned long long bytes = 0;
    for (unsigned i = 0; i < in->lists; i++) bytes += (words_of(in, i) * sizeof(unsigned) + BUMP_ALIGNMENT - 1) / BUMP_ALIGNMENT * BUMP_ALIGNMENT;
    return bytes;
}

struct words {
    struct words_input in;
    struct words_result expected, *result;
    unsigned **lists;
    struct tally *tally;
    unsigned long long *offsets; /* workgen's floor */
    void *scratch;
    size_t scratch_bytes;
};

static void load_kernels(const struct words *x, const struct words_kernels *k) {
    struct words_input none;
    memset(&none, 0, sizeof none);
    k->take(none, x->lists, NULL, x->tally);
    k->write(none, x->lists);
    k->give(none, x->lists);
    k->take_and_write(none, x->lists, NULL, x->tally);
    words_offsets(none, x->offsets, x->scratch, x->scratch_bytes);
    words_write_at(none, x->offsets, NULL, x->lists);
    words_sum(none, x->lists, x->result);
}

static void open_words(void *of) {
    struct words *x = (struct words *)of;
    x->lists = (unsigned **)child_device_alloc(x->in.lists * sizeof *x->lists);
    x->result = (struct words_result *)child_device_alloc(sizeof *x->result);
    x->tally = (struct tally *)child_device_alloc(sizeof *x->tally);
    x->scratch_bytes = words_scratch(x->in);
    x->scratch = child_device_alloc(x->scratch_bytes);
    x->offsets = (unsigned long long *)child_device_alloc((x->in.lists + 1ull) * sizeof *x->offsets);
    load_kernels(x, &alloc_words);
    load_kernels(x, &floor_words);
}

static void close_words(void *of) {
    const struct words *x = (const struct words *)of;
    child_must(cudaFree(x->lists));
    child_must(cudaFree(x->result));
    child_must(cudaFree(x->tally));
    child_must(cudaFree(x->scratch));
    child_must(cudaFree(x->offsets));
}

static void begin(const struct words *x) {
    child_must(cudaMemset(x->result, 0, sizeof *x->result));
    child_must(cudaMemset(x->tally, 0, sizeof *x->tally));
    child_must(cudaDeviceSynchronize());
}

/* Compares all lists with the CPU's. */
static void check(const struct words *x, struct tally *t) {
    struct words_result found;
    struct tally wrong;
    words_sum(x->in, x->lists, x->result);
    child_read(&found, x->result, sizeof found);
    child_read(&wrong, x->tally, sizeof wrong);
    t->nulls += wrong.nulls;
    t->corrupt += wrong.corrupt;
    if (!wrong.nulls && (found.words != x->expected.words || found.sum != x->expected.sum)) t->corrupt++;
}

static double timed_us(double begin_ms) {
    child_must(cudaGetLastError());
    child_must(cudaDeviceSynchronize());
    return (child_now_ms() - begin_ms) * 1e3;
}

static void run_write_once(void *of, struct bump *bump, double *us, struct tally *t) {
    const struct words *x = (const struct words *)of;
    const struct words_kernels *k = bump ? &floor_words : &alloc_words;
    begin(x);
    child_time_begin();
    k->take(x->in, x->lists, bump, x->tally);
    us[0] = child_time_end_ms() * 1e3;
    child_time_begin();
    k->write(x->in, x->lists);
    us[1] = child_time_end_ms() * 1e3;
    check(x, t);
    child_time_begin();
    k->give(x->in, x->lists);
    us[2] = child_time_end_ms() * 1e3;
}

/* What a program without an allocator does. */
static double prefix_sum_us(const struct words *x, struct tally *t) {
    unsigned long long words;
    void *all;
    const double begin_ms = child_now_ms();
    words_offsets(x->in, x->offsets, x->scratch, x->scratch_bytes);
    child_read(&words, x->offsets + x->in.lists, sizeof words);
    child_must(cudaMalloc(&all, words * sizeof(unsigned)));
    words_write_at(x->in, x->offsets, (unsigned *)all, x->lists);
    const double us = timed_us(begin_ms);
    check(x, t);
    child_must(cudaFree(all));
    return us;
}

static void run_workgen_once(void *of, struct bump *bump, double *us, struct tally *t) {
    const struct words *x = (const struct words *)of;
    begin(x);
    if (bump) {
        us[0] = prefix_sum_us(x, t);
        return;
    }
    const double begin_ms = child_now_ms();
    alloc_words.take_and_write(x->in, x->lists, NULL, x->tally);
    us[0] = timed_us(begin_ms);
    check(x, t);
    alloc_words.give(x->in, x->lists);
    child_must(cudaDeviceSynchronize());
}

static struct paper_program program_of(struct words *x, const struct request *q, int is_fixed) {
    struct paper_program p;
    memset(x, 0, sizeof *x);
    memset(&p, 0, sizeof p);
    x->in.lists = q->threads;
    x->in.most_words = (unsigned)(q->size / sizeof(unsigned));
    x->in.is_fixed = is_fixed;
    x->expected = words_expected(&x->in);
    p.checked = "nonnull words sum";
    p.of = x;
    p.open = open_words;
    p.close = close_words;
    return p;
}

void run_write(const struct request *q) {
    struct words x;
    struct paper_program p = program_of(&x, q, 1);
    p.steps[0] = "malloc";
    p.steps[1] = "write";
    p.steps[2] = "free";
    p.bump_bytes = words_bump_bytes(&x.in);
    p.run = run_write_once;
    paper_run(q, &p);
}

void run_workgen(const struct request *q) {
    struct words x;
    struct paper_program p = program_of(&x, q, 0);
    p.steps[0] = "time";
    p.bump_bytes = BUMP_ALIGNMENT; /* not used: the floor is prefix_sum_us */
    p.run = run_workgen_once;
    paper_run(q, &p);
}
