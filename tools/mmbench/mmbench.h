/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench: CUDA's built-in allocator beside mm, by the same program (child/child.h), compiled twice.
 *
 *   cases.c    what is measured: the table of cases, and the items that a set of options makes of it
 *   session.c  one child process: start, ask, watch, end
 *   run.c      the items of a case, one allocator after the other; what a failure of the child means
 *   report.c   the table for people, the CSV file, the line that says how far we are
 *   plot.py    --plot: pictures of such files, by matplotlib
 *   main.c     options
 *
 * Words: an ITEM is one request to a child (a case at one size and number of threads); it has one ROW for each
 * operation and allocator. A SERIES is a case's items of growing size (or threads): what fails at one is not tried at
 * the next.
 */
#ifndef MM_BENCH_H
#define MM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tools/mmbench/protocol.h"

#ifndef MM_BENCH_COMMIT
#define MM_BENCH_COMMIT "unknown"
#endif

#define MM_BENCH_OPS_MAX 8
#define MM_BENCH_SIZES_MAX 13
#define MM_BENCH_FLOORS 4

enum mm_bench_allocator { MM_BENCH_MM, MM_BENCH_BUILTIN, MM_BENCH_ALLOCATORS };
extern const char *const mm_bench_allocator_names[MM_BENCH_ALLOCATORS];

/* Numbers stand only behind OK, and behind NULLS and CORRUPT what is not a time. */
enum mm_bench_status {
    MM_BENCH_PENDING, /* not reached */
    MM_BENCH_OK,
    MM_BENCH_NULLS,   /* a malloc answered NULL */
    MM_BENCH_CORRUPT, /* memory held what its owner did not write, or was misaligned */
    MM_BENCH_CRASH,   /* CUDA reported an error, or the child died or said what it should not */
    MM_BENCH_HUNG,    /* no answer in time */
    MM_BENCH_SKIPPED, /* after a failure of the series */
    MM_BENCH_TOO_LARGE, /* more than the heap, or the heap more than the GPU has */
    MM_BENCH_STATUSES
};
extern const char *const mm_bench_status_names[MM_BENCH_STATUSES];

enum mm_bench_series { MM_BENCH_NO_SERIES, MM_BENCH_BY_SIZE, MM_BENCH_BY_THREADS };

/* Bytes that a case asks for, all threads together: of the size it is named after. */
enum mm_bench_asked { MM_BENCH_ASKED_ALL, MM_BENCH_ASKED_POWERS, MM_BENCH_ASKED_HALF, MM_BENCH_ASKED_LITTLE };

struct mm_bench_op {
    const char *name, *unit;
};

struct mm_bench_case {
    const char *name;
    const char *about;
    struct mm_bench_op ops[MM_BENCH_OPS_MAX]; /* ended by a NULL name, if fewer */
    uint64_t sizes[MM_BENCH_SIZES_MAX];       /* bytes; 0: that many and no more */
    uint32_t threads[MM_BENCH_SIZES_MAX];     /* the same */
    bool paired;          /* the first size with the first number of threads, and so on; a quick run has them all, too */
    enum mm_bench_series series;
    enum mm_bench_asked asked;
    uint64_t heap;        /* bytes, whatever --heap says; 0: --heap */
    uint64_t heap_large;  /* of sizes beyond the first */
    bool heap_fits;       /* an item that would nearly fill --heap has a larger one */
    bool grows;           /* mm starts with its default heap, which grows; the other allocator has `heap` */
    unsigned every_shift; /* one thread of 2^this asks */
    unsigned quick_shift; /* a quick run's sizes and threads are divided by 2^this */
    uint8_t size_shifts[MM_BENCH_OPS_MAX];    /* of each operation: it has 1/2^this of the item's size, */
    uint8_t threads_shifts[MM_BENCH_OPS_MAX]; /* and of its threads */
    unsigned patience;    /* times --timeout */
    bool floors;          /* is measured against them */
    bool fresh;           /* every item in a process of its own */
};
extern const struct mm_bench_case mm_bench_cases[];
extern const size_t mm_bench_case_count;

struct mm_bench_row {
    enum mm_bench_status status;
    double median, min, max; /* if told */
    bool told;
    unsigned runs;
    int floor;          /* index of its name (mm_bench_floor_names), or -1 */
    double floor_value; /* 0: none */
    uint64_t nulls, corrupt;
    char checked[80];
};

struct mm_bench_item {
    const struct mm_bench_case *of;
    uint64_t size, heap, asked_bytes;
    uint32_t threads, runs;
    struct mm_bench_row rows[MM_BENCH_ALLOCATORS][MM_BENCH_OPS_MAX];
};

struct mm_bench_options {
    const char *csv;        /* file, or NULL */
    bool cases[32];         /* which of mm_bench_cases */
    bool allocators[MM_BENCH_ALLOCATORS];
    bool quick;
    uint64_t heap;          /* bytes; 0: each case's own */
    unsigned runs, timeout; /* of a row; seconds */
};

/* ---- cases.c ---------------------------------------------------------------------------------- */

/* The items of case `c`, at most `max`, in the order in which they are measured. Returns their number. */
size_t mm_bench_items(const struct mm_bench_case *c, const struct mm_bench_options *o, struct mm_bench_item *items,
                      size_t max);
/* Index of the operation of a case, or -1. */
int mm_bench_op_find(const struct mm_bench_case *c, const char *name);
size_t mm_bench_op_count(const struct mm_bench_case *c);
/* Bytes of the heap that a child starts with; 0: its allocator's default, which may grow. */
uint64_t mm_bench_heap(const struct mm_bench_item *item, enum mm_bench_allocator allocator);
/* MM_BENCH_PENDING: there is none of that name. */
enum mm_bench_status mm_bench_status_find(const char *name);

/* ---- session.c -------------------------------------------------------------------------------- */

enum mm_bench_said { MM_BENCH_LINE, MM_BENCH_SILENT, MM_BENCH_ENDED, MM_BENCH_INTERRUPTED };

struct mm_bench_session {
    pid_t pid; /* 0: none */
    int to, from;
    size_t length;                    /* in buffer */
    char buffer[MM_BENCH_LINE_BYTES]; /* what came and is not a whole line yet */
    char remark[MM_BENCH_LINE_BYTES]; /* the last thing it said that is no answer, or why it ended */
};

/* --plot: becomes plot.py, which draws `count` files of rows as pictures in a directory. Returns only if it cannot; then one line was written to stderr. */
void mm_bench_plot(const char *directory, char *const *files, int count);

/* Finds the children and libmm.so.1 beside this program. False: one line was written to stderr. */
bool mm_bench_find_children(const bool *allocators);
/* Catches SIGINT and SIGTERM: whoever waits is told MM_BENCH_INTERRUPTED. */
void mm_bench_catch_signals(void);
/* Starts a child with a heap of that size, or its default (0); `seconds` is what it is told that a request may take. False: no process. */
bool mm_bench_session_open(struct mm_bench_session *s, enum mm_bench_allocator allocator, uint64_t heap,
                           unsigned seconds);
/* Sends one line. A child that is gone is noticed by the next read. */
void mm_bench_session_send(struct mm_bench_session *s, const char *line);
/* The child's next answer, a line that begins with "@", without that; what else it says is kept as its remark.
 * Waits `seconds` at most, all lines of one request together: *deadline is 0 at first, and kept by the caller. */
enum mm_bench_said mm_bench_session_read(struct mm_bench_session *s, char *line, unsigned seconds, double *deadline);
/* Ends the child: it is asked to, unless kill, and killed when `seconds` are over. Says how it ended, if badly. */
void mm_bench_session_close(struct mm_bench_session *s, bool kill, unsigned seconds);

/* ---- run.c ------------------------------------------------------------------------------------ */

struct mm_bench_machine {
    char gpu[128], toolkit[16], cuda[16], driver[64];
    uint64_t memory;
};

extern const char *const mm_bench_floor_names[MM_BENCH_FLOORS];

/* One measured floor; a session measures each at its begin and at its end. */
struct mm_bench_floor {
    enum mm_bench_allocator allocator;
    int name;
    uint32_t threads;
    unsigned every_shift;
    unsigned session; /* its number */
    double value;
};

struct mm_bench_floors {
    struct mm_bench_floor *all;
    size_t count, room;
};

enum mm_bench_outcome { MM_BENCH_DONE, MM_BENCH_STOPPED };

/* Is there a GPU, and is each child what it says? Fills m. False: one line was written to stderr. */
bool mm_bench_identify(const struct mm_bench_options *o, struct mm_bench_machine *m);
/* Measures the items of one case under one allocator. MM_BENCH_STOPPED: a signal came. */
enum mm_bench_outcome mm_bench_run(const struct mm_bench_options *o, const struct mm_bench_machine *m,
                                   enum mm_bench_allocator allocator, struct mm_bench_item *items, size_t count,
                                   struct mm_bench_floors *floors);

/* ---- report.c --------------------------------------------------------------------------------- */

double mm_bench_now(void); /* seconds, monotonic */
/* Bytes, or any number, as people write them, exact: 4096, 8K, 1M. Returns text, of 32 bytes. */
const char *mm_bench_size_text(uint64_t bytes, char *text);
/* What is being measured, for people who wait; on a terminal the line is rewritten. */
void mm_bench_progress_total(size_t items);
void mm_bench_progress(enum mm_bench_allocator allocator, const struct mm_bench_item *item);
void mm_bench_progress_tick(void); /* about once a second */
/* An item is over: how, and the child's remark if it failed. */
void mm_bench_progress_end(enum mm_bench_allocator allocator, const struct mm_bench_item *item,
                           enum mm_bench_status status, const char *remark);

void mm_bench_table(FILE *to, const struct mm_bench_options *o, const struct mm_bench_item *items, size_t count);
void mm_bench_table_head(FILE *to, const struct mm_bench_machine *m);
extern const char mm_bench_csv_fields[]; /* the line that names them */
void mm_bench_csv_head(FILE *to, const struct mm_bench_machine *m);
void mm_bench_csv_rows(FILE *to, const struct mm_bench_item *items, size_t count);
void mm_bench_csv_floors(FILE *to, const struct mm_bench_floors *floors);

#endif
