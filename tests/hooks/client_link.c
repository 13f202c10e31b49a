/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of PTX that is linked to machine code at load time: the linker's input and options, and the results that the program sees. */
#include "client.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "mmconfig.h"

#define TEXT ".version 9.0\n.target sm_90\n.address_size 64\n.extern .func (.param .b64 r) malloc (.param .b64 n);\n.visible .entry kernel() {\n ret;\n}\n"
#define PLAIN_TEXT ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry kernel() {\n ret;\n}\n"
#define VALUE(n) ((void *)(uintptr_t)(n))

/* Options of each kind. The last three are for a loader only; a linker refuses the one before them. */
enum { SIZE, INFO, ERROR_SIZE, ERROR, REGISTERS, CACHE, STRATEGY, NAMES, ADDRESSES, COUNT, OPTIONS };
struct options {
    CUjit_option options[OPTIONS];
    void *values[OPTIONS];
    char info[64], error[64];
};

static void set_options(struct options *o) {
    static const CUjit_option options[OPTIONS] = {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,     CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                                                  CU_JIT_ERROR_LOG_BUFFER,           CU_JIT_MAX_REGISTERS,       CU_JIT_CACHE_MODE,
                                                  CU_JIT_FALLBACK_STRATEGY,          CU_JIT_GLOBAL_SYMBOL_NAMES, CU_JIT_GLOBAL_SYMBOL_ADDRESSES,
                                                  CU_JIT_GLOBAL_SYMBOL_COUNT};
    void *values[OPTIONS] = {VALUE(sizeof o->info), o->info,       VALUE(sizeof o->error), o->error, VALUE(40), VALUE(CU_JIT_CACHE_OPTION_CA),
                             VALUE(CU_PREFER_PTX),  VALUE(0x1000), VALUE(0x2000),          VALUE(0)};
    memcpy(o->options, options, sizeof options);
    memcpy(o->values, values, sizeof values);
    strcpy(o->info, "info of before");
    strcpy(o->error, "error of before");
}

enum { LOG = 2 }; /* our additional options: a log, if the program has none */

/* Loads the text. Returns whether the driver got machine code, which has the allocator then. */
static bool load(const char *text, unsigned count, CUjit_option *options, void **values) {
    CUmodule module;
    CUfunction f;
    const long before = standin->launches_with_variable;
    OK(cu.cuModuleLoadDataEx(&module, text, count, options, values));
    OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    OK(client_launch(f, NULL));
    CHECK(standin->launches_with_variable == before + standin->last_is_linked && standin->launches_without_heap == 0);
    CHECK(standin->last_is_linked || standin->last_image == text);
    OK(cu.cuModuleUnload(module));
    return standin->last_is_linked;
}

static void link_options(int argc, char **argv) {
    (void)argc, (void)argv;
    struct options o;
    client_start();
    set_options(&o);
    CHECK(load(TEXT, OPTIONS, o.options, o.values) && standin->links == 0);
    CHECK(standin->link_options == STRATEGY && memcmp(standin->link_option, o.options, STRATEGY * sizeof *o.options) == 0);
    CHECK(standin->link_value == VALUE(sizeof o.info));
    CHECK(standin->last_options == 3 && standin->last_value == VALUE(0x1000));
    CHECK(strcmp(o.info, "info: linked") == 0 && o.values[SIZE] == VALUE(0x1234) && o.values[INFO] == o.info);
    CHECK(strcmp(o.error, "") == 0 && o.values[ERROR] == o.error && o.values[REGISTERS] == VALUE(40));
    /* a full log is not terminated */
    set_options(&o);
    o.values[SIZE] = VALUE(5);
    CHECK(load(TEXT, OPTIONS, o.options, o.values));
    CHECK(strcmp(o.info, "info:of before") == 0);
    /* no log, or one of unknown size */
    set_options(&o);
    o.values[INFO] = NULL;
    CHECK(load(TEXT, OPTIONS, o.options, o.values) && standin->link_options == STRATEGY - 1);
    set_options(&o);
    CHECK(load(TEXT, 1, o.options + INFO, o.values + INFO) && standin->link_options == LOG);
    CHECK(strcmp(o.info, "info of before") == 0);
    /* an option for LTO IR */
    set_options(&o);
    o.options[CACHE] = CU_JIT_LTO;
    CHECK(!load(TEXT, OPTIONS, o.options, o.values) && standin->last_options == OPTIONS);
    /* more symbol options than the three kinds */
    set_options(&o);
    o.options[CACHE] = CU_JIT_GLOBAL_SYMBOL_COUNT;
    CHECK(!load(TEXT, OPTIONS, o.options, o.values) && standin->last_options == OPTIONS);
}

/* One call of the link fails, or the image does not load: the program's text is loaded, with unchanged options. */
static void link_fails(int argc, char **argv) {
    (void)argc, (void)argv;
    static const char *const calls[] = {"cuCtxGetDevice",  "cuDeviceGetAttribute", "cuDeviceGetAttribute", "cuCtxGetCurrent",
                                        "cuLinkCreate_v2", "cuLinkAddData_v2",     "cuLinkAddData_v2",     "cuLinkComplete"};
    client_start();
    load(TEXT, 0, NULL, NULL); /* creates the heap, whose thread makes calls too */
    standin->only_here = gettid();
    for (int k = 1; k <= 11; k++) {
        struct options o;
        CUmodule module;
        set_options(&o);
        standin->refuse_ours = k == 10, standin->refuse_linked = k == 11;
        standin->calls = 0, standin->fail_at = k <= 8 ? k : 0, standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        OK(cu.cuModuleLoadDataEx(&module, TEXT, OPTIONS, o.options, o.values));
        standin->armed = false;
        CHECK(standin->links == 0 && standin->last_is_linked == (k == 9));
        OK(cu.cuModuleUnload(module));
        if (k == 9) continue; /* the linked image is a copy, even if cuLinkDestroy fails */
        if (k <= 8) CHECK(strcmp(standin->failed, calls[k - 1]) == 0);
        CHECK(strcmp(standin->last_text, TEXT) == 0 && standin->last_options == OPTIONS && standin->last_value == VALUE(sizeof o.info));
        CHECK(strcmp(o.info, "info of before") == 0 && strcmp(o.error, "error of before") == 0 && o.values[SIZE] == VALUE(0x1234));
    }
}

/* Symbol types that the linker leaves in some images. */
static void link_objects(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    for (int i = 1; i <= 6; i++) {
        standin->leaves_objects = i;
        CHECK(load(TEXT, 0, NULL, NULL) == (i == 1));
    }
}

static int active_contexts(void) {
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        unsigned flags;
        int active = 0;
        OK(cu.cuDevicePrimaryCtxGetState(i, &flags, &active));
        sum += active;
    }
    return sum;
}

/* A library is for all devices and needs no context; one is borrowed for the link. */
static void link_library(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext context = client_start();
    CUlibrary library;
    CUjit_option target = CU_JIT_TARGET;
    void *value = VALUE(CU_TARGET_COMPUTE_90);
#define LOAD(count) OK(cu.cuLibraryLoadData(&library, TEXT, &target, &value, count, NULL, NULL, 0))
    LOAD(0);
    CHECK(standin->last_is_linked && standin->link_options == LOG);
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuDevicePrimaryCtxRelease(0));               /* no context is left */
    for (int is_there = 0; is_there < 2; is_there++) { /* a context that ends with the link, or one that exists already */
        CUcontext primary, current = context;
        if (is_there) OK(cu.cuDevicePrimaryCtxRetain(&primary, 1));
        const int active = active_contexts();
        LOAD(0);
        CHECK(standin->last_is_linked && standin->link_options == LOG && standin->last_options == 0);
        LOAD(1);
        CHECK(standin->last_is_linked && standin->link_options == 1 + LOG && standin->link_value == VALUE(CU_TARGET_COMPUTE_90));
        OK(cu.cuCtxGetCurrent(&current));
        CHECK(!current && active_contexts() == active);
    }
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    /* devices of two kinds: an image for each */
    standin->arch[0] = 95;
    LOAD(0);
    CHECK(standin->last_is_linked && standin->last_arch_count == 2 && standin->last_archs[0] == 90 && standin->last_archs[1] == 95);
    LOAD(1); /* the program's target allows only one architecture */
    CHECK(!standin->last_is_linked && standin->last_options == 1);
    standin->arch[1] = 95;
    LOAD(0);
    CHECK(standin->last_is_linked && standin->last_arch_count == 0);
    standin->arch[1] = 139; /* mm has no code for it */
    OK(cu.cuCtxSetCurrent(context));
    LOAD(0);
    CHECK(!standin->last_is_linked);
    CHECK(load(TEXT, 0, NULL, NULL)); /* a module is for one device */
}

#define LIMITED TEXT "// .maxntid 1024, 1, 1\n"

/* A kernel with a register limit calls a function that needs more: the whole link gets a limit, unless the program has set one. */
static void link_limits(int argc, char **argv) {
    (void)argc, (void)argv;
    static const struct {
        unsigned most, registers;
        long tries;
    } cases[] = {{200, 128, 2}, {128, 128, 2}, {127, 64, 3}, {40, 32, 4}, {24, 24, 5}, {23, 24, 5}};
    CUjit_option option = CU_JIT_MAX_REGISTERS;
    void *value = VALUE(40);
    client_start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const long before = standin->link_creates;
        standin->most_registers = cases[i].most;
        CHECK(load(LIMITED, 0, NULL, NULL) == (cases[i].most >= 24));
        CHECK(standin->link_creates == before + cases[i].tries && standin->link_registers == cases[i].registers && standin->links == 0);
    }
    const long before = standin->link_creates;
    CHECK(!load(TEXT, 0, NULL, NULL) && standin->link_creates == before + 1); /* no kernel has a limit */
    CHECK(!load(LIMITED, 1, &option, &value) && standin->link_creates == before + 2);
    value = VALUE(40);
    standin->most_registers = 40;
    CHECK(load(LIMITED, 1, &option, &value) && standin->link_registers == 40);
}

/* Nothing is linked without need. */
static void link_never(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    client_start();
    standin->armed = true;
    OK(cu.cuModuleLoadData(&module, PLAIN_TEXT));
    CHECK(standin->calls == 1 && !standin->last_is_linked);
    if (!getenv("MM_OFF")) return;
    OK(cu.cuModuleLoadData(&module, TEXT));
    CHECK(standin->calls == 2 && !standin->last_is_linked);
}

static CUcontext shared;
static void *load_many(void *result) {
    OK(cu.cuCtxSetCurrent(shared));
    for (int i = 0; i < 50; i++) {
        struct options o;
        CUmodule module;
        CUfunction f;
        set_options(&o);
        OK(cu.cuModuleLoadDataEx(&module, TEXT, OPTIONS, o.options, o.values));
        CHECK(strcmp(o.info, "info: linked") == 0 && o.values[SIZE] == VALUE(0x1234));
        OK(cu.cuModuleGetFunction(&f, module, "kernel"));
        OK(client_launch(f, NULL));
        OK(cu.cuModuleUnload(module));
    }
    return result;
}

static void link_threads(int argc, char **argv) {
    (void)argc, (void)argv;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    shared = client_start();
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, load_many, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(standin->links == 0 && standin->launches_with_variable == THREADS * 50 && standin->launches_without_heap == 0);
}

const struct scenario client_link_scenarios[] = {
    {"link-options", link_options}, {"link-fails", link_fails},     {"link-objects", link_objects}, {"link-library", link_library},
    {"link-never", link_never},     {"link-threads", link_threads}, {"link-limits", link_limits},   {NULL, NULL},
};
