/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench compares CUDA's built-in allocator with mm, by one program (child/child.h) that is compiled twice.
 *
 *   table.c    the table of cases
 *   cases.c    the items that follow from the table and the options
 *   session.c  one child process: start, send, receive with a deadline, end
 *   run.c      runs the items of a case with one allocator; interprets a failure of the child
 *   results.c  rows of earlier measurements, from files
 *   claims.c   --claims: the claims of published allocators' papers, checked against such rows
 *   report.c   the table for people, the CSV file, the progress line
 *   plot.py    --plot: draws pictures of such files, by matplotlib
 *   replay.c   --replay, --check-trace: traces
 *   options.c  options
 *   main.c     runs the cases
 *
 * Words: an ITEM is one request to a child (a case at one size and number of threads); it has one ROW for each
 * operation and allocator. A SERIES is a case's items in order of size (or threads): if one fails, the larger ones are
 * skipped.
 */
#ifndef MM_BENCH_H
#define MM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "mmconfig.h"
#include "tools/mmbench/protocol.h"

#ifndef MM_BENCH_COMMIT
#define MM_BENCH_COMMIT "unknown"
#endif

#define MM_BENCH_OPS_MAX 8
#define MM_BENCH_SIZES_MAX 13
#define MM_BENCH_FLOORS 4
#define MM_BENCH_ONLY_MAX 3

/* mm's default allocator, CUDA's, and mm's others. A child for one of the others exists after make allocators. Then the pools: mm's default, and cudaMalloc and
 * cudaFree of the host from a pool (MM_POOL=async) with each fit; they measure only cases of the host. */
#define MM_BENCH_ONE_MORE(name, suffix) +1
enum mm_bench_allocator {
    MM_BENCH_MM,
    MM_BENCH_BUILTIN,
    MM_BENCH_POOLS = MM_BENCH_BUILTIN + 1 MM_SIBLINGS(MM_BENCH_ONE_MORE),
    MM_BENCH_ALLOCATORS = MM_BENCH_POOLS + 6
};
extern const char *const mm_bench_allocator_names[MM_BENCH_ALLOCATORS];
/* Whether mmbench knows an allocator of this name. */
bool mm_bench_is_allocator(const char *name);
bool mm_bench_is_pool(enum mm_bench_allocator allocator);

/* A row has numbers if its status is OK. With NULLS or CORRUPT it has them unless they are times. */
enum mm_bench_status {
    MM_BENCH_PENDING, /* not reached */
    MM_BENCH_OK,
    MM_BENCH_NULLS,     /* a malloc returned NULL */
    MM_BENCH_CORRUPT,   /* memory did not hold what its owner wrote, or was misaligned */
    MM_BENCH_CRASH,     /* CUDA reported an error, or the child died, or its answer was not understood */
    MM_BENCH_HUNG,      /* no answer in time */
    MM_BENCH_SKIPPED,   /* after a failure in the series */
    MM_BENCH_TOO_LARGE, /* more than the heap, or the heap is more than the GPU's memory */
    MM_BENCH_STATUSES
};
extern const char *const mm_bench_status_names[MM_BENCH_STATUSES];

enum mm_bench_series { MM_BENCH_NO_SERIES, MM_BENCH_BY_SIZE, MM_BENCH_BY_THREADS };

/* Bytes that all threads of a case ask for together, computed from its size. */
enum mm_bench_asked { MM_BENCH_ASKED_ALL, MM_BENCH_ASKED_POWERS, MM_BENCH_ASKED_HALF, MM_BENCH_ASKED_BURSTS, MM_BENCH_ASKED_LITTLE };

struct mm_bench_op {
    const char *name, *unit;
};

struct mm_bench_case {
    const char *name;
    const char *about;
    struct mm_bench_op ops[MM_BENCH_OPS_MAX]; /* if there are fewer, a NULL name ends the list */
    uint64_t sizes[MM_BENCH_SIZES_MAX];       /* bytes; if there are fewer, a 0 ends the list */
    uint32_t threads[MM_BENCH_SIZES_MAX];     /* the same */
    bool paired;                              /* the first size with the first number of threads, and so on; a quick run takes all of them, or
                                                 only the first ones if there is a quick_shift */
    enum mm_bench_series series;
    enum mm_bench_asked asked;
    uint64_t heap;                            /* bytes, regardless of --heap; 0: --heap */
    uint64_t heap_large;                      /* the same, for all sizes but the first */
    uint64_t heap_times;                      /* the same, in multiples of the item's size, rounded up to 64 MiB */
    bool heap_fits;                           /* an item that would nearly fill --heap gets a larger heap */
    bool grows;                               /* mm's allocators start with their default heap, which grows; CUDA's has `heap` */
    uint32_t runs, runs_quick;                /* of a request, regardless of --runs; 0: --runs. Some cases give them another meaning: protocol.h */
    unsigned every_shift;                     /* one thread in 2^this asks */
    unsigned quick_shift;                     /* a quick run's sizes and threads are divided by 2^this */
    uint8_t size_shifts[MM_BENCH_OPS_MAX];    /* of each operation: its size is the item's / 2^this, */
    uint8_t threads_shifts[MM_BENCH_OPS_MAX]; /* and its number of threads the item's / 2^this */
    unsigned patience;                        /* the time limit is this many times --timeout; 0: once */
    bool floors;                              /* rows are compared with floors */
    bool fresh;                               /* every item runs in a new process */
    bool is_of_host;                          /* measures memory that the host allocates */
    const char *only[MM_BENCH_ONLY_MAX];      /* the allocators that it measures; none: all */
    unsigned percent;                         /* its size is a number of units, of which an item's threads are at most this part; 0: any */
};
extern const struct mm_bench_case mm_bench_cases[];
extern const size_t mm_bench_case_count;

struct mm_bench_row {
    enum mm_bench_status status;
    double median, min, max; /* valid if `told` */
    bool told;
    bool is_old; /* from an earlier run: --resume */
    unsigned runs;
    int floor;          /* index into mm_bench_floor_names, or -1 */
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

struct mm_bench_result {
    char allocator[32], of[32], op[32], unit[16];
    uint64_t size;
    uint32_t threads;
    struct mm_bench_row row;
};

/* Begins as zeros. */
struct mm_bench_results {
    struct mm_bench_result *all;
    size_t count, room;
    char gpu[128], driver[128], commit[64], settings[64]; /* of the last file */
};

struct mm_bench_options {
    const char *csv; /* file, or NULL */
    bool cases[64];  /* selected ones of mm_bench_cases */
    bool allocators[MM_BENCH_ALLOCATORS];
    bool quick;
    uint64_t heap;                  /* bytes; 0: the default of each case */
    unsigned runs, timeout;         /* timed runs of a row; seconds */
    bool resume;                    /* rows that the CSV file has already are not measured again */
    double until;                   /* no item begins after this (mm_bench_now); 0: no limit */
    struct mm_bench_results others; /* published rows to compare with */
    const char *replay;             /* a trace, or NULL: measure the cases */
};

/* Exit statuses other than 0: mmbench --help. */
enum { MM_BENCH_EXIT_FAILED = 1, MM_BENCH_EXIT_USAGE = 2, MM_BENCH_EXIT_MM_ROW = 3, MM_BENCH_EXIT_LATE = 4, MM_BENCH_EXIT_SIGNAL = 130 };

/* ---- options.c -------------------------------------------------------------------------------- */

/* Returns the exit status, or -1 to go on. */
int mm_bench_parse(int argc, char **argv, struct mm_bench_options *o);

/* Writes those options to `text` that decide what a row measures: rows of other ones do not belong in one file. Returns it. */
const char *mm_bench_settings(const struct mm_bench_options *o, char text[64]);

#define MM_BENCH_ENDURANCE_LARGEST 4096u
#define MM_BENCH_BURST_MEAN 55u /* allocations of a caller in the case acd, on average */

/* ---- cases.c ---------------------------------------------------------------------------------- */

/* Writes the items of case `c`, at most `max`, in the order of measurement. Returns their number. */
size_t mm_bench_items(const struct mm_bench_case *c, const struct mm_bench_options *o, struct mm_bench_item *items, size_t max);
/* The index of the operation of that name, or -1. */
int mm_bench_op_find(const struct mm_bench_case *c, const char *name);
size_t mm_bench_op_count(const struct mm_bench_case *c);
/* Whether the case measures that allocator. */
bool mm_bench_measures(const struct mm_bench_case *c, enum mm_bench_allocator allocator);
/* Whether it measures any of the chosen ones. */
bool mm_bench_measures_any(const struct mm_bench_case *c, const bool *allocators);
/* Bytes of the heap that a child starts with; 0: its allocator's default, which may grow. */
uint64_t mm_bench_heap(const struct mm_bench_item *item, enum mm_bench_allocator allocator);
/* MM_BENCH_PENDING if no status has that name. */
enum mm_bench_status mm_bench_status_find(const char *name);

/* ---- session.c -------------------------------------------------------------------------------- */

enum mm_bench_said { MM_BENCH_LINE, MM_BENCH_SILENT, MM_BENCH_ENDED, MM_BENCH_INTERRUPTED };

struct mm_bench_session {
    pid_t pid; /* 0: none */
    int to, from;
    size_t length;                    /* of the bytes in buffer */
    char buffer[MM_BENCH_LINE_BYTES]; /* input that is not a complete line yet */
    char remark[MM_BENCH_LINE_BYTES]; /* its last output that is no answer, or the reason of its end */
};

/* --plot: replaces this process by plot.py, which draws `count` files of rows as pictures in a directory. Returns only on failure, with one
 * line on stderr. */
void mm_bench_plot(const char *directory, char *const *files, int count);

/* Finds the children and libmm.so.1, relative to this program. False: one line was written to stderr. */
bool mm_bench_find_children(const bool *allocators);
/* Catches SIGINT and SIGTERM: mm_bench_session_read then returns MM_BENCH_INTERRUPTED. */
void mm_bench_catch_signals(void);
/* Starts a child with a heap of that size, or its default (0). `seconds` is passed on to it, as the time limit of a request. False: no process. */
bool mm_bench_session_open(struct mm_bench_session *s, enum mm_bench_allocator allocator, uint64_t heap, unsigned seconds);
/* Sends one line. If the child has ended, the next read reports it. */
void mm_bench_session_send(struct mm_bench_session *s, const char *line);
/* Reads the child's next answer, a line that begins with "@", and removes the "@". Other output is kept as its remark.
 * The time limit `seconds` is for all lines of one request together: the caller keeps *deadline, which is 0 at first. */
enum mm_bench_said mm_bench_session_read(struct mm_bench_session *s, char *line, unsigned seconds, double *deadline);
/* Ends the child: closes its input, unless `kill`, and kills it after `seconds`. Sets the remark if it ended with a failure. */
void mm_bench_session_close(struct mm_bench_session *s, bool kill, unsigned seconds);

/* ---- run.c ------------------------------------------------------------------------------------ */

struct mm_bench_machine {
    char gpu[128], toolkit[16], cuda[16], driver[64];
    uint64_t memory;
};

extern const char *const mm_bench_floor_names[MM_BENCH_FLOORS];

/* One measured floor. A session measures each at its start and at its end. */
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

enum mm_bench_outcome { MM_BENCH_DONE, MM_BENCH_STOPPED, MM_BENCH_LATE };

/* Checks that there is a GPU and that each child has the allocator it should have. Fills m. False: one line was written to stderr. */
bool mm_bench_identify(const struct mm_bench_options *o, struct mm_bench_machine *m);
/* Measures the items of one case with one allocator. MM_BENCH_STOPPED: a signal came. MM_BENCH_LATE: o->until is over. An item that was not
 * finished has no rows then. */
enum mm_bench_outcome mm_bench_run(const struct mm_bench_options *o, const struct mm_bench_machine *m, enum mm_bench_allocator allocator,
                                   struct mm_bench_item *items, size_t count, struct mm_bench_floors *floors);

/* ---- results.c -------------------------------------------------------------------------------- */

/* Which rows are meant. */
struct mm_bench_key {
    const char *allocator; /* NULL: any */
    const char *of, *op;
    uint64_t size_least, size_most;
    uint32_t threads; /* 0: any */
};

/* Adds the rows of a file. False: one line, which names the option, was written to stderr. */
bool mm_bench_results_read(struct mm_bench_results *all, const char *option, const char *path);
/* Gives the items the rows that an earlier run measured, if it measured all operations of an item with an allocator. */
void mm_bench_results_use(const struct mm_bench_results *all, struct mm_bench_item *items, size_t count);
/* The next row with that key behind `after`, or the first if that is NULL; NULL if there is none. */
const struct mm_bench_result *mm_bench_result_next(const struct mm_bench_results *all, const struct mm_bench_result *after, const struct mm_bench_key *k);
/* Whether nothing failed, and there are numbers. */
bool mm_bench_result_is_fine(const struct mm_bench_result *r);

/* ---- claims.c --------------------------------------------------------------------------------- */

/* Prints the table of claims. */
void mm_bench_claims(FILE *to, const struct mm_bench_results *rows);

/* ---- replay.c --------------------------------------------------------------------------------- */

/* Replays o->replay with each chosen allocator, and prints a table. Returns the exit status. */
int mm_bench_replay(const struct mm_bench_options *o);
/* Reads a trace, and prints what it holds. Returns the exit status. */
int mm_bench_check_trace(const char *path);

/* ---- report.c --------------------------------------------------------------------------------- */

double mm_bench_now(void); /* seconds, monotonic */
/* A number of bytes, or any number, in an exact short form: 4096, 8K, 1M. Returns text, which has 32 bytes. */
const char *mm_bench_size_text(uint64_t bytes, char *text);
/* The size and the threads of an operation: a fraction of its item's in some cases. */
uint64_t mm_bench_op_size(const struct mm_bench_item *item, size_t op);
uint32_t mm_bench_op_threads(const struct mm_bench_item *item, size_t op);
/* Shows what is being measured; on a terminal the line is rewritten. */
void mm_bench_progress_total(size_t items);
void mm_bench_progress(enum mm_bench_allocator allocator, const struct mm_bench_item *item);
void mm_bench_progress_tick(void); /* about once a second */
/* Ends the progress line of an item with its status, and with the child's remark if it failed. */
void mm_bench_progress_end(enum mm_bench_allocator allocator, const struct mm_bench_item *item, enum mm_bench_status status, const char *remark);

void mm_bench_table(FILE *to, const struct mm_bench_options *o, const struct mm_bench_item *items, size_t count);
void mm_bench_table_head(FILE *to, const struct mm_bench_machine *m);
extern const char mm_bench_csv_fields[]; /* the CSV header line */
void mm_bench_csv_head(FILE *to, const struct mm_bench_options *o, const struct mm_bench_machine *m);
/* The rows of one allocator that are not old. */
void mm_bench_csv_rows(FILE *to, enum mm_bench_allocator allocator, const struct mm_bench_item *items, size_t count);
void mm_bench_csv_floors(FILE *to, const struct mm_bench_floors *floors);

#endif
