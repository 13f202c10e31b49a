#include "runtime/host/report.h"

#include <pthread.h>
#include <stdio.h>

#include "runtime/host/say.h"

/* What the pointer is, and whether the size behind it says something. */
static const struct {
    const char *text;
    bool has_size;
} wrong[MM_MISUSE_KINDS] = {
    [MM_MISUSE_FOREIGN] = {", a pointer of another allocator, another GPU's heap or the stack", false},
    [MM_MISUSE_NOT_ALLOCATED] = {", a pointer into memory that is free", false},
    [MM_MISUSE_INTERIOR] = {", a pointer into the middle of an allocation", true},
    [MM_MISUSE_NEVER] = {", a pointer that malloc never gave", false},
    [MM_MISUSE_DOUBLE_FREE] = {"", true},
};

static void say(const struct mm_report *r, CUdevice device) {
    const unsigned kind = r->kind < MM_MISUSE_KINDS && wrong[r->kind].text ? r->kind : MM_MISUSE_FOREIGN;
    char size[40] = "";
    if (wrong[kind].has_size && r->bytes) snprintf(size, sizeof size, " of %llu bytes", (unsigned long long)r->bytes);
    mm_host_say("device %d: %s free(%#llx)%s%s, by %sthread (%u,%u,%u) of block (%u,%u,%u)", device,
                kind == MM_MISUSE_DOUBLE_FREE ? "double" : "invalid", (unsigned long long)r->address, wrong[kind].text, size,
                r->is_of_warp ? "the warp of " : "", r->thread[0], r->thread[1], r->thread[2], r->block[0], r->block[1], r->block[2]);
}

void mm_report_say(struct mm_host_heap *h) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards reports_said of all heaps */
    if (!h->shared) return;
    pthread_mutex_lock(&lock);
    for (; h->reports_said < MM_REPORTS; h->reports_said++) {
        struct mm_report *r = &h->shared->mailbox.reports[h->reports_said];
        if (__atomic_load_n(&r->number, __ATOMIC_ACQUIRE) == 0) break;
        say(r, h->device);
    }
    pthread_mutex_unlock(&lock);
}
