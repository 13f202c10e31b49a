/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of machine code built without mm, which is linked with mm's device library at load time; and of the program's own links. */
#include "client.h"

#include <stdint.h>
#include <unistd.h>

#include "mmconfig.h"
#include "tests/hooks/cubin.h"

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define REST ".visible .entry kernel() {\n ret;\n}\n"
#define TEXT(prefix) HEAD ".extern .func (.param .b64 r) " prefix "malloc (.param .b64 n);\n.extern .func " prefix "free (.param .b64 p);\n" REST

enum entry { DATA, DATA_EX, FATBIN, LOAD, LIBRARY_DATA, LIBRARY_FILE, ENTRIES };
#define IS_FILE(e) (e == LOAD || e == LIBRARY_FILE)
#define IS_LIBRARY(e) (e >= LIBRARY_DATA)
#define VALUE(n) ((void *)(uintptr_t)(n))

static struct cubin cubin;
static char path[] = "client-cubin-XXXXXX";

static void write_file(const void *data, size_t bytes) {
    strcpy(path, "client-cubin-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

/* Loads the image of `bytes`, with options where the call has them, and launches its kernel. Returns whether it had a heap. */
static bool load(enum entry e, const void *image, size_t bytes) {
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUkernel k = NULL;
    CUfunction f = NULL;
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_GLOBAL_SYMBOL_COUNT};
    void *values[] = {VALUE(0x4711), VALUE(0)};
    CUlibraryOption more = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *more_value = VALUE(1);
    const long before = standin->launches_with_variable, links = standin->links;
    if (IS_FILE(e)) write_file(image, bytes);
    switch (e) {
    case DATA: OK(cu.cuModuleLoadData(&module, image)); break;
    case DATA_EX: OK(cu.cuModuleLoadDataEx(&module, image, 2, options, values)); break;
    case FATBIN: OK(cu.cuModuleLoadFatBinary(&module, image)); break;
    case LOAD: OK(cu.cuModuleLoad(&module, path)); break;
    case LIBRARY_DATA: OK(cu.cuLibraryLoadData(&library, image, options, values, 2, &more, &more_value, 1)); break;
    default: OK(cu.cuLibraryLoadFromFile(&library, path, options, values, 2, NULL, NULL, 0));
    }
    if (IS_FILE(e)) unlink(path);
    if (e == DATA_EX || IS_LIBRARY(e)) { /* options of the linker and the loader, and values that the driver wrote */
        CHECK(standin->last_options == (standin->last_is_linked ? 1 : 2) && values[0] == VALUE(0x1234));
        if (standin->last_is_linked) CHECK(standin->link_value == VALUE(0x4711));
        else CHECK(standin->last_value == VALUE(0x4711));
    }
    CHECK(standin->last_is_linked || IS_FILE(e) || standin->last_image == image);
    if (e == LIBRARY_DATA) CHECK(standin->last_is_preserved == !standin->last_is_linked);
    if (library) OK(cu.cuLibraryGetKernel(&k, library, "kernel"));
    else OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    OK(client_launch(library ? (CUfunction)k : f, NULL));
    CHECK(standin->links == links && standin->launches_without_heap == 0);
    if (library) OK(cu.cuLibraryUnload(library));
    else OK(cu.cuModuleUnload(module));
    return standin->launches_with_variable > before;
}
static bool load_cubin(enum entry e) { return load(e, &cubin, sizeof cubin); }

/* Through every entry point; an image with nothing undefined, or that cannot be linked, is loaded unchanged. */
static void cubins(int argc, char **argv) {
    (void)argc, (void)argv;
    static const char *const services[] = {"malloc", "free", "__cuda_syscall_aligned_malloc", "mm_usable_size"};
    const bool is_off = getenv("MM_OFF") != NULL;
    struct cubin before;
    client_start();
    for (int e = 0; e < ENTRIES; e++) {
        for (int s = 0; s < 4; s++) {
            cubin_make(&cubin, services[s]);
            before = cubin;
            CHECK(load_cubin((enum entry)e) == !is_off && memcmp(&cubin, &before, sizeof cubin) == 0);
            if (is_off) continue;
            CHECK(standin->inputs == 2 && standin->inputs_with_mm == 1 && standin->last_input == CU_JIT_INPUT_CUBIN);
            CHECK(standin->linked_cubin_bytes == sizeof cubin);
        }
        cubin_make(&cubin, NULL);
        CHECK(!load_cubin((enum entry)e) && !standin->last_is_linked);
        cubin_make(&cubin, "mallocs");
        CHECK(!load_cubin((enum entry)e));
        cubin_make(&cubin, "malloc");
        cubin.head.e_type = ET_REL; /* for a device link */
        CHECK(!load_cubin((enum entry)e));
        cubin_make(&cubin, "malloc");
        cubin.head.e_type = CUBIN_EXTENSIBLE; /* of ptxas -ewp: linked unchanged */
        CHECK(load_cubin((enum entry)e) == !is_off);
    }
}

/* Damaged images are not linked, without a message. */
static void cubin_damaged(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    for (int i = 0; i < 5; i++) {
        const uint64_t outside = 1ull << 40;
        cubin_make(&cubin, "malloc");
        switch (i) {
        case 0: cubin.head.e_machine = EM_X86_64; break;
        case 1: cubin.head.e_ident[EI_CLASS] = ELFCLASS32; break;
        case 2: cubin.sections[2].sh_type = SHT_NOBITS; break; /* no symbol names */
        case 3: cubin.symbols[2].st_name = (Elf64_Word)outside - 1; break;
        default: memset(cubin.names, 'x', sizeof cubin.names);
        }
        CHECK(!load_cubin(DATA) && !standin->last_is_linked);
    }
}

/* The link fails, its result is wrong, or the driver refuses it (argv: which). The program's image is loaded unchanged. */
static void cubin_kept(int argc, char **argv) {
    const char *const how = argc ? argv[0] : "";
    CHECK(argc == 1);
    client_start();
    cubin_make(&cubin, "malloc");
    if (strcmp(how, "links") == 0) standin->refuse_links = true;
    else if (strcmp(how, "device") == 0) standin->refuse_ours = true;
    else if (strcmp(how, "changed") == 0) standin->leaves_objects = 7;
    else if (strcmp(how, "unfinished") == 0) standin->leaves_objects = 6;
    else if (strcmp(how, "refused") == 0) standin->refuse_linked = true;
    else CHECK(!"a case of that name");
    for (int e = 0; e < ENTRIES; e++) CHECK(!load_cubin((enum entry)e) && !standin->last_is_linked);
    standin->refuse_links = standin->refuse_ours = standin->refuse_linked = false, standin->leaves_objects = 1;
    CHECK(load_cubin(DATA)); /* not forever; and symbol types are corrected */
}

/* One call of the link fails. */
static void cubin_fails(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    cubin_make(&cubin, "malloc");
    load_cubin(DATA); /* creates the heap, whose thread makes calls too */
    standin->only_here = gettid();
    for (int k = 1; k <= 9; k++) {
        CUmodule module;
        standin->calls = 0, standin->fail_at = k <= 8 ? k : 0, standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        OK(cu.cuModuleLoadData(&module, &cubin));
        standin->armed = false;
        CHECK(standin->links == 0 && standin->last_is_linked == (k == 9));
        OK(cu.cuModuleUnload(module));
    }
}

/* An image of mmnvcc: nothing undefined, with the heap variable, marked as linked for the stand-in. */
static void make_built(void) {
    cubin_make(&cubin, NULL);
    memcpy(cubin.head.e_ident + EI_PAD, CUBIN_OF_LINK, EI_NIDENT - EI_PAD - 1);
    strcpy(cubin_name(&cubin, 3), MM_HEAP_REF_NAME);
}
static bool is_nothing_there(void) { return standin->reservations == 0 && standin->mappings == 0 && standin->registrations == 0; }

/* Loading code that allocates prepares the heap, so that the first launch has little left to do: next to a kernel that occupies the
 * device, its time goes into changes of page tables and synchronous copies. */
#define FIRST_LAUNCH_CALLS 20
#define FIRST_LAUNCH_BYTES 100000 /* the heap's image, not all metadata */
static void prepared(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CUfunction f;
    client_start();
    cubin_make(&cubin, "nothing");
    OK(cu.cuModuleLoadData(&module, &cubin));
    CHECK(is_nothing_there()); /* this code does not allocate */
    for (int is_built = 0; is_built < 2; is_built++) {
        if (is_built) make_built();
        else cubin_make(&cubin, "malloc");
        OK(cu.cuModuleLoadData(&module, &cubin));
        CHECK(standin->reservations == 2 && standin->mappings == 2 && standin->registrations == 1 && standin->creates == 2 + 5 * is_built);
        OK(cu.cuModuleLoadData(&module, &cubin)); /* prepared once per context */
        CHECK(standin->reservations == 2 && standin->registrations == 1);
        OK(cu.cuModuleGetFunction(&f, module, "kernel"));
        const unsigned long long copied = standin->copied_bytes;
        const int mappings = standin->mappings;
        standin->only_here = gettid();
        standin->calls = standin->fail_at = 0, standin->armed = true;
        OK(client_launch(f, NULL));
        standin->armed = false;
        CHECK(standin->launches_with_variable == 1 + is_built && standin->launches_without_heap == 0);
        CHECK(standin->mappings == mappings + 1 && standin->registrations == 1 && standin->copied_bytes - copied <= FIRST_LAUNCH_BYTES);
        if (standin->calls > FIRST_LAUNCH_CALLS) printf("a first launch makes %ld driver calls\n", standin->calls);
        CHECK(standin->calls <= FIRST_LAUNCH_CALLS);
        OK(cu.cuDevicePrimaryCtxReset(0));
        client_start();
        OK(cu.cuModuleLoadData(&module, &cubin)); /* prepared, not used */
        CHECK(standin->reservations == 2);
        OK(cu.cuDevicePrimaryCtxReset(0));
        CHECK(is_nothing_there());
        client_start();
    }
}

/* The heap that was prepared is of no use to an image of another allocator, which launches first: it gets one of its own. The prepared one stays for the
 * default, and nothing is left over. With MM_RUN_ALLOCATOR, which asks for another allocator, none is prepared. */
static void prepared_for_another(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CUfunction f;
    const int prepared_heaps = getenv("MM_RUN_ALLOCATOR") == NULL;
    client_start();
    make_built();
    OK(cu.cuModuleLoadData(&module, &cubin));
    CHECK(standin->reservations == 2 * prepared_heaps);
    OK(client_launch(client_kernel("other " MM_STR(MM_ABI_VERSION) "_random_walk_coop", NULL), NULL));
    CHECK(standin->launches_with_variable == 1 && standin->launches_without_heap == 0);
    CHECK(standin->reservations == 2 + 2 * prepared_heaps && standin->registrations == 1 + prepared_heaps);
    CHECK(standin->last_ref.word_shift == MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT);
    OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    OK(client_launch(f, NULL));
    CHECK(standin->launches_with_variable == 2 && standin->launches_without_heap == 0 && standin->reservations == 4 && standin->registrations == 2);
    CHECK(standin->last_ref.word_shift == MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT - 1);
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(is_nothing_there());
    client_start();
    OK(client_launch(client_kernel("other " MM_STR(MM_ABI_VERSION) "_random_walk_coop", NULL), NULL));
    CHECK(standin->reservations == 2);
    OK(cu.cuModuleLoadData(&module, &cubin)); /* after another allocator's heap */
    CHECK(standin->reservations == 2 + 2 * prepared_heaps);
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(is_nothing_there());
}

/* A library is loaded before a context exists: the first launch of another kernel in a context prepares the heap. */
static void prepared_later(int argc, char **argv) {
    (void)argc, (void)argv;
    CUlibrary library;
    CUkernel k;
    client_start();
    make_built();
    OK(cu.cuCtxSetCurrent(NULL));
    OK(cu.cuLibraryLoadData(&library, &cubin, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&k, library, "kernel"));
    client_start();
    CHECK(is_nothing_there());
    OK(client_launch(client_function("plain"), NULL));
    CHECK(standin->reservations == 2 && standin->registrations == 1 && standin->launches_with_variable == 0);
    const int mappings = standin->mappings;
    OK(client_launch((CUfunction)k, NULL));
    CHECK(standin->launches_with_variable == 1 && standin->launches_without_heap == 0 && standin->mappings == mappings + 1);
}

/* Whichever call fails while a heap is prepared: nothing is left over, nothing is printed, and the first launch creates the heap. */
static void prepared_fails(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    make_built();
    for (int k = 2;; k++) { /* the first call is the program's */
        CUmodule module;
        CUfunction f;
        standin->only_here = gettid();
        standin->calls = 0, standin->fail_at = k, standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->failed = NULL, standin->armed = true;
        OK(cu.cuModuleLoadData(&module, &cubin));
        standin->armed = false;
        CHECK((standin->reservations == 0) == is_nothing_there());
        const bool is_prepared = standin->reservations != 0;
        OK(cu.cuModuleGetFunction(&f, module, "kernel"));
        OK(client_launch(f, NULL));
        CHECK(standin->launches_with_variable == k - 1 && standin->launches_without_heap == 0 && standin->reservations == 2);
        OK(cu.cuDevicePrimaryCtxReset(0));
        CHECK(is_nothing_there());
        client_start();
        if (!standin->failed) {
            CHECK(is_prepared && k > 20);
            return;
        }
    }
}

/* The program's own links get no input of ours, only CUDA's names; the result is linked with mm when it is loaded. */
static void cubin_of_links(int argc, char **argv) {
    (void)argc, (void)argv;
    static const char *const texts[] = {TEXT(""), TEXT("mm_call_")};
    const bool is_off = getenv("MM_OFF") != NULL;
    client_start();
    for (int i = 0; i < 2; i++)
        for (int is_file = 0; is_file < 2; is_file++) {
            CUlinkState link;
            CUjit_option limit = CU_JIT_MAX_REGISTERS;
            void *value = VALUE(24), *image;
            size_t bytes;
            const long by_path = standin->loads_by_path;
            write_file(texts[i], strlen(texts[i]));
            OK(cu.cuLinkCreate(0, NULL, NULL, &link));
            if (is_file) OK(cu.cuLinkAddFile(link, CU_JIT_INPUT_PTX, path, 1, &limit, &value));
            else OK(cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)texts[i], strlen(texts[i]) + 1, "text", 1, &limit, &value));
            CHECK(standin->loads_by_path == by_path + (is_file && i == 0)); /* the driver reads a file that needs no change */
            unlink(path);
            CHECK(strcmp(standin->linked_text, texts[0]) == 0 && standin->inputs == 1);
            OK(cu.cuLinkComplete(link, &image, &bytes));
            CHECK(standin->inputs == 1 && standin->inputs_with_mm == 0);
            for (int e = 0; e < ENTRIES; e++) CHECK(load((enum entry)e, image, bytes) == !is_off);
            OK(cu.cuLinkDestroy(link));
        }
}

/* With MM_RUN_ALLOCATOR=cuda a text of mmnvcc gets CUDA's names; all else is unchanged. */
static void cudas(int argc, char **argv) {
    (void)argc, (void)argv;
    static const char counted[] = HEAD ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.visible .entry kernel() {\n"
                                       "{\ncall.uni (retval0), malloc, (param0);\nld.param.b64 %rd4, [retval0+0];\n}\nst.u64 [%rd4+-8], %rd2;\nret;\n}\n";
    static const char text[] = TEXT("mm_call_");
    CUmodule module;
    CUlinkState link;
    client_start();
    for (int e = 0; e < ENTRIES; e++) {
        cubin_make(&cubin, "malloc");
        CHECK(!load_cubin((enum entry)e) && standin->last_is_undefined);
    }
    OK(cu.cuModuleLoadData(&module, text));
    CHECK(strcmp(standin->last_text, TEXT("")) == 0);
    OK(cu.cuLinkCreate(0, NULL, NULL, &link));
    OK(cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)counted, sizeof counted, "text", 0, NULL, NULL));
    CHECK(strcmp(standin->linked_text, counted) == 0); /* keeps the count in front of an array */
    OK(cu.cuLinkDestroy(link));
    CHECK(standin->link_creates == 1); /* the program's */
}

/* Loads a file of machine code; argv: the file, and the output file for the linker's input. */
static void cubin_file(int argc, char **argv) {
    CHECK(argc == 2);
    CUmodule module;
    client_start();
    OK(cu.cuModuleLoad(&module, argv[0]));
    CHECK(standin->linked_cubin && standin->inputs == 2 && standin->inputs_with_mm == 1);
    FILE *f = fopen(argv[1], "wb");
    CHECK(f && fwrite(standin->linked_cubin, 1, standin->linked_cubin_bytes, f) == standin->linked_cubin_bytes && fclose(f) == 0);
}

const struct scenario client_cubin_scenarios[] = {
    {"cubins", cubins},
    {"cubin-damaged", cubin_damaged},
    {"cubin-kept", cubin_kept},
    {"cubin-fails", cubin_fails},
    {"prepared", prepared},
    {"prepared-later", prepared_later},
    {"prepared-for-another", prepared_for_another},
    {"prepared-fails", prepared_fails},
    {"cubin-links", cubin_of_links},
    {"cubin-file", cubin_file},
    {"cudas", cudas},
    {NULL, NULL},
};
