/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of how large a heap is, and of its lines when memory is short, against the stand-in driver: MM_HEAP_SIZE, MM_HEAP_MAX, MM_GROW_WAIT_MS,
 * MM_VERBOSE. */
#define _GNU_SOURCE
#include "tests/hooks/suite.h"

/* ---- sizes -------------------------------------------------------------------------------------- */

#define NOT_A_SIZE                                                                                             \
    " is not a size; expected bytes above 0, also with K, M, G or T (8G), or 1% to 100% of the GPU's memory; " \
    "using the default\n"
#define NOT_MS " is not understood; expected milliseconds, 0 to 60000; using 2000\n"
#define LESS(asked) "mm: heap on device 0 is 7.3 GiB instead of " asked " (8.0 GiB are free, a part stays so for the driver)\n"

static const struct {
    const char *setting, *segments, *err;
} sizes[] = {
    {"MM_HEAP_SIZE=1G", "1024\n", ""},
    {"MM_HEAP_SIZE=1g", "1024\n", ""},
    {"MM_HEAP_SIZE=64M", "64\n", ""},
    {"MM_HEAP_SIZE=4097K", "6\n", ""},
    {"MM_HEAP_SIZE=1", "2\n", ""},
    {"MM_HEAP_SIZE=50%", "4096\n", ""},
    {"MM_HEAP_SIZE=100%", "7522\n", LESS("8.0 GiB")},
    {"MM_HEAP_SIZE=99999T", "7522\n", LESS("99999.0 TiB")},
    {"MM_HEAP_SIZE=99999999999999999999", "7522\n", LESS("16777216.0 TiB")},
    {"MM_HEAP_SIZE=banana", "16\n", "mm: MM_HEAP_SIZE=banana" NOT_A_SIZE},
    {"MM_HEAP_SIZE=-1", "16\n", "mm: MM_HEAP_SIZE=-1" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0", "16\n", "mm: MM_HEAP_SIZE=0" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0%", "16\n", "mm: MM_HEAP_SIZE=0%" NOT_A_SIZE},
    {"MM_HEAP_SIZE=150%", "16\n", "mm: MM_HEAP_SIZE=150%" NOT_A_SIZE},
    {"MM_HEAP_SIZE= 1G", "16\n", "mm: MM_HEAP_SIZE= 1G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1G ", "16\n", "mm: MM_HEAP_SIZE=1G " NOT_A_SIZE},
    {"MM_HEAP_SIZE=1GB", "16\n", "mm: MM_HEAP_SIZE=1GB" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1.5G", "16\n", "mm: MM_HEAP_SIZE=1.5G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=G", "16\n", "mm: MM_HEAP_SIZE=G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=%", "16\n", "mm: MM_HEAP_SIZE=%" NOT_A_SIZE},
    {"MM_HEAP_SIZE=+1G", "16\n", "mm: MM_HEAP_SIZE=+1G" NOT_A_SIZE},
    {"MM_HEAP_SIZE=0x10", "16\n", "mm: MM_HEAP_SIZE=0x10" NOT_A_SIZE},
    {"MM_HEAP_SIZE=1\n2", "16\n", "mm: MM_HEAP_SIZE=1?2" NOT_A_SIZE},
    {"MM_HEAP_SIZE=", "16\n", "mm: MM_HEAP_SIZE=" NOT_A_SIZE},
    {"MM_HEAP_MAX=1G", "16\n", ""},
    {"MM_HEAP_MAX=8M", "8\n", ""},
    {"MM_HEAP_MAX=1%", "16\n", ""},
    {"MM_HEAP_MAX=little", "16\n", "mm: MM_HEAP_MAX=little" NOT_A_SIZE},
    {"MM_GROW_WAIT_MS=0", "16\n", ""},
    {"MM_GROW_WAIT_MS=60000", "16\n", ""},
    {"MM_GROW_WAIT_MS=60001", "16\n", "mm: MM_GROW_WAIT_MS=60001" NOT_MS},
    {"MM_GROW_WAIT_MS=2s", "16\n", "mm: MM_GROW_WAIT_MS=2s" NOT_MS},
    {"MM_SPACING=128", "16\n", ""},
    {"MM_SPACING=8", "16\n", "mm: MM_SPACING=8 is not understood; expected bytes, 16, 32, 64 or 128; using 32\n"},
    {"MM_ON_MISUSE=report", "16\n", ""},
    {"MM_ON_MISUSE=trap", "16\n", ""},
    {"MM_ON_MISUSE=ignore", "16\n", ""},
    {"MM_ON_MISUSE=abort", "16\n", "mm: MM_ON_MISUSE=abort is not understood; expected report, trap or ignore; using report\n"},
    {"MM_TRIM=idle", "16\n", ""},
    {"MM_TRIM=demand", "16\n", ""},
    {"MM_TRIM=off", "16\n", ""},
    {"MM_TRIM=60", "16\n", ""},
    {"MM_TRIM=often", "16\n", "mm: MM_TRIM=often is not understood; expected off, demand, idle, or seconds, 1 to 86400; using 10\n"},
    {"MM_FILL=zero", "16\n", ""},
    {"MM_FAIL=2/3", "16\n",
     "mm: MM_FAIL=2/3 is not understood; expected 1/1000 or 1/1000:SEED (one of 1000 requests), 1000 (that request), or kernel:NAME; not used\n"},
    {"MM_FILL=ones", "16\n", "mm: MM_FILL=ones is not understood; expected none, zero or junk; using none\n"},
    {"MM_VERBOSE=0", "16\n", ""},
    {"MM_VERBOSE=yes", "16\n", "mm: MM_VERBOSE=yes is not understood; expected 0 or 1; using 0\n"},
    {"MM_OFF=0", "16\n", ""},
    {"MM_OFF=1", "16\n", ""}, /* a module built with mm keeps it */
    {"MM_OFF=2", "16\n", "mm: MM_OFF=2 is not understood; expected 0 or 1; using 0\n"},
    {"MM_HEAPSIZE=1G", "16\n",
     "mm: MM_HEAPSIZE=1G is not a variable of mm; known are MM_HEAP_SIZE, MM_HEAP_MAX, "
     "MM_GROW_WAIT_MS, MM_ON_MISUSE, MM_SPACING, MM_TRIM, MM_FILL, MM_FAIL, MM_CHECK, MM_CHECK_EXITCODE, MM_STATS, MM_STATS_FILE, MM_HEAP_MAP, MM_MAP_SERIES, MM_TRACE, MM_PROFILE, MM_OFF, MM_RUN_ALLOCATOR, MM_ALLOW_UNSAFE, MM_POOL, MM_POOL_FIT, MM_POOL_CARVE, MM_VERBOSE\n"},
    {"MMX=1", "16\n", ""},
};

START_TEST(size_variable) {
    struct result r = RUN(SETTINGS(preload_mm, sizes[_i].setting), "./client", "v2-legacy", "size");
    expect(&r, 0, sizes[_i].segments, sizes[_i].err);
}
END_TEST

START_TEST(verbose) {
    struct result r = RUN(SETTINGS(preload_mm, "MM_VERBOSE=1"), "./client", "v2-legacy", "size");
    expect(&r, 0, "16\n", NULL);
    const char *start = "mm: heap on device 0: 16.0 MiB mapped, up to 7.8 GiB, of 8.0 GiB reserved; made in ";
    ck_assert_msg(strncmp(r.err, start, strlen(start)) == 0 && strchr(r.err, '\n')[1] == 0, "%s", r.err);
}
END_TEST

static const struct {
    const char *free_bytes, *vmm, *address_limit, *segments, *err;
} shortages[] = {
    /* no memory at all; for metadata only; no virtual memory management; few addresses */
    {"0", "1", "9000000000", "-1\n",
     "mm: no heap on device 0 (cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY); a kernel that calls malloc will fail with "
     "cudaErrorLaunchFailure\n"},
    {"6291456", "1", "9000000000", "0\n", "mm: heap on device 0 is 0 bytes instead of 8.0 MiB (6.0 MiB are free, a part stays so for the driver)\n"},
    {"8589934592", "0", "9000000000", "2048\n", ""},
    {"8589934592", "1", "1073741824", "16\n", ""},
    {"8589934592", "1", "1", "2048\n", "mm: the heap on device 0 has 2.0 GiB and cannot grow (cuMemAddressReserve: CUDA_ERROR_OUT_OF_MEMORY)\n"},
};

START_TEST(shortage) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "size", shortages[_i].free_bytes, shortages[_i].vmm, shortages[_i].address_limit);
    expect(&r, 0, shortages[_i].segments, shortages[_i].err);
}
END_TEST

/* A heap that cannot grow starts with MM_HEAP_SIZE, or a quarter of the free memory, and reports why it cannot grow; in a checked run, too. */
START_TEST(cannot_grow) {
#define NO_GROWTH(size) "mm: the heap on device 0 has " size " and cannot grow (cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY)\n"
    static const struct {
        const char *setting, *vmm, *fails, *segments, *err;
    } cases[] = {
        {"MMX=1", "0", "none", "2048\n", ""},
        {"MM_HEAP_SIZE=1G", "0", "none", "1024\n", ""},
        {"MM_HEAP_SIZE=10%", "0", "none", "820\n", ""},
        {"MMX=1", "1", "cuMemHostRegister_v2", "2048\n", NO_GROWTH("2.0 GiB")},
        {"MM_HEAP_SIZE=1G", "1", "cuMemHostRegister_v2", "1024\n", NO_GROWTH("1.0 GiB")},
        {"MM_HEAP_SIZE=10%", "1", "cuMemHostRegister_v2", "820\n", NO_GROWTH("820.0 MiB")},
        {"MM_CHECK=1", "1", "cuMemHostRegister_v2", "2048\n", "mm: device 0: kernels have no names (cuMemHostRegister)\n" NO_GROWTH("2.0 GiB")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct result r = RUN(SETTINGS(preload_mm, cases[i].setting), "./client", "v2-legacy", "size", "8589934592", cases[i].vmm, "9000000000", "9000000000",
                              cases[i].fails);
        ck_assert_msg(r.status == 0 && strcmp(r.out, cases[i].segments) == 0 && strncmp(r.err, cases[i].err, strlen(cases[i].err)) == 0 &&
                          (*cases[i].err || !*r.err),
                      "%s: status %d; \"%s\" \"%s\"", cases[i].setting, r.status, r.out, r.err);
    }
}
END_TEST

START_TEST(memory_in_small_pieces) {
    struct result r = RUN(SETTINGS(preload_mm), "./client", "v2-legacy", "size", "8589934592", "1", "9000000000", "2097152");
    expect(&r, 0, "16\n", "");
    r = RUN(SETTINGS(preload_mm, "MM_HEAP_SIZE=6G"), "./client", "v2-legacy", "size", "8589934592", "1", "9000000000", "2097152");
    expect(&r, 0, "4096\n", "mm: heap on device 0 is 4.0 GiB instead of 6.0 GiB (its memory came in 2048 pieces, and it takes no more)\n");
}
END_TEST

int main(int argc, char **argv) {
    if (!suite_begin(argc, argv)) return 2;
    Suite *s = suite_create("sizes");
    TCase *c = tcase_create("sizes");
    tcase_set_timeout(c, 100);
    tcase_add_loop_test(c, size_variable, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(c, verbose);
    tcase_add_loop_test(c, shortage, 0, sizeof shortages / sizeof *shortages);
    tcase_add_test(c, memory_in_small_pieces);
    tcase_add_test(c, cannot_grow);
    suite_add_tcase(s, c);
    return suite_run(s);
}
