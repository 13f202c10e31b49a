/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arrays of classes with a constructor and no destructor. nvcc 13 stores their count 8 bytes in front of what malloc returned
 * (docs/explanation/array-counts.md): mmnvcc must remove that, for the slices in front are other objects'. Each thread fills objects of N
 * bytes with a pattern, makes arrays of N bytes in between, and looks at the pattern.
 */
#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

struct word {
    unsigned limb[8];
    __device__ word() {}
};
static __device__ unsigned destroyed;
struct counted { /* its count is part of the ABI, and stays */
    unsigned limb[8];
    __device__ counted() { limb[0] = 1; }
    __device__ ~counted() { atomicAdd(&destroyed, limb[0]); }
};

enum { CHANGED, NONE, RESULTS };

static __device__ unsigned long long pattern(unsigned bytes) { return 0x5a5a5a5a5a5a5a5aull ^ bytes; }

__global__ void neighbours(unsigned bytes, unsigned rounds, unsigned *results) {
    const unsigned last = bytes / 8 - 1;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned long long *a = (unsigned long long *)malloc(bytes);
        word *first = new word[bytes / sizeof(word)];
        unsigned long long *b = (unsigned long long *)malloc(bytes);
        if (!a || !first || !b) {
            atomicAdd(&results[NONE], 1);
            return;
        }
        a[0] = b[0] = a[last] = b[last] = pattern(bytes);
        __threadfence();
        word *second = new word[bytes / sizeof(word)];
        __threadfence();
        atomicAdd(&results[CHANGED], (a[last] != pattern(bytes)) + (b[last] != pattern(bytes)));
        if (!second) atomicAdd(&results[NONE], 1);
        if (i % 2) free(a), free(b);
        delete[] first;
        delete[] second;
    }
}

static const unsigned sizes[] = {32, 64, 96, 128, 256, 512, 1024, 4096, 65536, 1u << 20};

START_TEST(neighbours_stay) {
    const unsigned bytes = sizes[_i], threads = bytes <= 1024 ? 8192 : bytes <= 65536 ? 256 : 16;
    const unsigned block = threads < 256 ? threads : 256;
    unsigned *results, host[RESULTS];
    CUDA_OK(cudaMalloc(&results, sizeof host));
    CUDA_OK(cudaMemset(results, 0, sizeof host));
    neighbours<<<threads / block, block>>>(bytes, 8, results);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(host, results, sizeof host, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(host[NONE], 0);
    ck_assert_msg(host[CHANGED] == 0, "%u objects of %u bytes were changed by an array behind them", host[CHANGED], bytes);
    CUDA_OK(cudaFree(results));
}
END_TEST

/* Nothing is mapped in front of the first slice of a segment. */
__global__ void make_array(unsigned bytes, word **out) { *out = new word[bytes / sizeof(word)]; }

START_TEST(first_of_a_segment) {
    word **out, *array;
    CUDA_OK(cudaMalloc(&out, sizeof *out));
    for (unsigned bytes = 32; bytes <= 64u << 20; bytes *= 4) {
        make_array<<<1, 1>>>(bytes, out);
        KERNEL_OK();
        CUDA_OK(cudaMemcpy(&array, out, sizeof array, cudaMemcpyDeviceToHost));
        ck_assert_ptr_nonnull(array);
    }
    CUDA_OK(cudaFree(out));
}
END_TEST

__global__ void make_and_delete(unsigned n) {
    counted *array = new counted[n + threadIdx.x];
    if (array) delete[] array;
}

/* delete[] still knows how many destructors to run. */
START_TEST(destructors_are_counted) {
    unsigned host;
    make_and_delete<<<1, 32>>>(5);
    KERNEL_OK();
    CUDA_OK(cudaMemcpyFromSymbol(&host, destroyed, sizeof host));
    ck_assert_uint_eq(host, 32 * 5 + 31 * 32 / 2);
}
END_TEST

int main(void) {
    Suite *s = suite_create("arrays");
    add_test(s, "first of a segment", first_of_a_segment); /* of an unused heap */
    TCase *tcase = tcase_create("neighbours");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, neighbours_stay, 0, (int)(sizeof sizes / sizeof *sizes));
    suite_add_tcase(s, tcase);
    add_test(s, "destructors", destructors_are_counted);
    return run_suite(s);
}
