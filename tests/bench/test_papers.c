/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's cases ad, acd, p, half, write and workgen without a GPU: their kernels, with a CPU thread for each thread of a CTA, and their checks. A
 * planted fault is a kernel that forgets its last caller or list, or writes the pattern of another slot, or an allocator that returns the same memory
 * to all.
 */
#include "tests/bench/cta.h"
#include "tests/bench/device.h"
#include "tests/runner.h"

#define malloc device_malloc
#define free device_free
#include "tools/mmbench/child/papers/bursts_kernels.h"
#include "tools/mmbench/child/papers/halves_kernels.h"
#include "tools/mmbench/child/papers/words_kernels.h"
#undef malloc
#undef free

#define CALLERS 20u
#define LISTS 300u

static int forgets; /* the planted fault */

/* ---- launches ----------------------------------------------------------------------------------- */

/* All arguments that a kernel may have. */
struct arguments {
    struct burst_input burst;
    struct words_input words;
    struct halves_round round;
    unsigned launch;
    void **held;
    unsigned **lists;
    struct bump *b;
    struct burst_result *results;
    struct tally *t;
};

/* BODY(NAME, CALL): the kernel's launch function, for cta_launch. */
#define BODY(name, call)                                          \
    static void name##_body(const void *of) {                     \
        const struct arguments *a = (const struct arguments *)of; \
        call;                                                     \
    }
BODY(ad, ad_kernel(a->burst, a->b, a->results, a->t))
BODY(acd, acd_kernel(a->burst, a->held, a->b, a->results, a->t))
BODY(p, p_kernel(a->burst, a->launch, a->held, a->b, a->results, a->t))
BODY(p_end, p_end_kernel(a->burst, a->held, a->results, a->t))
BODY(take, words_take_kernel(a->words, a->lists, a->b, a->t))
BODY(write, words_write_kernel(a->words, a->lists))
BODY(give, words_give_kernel(a->words, a->lists))
BODY(take_and_write, words_take_and_write_kernel(a->words, a->lists, a->b, a->t))
BODY(halves_take, halves_take_kernel(a->round, a->b, a->t))
BODY(halves_give, halves_give_kernel(a->round, a->t))
BODY(halves_check, halves_check_kernel(a->round, a->t))

static void launch(void (*body)(const void *), const struct arguments *a, unsigned threads) {
    cta_launch(body, a, (threads + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS);
}

static void burst_launch(void (*body)(const void *), struct burst_input in, unsigned number, void **held, struct burst_result *r, struct tally *t) {
    struct arguments a;
    memset(&a, 0, sizeof a);
    a.burst = in, a.launch = number, a.held = held, a.results = r, a.t = t;
    a.burst.callers -= forgets && in.callers && body != p_end_body;
    launch(body, &a, in.callers * WARP_THREADS);
}
static void burst_ad(struct burst_input in, struct bump *b, struct burst_result *r, struct tally *t) { (void)b, burst_launch(ad_body, in, 0, NULL, r, t); }
static void burst_acd(struct burst_input in, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    (void)b, burst_launch(acd_body, in, 0, held, r, t);
}
static void burst_p(struct burst_input in, unsigned number, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    (void)b, burst_launch(p_body, in, number, held, r, t);
}
static void burst_p_end(struct burst_input in, void **held, struct burst_result *r, struct tally *t) { burst_launch(p_end_body, in, 0, held, r, t); }
const struct burst_kernels alloc_burst = {burst_ad, burst_acd, burst_p, burst_p_end};

static void words_launch(void (*body)(const void *), struct words_input in, unsigned **lists, struct tally *t) {
    struct arguments a;
    memset(&a, 0, sizeof a);
    a.words = in, a.lists = lists, a.t = t;
    a.words.lists -= forgets && in.lists && (body == write_body || body == take_and_write_body);
    launch(body, &a, in.lists);
}
static void words_take_all(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) { (void)b, words_launch(take_body, in, lists, t); }
static void words_write_all(struct words_input in, unsigned **lists) { words_launch(write_body, in, lists, NULL); }
static void words_give_all(struct words_input in, unsigned **lists) { words_launch(give_body, in, lists, NULL); }
static void words_take_and_write_all(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    (void)b;
    memset(lists, 0, in.lists * sizeof *lists);
    words_launch(take_and_write_body, in, lists, t);
}
const struct words_kernels alloc_words = {words_take_all, words_write_all, words_give_all, words_take_and_write_all};

static void halves_launch(void (*body)(const void *), struct halves_round round, struct tally *t) {
    struct arguments a;
    memset(&a, 0, sizeof a);
    a.round = round, a.t = t;
    a.round.first += forgets && body == halves_take_body;
    launch(body, &a, round.count);
}
static void halves_take_all(struct halves_round round, struct bump *b, struct tally *t) { (void)b, halves_launch(halves_take_body, round, t); }
static void halves_give_all(struct halves_round round, struct tally *t) { halves_launch(halves_give_body, round, t); }
static void halves_check_all(struct halves_round round, struct tally *t) { halves_launch(halves_check_body, round, t); }
const struct halves_kernels alloc_halves = {halves_take_all, halves_give_all, halves_check_all};

/* The floors: the same kernels, with the same allocator, without a fault. */
#define WITHOUT_FAULT(call)                    \
    do {                                       \
        const int before = forgets;            \
        forgets = 0, device_is_floor = 1;      \
        call;                                  \
        forgets = before, device_is_floor = 0; \
    } while (0)
static void floor_ad(struct burst_input in, struct bump *b, struct burst_result *r, struct tally *t) { WITHOUT_FAULT(burst_ad(in, b, r, t)); }
static void floor_acd(struct burst_input in, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    WITHOUT_FAULT(burst_acd(in, held, b, r, t));
}
static void floor_p(struct burst_input in, unsigned number, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    WITHOUT_FAULT(burst_p(in, number, held, b, r, t));
}
static void floor_p_end(struct burst_input in, void **held, struct burst_result *r, struct tally *t) { WITHOUT_FAULT(burst_p_end(in, held, r, t)); }
const struct burst_kernels floor_burst = {floor_ad, floor_acd, floor_p, floor_p_end};
static void floor_take(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) { WITHOUT_FAULT(words_take_all(in, lists, b, t)); }
static void floor_write(struct words_input in, unsigned **lists) { WITHOUT_FAULT(words_write_all(in, lists)); }
static void floor_take_and_write(struct words_input in, unsigned **lists, struct bump *b, struct tally *t) {
    WITHOUT_FAULT(words_take_and_write_all(in, lists, b, t));
}
static void floor_give(struct words_input in, unsigned **lists) { WITHOUT_FAULT(words_give_all(in, lists)); }
const struct words_kernels floor_words = {floor_take, floor_write, floor_give, floor_take_and_write};

/* Those of words.cu. */
size_t words_scratch(struct words_input in) { return in.lists; }
void words_offsets(struct words_input in, unsigned long long *offsets, void *scratch, size_t scratch_bytes) {
    (void)scratch, (void)scratch_bytes;
    offsets[0] = 0;
    for (unsigned i = 0; i < in.lists; i++) offsets[i + 1] = offsets[i] + words_of(&in, i);
}
void words_write_at(struct words_input in, const unsigned long long *offsets, unsigned *all, unsigned **lists) {
    for (unsigned i = 0; i < in.lists; i++) {
        lists[i] = all + offsets[i];
        for (unsigned w = 0; w < words_of(&in, i); w++) lists[i][w] = word_at(i, w);
    }
}
void words_sum(struct words_input in, unsigned *const *lists, struct words_result *r) {
    for (unsigned i = 0; i < in.lists; i++) {
        if (lists[i] == NULL) continue;
        r->words += words_of(&in, i);
        for (unsigned w = 0; w < words_of(&in, i); w++) r->sum += lists[i][w];
    }
}

/* ---- tests -------------------------------------------------------------------------------------- */

static struct request request_of(const char *name, unsigned long long size, unsigned threads) {
    struct request q;
    memset(&q, 0, sizeof q);
    snprintf(q.name, sizeof q.name, "%s", name);
    q.size = size, q.threads = threads, q.runs = 1;
    return q;
}

static const struct {
    const char *name;
    void (*run)(const struct request *);
    unsigned long long size;
    unsigned threads;
    const char *rows; /* if all is well */
} cases[] = {
    {"ad", run_bursts, 4, CALLERS, "time us 1 1000 0 0\n"},
    {"acd", run_bursts, 16, CALLERS, "time us 1 1000 0 0\n"},
    {"p", run_bursts, 100, CALLERS, "time us 1 1000 0 0\n"},
    {"write", run_write, 48, LISTS, "malloc us 1 1000 0 0\nwrite us 1 1000 0 0\nfree us 1 1000 0 0\n"},
    {"workgen", run_workgen, 256, LISTS, "time us 1 1000 0 0\n"},
    {"half", run_half, 16, LISTS, NULL},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static void run(int i) {
    const struct request q = request_of(cases[i].name, cases[i].size, cases[i].threads);
    if (cases[i].rows == NULL) null_every = 1000; /* half ends with a NULL */
    cases[i].run(&q);
}

START_TEST(all_is_well) {
    device_reset();
    run(_i);
    if (cases[_i].rows) ck_assert_str_eq(device_rows, cases[_i].rows);
    else ck_assert_str_eq(device_rows, "rounds count 1 - 0 0\nshare share 1 - 0 0\nspan ratio 1 - 0 0\nmalloc us 3 - 0 0\nfree us 3 - 0 0\n");
    if (cases[_i].rows) ck_assert_uint_eq(live, 0);
}
END_TEST

/* No row is without a mark, and no time is told. */
static void is_marked(const char *mark) {
    char line[64];
    const char *at = device_rows;
    ck_assert_str_ne(device_rows, "");
    for (; *at; at += strlen(line) + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        ck_assert_msg(strstr(line, mark) != NULL, "%s: expected%s", line, mark);
    }
}

START_TEST(a_kernel_that_forgets_is_found) {
    device_reset();
    forgets = 1;
    run(_i);
    forgets = 0;
    if (!strcmp(cases[_i].name, "half")) ck_assert_ptr_eq(strstr(device_rows, " 0 0\n"), NULL);
    else is_marked(" us 0 ");
    ck_assert_ptr_eq(strstr(device_rows, " 0\n"), NULL);
}
END_TEST

START_TEST(shared_memory_is_found) {
    if (!strcmp(cases[_i].name, "ad")) return; /* a caller holds its memory for a moment only */
    device_reset();
    device_shares = 1;
    run(_i);
    ck_assert_ptr_eq(strstr(device_rows, " 0 0\n"), NULL);
}
END_TEST

START_TEST(nulls_are_counted) {
    if (!strcmp(cases[_i].name, "half")) return; /* a NULL is its end */
    device_reset();
    null_every = 7;
    const struct request q = request_of(cases[_i].name, cases[_i].size, cases[_i].threads);
    cases[_i].run(&q);
    ck_assert_ptr_eq(strstr(device_rows, " 0 0\n"), NULL);
    ck_assert_uint_eq(live, 0);
}
END_TEST

/* Each caller's share is what the paper says: 10 to 100 allocations; three quarters of the callers act in a launch. */
START_TEST(bursts_are_as_published) {
    unsigned long long length = 0, acts = 0;
    unsigned least = ~0u, most = 0;
    for (unsigned caller = 0; caller < 100000; caller++) {
        const unsigned n = burst_length(caller);
        length += n;
        least = n < least ? n : least;
        most = n > most ? n : most;
        for (unsigned i = 0; i < BURST_LAUNCHES; i++) acts += (unsigned)burst_acts(caller, i);
    }
    ck_assert_uint_eq(least, 10);
    ck_assert_uint_eq(most, 100);
    ck_assert_double_eq_tol((double)length / 100000, 55, .5);
    ck_assert_double_eq_tol((double)acts / (100000 * BURST_LAUNCHES), .75, .002);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("papers");
    TCase *tc = tcase_create("papers");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, all_is_well, 0, CASES);
    tcase_add_loop_test(tc, a_kernel_that_forgets_is_found, 0, CASES);
    tcase_add_loop_test(tc, shared_memory_is_found, 0, CASES);
    tcase_add_loop_test(tc, nulls_are_counted, 0, CASES);
    tcase_add_test(tc, bursts_are_as_published);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
