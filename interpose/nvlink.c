/* Stands in for the toolkit's nvlink: links as told, and once more with our device library behind the
 * arguments if a service of device-side allocation stayed undefined. Why not simply -lmm from the profile:
 * nvlink takes a libmm.so for it and is silent; libcudadevrt, whose own calls of malloc count too, comes later; a library is
 * linked whole where nothing else is (whole programs); and one that has no code for the architecture is passed
 * over without an error, so that the program would run on the built-in allocator.
 *
 * mm32.a is made with at most 32 registers, which __launch_bounds__(1024,2) leaves its callers. Programs that
 * are capped lower (-maxrregcount 24) are refused by nvlink, and get mm24.a: 24 is the least there is. Where no machine code is linked (PTX only)
 * the driver links what nvlink lists, and mmptx.a must be among that.
 * Of nvlink's options only -o and --register-link-binaries are looked at.
 */
#define _POSIX_C_SOURCE 200809L
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/shim.h"

static int is_service(const char *name) {
    for (int i = 0; i < MM_SPLICE_SERVICES; i++)
        if (strcmp(name, mm_splice_service[i]) == 0) return 1;
    return 0;
}

/* One run of the real nvlink, and what it said. */
struct attempt {
    int status;
    FILE *said[2]; /* stdout, stderr */
};

/* The file of modules to register, as it was before us: nvlink makes it for the first architecture of a program
 * and leaves one that is there alone. */
struct modules {
    const char *path; /* NULL if there is none */
    int existed;
    struct mm_splice_text text;
};

static void restore(const struct modules *m) {
    if (!m->path) return;
    if (!m->existed) {
        unlink(m->path);
        return;
    }
    FILE *f = fopen(m->path, "wb");
    if (!f || fwrite(m->text.data, 1, m->text.bytes, f) != m->text.bytes || fclose(f) != 0) {
        mm_shim_complain("cannot write '%s': %s", m->path, strerror(errno));
        exit(1);
    }
}

static struct attempt link_with(const char *real, int argc, char **argv, char *library) {
    struct attempt a = {1, {tmpfile(), tmpfile()}};
    char **arguments = (char **)malloc(((size_t)argc + 2) * sizeof *arguments);
    if (!a.said[0] || !a.said[1] || !arguments) {
        mm_shim_complain("cannot make a temporary file: %s", strerror(errno));
        exit(1);
    }
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = library;
    arguments[argc + 1] = NULL;
    a.status = mm_shim_run_into(real, arguments, fileno(a.said[0]), fileno(a.said[1]));
    free(arguments);
    return a;
}

/* That our library is machine code is no news to the user. */
static int is_news(const char *line) { return !strstr(line, "/device/mm") || !strstr(line, "not built for LTO"); }

static void repeat(const struct attempt *a) {
    FILE *const to[2] = {stdout, stderr};
    char *line = NULL;
    size_t room = 0;
    for (int i = 0; i < 2; i++) {
        rewind(a->said[i]);
        for (ssize_t n; (n = getline(&line, &room, a->said[i])) > 0;)
            if (is_news(line)) fwrite(line, 1, (size_t)n, to[i]);
        fflush(to[i]);
    }
    free(line);
}

/* First undefined service in a linked cubin; NULL if there is none, or this is no linked cubin. */
static const char *undefined_service(const struct mm_splice_text *elf) {
    Elf64_Ehdr head;
    Elf64_Shdr table, strings;
    Elf64_Sym symbol;
    if (elf->bytes < sizeof head) return NULL;
    memcpy(&head, elf->data, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_EXEC) return NULL;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        const size_t at = head.e_shoff + i * sizeof table;
        if (at > elf->bytes || elf->bytes - at < sizeof table) return NULL;
        memcpy(&table, elf->data + at, sizeof table);
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= head.e_shnum) continue;
        memcpy(&strings, elf->data + head.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        if (table.sh_offset > elf->bytes || elf->bytes - table.sh_offset < table.sh_size ||
            strings.sh_offset > elf->bytes || elf->bytes - strings.sh_offset < strings.sh_size)
            return NULL;
        for (size_t s = 0; s + sizeof symbol <= table.sh_size; s += sizeof symbol) {
            memcpy(&symbol, elf->data + table.sh_offset + s, sizeof symbol);
            if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= strings.sh_size) continue;
            const char *name = elf->data + strings.sh_offset + symbol.st_name; /* the text ends in a zero */
            if (is_service(name)) return name;
        }
    }
    return NULL;
}

/* Without an output (PTX only) the driver links, when it loads the program, what nvlink lists in the file of
 * modules to register. Whether a module other than libcudadevrt's is there. */
static int lists_modules(const char *path) {
    static const char mark[] = "DEFINE_REGISTER_FUNC(";
    struct mm_splice_text list;
    int found = 0;
    if (mm_shim_read(path, &list)) return 0;
    for (const char *at = list.data; (at = strstr(at, mark)) && !found;) {
        at += sizeof mark - 1;
        const char *end = strchr(at, ')'), *devrt = strstr(at, "_cuda_device_runtime_cu_");
        found = end && !(devrt && devrt < end);
    }
    mm_splice_text_free(&list);
    return found;
}

/* The service that a link has left undefined; NULL if none. */
static const char *lacks(const char *output, struct mm_splice_text *elf) {
    mm_splice_text_free(elf);
    if (mm_shim_read(output, elf)) {
        mm_shim_complain("cannot read '%s': %s", output, strerror(errno));
        exit(1);
    }
    return undefined_service(elf);
}

int main(int argc, char **argv) {
    static const char registers[] = "--register-link-binaries=";
    const char *output = NULL, *missing;
    struct modules modules = {NULL, 0, {NULL, 0, 0}};
    struct mm_splice_text elf = {NULL, 0, 0};
    struct attempt capped;
    char real[4096], library[4096], library24[4096], ptx[4096];
    if (mm_shim_path(real, sizeof real, "real/nvlink") || mm_shim_path(library, sizeof library, "device/mm32.a") ||
        mm_shim_path(library24, sizeof library24, "device/mm24.a") || mm_shim_path(ptx, sizeof ptx, "device/mmptx.a"))
        return 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) output = argv[i + 1];
        if (strncmp(argv[i], registers, sizeof registers - 1) == 0) modules.path = argv[i] + sizeof registers - 1;
    }
    modules.existed = modules.path && mm_shim_read(modules.path, &modules.text) == 0;

    struct attempt a = link_with(real, argc, argv, NULL);
    if (a.status == 0 && !output && modules.path && lists_modules(modules.path)) {
        restore(&modules);
        a = link_with(real, argc, argv, ptx);
    } else if (a.status == 0 && output && lacks(output, &elf)) {
        restore(&modules);
        a = link_with(real, argc, argv, library);
        if (a.status != 0) {
            restore(&modules);
            capped = link_with(real, argc, argv, library24);
            if (capped.status == 0) a = capped;
        }
    }
    mm_splice_text_free(&modules.text);
    repeat(&a);
    if (a.status || !output) return a.status;
    missing = lacks(output, &elf);
    if (missing) {
        mm_shim_complain("the device link leaves '%s' undefined: mm has no code for this architecture; "
                         "build mm with it in ARCHS", missing);
        unlink(output);
    }
    mm_splice_text_free(&elf);
    return missing ? 1 : 0;
}
