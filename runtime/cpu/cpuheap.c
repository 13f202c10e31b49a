#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/cpu/cpuheap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/core/heap.h"

int mm_cpu_heap_create(struct mm_cpu_heap *heap, uint64_t segments, uint64_t mapped, uint64_t align_bytes) {
    memset(heap, 0, sizeof *heap);
    if (align_bytes < MM_SEGMENT_BYTES || (align_bytes & (align_bytes - 1)) != 0 ||
        mm_layout_make(&heap->layout, segments, 4096) != 0) {
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
    mm_heap_image(heap->metadata, &heap->layout, (uint64_t)(uintptr_t)heap->metadata,
                  mm_round_up((uint64_t)(uintptr_t)heap->user_map, align_bytes), mapped);
    heap->ref = ((struct mm_heap *)heap->metadata)->ref;
    return 0;
}

void mm_cpu_heap_destroy(struct mm_cpu_heap *heap) {
    munmap(heap->user_map, heap->user_map_bytes);
    munmap(heap->metadata, heap->layout.total_bytes);
    memset(heap, 0, sizeof *heap);
}

void *mm_cpu_malloc(struct mm_cpu_heap *heap, size_t bytes) { return mm_heap_malloc(&heap->ref, bytes); }
void *mm_cpu_aligned_malloc(struct mm_cpu_heap *heap, size_t bytes, size_t align) {
    return mm_heap_aligned_malloc(&heap->ref, bytes, align);
}
void mm_cpu_free(struct mm_cpu_heap *heap, void *p) { mm_heap_free(&heap->ref, p); }

uint64_t mm_cpu_misuse_count(const struct mm_cpu_heap *heap, enum mm_misuse kind) {
    return mm_load_relaxed_u64(&((struct mm_heap *)heap->metadata)->misuse[kind]);
}
uint64_t mm_cpu_null_count(const struct mm_cpu_heap *heap) {
    return mm_load_relaxed_u64(&((struct mm_heap *)heap->metadata)->null_count);
}
