/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* R-MAT: edges of a graph whose degrees are as uneven as those of the networks that people study. Of the matrix of
 * vertices by vertices one quadrant is chosen, of that again one, and so on: D. Chakrabarti, Y. Zhan, C. Faloutsos,
 * "R-MAT: a recursive model for graph mining", SDM 2004, section 3, without its smoothing; probabilities as in the
 * Graph 500 benchmark, which mixes the vertices' numbers, too.
 *
 * An edge follows from its number alone, on the GPU as on the host: nothing is drawn one after the other.
 */
#ifndef MM_BENCH_RMAT_H
#define MM_BENCH_RMAT_H

#include "tools/mmbench/child/graph.h"

/* Of 2^32: the quadrants up and left, up and right, down and left; what is left is down and right. */
#define RMAT_A 2448131359u /* 0.57 */
#define RMAT_B 816043786u  /* 0.19 */
#define RMAT_C 816043786u  /* 0.19 */
#define RMAT_LEVEL_BITS 5  /* a hash for each edge and level: 2^27 edges have their own */

/* A vertex's number among 2^scale, for its place in the matrix: one to one, and neighbours part. Without that the
 * vertices of many edges lie together, and one CTA has them all. */
TOOLS_BOTH unsigned rmat_number(unsigned scale, unsigned place) {
    const unsigned mask = (1u << scale) - 1, half = (scale + 1) / 2;
    unsigned v = (place * 0x9e3779b1u + 0x7f4a7c15u) & mask; /* odd factors and shifts can be undone */
    v ^= v >> half;
    v = v * 0x85ebca6bu & mask;
    v ^= v >> half;
    return v * 0xc2b2ae35u & mask;
}

/* Places in the matrix of edge `number`. */
TOOLS_BOTH struct edge rmat_places(unsigned scale, unsigned number) {
    struct edge e = {0, 0};
    for (unsigned level = 0; level < scale; level++) {
        const unsigned random = mix((number << RMAT_LEVEL_BITS | level) * 0x9e3779b9u + 1);
        const unsigned down = random >= RMAT_A + RMAT_B;
        const unsigned right = down ? random >= RMAT_A + RMAT_B + RMAT_C : random >= RMAT_A;
        e.from = e.from << 1 | down;
        e.to = e.to << 1 | right;
    }
    return e;
}

/* Edge `number` of a graph of 2^scale vertices. */
TOOLS_BOTH struct edge rmat_edge(unsigned scale, unsigned number) {
    struct edge e = rmat_places(scale, number);
    e.from = rmat_number(scale, e.from);
    e.to = rmat_number(scale, e.to);
    return e;
}

#endif
