/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Traces: the file that the run time writes (runtime/host/trace_write.c), the reader that refuses anything else, the plan of a replay, and its kernels with a CPU
 * thread for each thread of a CTA. Under AddressSanitizer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/trace_write.h"
#include "tests/bench/cta.h"
#include "tests/bench/counted.h"
#include "tests/runner.h"
#define malloc counted_malloc
#define free counted_free
#include "tools/mmbench/child/replay_kernels.h"
#undef malloc
#undef free

static char why[TRACE_WHY_BYTES];

/* Reads a text of so many bytes. Returns whether it is refused. */
static int refused_bytes(struct trace *t, const char *text, size_t bytes) {
    FILE *from = bytes ? fmemopen((void *)(uintptr_t)text, bytes, "r") : fopen("/dev/null", "r");
    ck_assert(from);
    memset(t, 0, sizeof *t);
    why[0] = 0;
    const int wrong = trace_read(t, from, why);
    fclose(from);
    ck_assert_msg(wrong == (why[0] != 0) && !strchr(why, '\n'), "%s", why);
    return wrong;
}
static int refused(struct trace *t, const char *text) { return refused_bytes(t, text, strlen(text)); }

#define HEAD "mm-trace 1\nk 0\n"
static const char whole[] = HEAD "m 64 0 17\nm 100 0 18 256\nn 18446744073709551615 281474976710655 1023\nf 0 0 17\nk 16777215\nf 1 3 5\nend 2 1 2 7\n";

START_TEST(valid) {
    struct trace t;
    ck_assert_msg(!refused(&t, whole), "%s", why);
    ck_assert(t.count == 5 && t.mallocs == 2 && t.nulls == 1 && t.frees == 2 && t.dropped == 7 && t.launches == 1u << 24);
    ck_assert(t.live == 0 && t.most_live == 164);
    const struct trace_event *e = t.events;
    ck_assert(e[0].kind == TRACE_MALLOC && e[0].bytes == 64 && e[0].thread == 17 && e[0].align_shift == 0 && e[0].launch == 0);
    ck_assert(e[1].align_shift == 8 && e[2].kind == TRACE_NULL && e[2].bytes == UINT64_MAX && e[2].cta == MM_TRACE_CTA_MAX && e[2].thread == 1023);
    ck_assert(e[4].kind == TRACE_FREE && e[4].bytes == 1 && e[4].launch == (1u << 24) - 1 && e[4].cta == 3 && e[4].thread == 5);
    trace_end(&t);
    ck_assert(!refused(&t, HEAD "m 1099511627776 0 0\nm 0 0 0\nend 2 0 0 0\n") && t.live == 1ull << 40); /* not freed; of no bytes */
    trace_end(&t);
    ck_assert(!refused(&t, HEAD "m 100 0 0\nf 0 0 0\nm 10 0 0\nend 2 0 1 0\n") && t.live == 10 && t.most_live == 100);
    trace_end(&t);
}
END_TEST

/* A text, and what its line says. */
static const struct {
    const char *text, *why;
} wrong[] = {
    {"", "line 0: the file is empty"},
    {"\n", "line 1: expected mm-trace 1"},
    {"mm-trace 2\n", "line 1: expected mm-trace 1"},
    {"mm-trace 1", "line 1: no newline at the end"},
    {"mm-trace 1\n", "line 1: the file ends without a line with end"},
    {"mm-trace 1\nend 0 0 0 0\n", "line 2: no events"},
    {"mm-trace 1\nm 1 0 0\n", "line 2: expected a line with k first"},
    {HEAD "m 64 0 17\n", "line 3: the file ends without a line with end"},
    {HEAD "m 64 0 17\nend 2 0 0 0\n", "line 4: its counts are not those of the lines before"},
    {HEAD "m 64 0 17\nend 1 1 0 0\n", "line 4: its counts are not those of the lines before"},
    {HEAD "m 64 0 17\nend 1 0 1 0\n", "line 4: its counts are not those of the lines before"},
    {HEAD "m 64 0 17\nend 1 0 0\n", "line 4: expected end MALLOCS NULLS FREES DROPPED"},
    {HEAD "m 64 0 17\nend 1 0 0 0 0\n", "line 4: expected end MALLOCS NULLS FREES DROPPED"},
    {HEAD "m 64 0 17\nend 1 0 0 0\nend 1 0 0 0\n", "line 5: expected nothing after the line with end"},
    {HEAD "m 64 0 17\nend 1 0 0 18446744073709551616\n", "line 4: expected end MALLOCS NULLS FREES DROPPED"},
    {HEAD "f 0 0 0\n", "line 3: frees what was not allocated before"},
    {HEAD "m 1 0 0\nf 1 0 0\nm 1 0 0\n", "line 4: frees what was not allocated before"},
    {HEAD "n 1 0 0\nf 0 0 0\n", "line 4: frees what was not allocated before"},
    {HEAD "m 1 0 0\nf 0 0 0\nf 0 0 0\n", "line 5: frees what was freed before"},
    {HEAD "m 1 0 0\nf 18446744073709551615 0 0\n", "line 4: frees what was not allocated before"},
    {HEAD "m 1 0 0\nf 18446744073709551616 0 0\n", "line 4: expected the number of a malloc"},
    {HEAD "m 1 0 0\nf 0 0 0 16\n", "line 4: expected nothing more"},
    {HEAD "m 9223372036854775808 0 0\n", "line 3: expected bytes, up to 2^40 unless it got NULL"},
    {HEAD "m 1099511627777 0 0\n", "line 3: expected bytes, up to 2^40 unless it got NULL"},
    {HEAD "n 18446744073709551616 0 0\n", "line 3: expected bytes, up to 2^40 unless it got NULL"},
    {HEAD "m -1 0 0\n", "line 3: expected bytes, up to 2^40 unless it got NULL"},
    {HEAD "m  1 0 0\n", "line 3: expected bytes, up to 2^40 unless it got NULL"},
    {HEAD "m 1\n", "line 3: expected the number of a CTA, below 2^48"},
    {HEAD "m 1 281474976710656 0\n", "line 3: expected the number of a CTA, below 2^48"},
    {HEAD "m 1 0\n", "line 3: expected the number of a thread, up to 1023"},
    {HEAD "m 1 0 1024\n", "line 3: expected the number of a thread, up to 1023"},
    {HEAD "m 1 0 0 \n", "line 3: expected the number of a thread, up to 1023"},
    {HEAD "m 1 0 0 1\n", "line 3: expected an alignment, a power of two up to 2^40, or nothing more"},
    {HEAD "m 1 0 0 48\n", "line 3: expected an alignment, a power of two up to 2^40, or nothing more"},
    {HEAD "m 1 0 0 2199023255552\n", "line 3: expected an alignment, a power of two up to 2^40, or nothing more"},
    {HEAD "m 1 0 0 16 16\n", "line 3: expected an alignment, a power of two up to 2^40, or nothing more"},
    {HEAD "x 1 0 0\n", "line 3: expected a line that begins with k, m, n, f or end"},
    {HEAD "\n", "line 3: expected a line that begins with k, m, n, f or end"},
    {HEAD "m\n", "line 3: expected a line that begins with k, m, n, f or end"},
    {HEAD "k 16777216\n", "line 3: expected the number of a launch, below 2^24"},
    {HEAD "k 1 \n", "line 3: expected the number of a launch, below 2^24"},
    {HEAD "m 1 0 0\r\n", "line 3: expected the number of a thread, up to 1023"},
};

START_TEST(malformed) {
    struct trace t;
    ck_assert_msg(refused(&t, wrong[_i].text) && strcmp(why, wrong[_i].why) == 0, "\"%s\": \"%s\", not \"%s\"", wrong[_i].text, why, wrong[_i].why);
    trace_end(&t);
}
END_TEST

/* Each prefix of a valid file is refused, and so is what has another byte anywhere, unless it is another valid file; a byte of value 0, and a long line. */
START_TEST(damaged) {
    struct trace t;
    char text[sizeof whole], line[1000] = HEAD "m ";
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        ck_assert_msg(refused_bytes(&t, whole, n), "%zu bytes", n);
        trace_end(&t);
    }
    for (size_t at = 0; at < sizeof whole - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, whole, sizeof whole);
            text[at] = (char)byte;
            const int is = refused_bytes(&t, text, sizeof whole - 1);
            ck_assert_msg(is || byte == whole[at] || (byte >= '0' && byte <= '9'), "byte %zu: %d", at, byte);
            if (!is) ck_assert(t.mallocs == 2 && t.nulls == 1 && t.frees == 2);
            trace_end(&t);
        }
    memset(line + strlen(line), '1', sizeof line - strlen(line) - 1);
    ck_assert(refused(&t, line) && strcmp(why, "line 3: too long, or with a byte of value 0") == 0);
    trace_end(&t);
}
END_TEST

/* ---- what the run time writes ---------------------------------------------------------------------- */

static struct mm_trace_event event(uint64_t address, uint64_t bytes, uint64_t cta, uint64_t what) {
    const struct mm_trace_event e = {address, bytes, cta, what};
    return e;
}
#define MALLOC(grid, thread) ((uint64_t)(grid) << MM_TRACE_GRID_SHIFT | (thread) << MM_TRACE_THREAD_SHIFT | MM_TRACE_MALLOC)
#define FREE(grid, thread) ((uint64_t)(grid) << MM_TRACE_GRID_SHIFT | (thread) << MM_TRACE_THREAD_SHIFT | MM_TRACE_FREE)

/* Writes the events, and reads them again. Returns the text. */
static char *written(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, struct mm_trace_sum *sum) {
    char *text = NULL;
    size_t bytes = 0;
    struct trace t;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert(out && mm_trace_try_write(events, count, dropped, out, sum));
    fclose(out);
    ck_assert_msg(!refused(&t, text), "%s: %s", why, text);
    ck_assert(t.mallocs == sum->mallocs && t.nulls == sum->nulls && t.frees == sum->frees && t.dropped == sum->dropped && sum->dropped == dropped);
    trace_end(&t);
    return text;
}

/* An incomplete event, of no launch, is between launches of 0xffffff and 1; and for a number as that of 0 those around 0x800000 would be in another order. */
static const uint64_t bases[] = {0xffffff, 0x7fffff, 100};
START_TEST(writes) {
    struct mm_trace_sum sum = {0, 0, 0, 0, 0};
    const uint64_t first = bases[_i], earlier = first - 2, later = (first + 2) & MM_TRACE_LAUNCH_MAX;
    const struct mm_trace_event events[] = {
        event(0, 0, 0, 0),                                                    /* incomplete: its kernel was stopped */
        event(0, 0, 0, MM_TRACE_RESET),                                       /* of no launch, without a line */
        event(0x1000, 64, 5, MALLOC(first, 17)),                              /* launch numbers wrap */
        event(0x2000, 100, 5, MALLOC(first, 18) | 8 << MM_TRACE_ALIGN_SHIFT), /* and one that ran at the same time, submitted earlier */
        event(0x3000, 1, 6, MALLOC(earlier, 0)),
        event(0x1000, 0, 5, FREE(first, 17)),
        event(0x1000, 0, 5, FREE(first, 17)),      /* a second time: misuse */
        event(0x1000, 32, 7, MALLOC(later, 1023)), /* the same address again */
        event(0, 1ull << 63, 7, MALLOC(later, 3)), /* NULL */
        event(0x2000, 0, 8, FREE(later, 4)),
        event(0x1000, 0, 8, FREE(later, 5)),
        event(0x4000, 0, 8, FREE(later, 5)), /* never allocated */
    };
    char *text = written(events, sizeof events / sizeof *events, 9, &sum);
    ck_assert_str_eq(text, "mm-trace 1\nk 1\nm 64 5 17\nm 100 5 18 256\nk 0\nm 1 6 0\nk 1\nf 0 5 17\nk 2\nm 32 7 1023\nn 9223372036854775808 7 3\nf 1 8 4\n"
                           "f 3 8 5\nend 4 1 3 9\n");
    ck_assert_uint_eq(sum.left_out, 3);
    free(text);
}
END_TEST

START_TEST(writes_nothing) {
    char *text = NULL;
    size_t bytes = 0;
    struct mm_trace_sum sum = {0, 0, 0, 0, 0};
    FILE *out = open_memstream(&text, &bytes);
    ck_assert(mm_trace_try_write(NULL, 0, 0, out, &sum));
    fclose(out);
    ck_assert_str_eq(text, "mm-trace 1\nend 0 0 0 0\n");
    free(text);
}
END_TEST

/* 30,000 addresses, allocated and freed at random: each free finds its malloc. */
START_TEST(writes_many) {
    enum { ADDRESSES = 30000, EVENTS = 200000 };
    static uint64_t number_of[ADDRESSES]; /* of the live malloc, plus 1 */
    static struct mm_trace_event events[EVENTS];
    static uint64_t expected[EVENTS];
    struct mm_trace_sum sum = {0, 0, 0, 0, 0};
    uint64_t random = 1, mallocs = 0;
    for (int i = 0; i < EVENTS; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const uint64_t k = (random >> 33) % ADDRESSES, address = (k + 1) << 4;
        expected[i] = number_of[k] ? number_of[k] - 1 : 16;
        events[i] = number_of[k] ? event(address, 0, 0, FREE(3, 0)) : event(address, 16, 0, MALLOC(3, 0));
        number_of[k] = number_of[k] ? 0 : ++mallocs;
    }
    char *text = written(events, EVENTS, 0, &sum);
    const char *at = strchr(strchr(text, '\n') + 1, '\n') + 1;
    for (int i = 0; i < EVENTS; i++, at = strchr(at, '\n') + 1)
        if (strtoull(at + 2, NULL, 10) != expected[i]) ck_abort_msg("event %d: %.20s", i, at);
    ck_assert(sum.left_out == 0 && sum.mallocs == mallocs);
    free(text);
}
END_TEST

/* ---- the plan -------------------------------------------------------------------------------------- */

/* Runs a plan as the GPU does, but one lane after the other, from the last to the first: no free comes before its malloc, and all calls are made. */
static void runs(const struct replay_plan *p, const struct trace *t) {
    char *live = (char *)calloc(t->mallocs + 1, 1);
    uint64_t mallocs = 0, nulls = 0, frees = 0, warps = 0;
    for (size_t s = 0; s < p->step_count; s++) {
        ck_assert(p->steps[s].first_warp == warps && p->steps[s].warps > 0);
        warps += p->steps[s].warps;
        for (size_t w = p->steps[s].first_warp + p->steps[s].warps; w-- > p->steps[s].first_warp;)
            for (int lane = WARP_THREADS - 1; lane >= 0; lane--)
                for (unsigned i = p->begins[w]; i < p->begins[w + 1]; i++) {
                    const struct replay_op *op = &p->ops[i];
                    ck_assert(i == p->begins[w] || p->ops[i - 1].lane <= op->lane);
                    if (op->lane != lane) continue;
                    if (op->kind == TRACE_NULL) nulls++;
                    else if (op->kind == TRACE_MALLOC) ck_assert(!live[op->number]++), mallocs++;
                    else ck_assert_msg(live[op->number] == 1, "step %zu: free of %u before its malloc", s, op->number), live[op->number]++, frees++;
                }
    }
    ck_assert(mallocs == t->mallocs && nulls == t->nulls && frees == t->frees && warps == p->warp_count && p->begins[warps] == t->count);
    free(live);
}

START_TEST(plans) {
    struct trace t;
    struct replay_plan p;
    ck_assert(!refused(&t, HEAD "m 64 0 0\nm 10 0 40\nf 0 0 0\nm 1 0 33 64\nf 1 0 33\nk 2\nm 5 0 0\nk 0\nf 3 0 33\nk 2\nf 2 9 9\nn 7 9 9\nend 4 1 4 0\n"));
    ck_assert(replay_plan_make(&p, &t) == NULL);
    /* Launch 0: warps 0 and 1 of CTA 0. After it: the free of malloc 1 by another thread. Launch 2: its malloc, and CTA 9. After it: launch 0's free of what launch 2
     * allocated. */
    ck_assert(p.step_count == 4 && p.steps[0].warps == 2 && p.steps[1].warps == 1 && p.steps[2].warps == 2 && p.steps[3].warps == 1);
    ck_assert(p.ops[0].kind == TRACE_MALLOC && p.ops[1].kind == TRACE_FREE && p.ops[1].number == 0 && p.begins[1] == 2);
    ck_assert(p.ops[2].lane == 1 && p.ops[2].bytes == 64 && p.ops[2].number == 2 && p.ops[3].lane == 8 && p.ops[3].number == 1); /* 1 byte, aligned to 64 */
    runs(&p, &t);
    replay_plan_end(&p);
    trace_end(&t);
}
END_TEST

/* Random traces: threads free each other's memory. */
START_TEST(plans_of_any_trace) {
    uint64_t random = (uint64_t)_i + 1;
    char *text = NULL;
    size_t bytes = 0;
    static unsigned live[4000];
    unsigned count = 0, mallocs = 0, frees = 0, nulls = 0;
    FILE *out = open_memstream(&text, &bytes);
    fputs("mm-trace 1\n", out);
    for (int i = 0; i < 4000; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const unsigned r = (unsigned)(random >> 33), cta = r >> 4 & 1, thread = r >> 5 & 63;
        if (i % 7 == 0) fprintf(out, "k %u\n", r >> 11 & 3);
        if (r % 16 == 0) nulls++, fprintf(out, "n 9 %u %u\n", cta, thread);
        else if (count && r % 16 < 8) {
            const unsigned k = (r >> 16) % count;
            fprintf(out, "f %u %u %u\n", live[k], cta, thread), frees++;
            live[k] = live[--count];
        } else fprintf(out, "m 8 %u %u\n", cta, thread), live[count++] = mallocs++;
    }
    fprintf(out, "end %u %u %u 0\n", mallocs, nulls, frees);
    fclose(out);
    struct trace t;
    struct replay_plan p;
    ck_assert_msg(!refused(&t, text), "%s", why);
    ck_assert(replay_plan_make(&p, &t) == NULL);
    runs(&p, &t);
    replay_plan_end(&p);
    trace_end(&t);
    free(text);
}
END_TEST

/* ---- the kernels ----------------------------------------------------------------------------------- */

struct launch {
    const struct replay_plan *plan;
    struct replay_step step;
    void **pointers;
    struct replay_tally *tally;
    unsigned mallocs;
};
static void step_body(const void *of) {
    const struct launch *l = (const struct launch *)of;
    replay_step_kernel(l->plan->ops, l->plan->begins + l->step.first_warp, (unsigned)l->step.warps, l->pointers, l->tally);
}
static void rest_body(const void *of) {
    const struct launch *l = (const struct launch *)of;
    replay_rest_kernel(l->pointers, l->mallocs);
}

/* Replays a text; `damage`: writes to the first allocation after the first step. Returns what was found; sets `left` to the live bytes before the rest is freed. */
static struct replay_tally replayed(const char *text, int damage, unsigned long long *left) {
    static struct replay_tally found;
    struct trace t;
    struct replay_plan p;
    memset(&found, 0, sizeof found);
    live = calls = 0;
    ck_assert_msg(!refused(&t, text), "%s", why);
    ck_assert(replay_plan_make(&p, &t) == NULL);
    void **pointers = (void **)calloc(t.mallocs + 1, sizeof *pointers);
    struct launch l = {&p, {0, 0}, pointers, &found, (unsigned)t.mallocs};
    for (size_t s = 0; s < p.step_count; s++) {
        l.step = p.steps[s];
        cta_launch(step_body, &l, (unsigned)(l.step.warps / CTA_WARPS + 1), CTA_THREADS);
        if (s == 0 && damage) *(unsigned *)pointers[0] ^= 1;
    }
    ck_assert(calls == t.mallocs + t.nulls);
    *left = live;
    cta_launch(rest_body, &l, (unsigned)(t.mallocs / CTA_THREADS + 1), CTA_THREADS);
    ck_assert(live == 0);
    free(pointers);
    replay_plan_end(&p);
    trace_end(&t);
    return found;
}

START_TEST(kernels) {
    unsigned long long left;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    fputs(HEAD, out); /* 20 warps: each lane but the first two has two allocations, of which another lane frees one; and a request that got NULL */
    for (int i = 0; i < 640; i++)
        if (i % 32 > 1) fprintf(out, "m %d %d %d\nm 40 %d %d\nn 7 %d %d\n", 16 + i, i / 64, i % 64, i / 64, i % 64, i / 64, i % 64);
    fputs("k 1\n", out);
    for (int i = 0; i < 600; i++) fprintf(out, "f %d %d %d\n", 2 * i, i / 40, i % 40);
    fputs("end 1200 600 600 0\n", out);
    fclose(out);
    struct replay_tally found = replayed(text, 0, &left);
    ck_assert(found.nulls == 0 && found.corrupt == 0 && left == 600 * 40);
    found = replayed(text, 1, &left);
    ck_assert(found.nulls == 0 && found.corrupt == 1);
    null_every = 4; /* some are requests that got NULL in the trace, too, and do not count */
    found = replayed(text, 0, &left);
    ck_assert(found.corrupt == 0 && found.nulls > 0 && found.nulls < 450);
    null_every = 0;
    free(text);
    ck_assert(replayed(HEAD "m 8 0 0\nf 0 0 0\nm 8 0 0\nf 1 0 31\nend 2 0 2 0\n", 0, &left).corrupt == 0 && left == 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("trace");
    TCase *c = tcase_create("trace");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, valid);
    tcase_add_loop_test(c, malformed, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(c, damaged);
    tcase_add_loop_test(c, writes, 0, sizeof bases / sizeof *bases);
    tcase_add_test(c, writes_nothing);
    tcase_add_test(c, writes_many);
    tcase_add_test(c, plans);
    tcase_add_loop_test(c, plans_of_any_trace, 0, 20);
    tcase_add_test(c, kernels);
    suite_add_tcase(s, c);
    return suite_run(s);
}
