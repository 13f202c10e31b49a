/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of code loaded at run time, and the form in which the driver gets it. */
#include "client.h"

#include <stdint.h>
#include <unistd.h>

#include "mmconfig.h"

#define HEAD(target) "//\n/* made\n by hand */\n.version 9.0\n.target " target "\n.address_size 64\n"
#define MALLOC ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
#define FREE ".extern .func free (.param .b64 p);\n"
#define REST ".visible .entry kernel() {\n ret;\n}\n"
#define HEAP ".weak .const .align 16 .b8 " MM_HEAP_REF_NAME "[" MM_STR(MM_HEAP_REF_BYTES) "];\n"
#define DEFINED(name) ".weak .func (.param .b64 r) " name " (.param .b64 n) {\n ret;\n}\n"
#define WHOLE HEAD("sm_90") HEAP DEFINED("malloc") DEFINED("free") DEFINED("__cuda_syscall_aligned_malloc") DEFINED("mm_usable_size") REST

/* Texts that are changed, and texts that are not. */
static const char *const declaring[] = {HEAD("sm_90") MALLOC FREE REST,
                                        HEAD("sm_75, debug") FREE REST,
                                        HEAD("sm_90a") MALLOC REST,
                                        HEAD("sm_999") ".extern .func (.param .b64 r) __cuda_syscall_aligned_malloc (.param .b64 n, "
                                                       ".param .b64 a);\n" REST,
                                        ".version 8.7\n.target sm_120\n.address_size 64\n" MALLOC REST,
                                        ".version 8.7\n.target sm_119\n.address_size 64\n" MALLOC REST};
static const char *const others[] = {HEAD("sm_90") "// malloc\n.global .u64 malloc_count;\n" REST,
                                     WHOLE,
                                     ".version 9.0\n.target sm_90\n# .extern .func malloc",
                                     "plain",
                                     "",
                                     "\177ELF malloc that is no cubin at all, but long enough to look at its head, the whole head"};

enum entry { LOAD, DATA, DATA_EX, FATBIN, LIBRARY_DATA, LIBRARY_FILE, LINK_DATA, LINK_FILE, ENTRIES };
#define IS_FILE(e) (e == LOAD || e == LIBRARY_FILE || e == LINK_FILE)
#define IS_LINK(e) (e == LINK_DATA || e == LINK_FILE)

static char path[] = "client-jit-XXXXXX"; /* only one client uses it at a time */

static void write_file(const char *text) {
    strcpy(path, "client-jit-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

#define TRY(call) \
    if ((*r = (call)) != CUDA_SUCCESS) return unlink(path), NULL
/* Loads the text through one entry point. Returns its kernel, or NULL with the driver's result in *r. */
static CUfunction load(enum entry e, const char *text, CUresult *r) {
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUkernel k = NULL;
    CUfunction f = NULL;
    CUlinkState link;
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
    void *values[] = {(void *)(uintptr_t)0x4711, (void *)1}, *cubin;
    CUlibraryOption more[] = {CU_LIBRARY_BINARY_IS_PRESERVED, CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE};
    void *more_values[] = {(void *)1, (void *)8};
    size_t bytes;
    if (IS_FILE(e)) write_file(text);
    switch (e) {
    case LOAD: *r = cu.cuModuleLoad(&module, path); break;
    case DATA: *r = cu.cuModuleLoadData(&module, text); break;
    case DATA_EX: *r = cu.cuModuleLoadDataEx(&module, text, 2, options, values); break;
    case FATBIN: *r = cu.cuModuleLoadFatBinary(&module, text); break;
    case LIBRARY_DATA: *r = cu.cuLibraryLoadData(&library, text, options, values, 2, more, more_values, 2); break;
    case LIBRARY_FILE: *r = cu.cuLibraryLoadFromFile(&library, path, options, values, 2, more + 1, more_values + 1, 1); break;
    default:
        TRY(cu.cuLinkCreate(0, NULL, NULL, &link));
        *r = e == LINK_DATA ? cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1, "text", 0, NULL, NULL)
                            : cu.cuLinkAddFile(link, CU_JIT_INPUT_PTX, path, 0, NULL, NULL);
        TRY(*r);
        TRY(cu.cuLinkComplete(link, &cubin, &bytes));
        TRY(cu.cuModuleLoadData(&module, cubin));
        TRY(cu.cuLinkDestroy(link));
    }
    if (IS_FILE(e)) unlink(path);
    TRY(*r);
    if (!IS_LINK(e) && e != LOAD && e != DATA && e != FATBIN) {
        const bool is_linked = standin->last_is_linked;
        CHECK((is_linked ? standin->link_options == 4 : standin->last_options == 2) && standin->last_options == (is_linked ? 0 : 2));
        CHECK((is_linked ? standin->link_value : standin->last_value) == (void *)(uintptr_t)0x4711);
        CHECK(values[0] == (void *)(uintptr_t)0x1234); /* the program sees the value that the driver wrote */
    }
    if (module) TRY(cu.cuModuleGetFunction(&f, module, "kernel"));
    if (library) TRY(cu.cuLibraryGetKernel(&k, library, "kernel"));
    return library ? (CUfunction)k : f;
}

/* The count in front of an array (interpose/load/ptx/counts.h) is removed before the driver gets the text, in loads and in cuLinkAddData. */
static void check_counts(void) {
    static const char text[] = HEAD("sm_90") MALLOC ".visible .entry kernel() {\n{\ncall.uni (retval0), malloc, (param0);\n"
                                                    "ld.param.b64 %rd4, [retval0+0];\n}\nst.u64 [%rd4+-8], %rd2;\nst.u64 [%rd4], 7;\nret;\n}\n";
    CUlinkState link;
    CUresult r;
    for (int e = 0; e < ENTRIES; e++) {
        if (IS_LINK(e)) continue;
        load((enum entry)e, text, &r);
        OK(r);
        CHECK(strstr(standin->linked_text, "st.u64 [%rd4], 7;") && !strstr(standin->linked_text, "st.u64 [%rd4+-8], %rd2;"));
    }
    OK(cu.cuLinkCreate(0, NULL, NULL, &link));
    for (size_t zero = 0; zero < 2; zero++) {
        r = cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, sizeof text - 1 + zero, "text", 0, NULL, NULL);
        CHECK(r == (zero ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX)); /* the stand-in requires the zero to be counted, and gets the program's length */
        if (zero) CHECK(strstr(standin->linked_text, "st.u64 [%rd4], 7;") && !strstr(standin->linked_text, "st.u64 [%rd4+-8], %rd2;"));
    }
    OK(cu.cuLinkDestroy(link));
}

/* Through every entry point, as machine code. */
static void jit(int argc, char **argv) {
    CUresult r;
    long count = 0;
    (void)argc, (void)argv;
    client_start();
    for (int e = 0; e < ENTRIES; e++) {
        for (size_t i = 0; i < sizeof declaring / sizeof *declaring; i++) {
            const long by_path = standin->loads_by_path, loads = standin->loads;
            CUfunction f = load((enum entry)e, declaring[i], &r);
            OK(r);
            OK(client_launch(f, NULL));
            CHECK(standin->launches_with_variable == ++count && standin->launches_without_heap == 0);
            if (IS_LINK(e)) { /* the last link is ours: the program's image and the allocator */
                CHECK(standin->last_is_linked && standin->inputs == 2 && standin->inputs_with_mm == 1);
                CHECK(strcmp(standin->linked_text, declaring[i]) == 0 && standin->last_input == CU_JIT_INPUT_CUBIN && standin->links == 0);
                continue;
            }
            CHECK(standin->loads == loads + 1 && standin->loads_by_path == by_path && standin->last_image != declaring[i]);
            CHECK(standin->last_is_linked && standin->links == 0);
            if (e == LIBRARY_DATA || e == LIBRARY_FILE) /* our image is freed at once */
                CHECK(standin->last_library_options == 1 && !standin->last_is_preserved);
            CHECK(strcmp(standin->linked_text, declaring[i]) == 0 && standin->inputs == 2 && standin->inputs_with_mm == 1);
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            const long by_path = standin->loads_by_path, loads = standin->loads;
            if (IS_LINK(e) && i >= 2) break;
            CUfunction f = load((enum entry)e, others[i], &r);
            OK(r);
            OK(client_launch(f, NULL));
            if (others[i] == others[1]) count++;
            CHECK(standin->launches_with_variable == count);
            if (IS_LINK(e)) {
                CHECK(standin->inputs == 1);
                continue;
            }
            CHECK(standin->loads == loads + 1 && standin->loads_by_path == by_path + IS_FILE(e));
            if (!IS_FILE(e)) CHECK(standin->last_image == others[i]); /* not even a copy */
            if (e == LIBRARY_DATA) CHECK(standin->last_library_options == 2 && standin->last_is_preserved);
        }
    }
    check_counts();
}

/* Texts that cannot be taken over; argv: the reason. The driver gets the program's text through each entry point. */
static void jit_kept(int argc, char **argv) {
    static const struct {
        const char *name, *text;
        bool is_refused;
        int arch;
    } kept[] = {
        {"architecture", HEAD("sm_90") MALLOC REST, false, 139},
        {"refused", HEAD("sm_90") MALLOC REST, true, 0},
        {"off", HEAD("sm_90") MALLOC REST, false, 0},
    };
    CUresult r;
    CHECK(argc == 1);
    client_start();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strcmp(kept[i].name, argv[0]) != 0) continue;
        standin->refuse_linked = kept[i].is_refused;
        standin->arch[0] = standin->arch[1] = kept[i].arch;
        for (int e = 0; e < ENTRIES; e++) {
            CUfunction f = load((enum entry)e, kept[i].text, &r);
            OK(r);
            OK(client_launch(f, NULL));
            CHECK(standin->launches_with_variable == 0);
            if (!IS_LINK(e)) CHECK(strcmp(standin->last_text, kept[i].text) == 0 && (IS_FILE(e) || standin->last_image == kept[i].text));
        }
        return;
    }
    CHECK(!"a case of that name");
}

/* A text of mmnvcc calls the allocator by mm's names, which never reach the driver, however the text is loaded. argv: the suffix of its allocator. */
static void jit_names(int argc, char **argv) {
    const char *const suffix = argc ? argv[0] : "";
    static const char cudas[] = HEAD("sm_90") MALLOC FREE REST;
    static char mms[600], both[sizeof mms + sizeof MM_HEAP_REF_NAME + 4];
    const char *const asked = getenv("MM_RUN_ALLOCATOR");
    const bool is_off = getenv("MM_OFF") || (asked && strcmp(asked, "cuda") == 0);
    CUresult r;
    long launches = 0;
    snprintf(mms, sizeof mms,
             HEAD("sm_90") ".extern .func (.param .b64 r) mm_call%s_malloc (.param .b64 n);\n.extern .func mm_call%s_free (.param .b64 p);\n" REST, suffix,
             suffix);
    client_start();
    for (int e = 0; e < ENTRIES; e++)
        for (int round = 0; round < 3; round++) { /* linked; not linked; not loaded */
            if (IS_LINK(e) && round && !is_off) continue;
            standin->refuse_ours = round == 1, standin->refuse_linked = round == 2;
            CUfunction f = load((enum entry)e, mms, &r);
            OK(r);
            OK(client_launch(f, NULL));
            launches += !is_off && round == 0;
            CHECK(standin->launches_with_variable == launches);
            if (!is_off && round == 0) CHECK(standin->last_is_linked && strcmp(standin->linked_text, cudas) == 0);
            else if (!IS_LINK(e)) CHECK(strcmp(standin->last_text, cudas) == 0);
            else CHECK(strcmp(standin->linked_text, cudas) == 0);
        }
    /* the driver writes into an option and refuses the text with CUDA's names: the retry with the program's text has the original option */
    CUjit_option option = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
    void *value = (void *)(uintptr_t)0x4711;
    CUmodule module;
    snprintf(both, sizeof both, "%s// %s", mms, MM_HEAP_REF_NAME);
    standin->refuse_ours = standin->refuse_mm = true;
    CHECK(cu.cuModuleLoadDataEx(&module, both, 1, &option, &value) == CUDA_ERROR_INVALID_PTX);
    CHECK(strcmp(standin->last_text, both) == 0 && standin->last_value == (void *)(uintptr_t)0x4711);
}

/* The program gets the driver's own errors. */
static void jit_errors(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CUlibrary library;
    CUlinkState link;
    client_start();
    CHECK(cu.cuModuleLoad(&module, "/nonexistent") == CUDA_ERROR_FILE_NOT_FOUND);
    CHECK(cu.cuModuleLoad(&module, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
    CHECK(cu.cuLibraryLoadFromFile(&library, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0) == CUDA_ERROR_FILE_NOT_FOUND);
    CUlibraryOption preserved = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    write_file(declaring[0]);
    CHECK(cu.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, &preserved, &value, 1) == CUDA_ERROR_INVALID_VALUE);
    unlink(path);
    OK(cu.cuLinkCreate(0, NULL, NULL, &link));
    CHECK(cu.cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nonexistent", 0, NULL, NULL) == CUDA_ERROR_FILE_NOT_FOUND);
    OK(cu.cuLinkDestroy(link));
    CHECK(cu.cuLinkDestroy(link) == CUDA_ERROR_INVALID_HANDLE);
    /* if both the linked image and the program's text fail, the program gets the second error, and nothing is printed */
    enum { BEFORE = 9 }; /* calls for the link */
    for (int k = 1; k <= 2; k++) {
        standin->calls = 0, standin->fail_at = BEFORE + k, standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        standin->refuse_linked = k == 2;
        CHECK(cu.cuModuleLoadData(&module, declaring[0]) == (k == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS));
        standin->armed = false;
        if (k == 1) CHECK(strcmp(standin->last_text, declaring[0]) == 0);
    }
}

/* One driver call fails while texts are loaded through every entry point; argv: unused, number of the call, error. The program's
 * text is then loaded instead of ours. */
static void fault_jit(int argc, char **argv) {
    CUresult r;
    int failed = 0;
    CHECK(argc == 3);
    client_start();
    standin->fail_at = atol(argv[1]);
    standin->fail_code = atoi(argv[2]);
    standin->armed = true;
    for (int e = 0; e < ENTRIES; e++) {
        load((enum entry)e, declaring[0], &r);
        CHECK(r == CUDA_SUCCESS || (int)r == standin->fail_code);
        failed += r != CUDA_SUCCESS;
        if (r != CUDA_SUCCESS && !IS_LINK(e)) CHECK(!strstr(standin->failed, "Load"));
    }
    standin->armed = false;
    CHECK(failed <= 1);
    for (int e = 0; e < ENTRIES; e++) {
        const long before = standin->launches_with_variable;
        CUfunction f = load((enum entry)e, declaring[0], &r);
        OK(r);
        OK(client_launch(f, NULL));
        CHECK(standin->launches_with_variable == before + 1);
    }
    printf("%s all\n", standin->failed ? standin->failed : "-");
}

/* Loads an image by file name and from memory; argv: the file, and the output file for the text that was linked. */
static void jit_file(int argc, char **argv) {
    CHECK(argc == 2);
    static char text[1 << 20];
    CUmodule module;
    FILE *f = fopen(argv[0], "rb");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    client_start();
    OK(cu.cuModuleLoad(&module, argv[0]));
    OK(cu.cuModuleLoadData(&module, text));
    if (!standin->linked_text) return;
    f = fopen(argv[1], "wb");
    CHECK(f && fputs(standin->linked_text, f) >= 0 && fclose(f) == 0);
}

const struct scenario client_jit_scenarios[] = {
    {"jit", jit}, {"jit-kept", jit_kept}, {"jit-errors", jit_errors}, {"jit-names", jit_names}, {"jit-file", jit_file}, {"fault-jit", fault_jit}, {NULL, NULL},
};
