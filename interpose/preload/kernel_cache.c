/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/preload/kernel_cache.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT_FREE = 0, SLOT_OUT = 1, SLOTS_MIN = 256 };

struct mm_kernel_cache_table *mm_kernel_cache_current;

static void raise_version(struct mm_kernel_cache_table *t) {
    /* release: a reader that sees the new version also sees that the slots' old kernels are gone */
    __atomic_store_n(&t->version, t->version + 1, __ATOMIC_RELEASE);
}

static void put(struct mm_kernel_cache_table *t, const struct mm_kernel_cache_slot *entry) {
    size_t i = mm_kernel_cache_hash(entry->kernel, entry->context);
    while (t->slots[i & t->mask].kernel > SLOT_OUT) i++;
    struct mm_kernel_cache_slot *s = &t->slots[i & t->mask];
    if (s->kernel == SLOT_FREE) t->used++;
    else raise_version(t);
    __atomic_store_n(&s->context, entry->context, __ATOMIC_RELEASE);
    s->owner = entry->owner;
    __atomic_store_n(&s->kernel, entry->kernel, __ATOMIC_RELEASE);
}

/* A table with room for one more, or NULL. */
static struct mm_kernel_cache_table *with_room(void) {
    struct mm_kernel_cache_table *old = mm_kernel_cache_current;
    if (old && old->used < (old->mask + 1) / 2) return old;
    size_t slots = old ? 2 * (old->mask + 1) : SLOTS_MIN;
    struct mm_kernel_cache_table *t = (struct mm_kernel_cache_table *)calloc(1, sizeof *t + slots * sizeof *t->slots);
    if (!t) return NULL;
    t->mask = slots - 1;
    for (size_t i = 0; old && i <= old->mask; i++)
        if (old->slots[i].kernel > SLOT_OUT) put(t, &old->slots[i]);
    __atomic_store_n(&mm_kernel_cache_current, t, __ATOMIC_RELEASE);
    return t;
}

void mm_kernel_cache_insert(const void *kernel, const void *context, const void *owner) {
    struct mm_kernel_cache_table *t = with_room();
    if (!t || mm_kernel_cache_has(kernel, context)) return;
    struct mm_kernel_cache_slot entry = {(uintptr_t)kernel, (uintptr_t)context, (uintptr_t)owner};
    put(t, &entry);
}

/* Frees the removed slots. Meanwhile readers may miss pairs that are present (I2). */
static void rebuild(struct mm_kernel_cache_table *t) {
    size_t live = 0, slots = t->mask + 1;
    struct mm_kernel_cache_slot *keep = (struct mm_kernel_cache_slot *)malloc(slots * sizeof *keep);
    if (!keep) return;
    for (size_t i = 0; i < slots; i++) {
        if (t->slots[i].kernel > SLOT_OUT) keep[live++] = t->slots[i];
        __atomic_store_n(&t->slots[i].kernel, SLOT_FREE, __ATOMIC_RELAXED);
    }
    t->used = 0;
    raise_version(t); /* once all are free, and before any is written */
    for (size_t i = 0; i < live; i++) put(t, &keep[i]);
    free(keep);
}

static void forget(uintptr_t owner, uintptr_t context) {
    struct mm_kernel_cache_table *t = mm_kernel_cache_current;
    if (!t) return;
    size_t live = 0;
    for (size_t i = 0; i <= t->mask; i++) {
        struct mm_kernel_cache_slot *s = &t->slots[i];
        if (s->kernel <= SLOT_OUT) continue;
        if ((context && s->context == context) || (owner && (s->owner == owner || !s->owner))) __atomic_store_n(&s->kernel, SLOT_OUT, __ATOMIC_RELAXED);
        else live++;
    }
    if (t->used - live > (t->mask + 1) / 4) rebuild(t);
}

void mm_kernel_cache_forget_owner(const void *owner) { forget((uintptr_t)owner, 0); }
void mm_kernel_cache_forget_context(const void *context) { forget(0, (uintptr_t)context); }
