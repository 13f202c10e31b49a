/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of code that comes at run time: what the driver gets of it. */
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
#define SPLICED HEAD("sm_90") HEAP DEFINED("malloc") DEFINED("free") DEFINED("__cuda_syscall_aligned_malloc") DEFINED("mm_usable_size") REST

/* Those that become something else, and those that do not. The last two of the former are older PTX than some of what mm has for
 * older architectures; for the last it has nothing of its own. */
static char lowest_debug[] = HEAD("sm_75, debug") FREE REST;
static const char *const declaring[] = {HEAD("sm_90") MALLOC FREE REST, lowest_debug, HEAD("sm_90a") MALLOC REST,
                                        HEAD("sm_999") ".extern .func (.param .b64 r) __cuda_syscall_aligned_malloc (.param .b64 n, "
                                                       ".param .b64 a);\n" REST,
                                        ".version 8.7\n.target sm_120\n.address_size 64\n" MALLOC REST,
                                        ".version 8.7\n.target sm_119\n.address_size 64\n" MALLOC REST};
static const char *const others[] = {HEAD("sm_90") "// malloc\n.global .u64 malloc_count;\n" REST, SPLICED,
                                     ".version 9.0\n.target sm_90\n# .extern .func malloc", "plain", "",
                                     "\177ELF malloc that is no cubin at all, but long enough to look at its head, the whole head"};

enum entry { LOAD, DATA, DATA_EX, FATBIN, LIBRARY_DATA, LIBRARY_FILE, LINK_DATA, LINK_FILE, ENTRIES };
#define IS_FILE(e) (e == LOAD || e == LIBRARY_FILE || e == LINK_FILE)
#define IS_LINK(e) (e == LINK_DATA || e == LINK_FILE)

static char path[] = "client-jit-XXXXXX"; /* one client at a time has one */

static void write_file(const char *text) {
    strcpy(path, "client-jit-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

#define TRY(call) \
    if ((*r = (call)) != CUDA_SUCCESS) return unlink(path), NULL
/* Loads the text in one of the ways; its kernel, or NULL with the driver's answer in *r. */
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
        CHECK((is_linked ? standin->link_options : standin->last_options) == 2 && standin->last_options == (is_linked ? 0 : 2));
        CHECK((is_linked ? standin->link_value : standin->last_value) == (void *)(uintptr_t)0x4711);
        CHECK(values[0] == (void *)(uintptr_t)0x1234); /* what the driver wrote is for the program */
    }
    if (module) TRY(cu.cuModuleGetFunction(&f, module, "kernel"));
    if (library) TRY(cu.cuLibraryGetKernel(&k, library, "kernel"));
    return library ? (CUfunction)k : f;
}

static bool ends_with(const char *text, const char *end) {
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* The count in front of an array (interpose/load/ptx/counts.h) reaches the driver in none of the ways that have the text by address. */
static void check_counts(void) {
    static const char text[] = HEAD("sm_90") MALLOC ".visible .entry kernel() {\n{\ncall.uni (retval0), malloc, (param0);\n"
                                                    "ld.param.b64 %rd4, [retval0+0];\n}\nst.u64 [%rd4+-8], %rd2;\nst.u64 [%rd4], 7;\nret;\n}\n";
    CUlinkState link;
    CUresult r;
    for (int e = 0; e < ENTRIES; e++) {
        if (IS_LINK(e)) continue;
        load((enum entry)e, text, &r);
        OK(r);
        CHECK(strstr(standin->last_text, "st.u64 [%rd4], 7;") && !strstr(standin->last_text, "st.u64 [%rd4+-8], %rd2;"));
    }
    OK(cu.cuLinkCreate(0, NULL, NULL, &link));
    for (size_t zero = 0; zero < 2; zero++) {
        r = cu.cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, sizeof text - 1 + zero, "text", 0, NULL, NULL);
        CHECK(r == (zero ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX)); /* the stand-in wants the zero counted, and is told what was counted */
        if (zero) CHECK(strstr(standin->last_text, "st.u64 [%rd4], 7;") && !strstr(standin->last_text, "st.u64 [%rd4+-8], %rd2;"));
    }
    OK(cu.cuLinkDestroy(link));
}

/* By every way: as machine code, if the driver links, or else as text. */
static void jit_as(bool is_linked, long *launches) {
    CUresult r;
    client_for_lowest(lowest_debug);
    long count = *launches;
    standin->refuse_fatbin = !is_linked;
    for (int e = 0; e < ENTRIES; e++) {
        if (IS_LINK(e) && !is_linked) continue; /* what the program links is machine code when it is loaded */
        for (size_t i = 0; i < sizeof declaring / sizeof *declaring; i++) {
            const long by_path = standin->loads_by_path, loads = standin->loads;
            CUfunction f = load((enum entry)e, declaring[i], &r);
            OK(r);
            OK(client_launch(f, NULL));
            CHECK(standin->launches_with_variable == ++count && standin->launches_without_heap == 0);
            if (IS_LINK(e)) { /* the last link is ours: the program's image, and the allocator */
                CHECK(standin->last_is_linked && standin->inputs == 2 && standin->inputs_with_mm == 1);
                CHECK(strcmp(standin->linked_text, declaring[i]) == 0 && standin->last_input == CU_JIT_INPUT_FATBINARY && standin->links == 0);
                continue;
            }
            CHECK(standin->loads == loads + 1 && standin->loads_by_path == by_path && standin->last_image != declaring[i]);
            CHECK(standin->last_is_linked == is_linked && standin->links == 0);
            if (e == LIBRARY_DATA || e == LIBRARY_FILE) /* but ours goes at once */
                CHECK(standin->last_library_options == 1 && !standin->last_is_preserved);
            if (is_linked) {
                CHECK(strcmp(standin->linked_text, declaring[i]) == 0 && standin->inputs == 2 && standin->inputs_with_mm == 1);
                continue;
            }
            CHECK(strstr(standin->last_text, ".weak .func") && ends_with(standin->last_text, REST));
            CHECK(!strstr(standin->last_text, ".extern .func free") && !strstr(standin->last_text, MALLOC));
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
    *launches = count;
}

static void jit(int argc, char **argv) {
    (void)argc, (void)argv;
    long launches = 0;
    client_start();
    jit_as(false, &launches);
    check_counts();
    jit_as(true, &launches);
}

/* Why a text cannot be taken over; argv: which. Its own text reaches the driver, in each of the ways. */
static void jit_kept(int argc, char **argv) {
    static const struct {
        const char *name, *text;
        bool is_refused;
    } kept[] = {
        {"target", HEAD("sm_70") MALLOC REST, false},
        {"no-target", HEAD("90") MALLOC REST, false},
        {"version", ".version 6.0\n.target sm_90\n.address_size 64\n" MALLOC REST, false},
        {"garbage", HEAD("sm_90") MALLOC "garbage", false},
        {"own", HEAD("sm_90") FREE DEFINED("malloc") REST, false},
        {"refused", HEAD("sm_90") MALLOC REST, true},
        {"off", HEAD("sm_90") MALLOC REST, false},
    };
    CUresult r;
    CHECK(argc == 1);
    client_start();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strcmp(kept[i].name, argv[0]) != 0) continue;
        standin->refuse_mm = kept[i].is_refused;
        for (int e = 0; e < ENTRIES; e++) {
            if (IS_LINK(e) && i < 5) continue; /* machine code by then: what is wrong with a text is no matter */
            CUfunction f = load((enum entry)e, kept[i].text, &r);
            OK(r);
            OK(client_launch(f, NULL));
            CHECK(standin->launches_with_variable == 0);
            if (IS_LINK(e)) CHECK(standin->inputs == 1 && standin->inputs_with_mm == 0);
            else CHECK(strcmp(standin->last_text, kept[i].text) == 0 && (IS_FILE(e) || standin->last_image == kept[i].text));
        }
        return;
    }
    CHECK(!"a case of that name");
}

/* A text of mmnvcc's calls the allocator by mm's names, which the driver never sees, whatever becomes of it. */
static void jit_names(int argc, char **argv) {
    (void)argc, (void)argv;
    static const char cudas[] = HEAD("sm_90") MALLOC FREE REST;
    static const char mms[] = HEAD("sm_90") ".extern .func (.param .b64 r) mm_call_malloc (.param .b64 n);\n.extern .func mm_call_free (.param .b64 p);\n" REST;
    const bool is_off = getenv("MM_OFF") != NULL;
    CUresult r;
    long launches = 0;
    client_start();
    for (int e = 0; e < ENTRIES; e++)
        for (int round = 0; round < 3; round++) { /* linked; spliced; neither */
            if (IS_LINK(e) && round && !is_off) continue;
            standin->refuse_fatbin = round == 1, standin->refuse_mm = round == 2;
            CUfunction f = load((enum entry)e, mms, &r);
            OK(r);
            OK(client_launch(f, NULL));
            launches += !is_off && round < 2;
            CHECK(standin->launches_with_variable == launches);
            if (!is_off && round == 0) CHECK(standin->last_is_linked && strcmp(standin->linked_text, cudas) == 0);
            else if (!is_off && round == 1) CHECK(strstr(standin->last_text, ".weak .func") && ends_with(standin->last_text, REST));
            else if (!IS_LINK(e)) CHECK(strcmp(standin->last_text, cudas) == 0);
            else CHECK(strcmp(standin->linked_text, cudas) == 0);
        }
}

/* What the driver answers of itself is what the program gets. */
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
    standin->refuse_links = true;
    /* both the spliced text and the program's own fail: the second answer is the program's, and nothing is said; before them the link asks
     * for the context */
    for (int k = 1; k <= 2; k++) {
        standin->calls = 0, standin->fail_at = 1 + k, standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        standin->refuse_mm = k == 2;
        CHECK(cu.cuModuleLoadData(&module, declaring[0]) == (k == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS));
        standin->armed = false;
        if (k == 1) CHECK(strcmp(standin->last_text, declaring[0]) == 0);
    }
}

/* One driver call fails while texts come by every way; argv: nothing, which call, with what. A text that was ours goes in as the
 * program's then. */
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

/* The image in a file, by every way but links, as it is; argv: the file, and where to put what the driver got. */
static void jit_file(int argc, char **argv) {
    CHECK(argc == 2);
    static char text[1 << 20];
    CUmodule module;
    FILE *f = fopen(argv[0], "rb");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    client_start();
    standin->refuse_fatbin = true;
    OK(cu.cuModuleLoad(&module, argv[0]));
    OK(cu.cuModuleLoadData(&module, text));
    if (!standin->last_text) return;
    f = fopen(argv[1], "wb");
    CHECK(f && fputs(standin->last_text, f) >= 0 && fclose(f) == 0);
}

const struct scenario client_jit_scenarios[] = {
    {"jit", jit},           {"jit-kept", jit_kept},   {"jit-errors", jit_errors}, {"jit-names", jit_names},
    {"jit-file", jit_file}, {"fault-jit", fault_jit}, {NULL, NULL},
};
