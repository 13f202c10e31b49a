/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What mmbench and its children say to each other: lines. Whatever else a child says is a remark, shown if it fails.
 *
 *   mmbench-ALLOCATOR HEAP_BYTES SECONDS                   is started; HEAP_BYTES 0: the allocator's default; SECONDS: what one
 *                                                          request may take
 * child:   @ready ALLOCATOR TOOLKIT DRIVER MEMORY_BYTES GPU...
 *          @fatal TEXT...                                  and ends: no GPU, say
 * mmbench: floor THREADS EVERY_SHIFT
 * child:   @floor NAME UNIT VALUE                          NAME: store, atomic, bitmap, latency
 * mmbench: run CASE SIZE THREADS RUNS                       RUNS: of endurance rounds, of latency calls, of footprint seconds from the
 *                                                          last free to the last look
 * child:   @row OP UNIT MEDIAN MIN MAX RUNS FLOOR NULLS CORRUPT STATUS CHECKED...
 *                                                          MEDIAN MIN MAX "-" if marked; FLOOR a NAME or "-"
 * mmbench: identify
 * child:   @identity mm | builtin                          by what its pointers can do, not by what it is called
 * child, after each of these:
 *          @done
 *
 * At the end of its input the child ends.
 */
#ifndef MM_BENCH_PROTOCOL_H
#define MM_BENCH_PROTOCOL_H

#define MM_BENCH_LINE_BYTES 512 /* of one line, with its end */
#define MM_BENCH_RUNS_SLOW 3    /* runs of what takes over a second each */

/* The cases "graph" and "graph_lesmis": SIZE is edges of the graph, THREADS its vertices. A batch that is inserted or
 * deleted later has the share 1/2^BATCH_SHIFT of the edges, the range that a batch goes to 1/2^RANGE_SHIFT of the vertices:
 * some 128 edges for each vertex there, where the survey (child/graph.h) has 100; the real graph is too small for that. */
#define MM_BENCH_GRAPH_BATCH_SHIFT 4
#define MM_BENCH_GRAPH_RANGE_SHIFT 7
#define MM_BENCH_LESMIS_RANGE_SHIFT 3
#define MM_BENCH_LESMIS_VERTICES 77
#define MM_BENCH_LESMIS_EDGES 508 /* of 254 pairs */

/* The workloads of the case "footprint": the largest size, how many objects, how their sizes are spread from 16 bytes on (enum sizing). */
#define MM_BENCH_FOOTPRINT(X) \
    X(16, 1, ONE) X(4096, 1000, UNIFORM) X(65536, 10000, LOG) X(64, 100000, ONE) X(1024, 100000, UNIFORM) X(512, 1000000, UNIFORM) \
    X(8192, 1000000, LOG) X(1000000, 10000, LOG)

/* The case "pinned": SIZE * THREADS bytes are live at once, in objects of one size, of which the first is SIZE. */

#endif
