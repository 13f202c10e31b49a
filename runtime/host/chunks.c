/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/chunks.h"

#include <string.h>

#include "runtime/host/min.h"

static CUdeviceptr address_of(const struct mm_host_chunks *c, uint64_t segment) { return c->user + segment * MM_SEGMENT_BYTES; }

/* Maps memory at a range, and gives access to all devices that may access the heap. All or nothing. */
static bool try_back(const struct mm_driver *d, const struct mm_host_chunks *c, CUdeviceptr address, uint64_t bytes, struct mm_driver_error *error) {
    if (!mm_vm_try_map(d, c->access.devices[0], address, bytes, error)) return false;
    if (mm_vm_try_open(d, &c->access, address, bytes, error)) return true;
    mm_vm_try_unmap(d, address, bytes, &(struct mm_driver_error){NULL, CUDA_SUCCESS});
    return false;
}

static uint64_t mapped_bytes(const struct mm_host_stretch *s) { return s->count ? s->end[s->count - 1] : 0; }
/* The address of bytes [from, to) of a stretch. */
static CUdeviceptr stretch_address(const struct mm_host_stretch *s, uint64_t from, uint64_t to) { return s->is_down ? s->base - to : s->base + from; }
/* Zeroes what must be zero of these. */
static bool try_zero(const struct mm_driver *d, const struct mm_host_chunks *c, const struct mm_host_stretch *s, uint64_t from, uint64_t to,
                     struct mm_driver_error *error) {
    to = min_u64(to, s->zero_bytes);
    return from >= to || mm_copy_try_zero(d, stretch_address(s, from, to), to - from, c->zeros, error);
}
/* Maps bytes [from, to) of a stretch, the next ones. */
static bool try_stretch(const struct mm_driver *d, const struct mm_host_chunks *c, struct mm_host_stretch *s, uint64_t from, uint64_t to,
                        struct mm_driver_error *error) {
    const CUdeviceptr at = stretch_address(s, from, to);
    if (!try_back(d, c, at, to - from, error)) return false;
    if (c->is_used || try_zero(d, c, s, from, to, error)) {
        s->end[s->count++] = to;
        return true;
    }
    mm_vm_try_unmap(d, at, to - from, &(struct mm_driver_error){NULL, CUDA_SUCCESS});
    return false;
}

void mm_chunks_divide(struct mm_host_chunks *c, const struct mm_layout *l, CUdeviceptr base) {
    const uint64_t first = l->heap / c->page_bytes * c->page_bytes, second = l->words / c->page_bytes * c->page_bytes; /* where two begin */
    c->metadata[MM_STRETCH_OWNERS] = (struct mm_host_stretch){.base = base + first,
                                                              .bytes = l->zero_bytes - first,
                                                              .fixed_bytes = (int64_t)(l->owners - first),
                                                              .segment_bytes = MM_SEGMENT_PAGES,
                                                              .zero_bytes = l->zero_bytes - first};
    c->metadata[MM_STRETCH_SEGMENTS] = (struct mm_host_stretch){.base = base + first,
                                                                .is_down = true,
                                                                .bytes = first,
                                                                .fixed_bytes = -(int64_t)(l->heap - first),
                                                                .segment_bytes = sizeof(struct mm_segment),
                                                                .zero_bytes = first};
    c->metadata[MM_STRETCH_WORDS] = (struct mm_host_stretch){
        .base = base + second, .bytes = l->total_bytes - second, .fixed_bytes = (int64_t)(l->words - second), .segment_bytes = l->words_each};
    c->metadata[MM_STRETCH_TABLE] = (struct mm_host_stretch){
        .base = base + second, .is_down = true, .bytes = second - l->zero_bytes, .fixed_bytes = -(int64_t)(l->words - second), .segment_bytes = l->table_each};
}

bool mm_chunks_try_describe(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t end, struct mm_driver_error *error) {
    for (struct mm_host_stretch *s = c->metadata; s < c->metadata + MM_STRETCHES; s++) {
        const int64_t wanted = s->fixed_bytes + (int64_t)(end * s->segment_bytes);
        const uint64_t to = wanted > 0 ? min_u64(mm_round_up((uint64_t)wanted, c->page_bytes), s->bytes) : 0;
        uint64_t piece_max = to;
        for (uint64_t from; (from = mapped_bytes(s)) < to;) {
            const uint64_t piece = min_u64(piece_max, to - from);
            if (s->count == MM_HOST_CHUNKS_MAX) return false;
            if (try_stretch(d, c, s, from, from + piece, error)) continue;
            /* The fixed part is tried in pieces of half the size. For the part of the segments the caller tries fewer segments. */
            if (error->code != CUDA_ERROR_OUT_OF_MEMORY || piece == c->page_bytes || (int64_t)from >= s->fixed_bytes) return false;
            piece_max = mm_round_up(piece / 2, c->page_bytes);
        }
    }
    return true;
}

bool mm_chunks_try_zero(const struct mm_driver *d, const struct mm_host_chunks *c, struct mm_driver_error *error) {
    for (const struct mm_host_stretch *s = c->metadata; s < c->metadata + MM_STRETCHES; s++)
        if (!try_zero(d, c, s, 0, mapped_bytes(s), error)) return false;
    return true;
}

uint64_t mm_chunks_owned(const struct mm_host_chunks *c) {
    const struct mm_host_stretch *s = &c->metadata[MM_STRETCH_OWNERS];
    return min_u64((mapped_bytes(s) - (uint64_t)s->fixed_bytes) / s->segment_bytes, c->segment_count);
}

uint64_t mm_chunks_metadata_bytes(const struct mm_host_chunks *c) {
    uint64_t bytes = 0;
    for (int i = 0; i < MM_STRETCHES; i++) bytes += mapped_bytes(&c->metadata[i]);
    return bytes;
}

uint64_t mm_chunks_end(const struct mm_host_chunks *c) { return c->count ? c->chunk[c->count - 1].first + c->chunk[c->count - 1].count : 0; }

static void insert(struct mm_host_chunks *c, unsigned i, uint64_t first, uint64_t count) {
    memmove(&c->chunk[i + 1], &c->chunk[i], (c->count - i) * sizeof *c->chunk);
    c->chunk[i] = (struct mm_host_chunk){first, count, true};
    c->count++;
    c->mapped_count += count;
    if (c->mapped_count > c->peak_count) c->peak_count = c->mapped_count;
}

uint64_t mm_chunks_unmap(const struct mm_driver *d, struct mm_host_chunks *c, unsigned i, struct mm_driver_error *error) {
    const struct mm_host_chunk gone = c->chunk[i];
    if (!mm_vm_try_unmap(d, address_of(c, gone.first), gone.count * MM_SEGMENT_BYTES, error)) return 0;
    c->count--;
    c->mapped_count -= gone.count;
    memmove(&c->chunk[i], &c->chunk[i + 1], (c->count - i) * sizeof *c->chunk);
    return gone.count * MM_SEGMENT_BYTES;
}

/* The first segment from `first` on whose address is a multiple of `align` segments. */
static uint64_t aligned(const struct mm_host_chunks *c, uint64_t first, uint64_t align) {
    return first + (-(c->user / MM_SEGMENT_BYTES + first) & (align - 1));
}
/* Whether segments [first, end) contain `least` segments from such a segment on. */
static bool holds(const struct mm_host_chunks *c, uint64_t first, uint64_t end, uint64_t least, uint64_t align) {
    const uint64_t at = aligned(c, first, align);
    return at <= end && end - at >= least;
}

/* Finds the first gap between chunks that has `least` segments from an aligned one on. Returns its segments from there; *i: the chunk behind it. */
static struct mm_host_segments find_gap(const struct mm_host_chunks *c, uint64_t least, uint64_t align, unsigned *i) {
    uint64_t at = 0;
    for (*i = 0; *i <= c->count; ++*i) {
        const uint64_t end = *i < c->count ? c->chunk[*i].first : c->segment_count;
        if (holds(c, at, end, least, align)) {
            at = aligned(c, at, align);
            return (struct mm_host_segments){at, end - at};
        }
        if (*i < c->count) at = end + c->chunk[*i].count;
    }
    return (struct mm_host_segments){0, 0};
}

struct mm_host_segments mm_chunks_grow(const struct mm_driver *d, struct mm_host_chunks *c, uint64_t least, uint64_t most, uint64_t align,
                                       struct mm_driver_error *error) {
    unsigned i;
    struct mm_host_segments got = find_gap(c, least, align, &i);
    const unsigned begin = i;
    most = min_u64(mm_chunks_up(c, most), got.count);
    got.count = 0;
    uint64_t piece_max = MM_HOST_CHUNK_SEGMENTS_MAX;
    (void)mm_chunks_try_describe(d, c, got.first + most, error); /* few large mappings; if the driver refuses, each piece gets its own */
    while (got.count < most && c->count < MM_HOST_CHUNKS_MAX) {
        const uint64_t first = got.first + got.count, piece = min_u64(piece_max, most - got.count);
        if (mm_chunks_try_describe(d, c, first + piece, error) &&
            mm_vm_try_map(d, c->access.devices[0], address_of(c, first), piece * MM_SEGMENT_BYTES, error)) {
            insert(c, i++, first, piece);
            got.count += piece;
            continue;
        }
        /* A piece that the driver refuses is tried at half its size, unless there is enough already. */
        if (error->code != CUDA_ERROR_OUT_OF_MEMORY || piece == c->unit || got.count >= least) break;
        piece_max = mm_chunks_up(c, piece / 2);
    }
    if (got.count >= least &&
        mm_vm_try_open(d, &c->access, address_of(c, got.first), got.count * MM_SEGMENT_BYTES, error)) /* one call for all pieces, since it is the slowest */
        return got;
    while (i > begin && mm_chunks_unmap(d, c, i - 1, &(struct mm_driver_error){NULL, CUDA_SUCCESS}) != 0) i--;
    return (struct mm_host_segments){0, 0};
}

struct mm_host_segments mm_chunks_find_spare(const struct mm_host_chunks *c, uint64_t least, uint64_t align) {
    struct mm_host_segments row = {0, 0};
    for (unsigned i = 0; i < c->count; i++) {
        const struct mm_host_chunk *k = &c->chunk[i];
        const bool goes_on = k->is_spare && row.count != 0 && row.first + row.count == k->first;
        if (!goes_on && row.count != 0 && holds(c, row.first, row.first + row.count, least, align)) break;
        if (goes_on) row.count += k->count;
        else row = (struct mm_host_segments){k->first, k->is_spare ? k->count : 0};
    }
    if (!holds(c, row.first, row.first + row.count, least, align)) row.count = 0;
    return row;
}

void mm_chunks_set_spare(struct mm_host_chunks *c, struct mm_host_segments segments, bool is_spare) {
    for (unsigned i = 0; i < c->count; i++)
        if (c->chunk[i].first - segments.first < segments.count) c->chunk[i].is_spare = is_spare;
}

bool mm_chunks_try_access(const struct mm_driver *d, struct mm_host_chunks *c, CUdevice device, bool is_allowed, struct mm_driver_error *error) {
    unsigned at = 1; /* the first one has the memory */
    while (at < c->access.count && c->access.devices[at] != device) at++;
    if ((at < c->access.count) == is_allowed) return true;
    if (at == MM_VM_DEVICES_MAX) return false;
    for (unsigned i = 0; i < c->count; i++)
        if (!mm_vm_try_access(d, device, is_allowed, address_of(c, c->chunk[i].first), c->chunk[i].count * MM_SEGMENT_BYTES, error)) return false;
    if (is_allowed) c->access.devices[c->access.count++] = device;
    else c->access.devices[at] = c->access.devices[--c->access.count];
    return true;
}

void mm_chunks_drop(const struct mm_driver *d, struct mm_host_chunks *c) {
    struct mm_driver_error ignored;
    for (; c->count; c->count--) mm_vm_try_unmap(d, address_of(c, c->chunk[c->count - 1].first), c->chunk[c->count - 1].count * MM_SEGMENT_BYTES, &ignored);
    for (struct mm_host_stretch *s = c->metadata; s < c->metadata + MM_STRETCHES; s++)
        for (; s->count; s->count--) {
            const uint64_t from = s->count > 1 ? s->end[s->count - 2] : 0;
            mm_vm_try_unmap(d, stretch_address(s, from, s->end[s->count - 1]), s->end[s->count - 1] - from, &ignored);
        }
}
