/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of images with different allocators in one context. This process acts as the kernels: it runs the default allocator's source on every heap,
 * which suffices, since the host makes all heaps alike but for their words. */
#include "client.h"

#include <unistd.h>

#include "include/mm.h"
#include "runtime/heap.h"

#define MIB (1ull << 20)

/* From mmhook.o if the program has it, else from libmm.so.1 if preloaded. */
extern int mm_get_statistics(struct mm_statistics *) __attribute__((weak));
extern int mm_get_usage(struct mm_usage_statistics *) __attribute__((weak));
extern int mm_reset(void) __attribute__((weak));
static __typeof__(&mm_get_statistics) get;
static __typeof__(&mm_get_usage) get_usage;
static __typeof__(&mm_reset) reset;

static void find(void) {
    get = mm_get_statistics, get_usage = mm_get_usage, reset = mm_reset;
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "mm_get_statistics");
    if (!get_usage) *(void **)&get_usage = dlsym(RTLD_DEFAULT, "mm_get_usage");
    if (!reset) *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
    CHECK(get && get_usage && reset);
}

static struct mm_statistics counts(void) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    CHECK(get(&s) == MM_OK);
    return s;
}

/* Launches the first kernel of another module of this image. Returns the heap that it sees. */
static struct mm_heap_ref launch(const char *image) {
    OK(client_launch(client_function(image), NULL));
    return standin->last_ref;
}

static bool is_sibling(const char *image) { return strncmp(image, "other ", 6) == 0; }

static unsigned long long mapped(const struct mm_heap_ref *r) { return ((const struct mm_heap *)r->heap)->grow.mapped * MM_SEGMENT_BYTES; }

static void fits(const struct mm_heap_ref *r, const char *image) {
    /* the other allocators use all words of a page, the default those of slices from MM_SPACING_DEFAULT on */
    CHECK(r->user_bytes != 0 && r->word_shift == MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT - (is_sibling(image) ? 0u : 1u));
}

static bool is_apart(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) { return a + a_bytes <= b || b + b_bytes <= a; }

/* Each module gets the heap of its allocator. argv: two images; "refused" if the second one gets none. */
static void siblings(int argc, char **argv) {
    const bool is_refused = argc == 3 && strcmp(argv[2], "refused") == 0;
    CHECK(argc == 2 || is_refused);
    client_start();
    for (int i = 0; i < 2; i++) OK(client_launch(client_kernel(argv[0], NULL), NULL));
    const struct mm_heap_ref first = launch(argv[0]);
    CHECK(standin->launches_with_variable == 3 && standin->launches_without_heap == 0 && standin->reservations == 2);
    fits(&first, argv[0]);
    /* A kernel of the first image waits for memory. Only a checked run's heap waits for kernels when it is created, and only where launches are numbered a kernel of ours
     * needs room on the device. */
    standin->held = !getenv("MM_CHECK") && !getenv("MM_PROFILE");
    for (int i = 0; i < 2; i++) OK(client_launch(client_kernel(argv[1], NULL), NULL));
    standin->held = false;
    CHECK(standin->waits == 0 && standin->launches_with_variable == 5);
    if (is_refused) {
        CHECK(standin->launches_without_heap == 2 && standin->reservations == 2);
    } else {
        const struct mm_heap_ref second = standin->last_ref, again = launch(argv[1]);
        CHECK(standin->launches_without_heap == 0 && standin->reservations == 4 && memcmp(&second, &again, sizeof second) == 0);
        fits(&second, argv[1]);
        CHECK(is_apart(first.user_base, first.user_bytes, second.user_base, second.user_bytes) && second.mailbox != first.mailbox);
    }
    const struct mm_heap_ref again = launch(argv[0]);
    CHECK(memcmp(&first, &again, sizeof first) == 0);
}

/* Two heaps of a context share nothing. argv: two images. Prints the addresses of the two misuses, in the order of the calls. */
static void two_heaps(int argc, char **argv) {
    CHECK(argc == 2);
    static struct mm_usage_statistics u;
    u.struct_bytes = sizeof u;
    CUresult (*synchronize)(CUcontext) = NULL; /* CUDA 13's variant, which some ways of reaching the driver find */
    *(void **)&synchronize = (void *)cu.cuCtxSynchronize;
    const CUcontext context = client_start();
    find();
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB)); /* for each heap */
    const struct mm_heap_ref a = launch(argv[0]), b = launch(argv[1]);
    CHECK(mapped(&a) == 32 * MIB && mapped(&b) == 32 * MIB);
    const unsigned long long metadata_bytes = counts().metadata_bytes;
    CHECK(counts().heap_bytes == 64 * MIB && 64 * MIB + metadata_bytes == standin->total_bytes - standin->free_bytes);
    CHECK(counts().reserved_bytes > 2 * standin->total_bytes);

    /* a pointer of one is foreign to the other, which changes nothing of it */
    char *const p = (char *)mm_heap_malloc(&a, 100), *const q = (char *)mm_heap_malloc(&b, 100);
    CHECK(p && q);
    memset(p, 1, 100), memset(q, 2, 100);
    mm_heap_free(&b, p), mm_heap_free(&a, q);
    CHECK(mm_heap_usable_size(&b, p) == 0 && mm_heap_usable_size(&a, q) == 0 && mm_heap_usable_size(&a, p) >= 100 && mm_heap_usable_size(&b, q) >= 100);
    for (int i = 0; i < 100; i++) CHECK(p[i] == 1 && q[i] == 2);
    struct mm_statistics s = counts();
    CHECK(s.misuse_foreign == 2 && s.misuse_not_allocated + s.misuse_interior + s.misuse_never + s.misuse_double_free == 0);
    printf("%#llx\n%#llx\n", (unsigned long long)(uintptr_t)p, (unsigned long long)(uintptr_t)q);
    OK(synchronize(context));
    CHECK(standin->own_modules == !(is_sibling(argv[0]) && is_sibling(argv[1]))); /* the default's heap can give memory back from now on */
    mm_heap_free(&a, p), mm_heap_free(&b, q);
    CHECK(counts().misuse_foreign == 2 && counts().misuse_double_free == 0);

    /* each grows and counts alone */
    void *const large = mm_heap_malloc(&b, 256 * MIB);
    CHECK(large && mapped(&b) >= 288 * MIB && mapped(&a) == 32 * MIB && counts().heap_bytes == mapped(&a) + mapped(&b));
    CHECK(!mm_heap_malloc(&b, 1ull << 50) && !mm_heap_malloc(&a, 1ull << 51));
    CHECK(counts().null_count == 2 && counts().null_first_bytes == 1ull << 51);     /* of the heap that was created first */
    const unsigned long long is_of_b = is_sibling(argv[0]) && !is_sibling(argv[1]); /* the default's, or else the first */
    CHECK(get_usage(&u) == MM_OK && u.heap_bytes == mapped(is_of_b ? &b : &a) && u.live_objects == is_of_b);

    /* a late limit, and a reset, are for both */
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB));
    CHECK(counts().heap_bytes >= 1024 * MIB);
    CHECK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 5 * 1024 * MIB) == CUDA_ERROR_OUT_OF_MEMORY); /* there is enough for one, which does not keep it */
    launch(argv[0]);                                                                                /* after which the heaps look for unused memory */
    for (int ms = 0; ms < 20000 && !is_sibling(argv[0]) && counts().heap_bytes >= 4096 * MIB; ms += 10) usleep(10000);
    CUdeviceptr want;
    CHECK(is_sibling(argv[0]) || (counts().heap_bytes < 4096 * MIB && get_usage(&u) == MM_OK && u.heap_bytes == 512 * MIB)); /* the granted limit stays */
    OK(cu.cuMemAlloc(&want, 6 * 1024 * MIB)); /* the others keep spare memory until it is wanted */
    OK(cu.cuMemFree(want));
    CHECK(mm_heap_malloc(&a, 100 * MIB));
    CHECK(reset() == MM_OK);
    s = counts();
    CHECK(s.misuse_foreign == 0 && s.null_count == 0 && s.null_first_bytes == 0 && s.heap_bytes >= 1024 * MIB);
    CHECK(((const struct mm_heap *)a.heap)->free_count + ((const struct mm_heap *)b.heap)->free_count == s.heap_bytes / MM_SEGMENT_BYTES);
    for (int i = 0; i < 2; i++) { /* both have their threads again */
        const struct mm_heap_ref *const r = i ? &b : &a;
        CHECK(mm_heap_malloc(r, mapped(r)) && mm_heap_malloc(r, 64 * MIB));
    }

    /* the default's heap gives way to the program, whichever was created first; both end with the context */
    CHECK(reset() == MM_OK);
    const CUresult given = cu.cuMemAlloc(&want, standin->free_bytes + 64 * MIB);
    if (given == CUDA_SUCCESS) OK(cu.cuMemFree(want));
    CHECK((given == CUDA_SUCCESS) == (!is_sibling(argv[0]) || !is_sibling(argv[1])));
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->free_bytes == standin->total_bytes && standin->streams == 0);
    client_start();
    CHECK(launch(argv[1]).user_bytes != 0 && standin->reservations == 2);
}

const struct scenario client_allocators_scenarios[] = {{"siblings", siblings}, {"two-heaps", two_heaps}, {NULL, NULL}};
