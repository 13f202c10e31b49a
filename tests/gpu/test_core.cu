/* The core on the GPU, seen from inside: compiled by plain nvcc with the core's source, each test on a heap of
 * its own in cudaMalloc memory, checked afterwards by the heap checker.
 */
#include "runtime/core/heap.h"
#include "tests/gpu/expect.h"
#include "tests/gpu/support.h"

#define SEGMENTS 512ull
#define THREADS (1u << 20)

struct fixture {
    struct mm_heap_ref ref;
    char *user, *metadata;
};

static struct fixture create(uint64_t segments) {
    struct fixture f;
    struct mm_layout l;
    ck_assert_int_eq(mm_layout_make(&l, segments, MM_SEGMENT_BYTES), 0);
    CUDA_OK(cudaMalloc(&f.user, (segments + 1) * MM_SEGMENT_BYTES));
    CUDA_OK(cudaMalloc(&f.metadata, l.total_bytes));
    CUDA_OK(cudaMemset(f.metadata, 0, l.fixed_bytes));
    CUDA_OK(cudaMemset(f.metadata + l.fixed_bytes, 0x5a, l.total_bytes - l.fixed_bytes));
    void *image = malloc(l.image_bytes);
    mm_heap_image(image, &l, (uint64_t)f.metadata, mm_round_up((uint64_t)f.user, MM_SEGMENT_BYTES), segments);
    f.ref = ((struct mm_heap *)image)->ref;
    CUDA_OK(cudaMemcpy(f.metadata, image, l.image_bytes, cudaMemcpyHostToDevice));
    free(image);
    return f;
}
static void destroy(struct fixture f) {
    CUDA_OK(cudaFree(f.user));
    CUDA_OK(cudaFree(f.metadata));
}

static __device__ __noinline__ void *heap_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    return mm_heap_malloc(ref, bytes);
}
static __device__ __noinline__ void heap_free(const struct mm_heap_ref *ref, void *p) { mm_heap_free(ref, p); }

static __device__ unsigned thread_index(void) { return blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ unsigned mix(unsigned x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* ---- size classes: the GPU computes what the CPU does ---- */

__global__ void facts_of(struct class_facts *out, uint32_t n) {
    const uint32_t bytes = thread_index();
    if (bytes >= n) return;
    const uint32_t c = mm_class_of(bytes);
    const struct class_facts f = {c, mm_class_bytes(c), mm_class_block_shift(c), mm_class_capacity(c),
                                  mm_class_words(c), mm_class_segment_mask(c)};
    out[bytes] = f;
}
START_TEST(test_class) {
    const uint32_t n = (uint32_t)MM_SLICE_BYTES_MAX + 1;
    struct class_facts *device, *host = (struct class_facts *)malloc(n * sizeof *host);
    CUDA_OK(cudaMalloc(&device, n * sizeof *device));
    facts_of<<<n / 256 + 1, 256>>>(device, n);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(host, device, n * sizeof *host, cudaMemcpyDeviceToHost));
    for (uint32_t bytes = 0; bytes < n; bytes++) {
        const struct class_facts e = expect_class(bytes), *g = &host[bytes];
        ck_assert_msg(e.c == g->c && e.bytes == g->bytes && e.block_shift == g->block_shift && e.capacity == g->capacity && e.words == g->words && e.segment_mask == g->segment_mask,
                      "size %u", bytes);
    }
    CUDA_OK(cudaFree(device));
    free(host);
}
END_TEST

/* ---- bitmap tree: each segment is taken by exactly one thread, and put back ---- */

__global__ void take_all(struct mm_heap_ref ref, unsigned *taken_by, unsigned *count) {
    struct mm_heap *h = mm_heap_of(&ref);
    for (;;) {
        const uint32_t s = mm_tree_take(mm_segment_free_tree(h), thread_index());
        if (s == MM_TREE_NONE) break;
        atomicAdd(&taken_by[s], 1);
        atomicAdd(count, 1);
    }
}
__global__ void put_all(struct mm_heap_ref ref, unsigned n) {
    if (thread_index() < n) mm_tree_insert(mm_segment_free_tree(mm_heap_of(&ref)), thread_index());
}
START_TEST(test_tree) {
    struct fixture f = create(SEGMENTS);
    unsigned *taken, *host = (unsigned *)malloc((SEGMENTS + 1) * sizeof *host);
    CUDA_OK(cudaMalloc(&taken, (SEGMENTS + 1) * sizeof *taken));
    for (int round = 0; round < 20; round++) {
        CUDA_OK(cudaMemset(taken, 0, (SEGMENTS + 1) * sizeof *taken));
        take_all<<<64, 256>>>(f.ref, taken, taken + SEGMENTS);
        KERNEL_OK();
        CUDA_OK(cudaMemcpy(host, taken, (SEGMENTS + 1) * sizeof *host, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(host[SEGMENTS], SEGMENTS);
        for (unsigned s = 0; s < SEGMENTS; s++) ck_assert_uint_eq(host[s], 1);
        put_all<<<SEGMENTS / 128, 128>>>(f.ref, SEGMENTS);
        KERNEL_OK();
        check_heap(f.ref, SEGMENTS);
    }
    CUDA_OK(cudaFree(taken));
    free(host);
    destroy(f);
}
END_TEST

/* ---- segments: blocks of different classes claimed and given back, nobody gets the same one ---- */

__global__ void claim_blocks(struct mm_heap_ref ref, unsigned *owners, unsigned *twice) {
    const uint32_t c = (thread_index() / 32 % 8) * 4, block = mm_segment_claim_block(mm_heap_of(&ref), c, thread_index());
    if (block == MM_BLOCK_NONE) return;
    for (uint32_t g = 0; g < mm_class_block_granules(c); g++)
        if (atomicExch(&owners[block + g], thread_index() + 1) != 0) atomicAdd(twice, 1);
    for (uint32_t g = 0; g < mm_class_block_granules(c); g++) owners[block + g] = 0;
    __threadfence();
    mm_segment_give_back(mm_heap_of(&ref), block / MM_SEGMENT_GRANULES, c, 1ull << (block % MM_SEGMENT_GRANULES));
}
START_TEST(test_segment) {
    struct fixture f = create(64);
    unsigned *owners, twice;
    const size_t n = 64 * MM_SEGMENT_GRANULES;
    CUDA_OK(cudaMalloc(&owners, (n + 1) * sizeof *owners));
    CUDA_OK(cudaMemset(owners, 0, (n + 1) * sizeof *owners));
    for (int round = 0; round < 10; round++) {
        claim_blocks<<<256, 256>>>(f.ref, owners, owners + n);
        KERNEL_OK();
    }
    CUDA_OK(cudaMemcpy(&twice, owners + n, sizeof twice, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(twice, 0);
    check_heap(f.ref, 64);
    CUDA_OK(cudaFree(owners));
    destroy(f);
}
END_TEST

/* ---- slices and blocks: random sizes and lifetimes, payload keyed to address and owner ---- */

struct tally {
    unsigned nulls, corrupt;
    unsigned long long bytes;
};
#define HELD 8

__global__ void hammer(struct mm_heap_ref ref, unsigned rounds, unsigned max_bytes, struct tally *t) {
    unsigned *held[HELD], sizes[HELD], seed = mix(thread_index() + 1);
    for (int i = 0; i < HELD; i++) held[i] = NULL;
    for (unsigned r = 0; r < rounds; r++) {
        seed = mix(seed + r);
        const int slot = seed % HELD;
        if (held[slot] != NULL) {
            unsigned *p = held[slot];
            const unsigned words = sizes[slot] / 4;
            if (p[0] != (thread_index() ^ slot) || p[words - 1] != p[0]) atomicAdd(&t->corrupt, 1);
            heap_free(&ref, p);
            held[slot] = NULL;
        } else {
            sizes[slot] = 4 + (seed >> 8) % max_bytes / 4 * 4;
            held[slot] = (unsigned *)heap_malloc(&ref, sizes[slot]);
            if (held[slot] == NULL) {
                atomicAdd(&t->nulls, 1);
            } else {
                held[slot][0] = held[slot][sizes[slot] / 4 - 1] = thread_index() ^ slot;
            }
        }
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != NULL) {
            if (held[i][0] != (thread_index() ^ i)) atomicAdd(&t->corrupt, 1);
            heap_free(&ref, held[i]);
        }
}
static void hammer_case(uint64_t segments, unsigned threads, unsigned rounds, unsigned max_bytes, int nulls_allowed) {
    struct fixture f = create(segments);
    struct tally *t, host;
    CUDA_OK(cudaMalloc(&t, sizeof *t));
    CUDA_OK(cudaMemset(t, 0, sizeof *t));
    hammer<<<threads / 256, 256>>>(f.ref, rounds, max_bytes, t);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(host.corrupt, 0);
    if (!nulls_allowed) ck_assert_uint_eq(host.nulls, 0);
    const struct mm_heap head = heap_header(f.ref);
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) ck_assert_uint_eq(head.misuse[kind], 0);
    ck_assert_uint_ge(host.nulls ? head.null_count : 1, 1);
    check_heap(f.ref, segments);
    CUDA_OK(cudaFree(t));
    destroy(f);
}
START_TEST(test_slice_small) { hammer_case(SEGMENTS, 1 << 18, 64, 512, 0); }
END_TEST
START_TEST(test_slice_mixed) { hammer_case(8 * SEGMENTS, 1 << 17, 64, 4096, 0); }
END_TEST
START_TEST(test_slice_large) { hammer_case(4 * SEGMENTS, 1 << 10, 64, 1 << 20, 0); }
END_TEST
START_TEST(test_slice_exhausted) { hammer_case(24, 1 << 17, 64, 4096, 1); }
END_TEST
START_TEST(test_runs_and_slices) { hammer_case(SEGMENTS, 1 << 10, 64, 12 << 20, 1); }
END_TEST

/* ---- exhaustion: all of the heap can be had, NULL afterwards, and again after free ---- */

__global__ void fill(struct mm_heap_ref ref, unsigned bytes, unsigned long long *list_head, struct tally *t) {
    for (;;) { /* a list through the memory itself */
        unsigned long long *p = (unsigned long long *)heap_malloc(&ref, bytes);
        if (p == NULL) break;
        *p = atomicExch(list_head, (unsigned long long)p); /* concurrent pushes only */
        atomicAdd(&t->bytes, (unsigned long long)bytes);
    }
    atomicAdd(&t->nulls, 1);
}
__global__ void empty(struct mm_heap_ref ref, unsigned long long *list_head, struct tally *t, unsigned bytes) {
    for (unsigned long long *p = (unsigned long long *)*list_head; p != NULL;) {
        unsigned long long *next = (unsigned long long *)*p;
        heap_free(&ref, p);
        atomicAdd(&t->bytes, 0ull - bytes);
        p = next;
    }
    *list_head = 0;
}
START_TEST(test_exhaustion) {
    static const unsigned sizes[] = {64, 256, 1024, 4096, 8192, 48, 1000, 65536, 2 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const unsigned bytes = sizes[i], segments = bytes < 1024 ? 4 : 64;
        struct fixture f = create(segments);
        unsigned long long *head;
        struct tally *t, host;
        CUDA_OK(cudaMalloc(&head, sizeof *head));
        CUDA_OK(cudaMalloc(&t, sizeof *t));
        CUDA_OK(cudaMemset(head, 0, sizeof *head));
        CUDA_OK(cudaMemset(t, 0, sizeof *t));
        for (int round = 0; round < 2; round++) {
            fill<<<32, 128>>>(f.ref, bytes, head, t);
            KERNEL_OK();
            CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
            const double share = (double)host.bytes / ((double)segments * MM_SEGMENT_BYTES);
            ck_assert_msg(share > (bytes == 1000 ? 0.96 : 0.98), "%u bytes: %.4f of the heap", bytes, share);
            ck_assert_uint_ge(host.nulls, 32 * 128);
            check_heap(f.ref, 0);
            empty<<<1, 1>>>(f.ref, head, t, bytes);
            KERNEL_OK();
            CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
            ck_assert_uint_eq(host.bytes, 0);
            check_heap(f.ref, segments);
        }
        CUDA_OK(cudaFree(head));
        CUDA_OK(cudaFree(t));
        destroy(f);
    }
}
END_TEST

/* ---- whole warps in a loop, few slices to a block: every ticket drawn reaches a lane ---- */

START_TEST(test_every_ticket) {
    const uint64_t segments = 8512;
    for (int round = 0; round < 4; round++) {
        struct fixture f = create(segments);
        unsigned long long *head;
        struct tally *t, host;
        CUDA_OK(cudaMalloc(&head, sizeof *head));
        CUDA_OK(cudaMalloc(&t, sizeof *t));
        CUDA_OK(cudaMemset(head, 0, sizeof *head));
        CUDA_OK(cudaMemset(t, 0, sizeof *t));
        fill<<<64, 128>>>(f.ref, 1 << 20, head, t);
        KERNEL_OK();
        CUDA_OK(cudaMemcpy(&host, t, sizeof host, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(host.bytes, segments * MM_SEGMENT_BYTES);
        CUDA_OK(cudaFree(head));
        CUDA_OK(cudaFree(t));
        destroy(f);
    }
}
END_TEST

/* ---- misuse: told apart, counted, harmless ---- */

__global__ void misuse(struct mm_heap_ref ref, char **kept) {
    char *slice = (char *)heap_malloc(&ref, 100), *body = (char *)heap_malloc(&ref, 5000), *run = (char *)heap_malloc(&ref, 9 << 20);
    kept[0] = slice, kept[1] = body, kept[2] = run;
    int on_stack;
    heap_free(&ref, &on_stack);                                              /* foreign */
    heap_free(&ref, kept);                                                   /* foreign: cudaMalloc */
    heap_free(&ref, slice + 16);                                             /* interior */
    heap_free(&ref, body + 48);                                              /* interior */
    heap_free(&ref, run + MM_SEGMENT_BYTES);                                 /* interior */
    heap_free(&ref, run + 16);                                               /* interior */
    heap_free(&ref, slice + 112 * 100);                                      /* never handed out */
    heap_free(&ref, (char *)ref.user_base + ref.user_bytes / 2);             /* in a free segment */
    heap_free(&ref, slice);
    heap_free(&ref, slice); /* double */
    heap_free(&ref, run);
    heap_free(&ref, run); /* closed by now: not allocated */
    heap_free(&ref, body);
    heap_free(&ref, NULL);
}
START_TEST(test_misuse) {
    struct fixture f = create(64);
    char **kept;
    CUDA_OK(cudaMalloc(&kept, 3 * sizeof *kept));
    misuse<<<1, 1>>>(f.ref, kept);
    KERNEL_OK();
    const struct mm_heap head = heap_header(f.ref);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_FOREIGN], 2);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_INTERIOR], 4);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_NOT_ALLOCATED], 2);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_NEVER], 1);
    ck_assert_uint_eq(head.misuse[MM_MISUSE_DOUBLE_FREE], 1);
    check_heap(f.ref, 64);
    CUDA_OK(cudaFree(kept));
    destroy(f);
}
END_TEST

int main(void) {
    Suite *s = suite_create("core on the GPU");
    add_test(s, "class", test_class);
    add_test(s, "tree", test_tree);
    add_test(s, "segment", test_segment);
    add_test(s, "slice, small", test_slice_small);
    add_test(s, "slice, mixed", test_slice_mixed);
    add_test(s, "slice, large", test_slice_large);
    add_test(s, "slice, exhausted", test_slice_exhausted);
    add_test(s, "runs and slices", test_runs_and_slices);
    add_test(s, "exhaustion", test_exhaustion);
    add_test(s, "every ticket", test_every_ticket);
    add_test(s, "misuse", test_misuse);
    return run_suite(s);
}
