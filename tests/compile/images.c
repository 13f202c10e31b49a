/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* images [-k] PROGRAM: prints one line for each device image that PROGRAM (executable, shared library or object) would
 * load: those in section .nv_fatbin. PROGRAM may also be a container, a cubin or PTX itself.
 *
 *     elf sm_90 undefined=malloc,free heap=0
 *     ptx sm_90 undefined= heap=1
 *
 * Images without functions are left out. undefined: the services of device-side allocation that are left to the driver. heap: the number of heap
 * variables of any version; for PTX it is also 1 if the PTX calls services by names that only mm has.
 * With -k it prints instead one line for each function in machine code: registers, bytes of static shared memory, hashes of its code and
 * of its constant bank of parameters, and, for a kernel, bytes of stack including its callees (-1: not known):
 *
 *     sm_90 kernel registers=32 shared=128 text=0123456789abcdef parameters=0123456789abcdef stack=984
 *
 * Compile with -Xfatbin -compress=false. A container is a header (magic, version, header size, size), followed by
 * entries (kind, version, header size, size, ..., architecture at byte 28).
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/compile/shim.h"
#include "interpose/load/ptx/module.h"
#include "interpose/load/ptx/names.h"

enum { KIND_PTX = 1, KIND_ELF = 2, FATBIN_MAGIC = (int)0xBA55ED50 };

static void die(const char *what) {
    fprintf(stderr, "images: %s\n", what);
    exit(2);
}

static void note_undefined(char *list, const char *name) {
    static const char *const services[] = {"malloc", "free", "__cuda_syscall_aligned_malloc", "mm_usable_size"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, services[i]) == 0) {
            if (*list) strcat(list, ",");
            strcat(list, name);
        }
}

/* Returns the number of functions. The image of a device link that had nothing to link has none. */
static int read_cubin(const char *elf, char *undefined, int *heaps) {
    int functions = 0;
    Elf64_Ehdr head;
    Elf64_Shdr table, strings;
    Elf64_Sym symbol;
    if (memcmp(elf, ELFMAG, SELFMAG) != 0) die("an image is compressed; compile with -Xfatbin -compress=false");
    memcpy(&head, elf, sizeof head);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&table, elf + head.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_SYMTAB) continue;
        memcpy(&strings, elf + head.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        for (size_t s = 0; s < table.sh_size; s += sizeof symbol) {
            memcpy(&symbol, elf + table.sh_offset + s, sizeof symbol);
            const char *name = elf + strings.sh_offset + symbol.st_name;
            if (symbol.st_shndx == SHN_UNDEF) note_undefined(undefined, name);
            else functions += ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
            if (symbol.st_shndx != SHN_UNDEF) *heaps += ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && strncmp(name, "mm_heap_v", 9) == 0;
        }
    }
    return functions;
}

static Elf64_Shdr section_of(const char *elf, unsigned i) {
    Elf64_Ehdr head;
    Elf64_Shdr s;
    memcpy(&head, elf, sizeof head);
    memcpy(&s, elf + head.e_shoff + i * sizeof s, sizeof s);
    return s;
}

static Elf64_Shdr find_section(const char *elf, const char *prefix, const char *name) {
    Elf64_Ehdr head;
    Elf64_Shdr s;
    memcpy(&head, elf, sizeof head);
    const char *const names = elf + section_of(elf, head.e_shstrndx).sh_offset;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        s = section_of(elf, i);
        const char *const its = names + s.sh_name;
        if (strncmp(its, prefix, strlen(prefix)) == 0 && strcmp(its + strlen(prefix), name) == 0) return s;
    }
    memset(&s, 0, sizeof s);
    return s;
}

static uint64_t hash(const char *at, uint64_t bytes) {
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */
    for (uint64_t i = 0; i < bytes; i++) h = (h ^ (unsigned char)at[i]) * 0x100000001b3;
    return h;
}

/* .nv.info is a list of attributes: form, kind, then two bytes; in form 4 these are a length, followed by that many bytes. In the kinds below they are
 * a symbol and a number. Returns the largest number, since nvlink adds attributes; -1 if there is none. */
enum { MIN_STACK = 0x12, REGCOUNT = 0x2f };
static int attribute_of(const char *elf, uint32_t symbol, int kind) {
    enum { SIZED = 4 };
    const Elf64_Shdr s = find_section(elf, ".nv.info", "");
    const char *at = elf + s.sh_offset, *const end = at + s.sh_size;
    int most = -1;
    while (at + 4 <= end) {
        uint32_t pair[2];
        uint16_t bytes;
        memcpy(&bytes, at + 2, 2);
        if (at[0] == SIZED && at[1] == kind) {
            memcpy(pair, at + 4, sizeof pair);
            if (pair[0] == symbol && (int)pair[1] > most) most = (int)pair[1];
        }
        at += 4 + (at[0] == SIZED ? bytes : 0);
    }
    return most;
}

static void print_functions(const char *elf, unsigned arch) {
    enum { SYMBOL = 0xffffff }; /* the part of a code section's sh_info that is the symbol */
    Elf64_Ehdr head;
    memcpy(&head, elf, sizeof head);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        const Elf64_Shdr s = section_of(elf, i);
        const char *const name = elf + section_of(elf, head.e_shstrndx).sh_offset + s.sh_name;
        if (strncmp(name, ".text.", 6) != 0) continue;
        const Elf64_Shdr parameters = find_section(elf, ".nv.constant0.", name + 6);
        printf("sm_%u %s registers=%d shared=%llu text=%016llx parameters=%016llx stack=%d\n", arch, name + 6, attribute_of(elf, s.sh_info & SYMBOL, REGCOUNT),
               (unsigned long long)find_section(elf, ".nv.shared.", name + 6).sh_size, (unsigned long long)hash(elf + s.sh_offset, s.sh_size),
               (unsigned long long)hash(elf + parameters.sh_offset, parameters.sh_size), attribute_of(elf, s.sh_info & SYMBOL, MIN_STACK));
    }
}

/* Returns the architecture. */
static unsigned read_ptx(const char *text, size_t bytes, char *undefined, int *heaps) {
    struct mm_module m;
    while (bytes && !text[bytes - 1]) bytes--; /* padding */
    if (!mm_module_try_read(&m, text, bytes)) die("PTX that cannot be read");
    const unsigned target = (unsigned)m.target;
    for (size_t i = 0; i < m.count; i++) {
        char name[256] = "";
        if (m.items[i].name.length < sizeof name) memcpy(name, m.items[i].name.at, m.items[i].name.length);
        if (!mm_token_is(&m.items[i].linkage, ".extern")) *heaps += strncmp(name, "mm_heap_v", 9) == 0;
        else if (strncmp(name, MM_NAMES_PREFIX, sizeof MM_NAMES_PREFIX - 1) == 0 || strcmp(name, "mm_usable_size") == 0) *heaps = 1;
        else note_undefined(undefined, name);
    }
    mm_module_free(&m);
    return target;
}

static int of_functions;

static void print(const char *kind, unsigned arch, const char *undefined, int heaps) {
    if (!of_functions) printf("%s sm_%u undefined=%s heap=%d\n", kind, arch, undefined, heaps);
}

static void read_container(const char *at, const char *end) {
    while (at + 16 <= end) {
        uint32_t magic, header, arch;
        uint16_t kind;
        uint64_t size, entry_size;
        memcpy(&magic, at, 4);
        if (magic == 0) { /* alignment */
            at += 8;
            continue;
        }
        if (magic != (uint32_t)FATBIN_MAGIC) die("this is no container of images");
        memcpy(&size, at + 8, 8);
        const char *entry = at + 16;
        for (at = entry + size; entry < at; entry += header + entry_size) {
            char undefined[100] = "";
            int heaps = 0;
            memcpy(&kind, entry, 2);
            memcpy(&header, entry + 4, 4);
            memcpy(&entry_size, entry + 8, 8);
            memcpy(&arch, entry + 28, 4);
            if (kind == KIND_ELF && !read_cubin(entry + header, undefined, &heaps) && !heaps && !*undefined) continue;
            if (kind == KIND_PTX) read_ptx(entry + header, entry_size, undefined, &heaps);
            else if (kind != KIND_ELF) die("an image is neither machine code nor PTX");
            print(kind == KIND_ELF ? "elf" : "ptx", arch, undefined, heaps);
            if (kind == KIND_ELF && of_functions) print_functions(entry + header, arch);
        }
    }
}

/* Reads PTX text, or a cubin. The architecture of a cubin is not printed: its place in the header depends on the CUDA release. */
static void read_image(const struct mm_text *file, bool is_elf) {
    char undefined[100] = "";
    unsigned target = 0;
    int heaps = 0;
    if (is_elf) read_cubin(file->data, undefined, &heaps);
    else target = read_ptx(file->data, file->bytes, undefined, &heaps);
    print(is_elf ? "elf" : "ptx", target, undefined, heaps);
    if (is_elf && of_functions) print_functions(file->data, 0);
}

int main(int argc, char **argv) {
    struct mm_text file;
    Elf64_Ehdr head;
    Elf64_Shdr section, names;
    const int magic = FATBIN_MAGIC;
    of_functions = argc == 3 && strcmp(argv[1], "-k") == 0;
    if (argc != 2 + of_functions) die("usage: images [-k] PROGRAM");
    if (mm_shim_read(argv[argc - 1], &file) || file.bytes < sizeof head) die("cannot read the program");
    memcpy(&head, file.data, sizeof head);
    const bool is_elf = memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
    if (memcmp(file.data, &magic, sizeof magic) == 0) read_container(file.data, file.data + file.bytes);
    else if (!is_elf || head.e_machine == EM_CUDA) read_image(&file, is_elf);
    if (!is_elf || head.e_machine == EM_CUDA) return 0;
    memcpy(&names, file.data + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&section, file.data + head.e_shoff + i * sizeof section, sizeof section);
        if (strcmp(file.data + names.sh_offset + section.sh_name, ".nv_fatbin") == 0)
            read_container(file.data + section.sh_offset, file.data + section.sh_offset + section.sh_size);
    }
    mm_text_free(&file);
    return 0;
}
