/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sequences of operations on a small heap, decoded from bytes: libFuzzer finds the sequences, oracle.h checks what
 * each of them does.
 *
 * Input: three bytes for the heap (segments, of which mapped, alignment), then operations: a byte that selects it,
 * and its arguments. When the bytes run out, arguments are zero and the sequence ends. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/oracle.h"

#define STEPS_MOST 10000 /* calls per input */

struct input {
    const uint8_t *data;
    size_t bytes;
};

static uint32_t take(struct input *in, int n) {
    uint32_t value = 0;
    while (n-- > 0) {
        value = value << 8 | (in->bytes ? *in->data : 0);
        if (in->bytes) in->data++, in->bytes--;
    }
    return value;
}

/* Two bytes: a size near a power of two, near whole segments, near a limit, or anything. */
static uint64_t take_size(struct input *in, const struct oracle *o) {
    const uint32_t a = take(in, 1), b = take(in, 1);
    const uint64_t power = 1ull << a % 24, segments = MM_SEGMENT_BYTES * (1 + b % 8);
    switch (a / 24) {
    case 0: return power;
    case 1: return power + 1 + b % 16;
    case 2: return power - 1;
    case 3: return segments;
    case 4: return segments + 1 - b / 128 * 2;
    case 5: return power + power / 2;
    case 6: return a % 2 ? o->mapped_bytes - b : o->mapped_bytes + b;
    case 7: return a % 2 ? ~0ull - b * 4096ull : 1ull << (b % 64);
    case 8: return MM_SLICE_BYTES_MAX - 8 + b % 16;
    case 9: return b;
    default: return power + power * b / 256;
    }
}

static uint64_t take_align(struct input *in) {
    const uint32_t a = take(in, 1);
    return a < 240 ? 1ull << a % 28 : (a - 240) * 3;
}

static void step(struct input *in, struct oracle *o, uint32_t *steps) {
    const uint32_t what = take(in, 1) % 16;
    uint64_t size, at;
    uint32_t n, index, stride;
    switch (what) {
    case 0:
    case 1: (void)oracle_malloc(o, take_size(in, o), 0, 0); break;
    case 2:
    case 3:
        size = take_size(in, o);
        (void)oracle_malloc(o, size, take_align(in), 1);
        break;
    case 4: /* many of one size; until NULL, if they are large */
        size = take_size(in, o);
        for (n = 16 + take(in, 1) * 16; n > 0 && oracle_malloc(o, size, 0, 0); n--) ++*steps;
        break;
    case 5: /* free every stride-th live allocation */
        index = take(in, 2), stride = 1 + take(in, 1) % 64, n = 1 + take(in, 1) * 16;
        for (; n > 0 && o->lives > 0; n--, index += stride - 1, ++*steps) oracle_free(o, index % o->lives);
        break;
    case 6: /* allocate and free at once, so that cursors wrap around */
        size = take_size(in, o);
        for (n = take(in, 1) * 17; n > 0; n--, ++*steps) {
            if (o->lives == ORACLE_LIVE_MOST || !oracle_malloc(o, size, 0, 0)) break;
            oracle_free_at(o, o->live[0].at);
        }
        break;
    case 7:
        index = take(in, 2);
        if (o->lives) oracle_free(o, index % o->lives);
        break;
    case 8:
        index = take(in, 2);
        if (o->lives) oracle_free_twice(o, index % o->lives);
        break;
    case 9: /* free again, unless it was handed out again */
        index = take(in, 1);
        if (o->stales) oracle_free_at(o, o->stale[index % (o->stales < ORACLE_STALE ? o->stales : ORACLE_STALE)]);
        break;
    case 10: /* free into the middle */
        index = take(in, 2), at = take(in, 3);
        if (o->lives && o->live[index %= o->lives].bytes > 1) oracle_free_at(o, o->live[index].at + 1 + at % (o->live[index].bytes - 1));
        break;
    case 11: /* foreign pointers and NULL */
        n = take(in, 1), at = take(in, 2);
        oracle_free_at(o, n % 6 == 0   ? 0
                          : n % 6 == 1 ? o->base - 1 - at
                          : n % 6 == 2 ? o->base + o->reserved_bytes + at
                          : n % 6 == 3 ? (uint64_t)(uintptr_t)&index
                          : n % 6 == 4 ? at
                                       : ~(uint64_t)at);
        break;
    case 12: /* anywhere in the heap: on a slice, next to one, or behind mapped memory */
        at = (uint64_t)take(in, 1) * MM_SEGMENT_BYTES;
        at += (uint64_t)take(in, 1) % MM_SEGMENT_PAGES << MM_PAGE_SHIFT;
        oracle_free_at(o, o->base + (at + take(in, 2)) % o->reserved_bytes);
        break;
    case 13: /* the slice next to a live one */
        index = take(in, 2), n = take(in, 1);
        if (o->lives) oracle_free_at(o, o->live[index % o->lives].at + (16ull << n % 18));
        break;
    case 14: oracle_drain(o); break;
    default: oracle_check(o); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const uint8_t segments[] = {1, 2, 3, 4, 2, 3, 6, 8, 12, 66, 130};
    static struct oracle o;
    struct input in = {data, bytes};
    const uint32_t reserved = segments[take(&in, 1) % sizeof segments], less = take(&in, 1), shape = take(&in, 1);
    const uint32_t mapped = less % 4 ? reserved : 1 + less / 4 % reserved;
    oracle_begin(&o, reserved, mapped, MM_SEGMENT_BYTES << shape % 4);
    for (uint32_t steps = 0; in.bytes > 0 && steps < STEPS_MOST; steps++) step(&in, &o, &steps);
    oracle_end(&o, shape / 4 % 2);
    return 0;
}
