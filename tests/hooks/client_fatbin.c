/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of fat binaries as mmnvcc makes them: which text in them is linked, and which are loaded as they are. */
#include "client.h"

#include <stdint.h>

#include "mmconfig.h"

#define HEAD ".version 9.0\n.target sm_75\n.address_size 64\n"
#define HEAP ".weak .const .align 16 .b8 " MM_HEAP_REF_NAME "[" MM_STR(MM_HEAP_REF_BYTES) "];\n"
#define DEFINED(name) ".weak .func (.param .b64 r) " name " (.param .b64 n) {\n ret;\n}\n"
#define REST ".visible .entry kernel() {\n ret;\n}\n"
#define SPLICED HEAD HEAP DEFINED("malloc") DEFINED("free") DEFINED("__cuda_syscall_aligned_malloc") DEFINED("mm_usable_size") REST
#define NOT_SPLICED HEAD ".extern .func free (.param .b64 p);\n" REST
#define MANAGED HEAD HEAP DEFINED("malloc") ".visible .global .attribute(.managed) .u32 m;\n" REST

enum { PTX = 1, ELF = 2, LTO = 8 };
enum { STORED = 0, LZ4 = 0x2000, ZSTD = 0x8000, EXACT = 0x100000, FAMILY = 0x1200000 };

static char container[16384];
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

/* An LZ4 block of literals, or a zstd frame of one block, neither of them smaller than the text. */
static size_t pack(char *to, unsigned flags, const char *text, size_t bytes) {
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

static void add(unsigned kind, unsigned arch, unsigned flags, const char *text) {
    static char packed[8192];
    const size_t bytes = strlen(text);
    const bool is_packed = flags & (LZ4 | ZSTD);
    const size_t stored = is_packed ? pack(packed, flags, text, bytes) : bytes, padded = (stored + 7) & ~(size_t)7;
    unsigned char header[64] = {(unsigned char)kind, 0, 1, 1, sizeof header};
    memcpy(header + 8, &(uint64_t){padded}, 8);
    if (is_packed) memcpy(header + 16, &(uint32_t){(uint32_t)stored}, 4);
    memcpy(header + 28, &arch, 4);
    memcpy(header + 40, &(uint64_t){flags | 0x11}, 8);
    if (is_packed) memcpy(header + 56, &(uint64_t){bytes}, 8);
    put(header, sizeof header);
    put(is_packed ? packed : text, stored);
    put("\0\0\0\0\0\0\0", padded - stored);
    set_size();
}

/* As cudart loads it. Returns whether it was linked; if not, it came as it is. */
static bool load(void) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    CUlibrary library;
    CUkernel k;
    const long before = standin->launches_with_variable;
    OK(cu.cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, &option, &value, 1));
    CHECK(standin->last_is_linked || standin->last_image == &wrapper);
    CHECK(standin->last_is_preserved == !standin->last_is_linked && standin->links == 0);
    if (standin->last_is_linked) {
        CHECK(strstr(standin->linked_text, ".extern .func (.param .b64 r) malloc") && !strstr(standin->linked_text, ".weak"));
        CHECK(strcmp(standin->linked_text + strlen(standin->linked_text) - strlen(REST), REST) == 0);
    }
    OK(cu.cuLibraryGetKernel(&k, library, "kernel"));
    OK(client_launch((CUfunction)k, NULL));
    CHECK(standin->launches_with_variable == before + 1);
    OK(cu.cuLibraryUnload(library));
    return standin->last_is_linked;
}

static bool try_two(unsigned kind, unsigned arch, unsigned flags, const char *text) {
    begin();
    add(kind, arch, flags, text);
    add(PTX, 75, STORED, SPLICED);
    return load();
}

static void fatbin(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    const bool is_off = getenv("MM_OFF") != NULL;
    client_start();
    static const unsigned packings[] = {STORED, LZ4, ZSTD};
    for (int i = 0; i < 3; i++) {
        begin();
        add(PTX, 75, packings[i], SPLICED);
        CHECK(load() == (!is_off && (packings[i] != ZSTD || dlopen("libzstd.so.1", RTLD_LAZY))));
    }
    if (is_off) return;
    /* as a module */
    standin->last_is_linked = false;
    OK(cu.cuModuleLoadFatBinary(&module, &wrapper));
    CHECK(standin->last_is_linked);
    /* machine code for the device, sm_90, or not */
    CHECK(!try_two(ELF, 90, STORED, "elf") && !try_two(ELF, 90, EXACT, "elf") && !try_two(ELF, 90, FAMILY, "elf"));
    CHECK(try_two(ELF, 75, STORED, "elf") && try_two(ELF, 89, STORED, "elf") && try_two(ELF, 100, STORED, "elf") && try_two(LTO, 90, STORED, "lto"));
    standin->arch[0] = standin->arch[1] = 89;
    CHECK(!try_two(ELF, 86, STORED, "elf") && !try_two(ELF, 80, FAMILY, "elf") && try_two(ELF, 86, EXACT, "elf") && try_two(ELF, 90, STORED, "elf"));
    /* the newest text for the device */
    CHECK(try_two(PTX, 90, STORED, NOT_SPLICED) && try_two(PTX, 70, STORED, NOT_SPLICED) && !try_two(PTX, 80, STORED, NOT_SPLICED));
    CHECK(try_two(PTX, 80, EXACT, NOT_SPLICED));
    /* devices of two kinds, with one library */
    begin();
    add(PTX, 75, STORED, SPLICED);
    standin->arch[1] = 75;
    CHECK(!load());
    standin->arch[1] = 89;
    CHECK(load());
    /* the driver does not link it, or not load what comes of that */
    standin->refuse_links = true;
    CHECK(!load());
    standin->refuse_links = false, standin->refuse_linked = true;
    CHECK(!load());
    standin->refuse_linked = false;
    begin();
    add(PTX, 75, STORED, MANAGED);
    CHECK(!load());
    /* what is not whole, or not understood */
    for (int i = 0; i < 9; i++) {
        const uint64_t outside = 1ull << 40;
        begin();
        add(PTX, 75, i == 3 || i == 4 || i == 5 ? LZ4 : i == 6 ? ZSTD : STORED, SPLICED);
        switch (i) {
        case 0: memcpy(container + 16 + 8, &outside, 8); break; /* the entry's bytes */
        case 1: memset(container + 16 + 4, 0xff, 4); break;     /* its header's */
        case 2: memset(container + 16 + 4, 0, 12); break; /* neither has any */
        case 3: memcpy(container + 16 + 8, &(uint64_t){8}, 8); break; /* fewer than are packed */
        case 4: memcpy(container + 16 + 56, &outside, 8); break;
        case 5: memset(container + 16 + 64, 0x1f, 64); break; /* nothing there to copy yet */
        case 6: memset(container + 16 + 64, 0, 16); break;
        case 7: wrapper.version = 2; break;
        case 8: container[0] = 0; break;
        }
        CHECK(!load());
    }
}

/* A file of one container, as nvcc -fatbin writes it; argv: the file, and where to put the text that was linked. */
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

const struct scenario client_fatbin_scenarios[] = {{"fatbin", fatbin}, {"fatbin-file", fatbin_file}, {NULL, NULL}};
