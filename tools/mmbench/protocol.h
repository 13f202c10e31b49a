/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The protocol between mmbench and its children: lines. Any other output of a child is a remark, which is shown if the child fails.
 *
 *   mmbench-ALLOCATOR HEAP_BYTES SECONDS                   the command line; HEAP_BYTES 0: the allocator's default; SECONDS: the time
 *                                                          limit of one request
 * child:   @ready ALLOCATOR TOOLKIT DRIVER MEMORY_BYTES GPU...
 *          @fatal TEXT...                                  then it ends; for example, there is no GPU
 * mmbench: floor THREADS EVERY_SHIFT
 * child:   @floor NAME UNIT VALUE                          NAME: store, atomic, bitmap, latency
 * mmbench: run CASE SIZE THREADS RUNS                       RUNS: number of runs; of rounds (endurance); of calls (latency); seconds from
 *                                                          the last free to the last look (footprint)
 * child:   @row OP UNIT MEDIAN MIN MAX RUNS FLOOR NULLS CORRUPT STATUS CHECKED...
 *                                                          MEDIAN MIN MAX are "-" if left out; FLOOR is a NAME, "-", or the
 *                                                          value of a floor that is this row's own, in its unit
 * mmbench: replay RUNS PATH...
 * child:   @replay MEDIAN_MS MIN_MS MAX_MS RUNS TAKEN_BYTES NULLS CORRUPT
 * mmbench: identify
 * child:   @identity mm | builtin                          found out by what the host can do with its pointers
 * child, after each of these:
 *          @done
 *
 * At the end of its input the child ends.
 */
#ifndef MM_BENCH_PROTOCOL_H
#define MM_BENCH_PROTOCOL_H

#define MM_BENCH_LINE_BYTES 512                      /* of one line, including its end */
#define MM_BENCH_PATH_MAX (MM_BENCH_LINE_BYTES - 32) /* of a trace, with the bytes of its request before it */
#define MM_BENCH_RUNS_SLOW 3                         /* runs, if one takes over a second */

/* The cases "graph" and "graph_lesmis": SIZE is the number of edges of the graph, THREADS that of its vertices. A later batch of
 * insertions or deletions has 1/2^BATCH_SHIFT of the edges. The range that a batch goes to has 1/2^RANGE_SHIFT of the vertices:
 * about 128 edges for each vertex there, where the survey (child/graph.h) has 100. The real graph is too small for that. */
#define MM_BENCH_GRAPH_BATCH_SHIFT 4
#define MM_BENCH_GRAPH_RANGE_SHIFT 7
#define MM_BENCH_LESMIS_RANGE_SHIFT 3
#define MM_BENCH_LESMIS_VERTICES 77
#define MM_BENCH_LESMIS_EDGES 508 /* 254 pairs, both ways */

/* The workloads of the case "footprint": the largest size, the number of objects, the distribution of sizes from 16 bytes on (enum sizing). */
/* clang-format off */
#define MM_BENCH_FOOTPRINT(X) \
    X(16, 1, ONE) X(4096, 1000, UNIFORM) X(65536, 10000, LOG) X(64, 100000, ONE) X(1024, 100000, UNIFORM) X(512, 1000000, UNIFORM) \
    X(8192, 1000000, LOG) X(1000000, 10000, LOG)
/* clang-format on */

/* The case "pinned": SIZE * THREADS bytes are live at once, in objects of one size. The first size is SIZE. */

#endif
