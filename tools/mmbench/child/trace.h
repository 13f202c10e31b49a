/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Traces of a program's requests, as MM_TRACE writes them (docs/reference/traces.md): read and checked here, replayed by replay.h. */
#ifndef MM_BENCH_TRACE_H
#define MM_BENCH_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "mmconfig.h"

enum trace_kind { TRACE_MALLOC, TRACE_NULL, TRACE_FREE };

struct trace_event {
    uint64_t bytes; /* requested; of TRACE_FREE the number of the malloc */
    uint64_t cta;
    uint32_t launch;
    uint16_t thread;
    uint8_t kind, align_shift; /* align_shift 0: malloc's alignment */
};

/* Begins as zeros. Mallocs that succeeded are numbered from 0. */
struct trace {
    struct trace_event *events;
    uint64_t *sizes; /* by number: the requested bytes, plus 1; 0: freed */
    size_t count, room;
    uint64_t mallocs, nulls, frees, dropped;
    uint32_t launches;        /* one more than the largest number */
    uint64_t live, most_live; /* requested bytes that are not freed: at the end; at most */
};

#define TRACE_WHY_BYTES 128
/* Reads a trace. Returns 0, or 1 with the first line that is wrong, and why, in `why`. */
int trace_read(struct trace *t, FILE *from, char why[TRACE_WHY_BYTES]);
/* The same for the file of that name. */
int trace_read_file(struct trace *t, const char *path, char why[TRACE_WHY_BYTES]);
void trace_end(struct trace *t);

#endif
