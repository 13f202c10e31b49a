/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tests that the suites of allocators of listed segments have in common: random lives, and two frees of the same memory at once. Include after eight.h. The suite
 * defines
 *   LIVES_LOG           log2 of the largest requests
 *   LIVES_HEADER_BYTES  of small memory, before what malloc returns
 *   lives_align(bytes)  what a multiple of is returned for a request
 *   lives_is_usable(bytes, usable)  whether a request may have so many usable bytes
 */
#ifndef MM_UNIT_LIVES_H
#define MM_UNIT_LIVES_H

#define LIVES_HELD 600
/* Sizes from 1 byte to beyond what is small; all usable bytes are the allocation's own, and aligned. */
START_TEST(lives) {
    static struct {
        uint8_t *p;
        uint64_t usable, taken;
    } held[LIVES_HELD];
    uint64_t seed = (uint64_t)_i + 1, live = 0;
    for (int step = 0; step < 20000; step++) {
        const uint32_t k = (uint32_t)(unit_random(&seed) % (step % 4000 < 2000 ? LIVES_HELD : LIVES_HELD / 4));
        if (held[k].p != NULL) {
            unit_holds(held[k].p[0] == (uint8_t)k && held[k].p[held[k].usable - 1] == (uint8_t)k, "written over");
            unit_eq(mm_heap_usable_size(ref, held[k].p), held[k].usable);
            mm_heap_free(ref, held[k].p);
            live -= held[k].taken, held[k].p = NULL;
            continue;
        }
        const uint64_t most = 1ull << unit_random(&seed) % (step % 16 == 0 ? LIVES_LOG : 13), bytes = 1 + unit_random(&seed) % most;
        uint8_t *const p = take(bytes);
        if (p == NULL) continue;
        const uint64_t usable = mm_heap_usable_size(ref, p);
        unit_eq((uint64_t)p % lives_align(bytes), 0);
        unit_holds(usable >= bytes && lives_is_usable(bytes, usable), "%llu usable bytes of %llu", (unsigned long long)usable, (unsigned long long)bytes);
        memset(p, (int)k, usable < 8192 ? usable : 8192);
        p[usable - 1] = (uint8_t)k;
        held[k].p = p, held[k].usable = usable, held[k].taken = usable + (bytes <= MM_SMALL_BYTES_MAX ? LIVES_HEADER_BYTES : 0), live += held[k].taken;
        if (step % 64 == 0) unit_sound(&heap, live);
    }
    unit_sound(&heap, live);
    for (uint32_t k = 0; k < LIVES_HELD; k++) {
        if (held[k].p != NULL) mm_heap_free(ref, held[k].p);
        held[k].p = NULL;
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Two free the same memory at once, at every step of each other: one succeeds, and no other memory is touched. */
static uint8_t *lives_twice;
static void free_twice(void *arg) { (void)arg, mm_heap_free(ref, lives_twice); }
static void two_frees(uint64_t bytes, uint64_t others) {
    void *args[2] = {NULL, NULL};
    int ended = 0;
    for (long a = 0; !(ended & 1); a++)
        for (long b = 0; b < 12; b++) {
            uint8_t *before = take(others), *after;
            lives_twice = take(bytes), after = take(others);
            const uint64_t misuses = unit_misuses(&heap), doubles = mm_cpu_misuse_count(&heap, MM_MISUSE_DOUBLE_FREE);
            ended = unit_interleave(free_twice, args, a, b, b);
            unit_eq(unit_misuses(&heap), misuses + 1);
            unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_DOUBLE_FREE), doubles + 1);
            unit_sound(&heap, 2 * unit_taken(others));
            mm_heap_free(ref, before), mm_heap_free(ref, after);
        }
    unit_fresh(&heap, SEGMENTS);
}

#endif
