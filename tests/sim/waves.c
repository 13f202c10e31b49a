/* A simulator of how long the warps of a GPU wait for each other: waves [SLICE_BYTES [SEGMENTS]].
 *
 * As many warps as an H200 holds at once (8,448; when one has done, the next of 32,768 takes its place) run the core's own
 * code in turns, one access to memory each per round. So a round is the time of one access under load, and the number of
 * rounds that 1 M requests take is the length of their critical path: what a GPU needs, but for its instructions, the
 * contention for single words, and all that is not memory. On an H200 a round comes to 0.5 to 0.7 us (docs/notes/refills.md).
 * Opening a region, which all lanes of a warp share, counts as two accesses, a wait as MM_WAIT_NS. Frees are not timed: here
 * each lane does its own. Prints a line each for a first and for two more fills of a heap.
 */
#define UNIT_ACTORS 8448
#define UNIT_STACK_BYTES (32u << 10)
#define UNIT_WAIT_STEPS 2
#include "tests/unit/steps.h"

#include <stdio.h>

#include "runtime/core/heap.h"
#include "runtime/cpu/cpuheap.h"

#define LANES 32u
#define WARPS 32768u
#define WARPS_OF_A_MULTIPROCESSOR 64u

static struct mm_cpu_heap heap;
static uint32_t class_, next_warp;
static void **table;
static uint64_t rounds, refills, blocks, claiming, nulls;

/* Not a step, whatever it accesses; then two. */
static uint32_t open_region(mm_claim region, uint32_t opener) {
    const int running = unit_running;
    unit_running = -1;
    const uint32_t limit = mm_stripe_open(&heap.ref, class_, region, opener, 0, 1);
    unit_running = running;
    unit_step();
    unit_step();
    return limit;
}

/* mm_slice_malloc_slow, of a whole warp. */
static void get_slices(uint32_t warp) {
    const uint32_t slices = mm_class_slices(class_), k = mm_home() & (mm_class_stripes(class_, (uint32_t)heap.ref.hold_shift) - 1);
    uint64_t *stripe = &mm_stripe_class(&heap.ref, class_)->stripe[k].word, w = mm_stripe_draw(stripe, LANES, 1);
    uint32_t served = 0, count;
    do {
        const uint64_t began = rounds;
        mm_claim claim = mm_stripe_claim(&heap.ref, class_, LANES - served, k, w);
        if (claim & MM_OPENING && !(claim & MM_SIEVE)) {
            const mm_claim region = claim;
            refills++, blocks += (uint32_t)region & 0xffff, claiming += rounds - began;
            const uint32_t limit = open_region(region, MM_OPENER_PENDING | (k + 1));
            claim = mm_stripe_publish(&heap.ref, class_, k, region, limit, LANES - served);
            open_region(region, k + 1);
            if (region & MM_REFILL) mm_stripe_look(&heap.ref, class_, k, 1, 0);
        }
        count = mm_claim_count(claim);
        for (uint32_t rank = 0; rank < count; rank++) {
            const uint64_t at = mm_claim_slice(claim, rank);
            const uint32_t s = (uint32_t)(at >> MM_LIMIT_BITS), i = (uint32_t)at & ((1u << MM_LIMIT_BITS) - 1);
            table[warp * LANES + served + rank] = mm_slice_address(heap.ref.user_base, s + i / slices, i % slices, mm_class_bytes(class_));
        }
        served += count, w = 0;
        if (count != 0 && served < LANES && (claim & MM_SIEVE || !(claim & MM_REFILL))) w = mm_stripe_draw(stripe, LANES - served, 1);
    } while (count != 0 && served < LANES);
    nulls += LANES - served;
}
static void resident(void *arg) {
    (void)arg;
    while (next_warp < WARPS) get_slices(next_warp++);
}

static void fill(void) {
    static int active[UNIT_ACTORS];
    int n = UNIT_ACTORS;
    next_warp = 0, rounds = refills = blocks = claiming = nulls = 0;
    for (int i = 0; i < n; i++) {
        unit_actor_home[i] = (uint32_t)i / WARPS_OF_A_MULTIPROCESSOR;
        unit_actor_make(i, resident, NULL);
        active[i] = i;
    }
    for (; n > 0; rounds++) {
        int left = 0;
        for (int i = 0; i < n; i++) {
            unit_go(active[i], 0);
            if (!unit_actor[active[i]].done) active[left++] = active[i];
        }
        n = left;
    }
}

static double span(void) {
    char *first = (char *)table[0], *last = first;
    for (uint32_t i = 0; i < WARPS * LANES; i++) {
        if ((char *)table[i] < first) first = (char *)table[i];
        if ((char *)table[i] > last) last = (char *)table[i];
    }
    const double bytes = mm_class_bytes(class_);
    return ((double)(last - first) + bytes) / (bytes * WARPS * LANES);
}

int main(int argc, char **argv) {
    const int bytes = argc > 1 ? atoi(argv[1]) : 64, segments = argc > 2 ? atoi(argv[2]) : 5120;
    if (bytes < 1 || (uint64_t)bytes > MM_SLICE_BYTES_MAX || segments < 1 ||
        mm_cpu_heap_create(&heap, (uint64_t)segments, (uint64_t)segments, MM_SEGMENT_BYTES) != 0) {
        fprintf(stderr, "waves: usage: waves [SLICE_BYTES [SEGMENTS]]\n");
        return 2;
    }
    class_ = mm_class_of((uint32_t)bytes);
    table = (void **)calloc(WARPS * LANES, sizeof *table);
    for (int run = 0; run < 3; run++) {
        fill();
        printf("%6u B: %5llu rounds, %5llu refills of %.1f blocks after %.1f rounds, span %.3f", mm_class_bytes(class_),
               (unsigned long long)rounds, (unsigned long long)refills, (double)blocks / (double)refills,
               (double)claiming / (double)refills, span());
        printf(nulls ? ", %llu NULL\n" : "\n", (unsigned long long)nulls);
        for (uint32_t i = 0; i < WARPS * LANES; i++)
            if (table[i] != NULL) mm_heap_free(&heap.ref, table[i]);
    }
    return 0;
}
