/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* PTX loaded at run time, on a GPU: gpu_jit FOLDER CASE. FOLDER contains jit_whole.ptx, jit_one.ptx, jit_two.ptx and
 * jit_kernels.cu. Exits with 0 if 1,000,000 mallocs and frees succeed: on mm, or with MM_OFF=1 on CUDA's own allocator. */
#include "gpu_driver.h"
#include "mmconfig.h"
#include "nvrtc.h"
#include "runtime/core/layout.h"

enum { COUNT = 1000000 };

static const char *folder;
static CUmodule module;
static CUlibrary library;

static const char *file(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_library(const char *image, const char *path, unsigned preserved) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    OK(image ? cuLibraryLoadData(&library, image, NULL, NULL, 0, &option, &value, preserved)
             : cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
}

static void make_with_options(const char *image) {
    static char log[8192];
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void *values[] = {log, (void *)sizeof log, (void *)1};
    OK(cuModuleLoadDataEx(&module, image, 3, options, values));
    log[sizeof log - 1] = 0;
    printf("log of %zu bytes; ", strlen(log));
}

static void make_link(int by_file) {
    static const char *const names[] = {"jit_one.ptx", "jit_two.ptx"};
    char errors[8192] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {errors, (void *)sizeof errors}, *cubin;
    size_t bytes;
    CUlinkState link;
    OK(cuLinkCreate(2, options, values, &link));
    for (int i = 0; i < 2; i++) {
        if (by_file) {
            OK(cuLinkAddFile(link, CU_JIT_INPUT_PTX, file(names[i]), 0, NULL, NULL));
        } else {
            char *text = (char *)gpu_image(file(names[i]));
            OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, names[i], 0, NULL, NULL));
            free(text);
        }
    }
    const CUresult r = cuLinkComplete(link, &cubin, &bytes);
    if (r != CUDA_SUCCESS) printf("%s\n", errors);
    OK(r);
    OK(cuModuleLoadData(&module, cubin));
    OK(cuLinkDestroy(link));
}

/* what: "PTX", or "CUBIN" for this device. */
static char *make_by_nvrtc(const char *what) {
    char *source = (char *)gpu_image(file("jit_kernels.cu")), arch[32] = "-arch=compute_75";
    const char *options[] = {arch};
    size_t bytes;
    int major, minor;
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    if (strcmp(what, "CUBIN") == 0) snprintf(arch, sizeof arch, "-arch=sm_%d%d", major, minor);
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dlopen(names[i], RTLD_NOW)) {
            char *text = nvrtc_make(names[i], what, source, 1, options, &bytes);
            CHECK(text);
            return text;
        }
    printf("no NVRTC here: the PTX is nvcc's; ");
    return (char *)gpu_image(file("jit_whole.ptx"));
}

static void make(const char *what) {
    char *image = NULL;
    if (strncmp(what, "nvrtc", 5) == 0) image = make_by_nvrtc(strcmp(what, "nvrtc-cubin") == 0 ? "CUBIN" : "PTX");
    else if (strncmp(what, "link", 4)) image = (char *)gpu_image(file("jit_whole.ptx"));
    if (strcmp(what, "module") == 0 || strncmp(what, "nvrtc", 5) == 0) OK(cuModuleLoadData(&module, image));
    else if (strcmp(what, "module-options") == 0) make_with_options(image);
    else if (strcmp(what, "module-file") == 0) OK(cuModuleLoad(&module, file("jit_whole.ptx")));
    else if (strcmp(what, "fatbinary") == 0) OK(cuModuleLoadFatBinary(&module, image));
    else if (strcmp(what, "library") == 0) make_library(image, NULL, 0);
    else if (strcmp(what, "library-preserved") == 0) make_library(image, NULL, 1);
    else if (strcmp(what, "library-file") == 0) make_library(NULL, file("jit_whole.ptx"), 0);
    else if (strcmp(what, "link") == 0 || strcmp(what, "link-files") == 0) make_link(strlen(what) > 4);
    else CHECK(!"a case of that name");
    if (strcmp(what, "library-preserved")) free(image); /* the driver has its own copy */
}

static CUfunction kernel(const char *name) {
    CUfunction f;
    CUkernel k;
    if (!library) {
        OK(cuModuleGetFunction(&f, module, name));
        return f;
    }
    OK(cuLibraryGetKernel(&k, library, name));
    return (CUfunction)k;
}

/* Reads the heap variable of the loaded code. Returns whether it has one. */
static int find_heap(struct mm_heap_ref *ref) {
    CUdeviceptr at;
    size_t bytes;
    const CUresult r = library ? cuLibraryGetGlobal(&at, &bytes, library, MM_HEAP_REF_NAME) : cuModuleGetGlobal(&at, &bytes, module, MM_HEAP_REF_NAME);
    CHECK(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_FOUND);
    if (r != CUDA_SUCCESS) return 0;
    CHECK(bytes == sizeof *ref);
    OK(cuMemcpyDtoH(ref, at, sizeof *ref));
    return 1;
}

int main(int argc, char **argv) {
    CUcontext context;
    CUdeviceptr list, wrong;
    struct mm_heap_ref ref;
    static uint64_t seen[COUNT];
    unsigned n = COUNT, bad = 0, inside = 0;
    if (argc < 3) return 2;
    folder = argv[1];
    const int is_off = getenv("MM_OFF") != NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    if (is_off) OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512u << 20));
    make(argv[2]);
    OK(cuMemAlloc(&list, sizeof seen));
    OK(cuMemAlloc(&wrong, sizeof bad));
    OK(cuMemsetD32(wrong, 0, 1));
    void *take[] = {&list, &n}, *give[] = {&list, &n, &wrong}, *tight[] = {&wrong};
    OK(cuLaunchKernel(kernel("take"), 512, 1, 1, 256, 1, 1, 0, NULL, take, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(seen, list, sizeof seen));
    OK(cuLaunchKernel(kernel("give"), 512, 1, 1, 256, 1, 1, 0, NULL, give, NULL));
    OK(cuLaunchKernel(kernel("tight"), 64, 1, 1, 1024, 1, 1, 0, NULL, tight, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&bad, wrong, sizeof bad));
    const int has_heap = find_heap(&ref);
    if (has_heap)
        for (int i = 0; i < COUNT; i++) inside += seen[i] >= ref.user_base && seen[i] < ref.user_base + ref.user_bytes;
    printf("%u of %u in mm's heap, %u wrong", inside, n, bad);
    CHECK(bad == 0);
    CHECK(has_heap == !is_off);
    CHECK(inside == (is_off ? 0 : n));
    return 0;
}
