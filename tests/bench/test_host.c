/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's cases "malloc_large", "hostlog" and "multistream" without a GPU, with a stand-in for CUDA. Kernels are loops, which end before their
 * launch returns. Device memory is an array of slots, which the test can hand out wrongly. The clock advances by 1 ms when it is read.
 */
#include <check.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/runner.h"
#include "tools/mmbench/child/papers/host.h"

#define MIB (1ull << 20)

/* ---- stand-in for the device ---- */

#define SLOT_BYTES (64 * MIB)
#define SLOTS 512u /* and one for a block that begins late in the last slot */
#define DEVICE (64ull << 30)
#define WRONG_EVERY 100u

/* SAME: every block is the same slot. The others do that to one allocation in WRONG_EVERY: TWICE: allocates a live block again; INSIDE: a block
 * within a live one; MISALIGNED; NO_STAMP: its stamp is damaged; OUT: no memory after `allowed` allocations; OUT_NULL: the same, as NULL. RECOUNT: a
 * check counts too many words. BROKEN: another error of CUDA. */
static enum { SANE, SAME, TWICE, INSIDE, MISALIGNED, NO_STAMP, OUT, OUT_NULL, RECOUNT, BROKEN } mode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *device;
static unsigned users[SLOTS], takes, gives, async_takes, async_gives, stamps, streams, allowed;
static unsigned long long sizes[SLOTS], live, live_most;
static size_t before; /* the slot of the allocation before */

static size_t unused(void) {
    size_t slot = 0;
    while (slot < SLOTS && users[slot]) slot++;
    ck_assert_uint_lt(slot, SLOTS);
    return slot;
}

static cudaError_t device_take(void **p, size_t bytes) {
    const int is_wrong = ++takes % WRONG_EVERY == 0 && users[before];
    const size_t slot = mode == SAME ? 0 : is_wrong && (mode == TWICE || mode == INSIDE) ? before : unused();
    if ((mode == OUT || mode == OUT_NULL) && takes > allowed) {
        takes--, *p = NULL;
        return mode == OUT ? cudaErrorMemoryAllocation : cudaSuccess;
    }
    if (mode == BROKEN) return cudaErrorUnknown;
    before = slot;
    users[slot]++;
    if (users[slot] == 1) live += sizes[slot] = bytes;
    if (live > live_most) live_most = live;
    *p = device + slot * SLOT_BYTES + (is_wrong && mode == INSIDE ? 4096 : is_wrong && mode == MISALIGNED ? 128 : 0);
    return cudaSuccess;
}

static cudaError_t device_give(void *p) {
    const size_t slot = (size_t)((char *)p - device) / SLOT_BYTES;
    ck_assert_uint_gt(users[slot], 0);
    if (--users[slot] == 0) live -= sizes[slot];
    gives++;
    return cudaSuccess;
}

/* A pool: it has these bytes of the device, of which cudaMemGetInfo counts as free what is not live; and it is empty after a request that fails. */
static unsigned long long pool_bytes;
static unsigned pool_was_emptied;
uint64_t mm_pool_taken_v1(void);
uint64_t mm_pool_taken_v1(void) { return pool_bytes; }
static cudaError_t empty_pool(void) { return pool_was_emptied++, cudaErrorMemoryAllocation; }

static cudaError_t locked(cudaError_t error) { return pthread_mutex_unlock(&lock), error; }
cudaError_t cudaMalloc(void **p, size_t bytes) { return pthread_mutex_lock(&lock), locked(bytes == DEVICE ? empty_pool() : device_take(p, bytes)); }
cudaError_t cudaFree(void *p) {
    if ((char *)p < device || (char *)p >= device + SLOTS * SLOT_BYTES) return free(p), cudaSuccess; /* of child_device_alloc */
    return pthread_mutex_lock(&lock), locked(device_give(p));
}
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t s) {
    ck_assert_ptr_nonnull(s);
    return pthread_mutex_lock(&lock), async_takes++, locked(device_take(p, bytes));
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    ck_assert_ptr_nonnull(s);
    return pthread_mutex_lock(&lock), async_gives++, locked(device_give(p));
}
cudaError_t cudaMemGetInfo(size_t *is_free, size_t *total) {
    *total = DEVICE;
    *is_free = DEVICE - live;
    return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return s ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
    ck_assert_uint_eq(flags, cudaStreamNonBlocking);
    streams++;
    *s = (cudaStream_t)&streams;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) { return (void)s, streams--, cudaSuccess; }

/* ---- stand-ins for the kernels ---- */

#define KEYS 10000u /* the first ones are recorded */
static unsigned long long keys[KEYS];

static int damages(unsigned long long key) {
    const unsigned i = __atomic_add_fetch(&stamps, 1, __ATOMIC_RELAXED);
    if (i <= KEYS) keys[i - 1] = key;
    return i % WRONG_EVERY == 0 && mode == NO_STAMP;
}
static unsigned long long end_byte(unsigned i, unsigned long long bytes) { return i < HOST_STAMP_BYTES ? i : bytes - 2 * HOST_STAMP_BYTES + i; }

void host_stamp_ends(void *p, unsigned long long bytes, unsigned long long key, cudaStream_t s) {
    ck_assert_ptr_nonnull(s);
    for (unsigned i = 0; i < 2 * HOST_STAMP_BYTES; i++) ((unsigned char *)p)[end_byte(i, bytes)] = host_stamp_byte(key, end_byte(i, bytes));
    if (damages(key)) ((unsigned char *)p)[bytes - 1] ^= 1;
}
void host_check_ends(const void *p, unsigned long long bytes, unsigned long long key, unsigned long long *damaged, cudaStream_t s) {
    int bad = 0;
    ck_assert_ptr_nonnull(s);
    for (unsigned i = 0; i < 2 * HOST_STAMP_BYTES; i++) bad |= ((const unsigned char *)p)[end_byte(i, bytes)] != host_stamp_byte(key, end_byte(i, bytes));
    *damaged += (unsigned)bad;
}
/* Atomic, since two threads may have the same block. */
void host_stamp_all(void *p, unsigned long long words, unsigned long long key, unsigned spin_ns, cudaStream_t s) {
    unsigned long long *at = (unsigned long long *)p;
    ck_assert_ptr_nonnull(s);
    for (unsigned long long w = 0; w < words; w++) __atomic_store_n(at + w, host_stamp_word(key, w), __ATOMIC_RELAXED);
    if (damages(key)) __atomic_store_n(at + words - 1, 0, __ATOMIC_RELAXED);
    if (mode == SAME) usleep(spin_ns / 1000);
}
void host_check_all(const void *p, unsigned long long words, unsigned long long key, unsigned long long *intact, cudaStream_t s) {
    const unsigned long long *at = (const unsigned long long *)p;
    ck_assert_ptr_nonnull(s);
    for (unsigned long long w = 0; w < words; w++) *intact += __atomic_load_n(at + w, __ATOMIC_RELAXED) == host_stamp_word(key, w);
    if (mode == RECOUNT) *intact += 1;
}

/* ---- stand-ins for the child's functions ---- */

#define EXIT_CUDA 3

double child_seconds;
static unsigned now_ms;
static char rows[4096], fatal[256];
static jmp_buf on_fatal;

struct tally child_nothing_found(void) {
    struct tally t;
    memset(&t, 0, sizeof t);
    return t;
}
void child_fatal(const char *what, const char *why) {
    snprintf(fatal, sizeof fatal, "%s: %s", what, why);
    longjmp(on_fatal, 1);
}
void child_must(cudaError_t error) {
    if (error != cudaSuccess) _exit(EXIT_CUDA);
}
void *child_device_alloc(size_t bytes) { return calloc(1, bytes); }
void child_read(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
double child_now_ms(void) { return __atomic_add_fetch(&now_ms, 1, __ATOMIC_RELAXED); }
static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    const size_t at = strlen(rows);
    qsort(samples, runs, sizeof *samples, compare);
    snprintf(rows + at, sizeof rows - at, "%s %s %.6g %u %s %llu %llu %s\n", op, unit, runs ? samples[runs / 2] : 0, runs, floor, t->nulls, t->corrupt,
             checked);
}

/* ---- the cases ---- */

static void begin(void) {
    if (!device) {
        void *p = mmap(NULL, (SLOTS + 1) * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ck_assert(p != MAP_FAILED);
        device = (char *)p;
    }
    mode = SANE;
    memset(users, 0, sizeof users);
    takes = gives = async_takes = async_gives = stamps = allowed = now_ms = 0;
    live = live_most = before = 0;
    child_seconds = 1e6;
    rows[0] = fatal[0] = '\0';
}

/* Everything is free afterwards. */
static void run(void (*what)(const struct request *), unsigned long long size, unsigned threads, unsigned runs) {
    struct request q;
    memset(&q, 0, sizeof q);
    q.size = size, q.threads = threads, q.runs = runs;
    if (setjmp(on_fatal) == 0) what(&q);
    ck_assert_uint_eq(takes, gives);
    ck_assert_uint_eq(live, 0);
    ck_assert_uint_eq(streams, 0);
}

#define LOG_CHECKED " nonnull aligned disjoint stamped\n"

/* The time of all calls is one read of the clock for each, and one more. */
START_TEST(large_case) {
    begin();
    run(run_malloc_large, 0, 1, 4);
    ck_assert_str_eq(rows, "malloc us 1000 20000 - 0 0" LOG_CHECKED "free us 1000 20000 - 0 0" LOG_CHECKED "all ms 10001 4 - 0 0" LOG_CHECKED
                           "async_malloc us 1000 20000 - 0 0" LOG_CHECKED "async_free us 1000 20000 - 0 0" LOG_CHECKED "async_all ms 10001 4 - 0 0" LOG_CHECKED
                           "live MiB 478.326 1 - 0 0" LOG_CHECKED "taken MiB 478.326 1 - 0 0" LOG_CHECKED);
    ck_assert_uint_eq(async_takes, 5 * 5000); /* the runs, and the checked one */
    ck_assert_uint_eq(async_gives, 5 * 5000);
    ck_assert_uint_eq(takes, 2 * 5 * 5000);
    ck_assert_uint_eq(live_most, 501561086);
}
END_TEST

/* A run of both takes 20,004 ms; the limit is 60 % of the request's. */
START_TEST(time_limit) {
    begin(), child_seconds = 130;
    run(run_malloc_large, 0, 1, 12);
    ck_assert_ptr_nonnull(strstr(rows, "all ms 10001 4 - 0 0"));
    begin(), child_seconds = 10;
    run(run_malloc_large, 0, 1, 12);
    ck_assert_ptr_nonnull(strstr(rows, "all ms 10001 3 - 0 0"));
    begin(), child_seconds = 10;
    run(run_malloc_large, 0, 1, 0);
    ck_assert_ptr_nonnull(strstr(rows, "all ms 10001 1 - 0 0"));
}
END_TEST

START_TEST(hostlog_case) {
    char expected[96];
    begin();
    run(run_hostlog, 0, 1, 3);
    ck_assert_ptr_nonnull(strstr(rows, "malloc us 1000 30462 - 0 0"));
    ck_assert_ptr_nonnull(strstr(rows, "async_all ms 20309 3 - 0 0"));
    snprintf(expected, sizeof expected, "live MiB %.6g 1 - 0 0" LOG_CHECKED "taken MiB %.6g 1", (double)TRAINING_LIVE_MOST / MIB,
             (double)TRAINING_LIVE_MOST / MIB);
    ck_assert_ptr_nonnull(strstr(rows, expected));
}
END_TEST

/* What a pool has taken is its own account, and the case begins with an empty one. */
START_TEST(memory_of_a_pool) {
    begin();
    pool_bytes = 9000 * MIB, pool_was_emptied = 0;
    run(run_malloc_large, 0, 1, 3);
    pool_bytes = 0;
    ck_assert_ptr_nonnull(strstr(rows, "taken MiB 9000 1"));
    ck_assert_uint_eq(pool_was_emptied, 1);
    run(run_malloc_large, 0, 1, 3);
    ck_assert_ptr_nonnull(strstr(rows, "taken MiB 478.326 1"));
    ck_assert_uint_eq(pool_was_emptied, 1);
}
END_TEST

/* The findings of row `op`, which has no samples. */
static unsigned long long findings(const char *op, int corrupt) {
    char key[64], *at;
    unsigned long long n, c;
    unsigned runs;
    snprintf(key, sizeof key, "\n%s ", op);
    at = strstr(rows, key);
    ck_assert_msg(at != NULL, "no row %s in:\n%s", op, rows);
    ck_assert_int_eq(sscanf(at, " %*s %*s %*s %u - %llu %llu", &runs, &n, &c), 3);
    ck_assert_uint_eq(runs, 0);
    ck_assert_uint_eq(corrupt ? n : c, 0);
    return corrupt ? c : n;
}

/* The checked run finds each wrong block; the case then ends. */
START_TEST(wrong_blocks) {
    begin(), mode = MISALIGNED;
    run(run_malloc_large, 0, 1, 3);
    const unsigned long long wrong = findings("async_all", 1);
    ck_assert(wrong > 45 && wrong <= 50); /* without those whose block before had been freed */
    ck_assert_uint_eq(takes, 5000);
    ck_assert_uint_eq(async_takes, 0);
    ck_assert_ptr_nonnull(strstr(rows, "live MiB 478.326 1 "));
    begin(), mode = TWICE;
    run(run_malloc_large, 0, 1, 3);
    ck_assert_uint_ge(findings("free", 1), 2 * wrong); /* the overlap, and a stamp that was overwritten */
    begin(), mode = INSIDE;
    run(run_malloc_large, 0, 1, 3);
    ck_assert_uint_ge(findings("free", 1), wrong - 1); /* the stamps are elsewhere; a small block may end before */
    begin(), mode = NO_STAMP;
    run(run_hostlog, 0, 1, 3);
    ck_assert_uint_eq(findings("taken", 1), 101);
}
END_TEST

START_TEST(no_memory) {
    begin(), mode = OUT, allowed = 40;
    run(run_malloc_large, 0, 1, 3);
    ck_assert_uint_eq(findings("taken", 0), 1);
    ck_assert_uint_eq(takes, 40);
    begin(), mode = OUT_NULL, allowed = 10154 + 20;
    run(run_hostlog, 0, 1, 3);
    ck_assert_uint_eq(findings("all", 0), 1);
    begin(), mode = OUT, allowed = 4 * 5000 + 1; /* in a timed run */
    run(run_malloc_large, 0, 1, 3);
    ck_assert_uint_eq(findings("all", 0), 1);
    ck_assert_uint_eq(takes, allowed);
}
END_TEST

START_TEST(broken) {
    begin(), mode = BROKEN;
    run(run_malloc_large, 0, 1, 3);
}
END_TEST

static int compare_keys(const void *a, const void *b) {
    const unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
    return (x > y) - (x < y);
}

/* The clock is read twice by each thread; 200 rounds. No two blocks have the same stamp. */
START_TEST(streams_case) {
#define STREAMS_CHECKED " nonnull stamped\n"
    begin();
    run(run_multistream, 65536, 4, 3);
    ck_assert_str_eq(rows,
                     "one us 5 3 - 0 0" STREAMS_CHECKED "four us 35 3 - 0 0" STREAMS_CHECKED "four_over ratio 7 3 - 0 0" STREAMS_CHECKED
                     "async_one us 5 3 - 0 0" STREAMS_CHECKED "async_four us 35 3 - 0 0" STREAMS_CHECKED "async_four_over ratio 7 3 - 0 0" STREAMS_CHECKED);
    ck_assert_uint_eq(takes, 2 * (4 + 3 * 5) * 200);
    ck_assert_uint_eq(async_takes, (4 + 3 * 5) * 200);
    ck_assert_uint_eq(stamps, takes);
    qsort(keys, stamps, sizeof *keys, compare_keys);
    for (unsigned i = 1; i < stamps; i++) ck_assert_uint_ne(keys[i - 1], keys[i]);
}
END_TEST

START_TEST(streams_wrong) {
    begin(), mode = SAME; /* a block belongs to four threads */
    run(run_multistream, 65536, 4, 3);
    ck_assert_uint_ge(findings("four", 1), 2);
    ck_assert_uint_eq(takes, 2 * 4 * 200); /* the case ends after the warm-up */
    begin(), mode = NO_STAMP;
    run(run_multistream, 8, 2, 3); /* one word: each damaged block counts */
    ck_assert_uint_eq(findings("four_over", 1), 2 * 2 * 200 / WRONG_EVERY);
    begin(), mode = OUT, allowed = 500;
    run(run_multistream, 65536, 4, 3);
    ck_assert_uint_eq(takes, 500);
    const unsigned long long nulls = findings("async_one", 0); /* of both kinds */
    ck_assert(nulls > 4 && nulls <= 8);
    begin(), mode = OUT, allowed = 2 * (4 + 5) * 200 + 100; /* in the second timed run */
    run(run_multistream, 65536, 4, 3);
    ck_assert_uint_gt(findings("four_over", 0), 0);
    begin(), mode = RECOUNT;
    run(run_multistream, 65536, 4, 3);
    ck_assert_uint_eq(findings("four", 1), 8);
}
END_TEST

START_TEST(streams_request) {
    begin();
    run(run_multistream, 65536, 0, 3);
    ck_assert_str_eq(fatal, "multistream: expected 1 to 64 streams");
    run(run_multistream, 65536, 65, 3);
    ck_assert_str_eq(fatal, "multistream: expected 1 to 64 streams");
    run(run_multistream, 65537, 4, 3);
    ck_assert_str_eq(fatal, "multistream: expected blocks of a multiple of 8 bytes");
    run(run_multistream, 0, 4, 3);
    ck_assert_str_eq(fatal, "multistream: expected blocks of a multiple of 8 bytes");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("host");
    TCase *tests = tcase_create("host");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, large_case);
    tcase_add_test(tests, time_limit);
    tcase_add_test(tests, hostlog_case);
    tcase_add_test(tests, memory_of_a_pool);
    tcase_add_test(tests, wrong_blocks);
    tcase_add_test(tests, no_memory);
    tcase_add_exit_test(tests, broken, EXIT_CUDA);
    tcase_add_test(tests, streams_case);
    tcase_add_test(tests, streams_wrong);
    tcase_add_test(tests, streams_request);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
