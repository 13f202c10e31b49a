/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* client WAY SCENARIO [ARGUMENT...]: exits with 0 if the scenario passes. */
#include "client.h"

#include "mmconfig.h"
#include "runtime/core/image.h"

#ifndef CLIENT_MAIN /* the plugin names it otherwise */
#define CLIENT_MAIN main
#endif

struct api cu;
struct standin *standin;
void *libcuda;
const char *way;

#ifndef PLAIN
static void *(*get_proc)(const char *name);

typedef CUresult get_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult get_v1(const char *, void **, int, cuuint64_t);

static get_v2 *proc_v2;
static get_v1 *proc_v1;
static cuuint64_t proc_flags;

static void *by_v2(const char *name) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    OK(proc_v2(name, &found, 13000, proc_flags, &status));
    return found;
}

static void *by_v1(const char *name) {
    void *found = NULL;
    OK(proc_v1(name, &found, 12040, proc_flags));
    return found;
}
#endif

static void find_functions(void) {
#ifdef PLAIN
#define BY_LINKER(name) cu.name = name;
    CLIENT_FUNCTIONS(BY_LINKER)
    CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
    cu.create = cuCtxCreate_v2;
#else
    *(void **)&proc_v2 = dlsym(libcuda, "cuGetProcAddress_v2");
    *(void **)&proc_v1 = dlsym(libcuda, "cuGetProcAddress");
    proc_flags = strstr(way, "ptsz") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    if (strstr(way, "through")) { /* cuGetProcAddress looked up through itself */
        void *found = NULL;
        OK(proc_v1("cuGetProcAddress", &found, 12000, 0));
        *(void **)&proc_v2 = found;
        OK(proc_v2("cuGetProcAddress", &found, 11030, 0, NULL));
        *(void **)&proc_v1 = found;
    }
    get_proc = strstr(way, "v1") ? by_v1 : by_v2;
    if (strstr(way, "symbols")) {
#define BY_DLSYM(name) *(void **)&cu.name = dlsym(libcuda, MM_STR(name));
        CLIENT_FUNCTIONS(BY_DLSYM)
        *(void **)&cu.create = dlsym(libcuda, "cuCtxCreate_v2");
    } else {
#define BY_PROC(name) *(void **)&cu.name = get_proc(#name);
        CLIENT_FUNCTIONS(BY_PROC)
        *(void **)&cu.create = get_proc("cuCtxCreate");
    }
#endif
#define IS_THERE(name) CHECK(cu.name);
    CLIENT_FUNCTIONS(IS_THERE)
}

void *client_past_hooks(const char *symbol) {
    void *(*real)(void *, const char *) = NULL;
    *(void **)&real = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34");
    if (!real) *(void **)&real = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
    CHECK(real);
    return real(libcuda, symbol);
}

CUcontext client_start(void) {
    CUcontext context;
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    return context;
}

CUfunction client_function(const char *image) {
    CUmodule module;
    CUfunction f;
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    return f;
}

CUfunction client_kernel(const char *image, CUlibrary *library) {
    CUlibrary ours;
    CUkernel k;
    OK(cu.cuLibraryLoadData(&ours, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&k, ours, "kernel"));
    if (library) *library = ours;
    return (CUfunction)k;
}

CUresult client_launch(CUfunction f, CUstream stream) {
    void *params[1] = {NULL};
    CUresult r = cu.cuLaunchKernel(f, 1, 2, 3, 4, 5, 6, 7, stream, params, params);
    CHECK(standin->last_dims_sum == 1 + 4 + 9 + 16 + 25 + 36 + 49 + 1);
    return r;
}

unsigned long long client_heap_segments(const struct mm_heap_ref *ref) {
    const struct mm_heap *h = (const struct mm_heap *)ref->heap;
    CHECK(h);
    CHECK(h->abi == MM_ABI_VERSION);
    struct mm_heap_ref published = *ref; /* with MM_FILL modules see the heap closed, and take the path that fills */
    CHECK(ref->open_bytes == (ref->fill ? 0 : h->ref.open_bytes));
    CHECK(h->ref.open_bytes <= h->ref.user_bytes && h->ref.open_bytes >= h->grow.reached * MM_SEGMENT_BYTES);
    published.open_bytes = h->ref.open_bytes;
    CHECK(memcmp(&h->ref, &published, sizeof published) == 0);
    CHECK(ref->user_base % MM_SEGMENT_BYTES == 0);
    const unsigned long long *tree = (const unsigned long long *)h->ref.free_tree;
    unsigned long long count = 0;
    for (unsigned long long i = 0; i < h->tree_leaves; i++) count += (unsigned long long)__builtin_popcountll(tree[h->ref.tree_roots + h->ref.tree_mids + i]);
    /* the memory around the image was zeroed (new memory of the stand-in is filled with garbage) */
    struct mm_layout l;
    CHECK(mm_layout_make(&l, h->segment_count, 256, ref->spacing_mask + 1) == 0);
    const char *base = (const char *)ref->heap, *end = (const char *)ref->owners + h->ref.open_bytes / MM_PAGE_BYTES;
    for (const char *at = base + l.image_bytes; at < end; at++) CHECK(*at == 0);
    for (const char *at = base - h->grow.reached * sizeof(struct mm_segment); at < base; at++) CHECK(*at == 0);
    if (count) { /* first and last byte of words and table, and the ends of the user memory, are mapped */
        volatile char *words = (char *)ref->words, *table = (char *)ref->words, *user = (char *)ref->user_base;
        words[0] = words[count * l.words_each - 1] = 1;
        table[-1] = *(table - count * l.table_each) = 1;
        user[0] = user[count * MM_SEGMENT_BYTES - 1] = 1;
    }
    return count;
}

int CLIENT_MAIN(int argc, char **argv);
int CLIENT_MAIN(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc < 3) return 2;
    way = argv[1];
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(libcuda);
    standin_get_function *get = NULL;
    *(void **)&get = dlsym(libcuda, "standin_get");
    CHECK(get);
    standin = get();
    find_functions();
    const struct scenario *lists[] = {client_scenarios,
                                      client_edge_scenarios,
                                      client_grow_scenarios,
                                      client_back_scenarios,
                                      client_jit_scenarios,
                                      client_link_scenarios,
                                      client_cubin_scenarios,
                                      client_fatbin_scenarios,
                                      client_own_scenarios,
                                      client_contexts_scenarios,
                                      client_report_scenarios,
                                      client_checked_scenarios,
                                      client_trace_scenarios,
                                      client_allocators_scenarios,
                                      client_pool_scenarios,
                                      client_pool_contexts_scenarios,
                                      client_pool_devices_scenarios,
                                      client_pool_captures_scenarios,
                                      client_pool_frees_scenarios,
                                      client_pool_footprint_scenarios,
                                      client_pool_output_scenarios};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct scenario *s = lists[i]; s->name; s++)
            if (strcmp(s->name, argv[2]) == 0) {
                s->run(argc - 3, argv + 3);
                return 0;
            }
    printf("no scenario %s\n", argv[2]);
    return 2;
}
