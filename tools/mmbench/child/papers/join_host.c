/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The relations of the cases join, and the expected result. The expectation is computed from the tuples in the order in which they were drawn,
 * and from R's values by key, so that it also checks the grouping. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/join.h"

/* Makes the hashes of a number differ. */
enum { SALT_R, SALT_S, SALT_DRAW };

/* ---- tuples ------------------------------------------------------------------------------------- */

#define KEY_FACTOR 2654435761ull /* a prime above all numbers of tuples, so that keys are one-to-one */
#define KEY_FIRST 12345u         /* the most frequent key must not be 0, whose partition is the first that a GPU starts */

unsigned join_key(unsigned i, unsigned tuples) { return (unsigned)((i * KEY_FACTOR + KEY_FIRST) % tuples); }

/* From 0 to below `tuples`, evenly. With 53 random bits, a double's, the product is less than `tuples` after rounding, too. */
static double draw(unsigned i, unsigned tuples) { return (double)(join_hash(SALT_DRAW, i) >> 11) * 0x1p-53 * tuples; }

static void draw_even(struct join_tuple *s, unsigned tuples) {
    for (unsigned i = 0; i < tuples; i++) s[i].key = join_key((unsigned)draw(i, tuples), tuples);
}

/* Tuple i of R is drawn with a probability in proportion to (i + 1)^-0.75. Square roots are the same on every machine, and powers are not. */
static double zipf_weight(unsigned i) {
    const double root = sqrt(i + 1.0);
    return 1 / (root * sqrt(root));
}

/* The inverse of the distribution function: the first tuple whose sum of weights exceeds a draw. The draws fall into `tuples` steps of equal
 * width, and the search begins at the first tuple for the step. Returns 0 if there is no memory. */
static int draw_zipf(struct join_tuple *s, unsigned tuples) {
    double *sums = (double *)malloc(tuples * sizeof *sums), total = 0; /* of the weights of a tuple and those before */
    unsigned *firsts = (unsigned *)malloc(tuples * sizeof *firsts);
    const int made = sums && firsts;
    for (unsigned i = 0; made && i < tuples; i++) sums[i] = total += zipf_weight(i);
    const double width = total / tuples;
    for (unsigned step = 0, at = 0; made && step < tuples; step++) {
        while (at + 1 < tuples && sums[at] <= step * width) at++;
        firsts[step] = at;
    }
    for (unsigned i = 0; made && i < tuples; i++) {
        const double drawn = draw(i, tuples);
        unsigned at = firsts[(unsigned)drawn];
        while (at + 1 < tuples && sums[at] <= drawn * width) at++;
        s[i].key = join_key(at, tuples);
    }
    free(sums);
    free(firsts);
    return made;
}

/* ---- partitions --------------------------------------------------------------------------------- */

/* On average a partition of R is at most three quarters of the hash table, since they vary, and more than half of that. */
unsigned join_partitions(unsigned tuples) {
    unsigned partitions = 1;
    while (tuples / partitions > JOIN_TABLE_TUPLES / 4 * 3) partitions *= 2;
    return partitions;
}

/* Returns the tuples of the largest partition, or 0 if there is no memory. */
static unsigned group(const struct join_tuple *all, unsigned tuples, unsigned partitions, struct join_tuple **grouped, unsigned **offsets) {
    unsigned most = 0;
    *grouped = (struct join_tuple *)malloc(tuples * sizeof **grouped);
    *offsets = (unsigned *)calloc(partitions + 2u, sizeof **offsets);
    if (!*grouped || !*offsets) return 0;
    unsigned *next = *offsets + 1; /* next[p]: where the next tuple of partition p goes; at the end this is where those of p + 1 begin */
    for (unsigned i = 0; i < tuples; i++) next[join_partition(all[i].key, partitions) + 1]++;
    for (unsigned p = 1; p <= partitions; p++) {
        if (next[p] > most) most = next[p];
        next[p] += next[p - 1];
    }
    for (unsigned i = 0; i < tuples; i++) (*grouped)[next[join_partition(all[i].key, partitions)]++] = all[i];
    return most;
}

static void drop(struct join_tuple **grouped, unsigned **offsets) {
    free(*grouped);
    free(*offsets);
    *grouped = NULL;
    *offsets = NULL;
}

void join_drop(struct join_input *in) {
    drop(&in->r, &in->r_offsets);
    drop(&in->s, &in->s_offsets);
}

/* ---- both --------------------------------------------------------------------------------------- */

static int expect(struct join_sum *expected, const struct join_tuple *r, const struct join_tuple *s, unsigned tuples) {
    unsigned *values = (unsigned *)malloc(tuples * sizeof *values); /* of R, by key */
    if (!values) return 0;
    for (unsigned i = 0; i < tuples; i++) values[r[i].key] = r[i].value;
    expected->pairs = tuples;
    expected->sum = 0;
    for (unsigned i = 0; i < tuples; i++) {
        const struct join_pair pair = {values[s[i].key], s[i].value};
        expected->sum += join_hash_pair(pair);
    }
    free(values);
    return 1;
}

int join_make(struct join_input *in, struct join_sum *expected, unsigned tuples, int is_zipf, unsigned partitions) {
    struct join_tuple *r = (struct join_tuple *)malloc(tuples * sizeof *r), *s = (struct join_tuple *)malloc(tuples * sizeof *s);
    int made = r && s;
    memset(in, 0, sizeof *in);
    in->tuples = tuples;
    in->partitions = partitions;
    for (unsigned i = 0; made && i < tuples; i++) {
        r[i].key = join_key(i, tuples);
        r[i].value = (unsigned)join_hash(SALT_R, i);
        s[i].value = (unsigned)join_hash(SALT_S, i);
    }
    if (made && is_zipf) made = draw_zipf(s, tuples);
    else if (made) draw_even(s, tuples);
    made = made && expect(expected, r, s, tuples);
    for (unsigned most = made ? JOIN_TABLE_TUPLES + 1 : 0; most > JOIN_TABLE_TUPLES;) {
        drop(&in->r, &in->r_offsets);
        most = group(r, tuples, in->partitions, &in->r, &in->r_offsets);
        made = most != 0;
        if (most > JOIN_TABLE_TUPLES) in->partitions *= 2;
    }
    if (made) in->s_most = group(s, tuples, in->partitions, &in->s, &in->s_offsets);
    free(r);
    free(s);
    return made && in->s_most != 0;
}

/* ---- pages -------------------------------------------------------------------------------------- */

static unsigned pages_for(unsigned pairs) { return (unsigned)((pairs + JOIN_PAGE_PAIRS - 1) / JOIN_PAGE_PAIRS); }

unsigned long long join_pages(const struct join_input *in, unsigned lanes) {
    unsigned long long pages = 0;
    for (unsigned p = 0; p < in->partitions; p++) {
        const unsigned tuples = in->s_offsets[p + 1] - in->s_offsets[p], last = tuples % CTA_THREADS; /* tuples of the CTA's last, partial turn */
        for (unsigned first = 0; first < CTA_THREADS; first += lanes) {
            const unsigned lasts = last < first ? 0 : last - first < lanes ? last - first : lanes;
            pages += pages_for(tuples / CTA_THREADS * lanes + lasts);
        }
    }
    return pages;
}

unsigned join_pages_most(const struct join_input *in) { return pages_for(in->s_most); }
