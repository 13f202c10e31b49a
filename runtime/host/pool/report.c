/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a pool did, in each form of MM_STATS. Fragmentation as in stats.h: internal is the part of its memory in use that nobody asked for; external, the part
 * of the free memory of slabs that the largest request served by them could not have. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/host/inspect.h"
#include "runtime/host/pool/magazines.h"
#include "runtime/host/pool/output.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/say.h"
#include "runtime/host/stats.h"

#define UNKNOWN 1000001u

/* The part of `whole` that `part` leaves, in millionths. */
static unsigned rest(uint64_t part, uint64_t whole) {
    return whole == 0 ? UNKNOWN : part >= whole ? 0 : (unsigned)(1e6 - 1e6 * (double)part / (double)whole + 0.5);
}
/* Other threads may change what is counted meanwhile. */
static uint64_t less(uint64_t from, uint64_t what) { return what < from ? from - what : 0; }

static void write_share(unsigned millionths, const char *unknown, FILE *out) {
    if (millionths == UNKNOWN) fputs(unknown, out);
    else fprintf(out, "%u.%06u", millionths / 1000000, millionths % 1000000);
}

static void write_text(const struct mm_pool_numbers *n, FILE *out) {
    fprintf(out, "mm: pool on device %d: %" PRIu64 " of %" PRIu64 " requests without the driver; %" PRIu64 " live with %s", n->device, n->hits,
            n->hits + n->misses, n->live, mm_host_size(n->live_bytes).text);
    fprintf(out, " (at most %s)", mm_host_size(n->most_live_bytes).text);
    fprintf(out, "; %s of the device", mm_host_size(n->taken_bytes).text);
    fprintf(out, " (at most %s)", mm_host_size(n->most_taken_bytes).text);
    fprintf(out, ", %s of it free", mm_host_size(n->idle_bytes).text);
    fprintf(out, ", %s given back\n", mm_host_size(n->given_back_bytes).text);
    fprintf(out, "mm: pool on device %d: fragmentation: internal ", n->device), write_share(n->internal, "unknown", out);
    fputs(", external ", out), write_share(n->external, "unknown", out), fputc('\n', out);
}

static void write_numbers(void *numbers, bool is_first, FILE *out) {
    const struct mm_pool_numbers *n = (const struct mm_pool_numbers *)numbers;
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"hits", n->hits},
                  {"misses", n->misses},
                  {"live_allocations", n->live},
                  {"live_bytes", n->live_bytes},
                  {"peak_live_bytes", n->most_live_bytes},
                  {"used_bytes", n->used_bytes},
                  {"cached_bytes", n->idle_bytes},
                  {"taken_bytes", n->taken_bytes},
                  {"peak_taken_bytes", n->most_taken_bytes},
                  {"given_back_bytes", n->given_back_bytes},
                  {"largest_free_bytes", n->largest_free_bytes}};
    if (n->form == MM_STATS_TEXT) write_text(n, out);
    if (n->form == MM_STATS_JSON) {
        fprintf(out, "{\"mm_pool_statistics\":1,\"version\":\"" MM_VERSION "\",\"process\":%ld,\"device\":%d,\"fit\":\"%s\"", (long)getpid(), n->device,
                mm_fit_name(mm_host_env_get()->pool_fit));
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) fprintf(out, ",\"%s\":%" PRIu64, counts[i].name, counts[i].value);
        fputs(",\"internal_fragmentation\":", out);
        write_share(n->internal, "null", out);
        fputs(",\"external_fragmentation\":", out);
        write_share(n->external, "null", out);
        fputs("}\n", out);
    }
    if (n->form != MM_STATS_CSV) return;
    if (is_first) fputs(MM_STATS_CSV_HEADER, out);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(out, "%ld,%d,pool,%s,%" PRIu64 "\n", (long)getpid(), n->device, counts[i].name, counts[i].value);
    fprintf(out, "%ld,%d,pool,internal_fragmentation,", (long)getpid(), n->device), write_share(n->internal, "", out), fputc('\n', out);
    fprintf(out, "%ld,%d,pool,external_fragmentation,", (long)getpid(), n->device), write_share(n->external, "", out), fputc('\n', out);
}

void mm_pool_write_numbers(struct mm_pool_numbers *n) { mm_inspect_statistics(n->device, write_numbers, n); }

bool mm_pool_try_count(struct mm_pool *p, struct mm_pool_numbers *to) {
    struct mm_pool_numbers n = {.device = p->device, .form = mm_host_env_get()->stats, .hits = p->hits, .misses = p->misses};
    if (n.form == MM_STATS_NONE || n.hits + n.misses == 0) return false;
    const uint64_t free_bytes = mm_fit_free_bytes(p->fit);
    n.idle_bytes = mm_pool_idle_of(p), n.taken_bytes = p->slab_bytes + p->whole_bytes, n.used_bytes = less(n.taken_bytes, n.idle_bytes);
    n.live = less(p->allocations, p->pending.end - p->pending.first + mm_magazines_sum(p).blocks), n.live_bytes = p->live_bytes,
    n.most_live_bytes = p->most_live_bytes;
    n.most_taken_bytes = p->most_taken_bytes, n.given_back_bytes = p->given_back_bytes, n.largest_free_bytes = mm_fit_largest(p->fit);
    n.internal = rest(n.live_bytes, n.used_bytes), n.external = rest(n.largest_free_bytes, free_bytes);
    *to = n;
    return true;
}

__attribute__((visibility("default"))) uint64_t mm_pool_taken_v1(void) {
    uint64_t taken = 0;
    if (!mm_pool_is_on()) return 0; /* the child of a fork has no pool, but the lock */
    pthread_mutex_lock(&mm_pool_lock);
    for (const struct mm_pool *p = mm_pools; p; p = p->next) taken += p->slab_bytes + p->whole_bytes;
    pthread_mutex_unlock(&mm_pool_lock);
    return taken;
}
