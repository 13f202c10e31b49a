/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/cpu/cpuheap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/heap.h"

int mm_cpu_heap_create(struct mm_cpu_heap *heap, uint64_t segments, uint64_t mapped, uint64_t align_bytes) {
    memset(heap, 0, sizeof *heap);
    if (align_bytes < MM_SEGMENT_BYTES || (align_bytes & (align_bytes - 1)) != 0 ||
        mm_layout_make(&heap->layout, segments, MM_PAGE_BYTES, 1u << MM_ALIGN_SHIFT) != 0) {
        errno = EINVAL;
        return -1;
    }
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    heap->user_map_bytes = segments * MM_SEGMENT_BYTES + align_bytes;
    heap->user_map = mmap(NULL, heap->user_map_bytes, prot, flags, -1, 0);
    if (heap->user_map == MAP_FAILED) return -1;
    heap->metadata = mmap(NULL, heap->layout.total_bytes, prot, flags, -1, 0);
    if (heap->metadata == MAP_FAILED) {
        munmap(heap->user_map, heap->user_map_bytes);
        return -1;
    }
    struct mm_heap *h = (struct mm_heap *)((char *)heap->metadata + heap->layout.heap);
    mm_heap_image(h, &heap->layout, (uint64_t)(uintptr_t)heap->metadata, mm_round_up((uint64_t)(uintptr_t)heap->user_map, align_bytes), mapped);
    heap->ref = h->ref;
    return 0;
}

void mm_cpu_heap_destroy(struct mm_cpu_heap *heap) {
    munmap(heap->user_map, heap->user_map_bytes);
    munmap(heap->metadata, heap->layout.total_bytes);
    memset(heap, 0, sizeof *heap);
}

int mm_cpu_heap_adopt(struct mm_cpu_heap *heap, struct mm_heap *h) {
    memset(heap, 0, sizeof *heap);
    if (h->abi != MM_ABI_VERSION) return -1;
    const uint64_t delta = (uint64_t)(uintptr_t)h - h->ref.heap;
    struct mm_heap_ref *ref = &h->ref;
    uint64_t *addresses[] = {&ref->heap,      &ref->owners, &ref->words,    &ref->firsts,    &ref->classes_at, &ref->directory,
                             &ref->giving_up, &ref->made,   &ref->segments, &ref->free_tree, &ref->room_trees};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) *addresses[i] += delta;
    heap->ref = h->ref;
    return 0;
}

uint64_t mm_cpu_heap_free_segments(const struct mm_cpu_heap *heap) {
    struct mm_heap *h = mm_heap_of(&heap->ref);
    uint64_t n = 0;
    for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) n += mm_popcount(*mm_tree_leaf(mm_segment_free_tree(&h->ref), leaf * 64));
    return n;
}

void *mm_cpu_malloc(struct mm_cpu_heap *heap, size_t bytes) { return mm_heap_malloc(&heap->ref, bytes); }
void *mm_cpu_aligned_malloc(struct mm_cpu_heap *heap, size_t bytes, size_t align) { return mm_heap_aligned_malloc(&heap->ref, bytes, align); }
void mm_cpu_free(struct mm_cpu_heap *heap, void *p) { mm_heap_free(&heap->ref, p); }
uint64_t mm_cpu_usable_size(struct mm_cpu_heap *heap, const void *p) { return mm_heap_usable_size(&heap->ref, p); }

uint64_t mm_cpu_misuse_count(const struct mm_cpu_heap *heap, enum mm_misuse kind) { return mm_load_relaxed_u64(&mm_heap_of(&heap->ref)->misuse[kind]); }
uint64_t mm_cpu_null_count(const struct mm_cpu_heap *heap) { return mm_load_relaxed_u64(&mm_heap_of(&heap->ref)->null_count); }
