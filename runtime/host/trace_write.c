/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/trace_write.h"

/* A line. Not by fprintf, since there may be four million. */
struct line {
    char text[128]; /* the longest has 65 bytes */
    size_t n;
};

static void add_number(struct line *l, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    l->text[l->n++] = ' ';
    while (count) l->text[l->n++] = digits[--count];
}

static void write_event(const struct mm_trace_event *e, uint64_t number, FILE *out) {
    const unsigned align_shift = e->what >> MM_TRACE_ALIGN_SHIFT & 0xff;
    struct line l = {.n = 1};
    l.text[0] = mm_event_is_free(e) ? 'f' : mm_event_is_null(e) ? 'n' : 'm';
    add_number(&l, number);
    add_number(&l, e->cta & MM_TRACE_CTA_MAX);
    add_number(&l, e->what >> MM_TRACE_THREAD_SHIFT & MM_TRACE_THREAD_MAX);
    if (align_shift) add_number(&l, 1ull << align_shift);
    l.text[l.n++] = '\n';
    fwrite(l.text, 1, l.n, out);
}

struct writer {
    uint64_t launch;  /* of the line before, plus 1 */
    uint64_t mallocs; /* so far */
    FILE *out;
};

/* Writes the event, after a line with k if its launch is another one than that of the line before. */
static bool visit(void *argument, const struct mm_trace_event *e, uint64_t launch, uint64_t *number) {
    struct writer *const w = (struct writer *)argument;
    if (mm_event_is_reset(e)) return true; /* has no line */
    if (launch + 1 != w->launch) fprintf(w->out, "k %llu\n", (unsigned long long)launch);
    w->launch = launch + 1;
    write_event(e, mm_event_is_free(e) ? *number : e->bytes, w->out);
    if (!mm_event_is_free(e) && !mm_event_is_null(e)) *number = w->mallocs++;
    return true;
}

bool mm_trace_try_write(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, FILE *out, struct mm_trace_sum *sum) {
    struct writer w = {.out = out};
    fputs(MM_TRACE_HEAD "\n", out);
    if (!mm_events_try_walk(events, count, dropped, sum, visit, &w)) return false;
    fprintf(out, "end %llu %llu %llu %llu\n", (unsigned long long)sum->mallocs, (unsigned long long)sum->nulls, (unsigned long long)sum->frees,
            (unsigned long long)dropped);
    return true;
}
