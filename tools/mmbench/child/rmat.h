/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* R-MAT: edges of a graph whose degrees are as uneven as those of real networks. An edge is an element of the adjacency matrix. It is
 * found by choosing one quadrant of the matrix, then one quadrant of that, and so on: D. Chakrabarti, Y. Zhan, C. Faloutsos,
 * "R-MAT: a recursive model for graph mining", SDM 2004, section 3, without its smoothing. The probabilities are those of the
 * Graph 500 benchmark, which also permutes the vertices.
 *
 * An edge follows from its number alone, on the GPU and on the host: there is no sequential random generator.
 */
#ifndef MM_BENCH_RMAT_H
#define MM_BENCH_RMAT_H

#include "tools/mmbench/child/graph.h"

/* In units of 2^-32: the quadrants upper left, upper right, lower left; the rest is the lower right. */
#define RMAT_A 2448131359u /* 0.57 */
#define RMAT_B 816043786u  /* 0.19 */
#define RMAT_C 816043786u  /* 0.19 */
#define RMAT_LEVEL_BITS 5  /* each edge and level has its own hash: enough for 2^27 edges */

/* The vertex for a place in the matrix: a permutation of 0 to 2^scale - 1 that separates neighbours. Without it, vertices of high
 * degree have similar numbers, so that one CTA gets all of them. */
TOOLS_BOTH unsigned rmat_number(unsigned scale, unsigned place) {
    const unsigned mask = (1u << scale) - 1, half = (scale + 1) / 2;
    unsigned v = (place * 0x9e3779b1u + 0x7f4a7c15u) & mask; /* multiplication by an odd factor and xor with a shift are invertible */
    v ^= v >> half;
    v = v * 0x85ebca6bu & mask;
    v ^= v >> half;
    return v * 0xc2b2ae35u & mask;
}

/* Row and column in the matrix of edge `number`. */
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
