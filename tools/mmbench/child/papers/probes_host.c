/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>
#include <string.h>

#include "tools/mmbench/child/papers/probes.h"

#define NEGLIGIBLE 1e-9 /* terms below this share of the sum so far are left out */
#define HALVINGS 60

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void probes_place(uint32_t *taken, uint32_t units, uint32_t available, uint64_t seed) {
    memset(taken, 0xff, units / 8);
    while (available > 0) {
        const uint32_t unit = (uint32_t)((next(&seed) >> 32) * units >> 32), bit = 1u << unit % 32;
        if (!(taken[unit / 32] & bit)) continue;
        taken[unit / 32] &= ~bit;
        available--;
    }
}

uint64_t probes_wrong(uint32_t *taken, uint32_t units, const uint32_t *got, uint32_t threads) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < threads; i++) {
        const uint32_t bit = 1u << got[i] % 32;
        if (got[i] == PROBES_NONE) continue;
        if (got[i] >= units || taken[got[i] / 32] & bit) wrong++;
        else taken[got[i] / 32] |= bit;
    }
    if (wrong != 0) return wrong; /* the case ends */
    for (uint32_t i = 0; i < threads; i++)
        if (got[i] != PROBES_NONE) taken[got[i] / 32] &= ~(1u << got[i] % 32);
    return 0;
}

struct probes_found probes_evaluate(const struct probes_note *notes, uint32_t threads, uint32_t lanes) {
    struct probes_found f = {0, 0, 0, 0};
    for (uint32_t first = 0; first < threads; first += lanes) {
        uint32_t longest = 0, is_beyond = 0;
        for (uint32_t i = first; i < first + lanes; i++) {
            f.sets += notes[i].sets;
            f.reads += notes[i].reads;
            longest = notes[i].steps > longest ? notes[i].steps : longest;
            is_beyond |= notes[i].is_beyond;
        }
        f.steps += longest;
        f.beyond += is_beyond;
    }
    f.sets /= threads, f.reads /= threads;
    f.steps /= threads / lanes, f.beyond /= threads / lanes;
    return f;
}

/* ---- the formulas ------------------------------------------------------------------------------ */

double probes_sets(struct probes_point p) { return (double)p.units / p.threads * log(p.available / ((double)p.available - p.threads)); }

double probes_steps(struct probes_point p, uint32_t lanes) {
    const double q = 1 - ((double)p.available - p.threads) / p.units;
    double sum = 0, power = 1, term = 1; /* power: q^k */
    for (; term > NEGLIGIBLE * sum; power *= q, sum += term) term = 1 - pow(1 - power, lanes);
    return sum;
}

double probes_reads(struct probes_point p) {
    double sum = 0;
    for (uint32_t j = 0; j < p.threads; j++) sum += 1 / (1 - pow(((double)p.units - p.available + j) / p.units, PROBES_WORD));
    return sum / p.threads;
}

/* Units that d draws take of a word, if a unit is free with probability `share`. */
static double taken_of_word(double d, double share) {
    double sum = 0, choose = pow(1 - share, PROBES_WORD); /* P(k free units) */
    for (uint32_t k = 0; k <= PROBES_WORD; choose *= (PROBES_WORD - k) * share / ((k + 1) * (1 - share)), k++) {
        double poisson = exp(-d), less = 0, mean = 0;
        for (uint32_t m = 0; m < k; m++) mean += m * poisson, less += poisson, poisson *= d / (m + 1);
        sum += choose * (mean + k * (1 - less));
    }
    return sum;
}

double probes_reads_of_words(struct probes_point p) {
    const double words = (double)p.units / PROBES_WORD;
    double low = 0, high = 2 * PROBES_WORD;
    for (int i = 0; i < HALVINGS; i++) {
        const double d = (low + high) / 2;
        if (taken_of_word(d, (double)p.available / p.units) * words < p.threads) low = d;
        else high = d;
    }
    return low * words / p.threads;
}
