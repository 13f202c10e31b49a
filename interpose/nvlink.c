/* Stands in for the toolkit's nvlink: links as told, and once more with a device library of ours behind the
 * arguments if a service of device-side allocation stayed undefined. Why not simply -lmm from the profile:
 * nvlink takes a libmm.so for it and is silent; libcudadevrt, whose own calls of malloc count too, comes later; a
 * library is linked whole where nothing else is (whole programs); and one that has no code for the architecture
 * is passed over without an error, so that the program would run on the built-in allocator.
 *
 * With -dlto, what malloc and free do first goes in as LTO IR, and what they do seldom as the object mm32.o (runtime/inline.cu); if
 * that cannot be linked (another limit of registers, an architecture or toolkit for which there is no LTO IR), the library as ever.
 *
 * mm32.a and mm24.a: see devlink.h. Where no machine code is linked (PTX only) the driver links what nvlink
 * lists, and mmptx.a must be among that. Of nvlink's options only -o and --register-link-binaries are looked at, and
 * whether there is a file of options, which may hide these.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/devlink.h"
#include "interpose/shim.h"

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

/* With -dlto: the two files that bring the allocator's first part into the kernels; false if it is not asked for, or there are none. */
static int find_inlining(int argc, char **argv, char *first, char *rest, size_t bytes) {
    const char *arch = NULL;
    char name[64];
    int is_lto = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-dlto") == 0 || strcmp(argv[i], "-lto") == 0) is_lto = 1;
        if (strncmp(argv[i], "--arch=sm_", 10) == 0) arch = argv[i] + 10;
        if (strncmp(argv[i], "-arch=sm_", 9) == 0) arch = argv[i] + 9;
    }
    if (!is_lto || !arch) return 0;
    snprintf(name, sizeof name, "device/inline_%d.ltoir", atoi(arch));
    return mm_shim_try_path(first, bytes, name) && mm_shim_try_path(rest, bytes, "device/mm32.o");
}

/* The link with these two; false if nvlink does not make it. */
static int try_inlined(const char *real, int argc, char **argv, char *first, char *rest, const char *output, struct mm_attempt *a) {
    char **arguments = (char **)malloc(((size_t)argc + 1) * sizeof *arguments);
    if (!arguments) return 0;
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[argc] = first;
    const struct mm_attempt b = mm_attempt_run(real, argc + 1, arguments, rest);
    free(arguments);
    if (b.status != 0 || mm_devlink_lacks(output)) return 0;
    *a = b;
    return 1;
}

int main(int argc, char **argv) {
    static const char registers[] = "--register-link-binaries=";
    const char *output = NULL, *missing;
    struct modules modules = {NULL, 0, {NULL, 0, 0}};
    char real[4096], library[4096], first[4096];
    int options_file = 0;
    if (mm_shim_path(real, sizeof real, "real/nvlink")) return 1;
    for (int i = 1; i < argc; i++) {
        if ((strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output-file") == 0) && i + 1 < argc) output = argv[i + 1];
        else if (strncmp(argv[i], "-o=", 3) == 0) output = argv[i] + 3;
        else if (strncmp(argv[i], "--output-file=", 14) == 0) output = argv[i] + 14;
        if (strncmp(argv[i], "-optf", 5) == 0 || strncmp(argv[i], "--options-file", 14) == 0) options_file = 1;
        if (strncmp(argv[i], registers, sizeof registers - 1) == 0) modules.path = argv[i] + sizeof registers - 1;
    }
    if (!output && options_file)
        return mm_shim_complain("nvlink gets its options from a file and no -o beside it, so mm cannot tell whether the "
                                "allocator is in; name the output by -o");
    modules.existed = modules.path && mm_shim_read(modules.path, &modules.text) == 0;

    struct mm_attempt a = mm_attempt_run(real, argc, argv, NULL);
    const int ptx_only = a.status == 0 && !output && modules.path && lists_modules(modules.path);
    static const char *const libraries[] = {"device/mm32.a", "device/mm24.a", "device/mmptx.a"};
    if (ptx_only || (output && (a.status == 0 ? mm_devlink_lacks(output) != NULL : mm_attempt_lacks(&a)))) {
        int done = 0;
        if (!ptx_only && find_inlining(argc, argv, first, library, sizeof first)) {
            restore(&modules);
            done = try_inlined(real, argc, argv, first, library, output, &a);
        }
        for (int i = ptx_only ? 2 : 0; !done && i < (ptx_only ? 3 : 2); i++) {
            if (mm_shim_path(library, sizeof library, libraries[i])) return 1;
            restore(&modules);
            const struct mm_attempt b = mm_attempt_run(real, argc, argv, library);
            if (i != 1 || b.status == 0) a = b; /* what is wrong without a cap is wrong in itself */
            if (b.status == 0) break;
        }
    }
    mm_splice_text_free(&modules.text);
    mm_attempt_repeat(&a, 1);
    if (a.status || !output) return a.status;
    missing = mm_devlink_lacks(output);
    if (!missing) return 0;
    unlink(output);
    return mm_shim_complain("the device link leaves '%s' undefined: mm has no code for this architecture; build mm "
                            "with it in ARCHS", missing);
}
