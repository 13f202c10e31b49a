/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/report.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/host/counts.h"
#include "runtime/host/kernels.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"

/* The wording for each kind: what was done, with which pointer, and whether the size of the allocation is printed. */
#define INVALID "invalid free"
static const struct {
    const char *call, *text, *seen;
    bool has_size;
} wrong[MM_MISUSE_KINDS] = {
    [MM_MISUSE_FOREIGN] = {INVALID, ", a pointer of another allocator, another GPU's heap or the stack", "", false},
    [MM_MISUSE_NOT_ALLOCATED] = {INVALID, ", a pointer into memory that is free", "", false},
    [MM_MISUSE_INTERIOR] = {INVALID, ", a pointer into the middle of an allocation", "", true},
    [MM_MISUSE_NEVER] = {INVALID, ", a pointer that malloc never gave", "", false},
    [MM_MISUSE_DOUBLE_FREE] = {"double free", "", "", true},
    [MM_MISUSE_OVERRUN] = {"write past the end of", ", an allocation", "seen ", true},
    [MM_MISUSE_AFTER_FREE] = {"write after free to", ", an allocation", "seen ", true},
};

/* Appends the kernels that allocated and freed it, in a checked run. */
static void append_history(const struct mm_host_heap *h, const struct mm_report *r, char *text, size_t bytes) {
    size_t n = strlen(text);
    if (r->made_by) n += (size_t)snprintf(text + n, bytes - n, ", allocated by kernel %s", mm_kernels_name(h->kernels, r->made_by));
    if (r->freed_by && n < bytes) snprintf(text + n, bytes - n, ", freed by kernel %s", mm_kernels_name(h->kernels, r->freed_by));
}

void mm_report_line(const struct mm_host_heap *h, const struct mm_report *r, bool is_seen_at_end) {
    const unsigned kind = r->kind < MM_MISUSE_KINDS && wrong[r->kind].call ? r->kind : MM_MISUSE_FOREIGN;
    const bool is_call = kind < MM_MISUSE_OVERRUN;
    char what[400] = "", by[80] = "at the end";
    size_t n = (size_t)snprintf(what, sizeof what, is_call ? "%s(%#llx)%s" : "%s %#llx%s", wrong[kind].call, (unsigned long long)r->address, wrong[kind].text);
    if (wrong[kind].has_size && r->bytes)
        snprintf(what + n, sizeof what - n, " of %s%llu bytes", r->made_by || is_call ? "" : "at most ", (unsigned long long)r->bytes);
    append_history(h, r, what, sizeof what);
    if (!is_seen_at_end)
        snprintf(by, sizeof by, "by %sthread (%u,%u,%u) of block (%u,%u,%u)", r->is_of_warp ? "the warp of " : "", r->thread[0], r->thread[1], r->thread[2],
                 r->block[0], r->block[1], r->block[2]);
    const bool has_kernel = h->kernels && r->grid && !is_seen_at_end;
    mm_host_say("device %d: %s, %s%s%s%s", h->device, what, wrong[kind].seen, by, has_kernel ? " of kernel " : "",
                has_kernel ? mm_kernels_name(h->kernels, r->grid) : "");
}

void mm_report_say(struct mm_host_heap *h) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects reports_said of all heaps */
    if (!h->shared) return;
    pthread_mutex_lock(&lock);
    for (; h->reports_said < MM_REPORTS; h->reports_said++) {
        struct mm_report *r = &h->shared->mailbox.reports[h->reports_said];
        if (__atomic_load_n(&r->number, __ATOMIC_ACQUIRE) == 0) break;
        mm_report_line(h, r, false);
    }
    pthread_mutex_unlock(&lock);
}

static void say_not_counted(const struct mm_host_heap *h) {
    mm_host_say("device %d: these were the first %d misuses of free; how many there were in all is not counted", h->device, MM_REPORTS);
}

void mm_report_sum_up(const struct mm_driver *d, struct mm_host_heap *h) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    struct mm_host_counts counts;
    struct mm_driver_visit visit;
    uint64_t all = 0;
    mm_report_say(h);
    if (h->reports_said < MM_REPORTS) return;
    bool done = mm_driver_try_enter(d, h->context, &visit);
    if (done) {
        done = mm_counts_try_events(d, h, &counts, &error);
        mm_driver_leave(d, &visit);
    }
    for (int kind = 0; done && kind < MM_MISUSE_KINDS; kind++) all += counts.misuse[kind];
    if (!done) say_not_counted(h);
    else if (all > MM_REPORTS) mm_host_say("device %d: %llu misuses of free in all; these were the first %d", h->device, (unsigned long long)all, MM_REPORTS);
    h->is_summed_up = true;
}

void mm_report_end(const struct mm_host_heap *h) {
    if (h->reports_said == MM_REPORTS && !h->is_summed_up) say_not_counted(h);
}
