/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "tools/mmbench/child/account.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "include/mm.h"
#include "mmconfig.h"
#include "tools/mmbench/child/child.h"

#define LOOKS 100 /* at most, until the account is the same before and after the device's free memory is read */

static unsigned long long base; /* free bytes of the device at account_begin */

/* Undefined in the child with CUDA's allocator. */
extern int mm_get_statistics(struct mm_statistics *) __attribute__((weak));
extern int mm_get_usage(struct mm_usage_statistics *) __attribute__((weak));
static int (*statistics_of)(struct mm_statistics *);
static int (*usage_of)(struct mm_usage_statistics *);
static struct mm_usage_statistics usage; /* what take_usage found */

int account_is_heaps(void) {
    statistics_of = mm_get_statistics, usage_of = mm_get_usage;
    if (!statistics_of) *(void **)&statistics_of = dlsym(RTLD_DEFAULT, "mm_get_statistics");
    if (!usage_of) *(void **)&usage_of = dlsym(RTLD_DEFAULT, "mm_get_usage");
    return statistics_of && usage_of;
}

static void must(const char *what, int result) {
    char why[64];
    snprintf(why, sizeof why, "answered %d; expected %d", result, MM_OK);
    if (result != MM_OK) child_fatal(what, why);
}

/* Bytes mapped for objects and for metadata. */
static unsigned long long mapped(unsigned long long *metadata) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    must("mm_get_statistics", statistics_of(&s));
    *metadata = s.metadata_bytes;
    return s.heap_bytes + s.metadata_bytes;
}

static void take_usage(void) {
    usage.struct_bytes = sizeof usage;
    must("mm_get_usage", usage_of(&usage));
}

int account_is_default(void) {
#define NAME(name, suffix) name,
    static const char *const names[] = {MM_ALLOCATORS(NAME)};
    if (!account_is_heaps()) return 0;
    take_usage();
    return strcmp(usage.allocator, names[0]) == 0;
}

static unsigned long long free_bytes(void) {
    size_t is_free, total;
    child_must(cudaMemGetInfo(&is_free, &total));
    return is_free;
}

static unsigned long long lost(void) {
    const unsigned long long now = free_bytes();
    return now < base ? base - now : 0;
}

static unsigned long long larger(unsigned long long a, unsigned long long b) { return a > b ? a : b; }

static void compare(unsigned long long account, unsigned long long device) {
    char why[128];
    if (larger(account, device) - (account < device ? account : device) <= ACCOUNT_SLACK_BYTES) return;
    snprintf(why, sizeof why, "%llu bytes are mapped, and the device has lost %llu; expected %llu more or less at most", account, device, ACCOUNT_SLACK_BYTES);
    child_fatal("the heap's account", why);
}

void account_begin(struct account *a) {
    a->now = a->most = a->beyond = 0;
    child_must(cudaDeviceSynchronize());
    base = free_bytes();
}

void account_look(struct account *a) {
    child_must(cudaDeviceSynchronize());
    unsigned long long device = lost(), metadata = 0;
    a->now = device;
    if (account_is_heaps()) {
        a->now = mapped(&metadata);
        for (int looks = 0; looks < LOOKS; looks++) { /* libmm.so.1 may map or unmap memory at any time */
            const unsigned long long before = a->now;
            device = lost();
            a->now = mapped(&metadata);
            if (a->now == before) break;
        }
        compare(a->now, device);
    }
    a->most = larger(a->most, a->now);
    a->beyond = larger(a->beyond, device);
}

void account_peak(struct account *a) {
    unsigned long long metadata;
    if (!account_is_heaps()) return;
    a->most = larger(a->most, mapped(&metadata)); /* the metadata never shrink */
    take_usage();
    a->most = larger(a->most, usage.peak_heap_bytes + metadata);
}

unsigned long long account_growths(void) {
    if (!account_is_heaps()) return 0;
    take_usage();
    return usage.growth_count;
}
