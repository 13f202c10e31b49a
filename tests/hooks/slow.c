/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library that takes a millisecond or more to load, in the way named by SLOW. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char pages[1 << 20];

__attribute__((constructor)) static void be_slow(void) {
    const char *const way = getenv("SLOW");
    if (!way) return;
    if (strcmp(way, "spin") == 0)
        for (volatile int i = 0; i < 1000000; i++) continue;
    if (strcmp(way, "sleep") == 0) nanosleep(&(struct timespec){0, 2000000}, NULL);
    if (strcmp(way, "touch") == 0)
        for (size_t i = 0; i < sizeof pages; i += 4096) ((volatile char *)pages)[i] = 1;
}
