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

static unsigned long long base;         /* free bytes of the device at account_begin */
static unsigned long long driver_bytes; /* lost by account_warmed, but not to the heap */

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

/* Bytes mapped for objects and for metadata. may_lack: there may be no heap yet. */
static unsigned long long mapped(unsigned long long *metadata, int may_lack) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    const int result = statistics_of(&s);
    if (may_lack && result == MM_ERROR_NO_HEAP) return 0;
    must("mm_get_statistics", result);
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

/* What the device has lost, read between two looks at the account that agree: libmm.so.1 may map or unmap memory at any time. */
static unsigned long long lost_with(unsigned long long *account, int may_lack) {
    unsigned long long device = 0, metadata;
    *account = mapped(&metadata, may_lack);
    for (int looks = 0; looks < LOOKS; looks++) {
        const unsigned long long before = *account;
        device = lost();
        *account = mapped(&metadata, may_lack);
        if (*account == before) break;
    }
    return device;
}

/* more: allowed in addition on the device. */
static void compare(unsigned long long account, unsigned long long device, unsigned long long more) {
    char why[220];
    if (account <= device + ACCOUNT_SLACK_BYTES && device <= account + more + ACCOUNT_SLACK_BYTES) return;
    snprintf(why, sizeof why, "%llu bytes are mapped, and the device has lost %llu; expected %llu more or less at most; do other programs use it?", account,
             device, more + ACCOUNT_SLACK_BYTES);
    child_fatal("the heap's account", why);
}

/* Local memory of all threads that the device can hold. The driver has raised the limit to the largest stack of a kernel that ran. */
static unsigned long long local_bytes(void) {
    int device, processors, threads;
    size_t stack;
    child_must(cudaGetDevice(&device));
    child_must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    child_must(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device));
    child_must(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    return (unsigned long long)processors * (unsigned long long)threads * stack;
}

void account_begin(struct account *a) {
    a->now = a->most = a->beyond = driver_bytes = 0;
    child_must(cudaDeviceSynchronize());
    base = free_bytes();
}

void account_warmed(void) {
    unsigned long long account;
    child_must(cudaDeviceSynchronize());
    if (!account_is_heaps()) return;
    const unsigned long long device = lost_with(&account, 1);
    compare(account, device, local_bytes());
    driver_bytes = device > account ? device - account : 0;
}

void account_look(struct account *a) {
    child_must(cudaDeviceSynchronize());
    const int is_heaps = account_is_heaps();
    const unsigned long long device = is_heaps ? lost_with(&a->now, 0) : lost();
    if (is_heaps) compare(a->now, device > driver_bytes ? device - driver_bytes : 0, 0);
    else a->now = device;
    a->most = larger(a->most, a->now);
    a->beyond = larger(a->beyond, device);
}

void account_peak(struct account *a) {
    unsigned long long metadata;
    if (!account_is_heaps()) return;
    a->most = larger(a->most, mapped(&metadata, 0)); /* the metadata never shrink */
    take_usage();
    a->most = larger(a->most, usage.peak_heap_bytes + metadata);
}

unsigned long long account_growths(void) {
    if (!account_is_heaps()) return 0;
    take_usage();
    return usage.growth_count;
}
