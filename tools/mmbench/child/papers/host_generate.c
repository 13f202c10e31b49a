/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Generated logs of calls by the host. */
#include "tools/mmbench/child/papers/host.h"

/* ---- random numbers ------------------------------------------------------------------------------ */

/* The constants of mt19937-64.c. */
#define MT64_SHIFT_WORDS 156u
#define MT64_MATRIX 0xb5026f5aa96619e9ull
#define MT64_LOWER 0x7fffffffull /* the lower 31 bits */

void mt64_seed(struct mt64 *m, uint64_t seed) {
    m->words[0] = seed;
    for (unsigned i = 1; i < MT64_WORDS; i++) m->words[i] = 6364136223846793005ull * (m->words[i - 1] ^ m->words[i - 1] >> 62) + i;
    m->next = MT64_WORDS;
}

uint64_t mt64_next(struct mt64 *m) {
    if (m->next == MT64_WORDS) {
        for (unsigned i = 0; i < MT64_WORDS; i++) {
            const uint64_t x = (m->words[i] & ~MT64_LOWER) | (m->words[(i + 1) % MT64_WORDS] & MT64_LOWER);
            m->words[i] = m->words[(i + MT64_SHIFT_WORDS) % MT64_WORDS] ^ x >> 1 ^ (x & 1 ? MT64_MATRIX : 0);
        }
        m->next = 0;
    }
    uint64_t x = m->words[m->next++];
    x ^= x >> 29 & 0x5555555555555555ull;
    x ^= x << 17 & 0x71d67fffeda60000ull;
    x ^= x << 37 & 0xfff7eee000000000ull;
    return x ^ x >> 43;
}

/* ---- generators ---------------------------------------------------------------------------------- */

/* A log, and the first reason why a call was refused. */
struct making {
    struct host_log *log;
    struct mt64 random;
    const char *wrong;
};

static void begin(struct making *m, struct host_log *l) {
    m->log = l;
    m->wrong = NULL;
    mt64_seed(&m->random, HOST_SEED);
}

static const char *end(const struct making *m) { return m->wrong ? m->wrong : host_log_complete(m->log); }

/* Returns the id of the block. */
static unsigned take(struct making *m, uint64_t bytes) {
    if (!m->wrong) m->wrong = host_log_add(m->log, bytes, HOST_LOG_NONE);
    return m->log->blocks - 1;
}

static void give(struct making *m, unsigned id) {
    if (!m->wrong) m->wrong = host_log_add(m->log, 0, id);
}

static uint64_t draw(struct making *m, uint64_t least, uint64_t most) { return least + mt64_next(&m->random) % (most - least + 1); }

const char *host_log_large(struct host_log *l) {
    struct making m;
    unsigned ids[LARGE_SLOTS];
    int used[LARGE_SLOTS] = {0};
    begin(&m, l);
    for (unsigned step = 0; step < LARGE_STEPS; step++) {
        const unsigned slot = (unsigned)draw(&m, 0, LARGE_SLOTS - 1);
        const uint64_t bytes = draw(&m, LARGE_SIZE_LEAST, LARGE_SIZE_MOST);
        if (used[slot]) give(&m, ids[slot]);
        ids[slot] = take(&m, bytes);
        used[slot] = 1;
    }
    for (unsigned slot = 0; slot < LARGE_SLOTS; slot++)
        if (used[slot]) give(&m, ids[slot]);
    return end(&m);
}

/* ---- training ------------------------------------------------------------------------------------ */

#define ELEMENT_BYTES 4u

/* Sizes are drawn from [2^least, 2^most). */
static const struct { unsigned least, most; } weight_shifts = {14, 24}, activation_shifts = {20, 26}, statistics_shifts = {9, 16}, workspace_shifts = {20, 26};

struct layer {
    uint64_t weight, activations[TRAINING_ACTIVATIONS], statistics, workspace; /* bytes, before they vary */
    unsigned activation_ids[TRAINING_ACTIVATIONS], statistics_id, weight_ids[TRAINING_WEIGHTS], weight_gradient_id;
};

static uint64_t in_elements(uint64_t bytes) { return bytes / ELEMENT_BYTES * ELEMENT_BYTES; }

/* Each doubling is drawn equally often; sizes are uniform within a doubling. */
static uint64_t draw_log(struct making *m, unsigned least, unsigned most) {
    const uint64_t base = 1ull << draw(m, least, most - 1);
    return in_elements(draw(m, base, 2 * base - 1));
}

static uint64_t vary(uint64_t bytes, unsigned percent) {
    const uint64_t varied = in_elements(bytes * percent / 100);
    return varied < TRAINING_SIZE_MOST ? varied : TRAINING_SIZE_MOST;
}

static void make_layer(struct making *m, struct layer *l) {
    l->weight = draw_log(m, weight_shifts.least, weight_shifts.most);
    for (unsigned a = 0; a < TRAINING_ACTIVATIONS; a++) l->activations[a] = draw_log(m, activation_shifts.least, activation_shifts.most);
    l->statistics = draw_log(m, statistics_shifts.least, statistics_shifts.most);
    l->workspace = draw_log(m, workspace_shifts.least, workspace_shifts.most);
    for (unsigned w = 0; w < TRAINING_WEIGHTS; w++) l->weight_ids[w] = take(m, l->weight);
}

static void forward(struct making *m, struct layer *l, unsigned percent) {
    const unsigned workspace = take(m, l->workspace);
    for (unsigned a = 0; a < TRAINING_ACTIVATIONS; a++) l->activation_ids[a] = take(m, vary(l->activations[a], percent));
    give(m, workspace);
    l->statistics_id = take(m, l->statistics);
}

/* input: bytes of the gradient of the layer's input; output_gradient: the block with that of its output. Returns the former's block. */
static unsigned backward(struct making *m, struct layer *l, uint64_t input, unsigned output_gradient) {
    l->weight_gradient_id = take(m, l->weight);
    const unsigned input_gradient = take(m, input), workspace = take(m, l->workspace);
    give(m, workspace);
    give(m, output_gradient);
    for (unsigned a = TRAINING_ACTIVATIONS; a-- > 0;) give(m, l->activation_ids[a]);
    give(m, l->statistics_id);
    return input_gradient;
}

static void iterate(struct making *m, struct layer *layers) {
    const unsigned percent = (unsigned)draw(m, 100 - TRAINING_VARIES_PERCENT, 100 + TRAINING_VARIES_PERCENT), last = TRAINING_ACTIVATIONS - 1;
    for (unsigned i = 0; i < TRAINING_LAYERS; i++) forward(m, &layers[i], percent);
    unsigned gradient = take(m, vary(layers[TRAINING_LAYERS - 1].activations[last], percent));
    for (unsigned i = TRAINING_LAYERS; i-- > 0;) gradient = backward(m, &layers[i], vary(layers[i ? i - 1 : 0].activations[last], percent), gradient);
    give(m, gradient);
    for (unsigned i = 0; i < TRAINING_LAYERS; i++) give(m, layers[i].weight_gradient_id);
}

const char *host_log_training(struct host_log *l) {
    struct making m;
    struct layer layers[TRAINING_LAYERS];
    begin(&m, l);
    for (unsigned i = 0; i < TRAINING_LAYERS; i++) make_layer(&m, &layers[i]);
    for (unsigned i = 0; i < TRAINING_ITERATIONS; i++) iterate(&m, layers);
    for (unsigned i = 0; i < TRAINING_LAYERS; i++)
        for (unsigned w = 0; w < TRAINING_WEIGHTS; w++) give(&m, layers[i].weight_ids[w]);
    return end(&m);
}
