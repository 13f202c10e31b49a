/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker of the CPU build: runs runtime/check.h as one part, and describes its findings. */
#include "runtime/check.h"

#include <stdio.h>

#include "runtime/cpu/cpuheap.h"

void mm_cpu_heap_drain_quiescent(struct mm_cpu_heap *heap) { mm_slices_retire_all(&heap->ref, 1); }

const char *mm_cpu_check_text(const struct mm_check *check, char *why, size_t why_bytes) {
#define MM_FAULT_TEXT(name, text) text,
    static const char *const texts[] = {"", MM_FAULTS(MM_FAULT_TEXT)};
    if (check->fault == MM_FAULT_NONE) return NULL;
    const unsigned a = (unsigned)check->at[0], b = (unsigned)check->at[1], c = (unsigned)check->at[2];
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(why, why_bytes, check->fault < MM_FAULT_KINDS ? texts[check->fault] : "unknown fault", a, b, c);
    return why;
}

const char *mm_cpu_heap_check_quiescent(const struct mm_cpu_heap *heap, char *why, size_t why_bytes, uint64_t *live_bytes) {
    struct mm_check check = {0, {0, 0, 0}, 0};
    mm_heap_check_quiescent(&heap->ref, 0, 1, &check);
    if (live_bytes) *live_bytes = check.live_bytes;
    return mm_cpu_check_text(&check, why, why_bytes);
}
