/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of fat binaries of mmnvcc and of plain nvcc: which text or machine code in them is linked, and which are loaded unchanged. */
#include "client.h"

#include <stdint.h>
#include <unistd.h>

#include "mmconfig.h"
#include "tests/hooks/cubin.h"

#define HEAD ".version 9.0\n.target sm_75\n.address_size 64\n"
#define REST ".visible .entry kernel() {\n ret;\n}\n"
#define OURS HEAD ".extern .func (.param .b64 r) mm_call_malloc (.param .b64 n);\n" REST
#define OWN HEAD ".extern .func (.param .b64 r) malloc (.param .b64 n);\n" REST
#define NOTHING HEAD REST
#define MANAGED_TEXT(name) HEAD ".extern .func " name " (.param .b64 p);\n.visible .global .attribute(.managed) .u32 m;\n" REST
#define MANAGED MANAGED_TEXT("mm_call_free")
#define MANAGED_OWN MANAGED_TEXT("free")

enum { PTX = 1, ELF = 2, LTO = 8 };
enum { STORED = 0, LZ4 = 0x2000, ZSTD = 0x8000, EXACT = 0x100000, FAMILY = 0x1200000 };

static char container[32768];
static size_t used;
static struct {
    uint32_t magic, version;
    const void *container;
    void *more;
} wrapper;

static void put(const void *data, size_t bytes) {
    CHECK(used + bytes <= sizeof container);
    memcpy(container + used, data, bytes);
    used += bytes;
}
static void set_size(void) { memcpy(container + 8, &(uint64_t){used - 16}, 8); }

static void begin(void) {
    used = 0;
    put(&(uint32_t){0xba55ed50}, 4);
    put((uint16_t[]){1, 16}, 4);
    put(&(uint64_t){0}, 8);
    wrapper.magic = 0x466243b1, wrapper.version = 1, wrapper.container = container;
}

/* An LZ4 block of literals, or a zstd frame of one block; neither is smaller than the text. */
static size_t pack(char *to, unsigned flags, const void *text, size_t bytes) {
    size_t n = 0;
    if (flags & LZ4) {
        to[n++] = (char)0xf0;
        size_t left = bytes - 15;
        for (; left >= 255; left -= 255) to[n++] = (char)255;
        to[n++] = (char)left;
    } else {
        static const unsigned char head[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0}; /* the size follows, in four bytes */
        memcpy(to, head, sizeof head);
        memcpy(to + sizeof head, &(uint32_t){(uint32_t)bytes}, 4);
        memcpy(to + sizeof head + 4, &(uint32_t){(uint32_t)bytes << 3 | 1}, 3);
        n = sizeof head + 7;
    }
    memcpy(to + n, text, bytes);
    return n + bytes;
}

static void add_bytes(unsigned kind, unsigned arch, unsigned flags, const void *payload, size_t bytes) {
    static char packed[8192];
    const bool is_packed = flags & (LZ4 | ZSTD);
    const size_t stored = is_packed ? pack(packed, flags, payload, bytes) : bytes, padded = (stored + 7) & ~(size_t)7;
    unsigned char header[64] = {(unsigned char)kind, 0, 1, 1, sizeof header};
    memcpy(header + 8, &(uint64_t){padded}, 8);
    if (is_packed) memcpy(header + 16, &(uint32_t){(uint32_t)stored}, 4);
    memcpy(header + 28, &arch, 4);
    memcpy(header + 40, &(uint64_t){flags | 0x11}, 8);
    if (is_packed) memcpy(header + 56, &(uint64_t){bytes}, 8);
    put(header, sizeof header);
    put(is_packed ? packed : payload, stored);
    put("\0\0\0\0\0\0\0", padded - stored);
    set_size();
}

static void add(unsigned kind, unsigned arch, unsigned flags, const char *text) { add_bytes(kind, arch, flags, text, strlen(text)); }

/* What the driver got: the image unchanged; the text linked with the allocator; or the text with CUDA's names. */
enum outcome { AS_IT_IS, LINKED, NAMED };

/* Loads the container, as a library, and launches its kernel. */
static enum outcome load(void) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    CUlibrary library;
    CUkernel k;
    const long before = standin->launches_with_variable;
    OK(cu.cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, &option, &value, 1));
    const char *const text = standin->last_is_linked ? standin->linked_text : standin->last_text;
    const enum outcome outcome = standin->last_image == &wrapper ? AS_IT_IS : standin->last_is_linked ? LINKED : NAMED;
    CHECK(standin->last_is_preserved == (outcome == AS_IT_IS) && standin->links == 0);
    if (outcome != AS_IT_IS) CHECK(strcmp(text, OWN) == 0 || strcmp(text, MANAGED_OWN) == 0);
    OK(cu.cuLibraryGetKernel(&k, library, "kernel"));
    OK(client_launch((CUfunction)k, NULL));
    CHECK(standin->launches_with_variable == before + (outcome == LINKED));
    OK(cu.cuLibraryUnload(library));
    return outcome;
}

/* Loads two images, the second of which can be linked. Returns whether it was. */
static bool try_two(unsigned kind, unsigned arch, unsigned flags, const char *text) {
    begin();
    add(kind, arch, flags, text);
    add(PTX, 75, STORED, OURS);
    const enum outcome outcome = load();
    CHECK(outcome == LINKED || outcome == AS_IT_IS);
    return outcome == LINKED;
}

static void fatbin(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    const bool is_off = getenv("MM_OFF") != NULL;
    client_start();
    static const unsigned packings[] = {STORED, LZ4, ZSTD};
    for (int i = 0; i < 3; i++) {
        begin();
        add(PTX, 75, packings[i], OURS);
        CHECK(load() == (is_off ? NAMED : LINKED));
        begin();
        add(PTX, 75, packings[i], OWN); /* of a plain nvcc */
        CHECK(load() == (is_off ? AS_IT_IS : LINKED));
    }
    if (is_off) return;
    /* as a module */
    standin->last_is_linked = false;
    OK(cu.cuModuleLoadFatBinary(&module, &wrapper));
    CHECK(standin->last_is_linked);
    /* as a file, whole or not */
    for (size_t missing = 0; missing < 2; missing++) {
        char path[] = "client-fatbin-XXXXXX";
        const int fd = mkstemp(path);
        begin();
        add(PTX, 75, STORED, OURS);
        set_size();
        CHECK(fd >= 0 && write(fd, container, used - missing) == (ssize_t)(used - missing));
        close(fd);
        standin->last_is_linked = false;
        OK(cu.cuModuleLoad(&module, path));
        CHECK(standin->last_is_linked == !missing);
        unlink(path);
    }
    /* machine code for the device, sm_90, or not */
    CHECK(!try_two(ELF, 90, STORED, "elf") && !try_two(ELF, 90, EXACT, "elf") && !try_two(ELF, 90, FAMILY, "elf"));
    CHECK(try_two(ELF, 75, STORED, "elf") && try_two(ELF, 89, STORED, "elf") && try_two(ELF, 100, STORED, "elf") && try_two(LTO, 90, STORED, "lto"));
    standin->arch[0] = standin->arch[1] = 95; /* mm's code for sm_90 serves */
    CHECK(!try_two(ELF, 94, STORED, "elf") && !try_two(ELF, 92, FAMILY, "elf") && try_two(ELF, 94, EXACT, "elf") && try_two(ELF, 98, STORED, "elf"));
    /* machine code must not be used */
    setenv("CUDA_FORCE_PTX_JIT", "1", 1);
    CHECK(try_two(ELF, 95, STORED, "elf"));
    setenv("CUDA_FORCE_PTX_JIT", "0", 1);
    CHECK(!try_two(ELF, 95, STORED, "elf"));
    unsetenv("CUDA_FORCE_PTX_JIT");
    /* the newest text for the device */
    CHECK(try_two(PTX, 98, STORED, NOTHING) && try_two(PTX, 70, STORED, NOTHING) && !try_two(PTX, 80, STORED, NOTHING));
    CHECK(try_two(PTX, 80, EXACT, NOTHING));
    /* devices of two kinds, with one library */
    begin();
    add(PTX, 75, STORED, OURS);
    standin->arch[1] = 92;
    CHECK(load() == LINKED && standin->last_arch_count == 2 && standin->last_archs[0] == 92 && standin->last_archs[1] == 95);
    standin->arch[1] = 139; /* mm has no code for it */
    CHECK(load() == NAMED);
    standin->arch[1] = 95;
    CHECK(load() == LINKED && standin->last_arch_count == 0);
    /* the driver does not link the text, or refuses the linked image: the result has no mm in it */
    standin->refuse_links = true;
    CHECK(load() == NAMED);
    standin->refuse_links = false, standin->refuse_linked = true;
    CHECK(load() == NAMED);
    standin->refuse_linked = false;
    begin();
    add(PTX, 75, STORED, MANAGED);
    CHECK(load() == LINKED);
    /* incomplete or unknown formats */
    for (int i = 0; i < 9; i++) {
        const uint64_t outside = 1ull << 40;
        const void *prelinked[] = {container, NULL};
        begin();
        add(PTX, 75, i == 3 || i == 4 || i == 5 ? LZ4 : i == 6 ? ZSTD : STORED, OURS);
        switch (i) {
        case 0: memcpy(container + 16 + 8, &outside, 8); break;       /* the entry's bytes */
        case 1: memset(container + 16 + 4, 0xff, 4); break;           /* its header's bytes */
        case 2: memset(container + 16 + 4, 0, 12); break;             /* both zero */
        case 3: memcpy(container + 16 + 8, &(uint64_t){8}, 8); break; /* fewer bytes than the packed text */
        case 4: memcpy(container + 16 + 56, &outside, 8); break;
        case 5: memset(container + 16 + 64, 0x1f, 64); break; /* a match before any output */
        case 6: memset(container + 16 + 64, 0, 16); break;
        case 7: wrapper.version = 2, wrapper.more = prelinked; break; /* of a device link */
        case 8: container[0] = 0; break;
        }
        CHECK(load() == AS_IT_IS);
    }
}

/* ---- machine code ------------------------------------------------------------------------------------- */

static struct cubin code;

/* Adds machine code with an undefined allocation function (NULL: none), identified by `mark`. */
static void add_code(unsigned arch, unsigned flags, const char *service, char mark) {
    cubin_make(&code, service);
    code.text[0] = mark;
    add_bytes(ELF, arch, flags, &code, sizeof code);
}

/* Loads the container and launches its kernel. Returns the mark of the linked image, or 0 if the driver got the container. */
static char load_code(void) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    CUlibrary library;
    CUkernel k;
    const long before = standin->launches_with_variable;
    OK(cu.cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, &option, &value, 1));
    const bool is_linked = standin->last_is_linked;
    CHECK(standin->last_is_preserved == !is_linked && (is_linked || standin->last_image == &wrapper));
    OK(cu.cuLibraryGetKernel(&k, library, "kernel"));
    OK(client_launch((CUfunction)k, NULL));
    CHECK(standin->launches_with_variable == before + is_linked && standin->links == 0);
    OK(cu.cuLibraryUnload(library));
    if (!is_linked) return 0;
    CHECK(standin->linked_cubin_bytes >= sizeof code);
    return ((const struct cubin *)standin->linked_cubin)->text[0];
}

/* Loads two images of plain nvcc, in both orders. Returns the mark of the linked one. */
static char load_two(unsigned arch, unsigned flags, const char *service, unsigned arch2, unsigned flags2, const char *service2) {
    char marks[2];
    for (int i = 0; i < 2; i++) {
        begin();
        if (i == 1) add_code(arch2, flags2, service2, '2');
        add_code(arch, flags, service, '1');
        if (i == 0) add_code(arch2, flags2, service2, '2');
        marks[i] = load_code();
    }
    CHECK(marks[0] == marks[1]);
    return marks[0];
}

static void fatbin_code(int argc, char **argv) {
    (void)argc, (void)argv;
    static const unsigned packings[] = {STORED, LZ4, ZSTD};
    const bool is_off = getenv("MM_OFF") != NULL;
    CUmodule module;
    client_start();
    for (int i = 0; i < 3; i++) {
        begin();
        add_code(90, packings[i], "malloc", 'm');
        add(PTX, 90, STORED, OWN); /* not taken */
        CHECK(load_code() == (is_off ? 0 : 'm'));
    }
    if (is_off) return;
    standin->last_is_linked = false;
    OK(cu.cuModuleLoadFatBinary(&module, &wrapper));
    CHECK(standin->last_is_linked);
    OK(cu.cuModuleLoadData(&module, container));
    CHECK(standin->last_is_linked);
    /* the driver chooses the newest image that the device can run; sm_90 here */
    CHECK(load_two(90, 0, NULL, 80, 0, "malloc") == 0 && load_two(90, 0, "free", 100, 0, "malloc") == '1');
    CHECK(load_two(90, EXACT, "free", 89, 0, "malloc") == '1' && load_two(90, EXACT, "free", 90, 0, "malloc") == '1');
    standin->arch[0] = standin->arch[1] = 95;
    CHECK(load_two(92, 0, "malloc", 94, 0, "malloc") == '2' && load_two(92, 0, "malloc", 94, EXACT, "malloc") == '1');
    CHECK(load_two(92, 0, "malloc", 94, 0, NULL) == 0 && load_two(85, 0, "malloc", 98, 0, "malloc") == 0);
    /* of a device link */
    const void *prelinked[] = {container, NULL};
    begin();
    add_code(95, 0, "malloc", 'd');
    wrapper.version = 2, wrapper.more = prelinked;
    CHECK(load_code() == 'd');
    /* an image cut off inside the container is not read past its end */
    begin();
    add_bytes(ELF, 95, 0, &code, sizeof code - sizeof(Elf64_Shdr));
    CHECK(load_code() == 0);
    /* devices of two kinds */
    begin();
    add_code(92, 0, "malloc", 'k');
    CHECK(load_code() == 'k' && standin->last_arch_count == 0);
    standin->arch[0] = 98;
    CHECK(load_code() == 'k' && standin->last_arch_count == 2 && standin->last_archs[0] == 95 && standin->last_archs[1] == 98);
    add_code(97, 0, "malloc", 'l'); /* the newer device takes another image */
    CHECK(load_code() == 'l' && standin->last_arch_count == 2);
    standin->arch[0] = 90; /* and one device takes none */
    CHECK(load_code() == 'k' && standin->last_arch_count == 1 && standin->last_archs[0] == 95);
    standin->arch[0] = 98;
    begin();
    add_code(92, 0, "malloc", 'k');
    add_code(97, 0, NULL, 'l'); /* one has nothing undefined */
    CHECK(load_code() == 0);
    standin->arch[0] = 139;
    begin();
    add_code(92, 0, "malloc", 'k');
    CHECK(load_code() == 'k' && standin->last_arch_count == 1);
}

/* Adds machine code with mm in it, as mmnvcc builds it. */
static void add_ours(unsigned arch) {
    cubin_make(&code, NULL);
    memcpy(code.head.e_ident + EI_PAD, CUBIN_OF_LINK, EI_NIDENT - EI_PAD - 1);
    strcpy(cubin_name(&code, 3), MM_HEAP_REF_NAME);
    add_bytes(ELF, arch, 0, &code, sizeof code);
}

/* With MM_RUN_ALLOCATOR=cuda the text replaces machine code with mm, if it is mmnvcc's and for this device. */
static void fatbin_cudas(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CHECK(argc == 0);
    client_start();
    for (int is_first = 0; is_first < 2; is_first++) {
        begin();
        if (is_first) add_ours(90);
        add(PTX, 75, LZ4, OURS);
        if (!is_first) add_ours(90);
        CHECK(load() == NAMED);
        OK(cu.cuModuleLoadData(&module, container));
        CHECK(strcmp(standin->last_text, OWN) == 0);
    }
    begin();
    add(PTX, 75, STORED, OWN); /* of a plain nvcc */
    CHECK(load() == AS_IT_IS);
    begin();
    add_code(90, 0, "malloc", 'm');
    add(PTX, 75, STORED, OURS);
    CHECK(load() == AS_IT_IS);
    standin->arch[1] = 95; /* one text serves several architectures */
    begin();
    add_ours(90);
    add(PTX, 75, STORED, OURS);
    CHECK(load() == NAMED);
    standin->arch[1] = 0;
    for (int is_plain = 0; is_plain < 3; is_plain++) { /* no text, or none of mmnvcc, or none for this device */
        begin();
        add_ours(90);
        if (is_plain) add(PTX, is_plain == 1 ? 75 : 100, STORED, is_plain == 1 ? NOTHING : OURS);
        CHECK(load() == AS_IT_IS);
    }
    CHECK(standin->link_creates == 0);
}

/* Loads a file of one container, as nvcc -fatbin writes it; argv: the file, and the output file for the linked text. */
static void fatbin_file(int argc, char **argv) {
    static char text[1 << 21];
    CUlibrary library;
    CHECK(argc == 2);
    FILE *f = fopen(argv[0], "rb");
    CHECK(f && fread(text, 1, sizeof text, f) > 0);
    fclose(f);
    client_start();
    wrapper.magic = 0x466243b1, wrapper.version = 1, wrapper.container = text;
    OK(cu.cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(standin->last_is_linked);
    f = fopen(argv[1], "wb");
    CHECK(f && fputs(standin->linked_text, f) >= 0 && fclose(f) == 0);
}

const struct scenario client_fatbin_scenarios[] = {
    {"fatbin", fatbin}, {"fatbin-code", fatbin_code}, {"fatbin-file", fatbin_file}, {"fatbin-cudas", fatbin_cudas}, {NULL, NULL}};
