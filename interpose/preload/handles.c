/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/preload/handles.h"

#include <stdlib.h>

enum { HANDLE_FREE = 0, HANDLE_OUT = 1, HANDLES_MIN = 256 };

static struct mm_handle *handles;
static size_t handle_mask, handle_used; /* used: slots that are not free */

static size_t slot_of(uintptr_t handle) { return (size_t)((((uint64_t)handle >> 4) * 0x9e3779b97f4a7c15u) >> 32); }

static struct mm_handle *find(uintptr_t handle) {
    if (!handles || handle <= HANDLE_OUT) return NULL;
    for (size_t i = slot_of(handle);; i++) {
        struct mm_handle *h = &handles[i & handle_mask];
        if (h->handle == handle) return h;
        if (h->handle == HANDLE_FREE) return NULL;
    }
}

static void put(const struct mm_handle *entry) {
    size_t i = slot_of(entry->handle);
    while (handles[i & handle_mask].handle > HANDLE_OUT) i++;
    handle_used += handles[i & handle_mask].handle == HANDLE_FREE;
    handles[i & handle_mask] = *entry;
}

static bool make_room(void) {
    size_t live = 0, old_slots = handles ? handle_mask + 1 : 0, slots = HANDLES_MIN;
    if (handles && handle_used < old_slots / 2) return true;
    for (size_t i = 0; i < old_slots; i++) live += handles[i].handle > HANDLE_OUT;
    while (slots < 4 * live) slots *= 2;
    struct mm_handle *old = handles, *fresh = (struct mm_handle *)calloc(slots, sizeof *fresh);
    if (!fresh) return false;
    handles = fresh;
    handle_mask = slots - 1;
    handle_used = 0;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].handle > HANDLE_OUT) put(&old[i]);
    free(old);
    return true;
}

void mm_handle_record(const void *handle, enum mm_handle_kind kind, const void *owner, const void *context) {
    if ((uintptr_t)handle <= HANDLE_OUT) return;
    struct mm_handle entry = {(uintptr_t)handle, (uintptr_t)owner, (uintptr_t)context, kind};
    struct mm_handle *known = find(entry.handle);
    if (known) *known = entry;
    else if (make_room()) put(&entry);
}

struct mm_handle mm_handle_find(const void *handle) {
    struct mm_handle *known = find((uintptr_t)handle);
    struct mm_handle unknown = {(uintptr_t)handle, 0, 0, MM_HANDLE_UNKNOWN};
    return known ? *known : unknown;
}

void mm_handle_forget_owner(const void *owner) {
    for (size_t i = 0; handles && i <= handle_mask; i++)
        if (handles[i].handle > HANDLE_OUT && handles[i].owner == (uintptr_t)owner) handles[i].handle = HANDLE_OUT;
}

void mm_handle_forget_context(const void *context) {
    for (size_t i = 0; handles && i <= handle_mask; i++)
        if (handles[i].handle > HANDLE_OUT && context && handles[i].context == (uintptr_t)context) handles[i].handle = HANDLE_OUT;
}
