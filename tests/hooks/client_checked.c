/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of checked runs, filled memory and requests that fail. The lines expected on standard error, and their order, are in check_report.c. */
#include "client_checked.h"

static char *make(uint64_t bytes) {
    char *p = (char *)mm_guard_malloc(&ref, bytes);
    CHECK(p);
    return p;
}

/* No kernel of ours enters a capture. */
static void captures(void) {
    CUstream stream;
    CUgraph graph;
    CUfunction f;
    OK(cu.cuModuleGetFunction(&f, module, "captured"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const long notes = standin->notes;
    OK(client_launch(f, stream));
    CHECK(standin->notes == notes);
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(client_launch(f, stream));
    CHECK(standin->notes == notes + 1 && standin->last_note_stream != stream);
}

/* Each kernel leaks objects of another size. `disturbed`: after every so many launches, other work takes a number. */
static void number(long count, long disturbed) {
    static const char *const names[] = {"make", "end", "_ZN5other4makeEPPv"};
    for (long i = 0; i < count; i++) {
        launch(names[i % 3]);
        make(16 + 16 * ((uint64_t)i % 3));
        if (disturbed && i % disturbed == disturbed - 1) standin->grids++;
    }
}

/* argv: the error to make. Prints addresses in the order of the expected lines. */
static void checked(int argc, char **argv) {
    CHECK(argc == 1);
    const char *what = argv[0];
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.heap != 0);
    if (strcmp(what, "nothing") == 0) {
        captures();
        for (int i = 0; i < 100000; i++) mm_guard_free(&ref, make(1 + (uint64_t)i % 5000));
        char *p = make(9 << 20), *q = (char *)mm_guard_aligned_malloc(&ref, 100, 256);
        CHECK((uintptr_t)q % 256 == 0 && mm_guard_usable_size(&ref, p) == 9 << 20 && mm_guard_usable_size(&ref, q) == 100);
        memset(p, 1, 9 << 20), memset(q, 1, 100);
        mm_guard_free(&ref, p), mm_guard_free(&ref, q), mm_guard_free(&ref, NULL);
        CHECK(mm_guard_usable_size(&ref, q) == 0);
    } else if (strcmp(what, "leaks") == 0) {
        for (int i = 0; i < 10; i++) make(64);
        for (int i = 0; i < 5; i++) make(700);
        launch("_ZN5other4makeEPPv");
        for (int i = 0; i < 3; i++) make(60);
        make(6 << 20);
        mm_guard_free(&ref, make(1000)); /* in quarantine, not a leak */
    } else if (strcmp(what, "overruns") == 0) {
        static const uint64_t sizes[] = {1, 20, 64, 1000, 2 << 20, 5 << 20};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *p = make(sizes[i]);
            memset(p, 7, sizes[i]);
            p[sizes[i] + i % 3]++;
            printf("%p\n", (void *)p);
            launch("end");
            mm_guard_free(&ref, p);
            launch("make");
        }
        char *far = make(10000), *live = make(30); /* so large that the tag is behind it */
        memset(far, 7, mm_heap_usable_size(&ref, far)), live[31] = 1;
        mm_guard_free(&ref, far);
        printf("%p\n%p\n", (void *)far, (void *)live);
    } else if (strcmp(what, "after-free") == 0) {
        char *p = make(100), *q = make(3000), *r = make(100), *large = make(5 << 20);
        launch("end");
        mm_guard_free(&ref, p), mm_guard_free(&ref, q), mm_guard_free(&ref, r), mm_guard_free(&ref, large);
        q[0] = 1, r[20] = 2, large[20] = 3;
        launch("make");
        mm_guard_free(&ref, q);        /* a second time */
        CHECK(make(5 << 20) == large); /* not kept in quarantine: checked when it is allocated again */
        mm_guard_free(&ref, large);
        printf("%p\n%p\n%p\n%p\n", (void *)q, (void *)large, (void *)r, (void *)q);
    } else if (strcmp(what, "numbers") == 0) {
        number(3000, 0);
        CHECK(standin->notes > 100 && standin->notes < 500);
    } else if (strcmp(what, "disturbed") == 0) {
        number(3000, 500);
        CHECK(standin->notes > 300 && standin->notes < 1500);
    } else if (strcmp(what, "all-disturbed") == 0) {
        number(300, 1);
        CHECK(standin->notes == 301);
    } else if (strcmp(what, "settled") == 0) { /* the last launch but one, after other work took a number, at all positions between two of our kernels */
        for (int i = 0; i <= 8; i++) {
            for (int n = 0; n < 300 + i; n++) launch("other");
            char *p = make(100);
            standin->grids++;
            launch("make");
            const uint64_t grid = mm_cpu_grid;
            launch("end");
            mm_cpu_grid = grid;
            mm_guard_free(&ref, p), mm_guard_free(&ref, p);
            OK(cu.cuCtxSynchronize());
        }
    } else if (strcmp(what, "null") == 0) { /* quarantined memory is reused when no other is left, and malloc does not return NULL */
        uint64_t n = 0;
        for (int round = 0; round < 2; round++) {
            char *list = NULL, *p;
            for (n = 0; (p = (char *)mm_guard_malloc(&ref, 4000)) != NULL; n++) *(char **)p = list, list = p;
            CHECK(n > 1500);
            while (list) p = list, list = *(char **)p, mm_guard_free(&ref, p);
        }
    } else {
        CHECK(0);
    }
}

/* The driver refuses the argv-th call from the first launch on. All allocations are leaked. */
static void checked_faults(int argc, char **argv) {
    CUfunction f;
    CHECK(argc == 1);
    client_start();
    OK(cu.cuModuleLoadData(&module, "mm"));
    OK(cu.cuModuleGetFunction(&f, module, "make"));
    standin->calls = 0, standin->fail_at = atoi(argv[0]), standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->armed = true;
    for (int i = 0; i < 2; i++) client_launch(f, NULL);
    ref = standin->last_ref;
    CHECK(ref.heap == 0 || (ref.open_bytes == 0) == (ref.guard != 0 || ref.trace != 0 || ref.user_base == 0));
    if (ref.heap != 0 && ref.user_base == 0) { /* empty */
        CHECK(mm_closed_malloc(&ref, 100) == NULL);
        mm_closed_free(&ref, NULL);
        for (int i = 0; i < MM_MISUSE_KINDS; i++) CHECK(((const struct mm_heap *)ref.heap)->misuse[i] == 0);
    }
    for (int i = 0; (ref.guard != 0 || ref.trace != 0) && i < 100; i++) mm_closed_malloc(&ref, 100);
    puts(standin->failed ? standin->failed : "none");
}

/* The fill of allocated memory in this process's heap. argv: the expected fill: none, zero or junk. */
static void fill(int argc, char **argv) {
    CHECK(argc == 1);
    const int byte = strcmp(argv[0], "junk") == 0 ? (int)(MM_FILL_JUNK_WORD & 0xff) : strcmp(argv[0], "zero") == 0 ? 0 : -1;
    client_start();
    launch("make");
    CHECK((ref.open_bytes == 0) == (byte >= 0 || ref.guard != 0));
    if (ref.open_bytes != 0) {
        CHECK(ref.open_bytes == ref.user_bytes);
        return;
    }
    for (int i = 0; i < 2; i++) {
        unsigned char *p = (unsigned char *)mm_closed_malloc(&ref, 1001), *run = (unsigned char *)mm_closed_aligned_malloc(&ref, 5 << 20, 64);
        CHECK(p && run);
        for (int k = 0; byte >= 0 && k < 1001; k++) CHECK(p[k] == byte && run[k] == byte && run[(5 << 20) - 1 - k] == byte);
        memset(p, 0x5a, 1001), memset(run, 0x5a, 5 << 20);
        mm_closed_free(&ref, p), mm_closed_free(&ref, run);
    }
}

/* ---- failures on demand ---- */

static int first_null; /* of the last requests() */

/* Makes requests, as a kernel does. Returns how many got NULL. */
static int requests(int count) {
    int nulls = 0;
    for (int i = 0; i < count; i++) {
        void *p = i % 2 ? mm_closed_malloc(&ref, 100) : mm_closed_aligned_malloc(&ref, 300, 64);
        if (!p && nulls++ == 0) first_null = i;
        mm_closed_free(&ref, p);
    }
    return nulls;
}

static int nulls_before, nulls_of_kernel, synchronisations;
static void at_synchronize(void) { /* before the launch: other kernels end; after it: the kernel */
    *(synchronisations++ % 2 ? &nulls_of_kernel : &nulls_before) += requests(10);
}

/* 1,000 requests and another 1,000 after what argv says: reset, destroy, fault, plain. Prints how many got NULL, and the first. */
static void fail(int argc, char **argv) {
    int (*reset)(void) = NULL;
    CHECK(argc == 1);
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.fail != 0);
    const int nulls = requests(1000), first = first_null;
    if (strcmp(argv[0], "reset") == 0) {
        *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
        CHECK(reset && reset() == MM_OK);
    } else if (strcmp(argv[0], "destroy") == 0) {
        OK(cu.cuDevicePrimaryCtxReset(0));
        client_start();
        module = NULL;
        launch("make");
    }
    printf("%d, %d, first %d\n", nulls, requests(1000), first);
    if (strcmp(argv[0], "fault") == 0)
        standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_LAUNCH_FAILED, standin->armed = true;
}

/* A kernel by its name; argv: kernels to launch. Prints for each how many of its 10 requests got NULL, which requires that its launch is waited for. */
static void fail_kernel(int argc, char **argv) {
    CUstream stream;
    CUgraph graph;
    CUfunction f;
    client_start();
    for (int i = 0; i < argc; i++) {
        synchronisations = nulls_of_kernel = 0;
        standin->at_synchronize = i ? at_synchronize : NULL; /* at first there is no heap */
        launch(argv[i]);
        standin->at_synchronize = NULL;
        printf("%s: %d of %d, then %d\n", argv[i], nulls_of_kernel, synchronisations, requests(10));
    }
    OK(cu.cuModuleGetFunction(&f, module, argv[argc - 1]));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    synchronisations = 0, standin->at_synchronize = at_synchronize;
    OK(client_launch(f, stream)); /* no wait in a capture */
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(synchronisations == 0 && nulls_before == 0 && requests(10) == 0);
    standin->at_synchronize = NULL;
    standin->launch_code = CUDA_ERROR_INVALID_VALUE; /* a launch that fails: later requests do not */
    client_launch(f, NULL);
    standin->launch_code = 0;
    CHECK(requests(10) == 0 && !standin->capture_broken);
}

const struct scenario client_checked_scenarios[] = {
    {"fill", fill}, {"fail", fail}, {"fail-kernel", fail_kernel}, {"checked-faults", checked_faults}, {"checked", checked}, {NULL, NULL},
};
