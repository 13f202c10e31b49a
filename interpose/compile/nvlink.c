/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stands in for the toolkit's nvlink: runs the real one with the same arguments. If a device-side allocation function
 * is still undefined, runs it again with mm's device library appended. -lmm in the profile would not do: nvlink
 * silently takes a libmm.so for the library; libcudadevrt, whose calls of malloc count too, comes later; where nothing
 * else is linked (whole programs), a library is linked whole; and nvlink skips a library without code for the
 * architecture and reports no error, so that the program would run on the built-in allocator.
 *
 * With -dlto the library is machine code, too (nvlink calls that partial LTO): code that nvlink compiles has YIELDs (mmunyield.c).
 *
 * mm32.a and mm24.a: see devlink.h. If no machine code is linked (PTX only), the driver links the modules that nvlink
 * lists, and mmptx.a must be among them. Reads only nvlink's options -o and --register-link-binaries, and whether there
 * is an options file, which may contain them.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/compile/devlink.h"
#include "interpose/compile/shim.h"

/* The file of modules to register, as it was before the first run: nvlink creates it for a program's first
 * architecture and does not change an existing one. */
struct modules {
    const char *path; /* NULL if there is none */
    int existed;
    struct mm_text text;
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

/* Whether the file of modules to register lists a module other than libcudadevrt's. Without an output (PTX only), the
 * driver links these modules when it loads the program. */
static int lists_modules(const char *path) {
    static const char mark[] = "DEFINE_REGISTER_FUNC(";
    struct mm_text list;
    int found = 0;
    if (mm_shim_read(path, &list)) return 0;
    for (const char *at = list.data; (at = strstr(at, mark)) && !found;) {
        at += sizeof mark - 1;
        const char *end = strchr(at, ')'), *devrt = strstr(at, "_cuda_device_runtime_cu_");
        found = end && !(devrt && devrt < end);
    }
    mm_text_free(&list);
    return found;
}

int main(int argc, char **argv) {
    static const char registers[] = "--register-link-binaries=";
    const char *output = NULL, *arch = NULL, *missing;
    struct modules modules = {NULL, 0, {NULL, 0, 0}};
    char real[4096], library[4096];
    int options_file = 0;
    if (mm_shim_path(real, sizeof real, "real/nvlink")) return 1;
    for (int i = 1; i < argc; i++) {
        if ((strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output-file") == 0) && i + 1 < argc) output = argv[i + 1];
        else if (strncmp(argv[i], "-o=", 3) == 0) output = argv[i] + 3;
        else if (strncmp(argv[i], "--output-file=", 14) == 0) output = argv[i] + 14;
        if (strncmp(argv[i], "-optf", 5) == 0 || strncmp(argv[i], "--options-file", 14) == 0) options_file = 1;
        if (strncmp(argv[i], "-arch=", 6) == 0 || strncmp(argv[i], "--arch=", 7) == 0) arch = strchr(argv[i], '=') + 1;
        if (strncmp(argv[i], registers, sizeof registers - 1) == 0) modules.path = argv[i] + sizeof registers - 1;
    }
    if (!output && options_file)
        return mm_shim_complain("nvlink gets its options from a file and has no -o next to it, so mm cannot tell whether the "
                                "allocator is in; name the output by -o");
    modules.existed = modules.path && mm_shim_read(modules.path, &modules.text) == 0;

    struct mm_attempt a = mm_attempt_run(real, argc, argv, NULL);
    const int ptx_only = a.status == 0 && !output && modules.path && lists_modules(modules.path);
    static const char *const libraries[] = {"device/mm32.a", "device/mm24.a", "device/mmptx.a"};
    if (ptx_only || (output && (a.status == 0 ? mm_devlink_lacks(output) != NULL : mm_attempt_lacks(&a)))) {
        for (int i = ptx_only ? 2 : 0; i < (ptx_only ? 3 : 2); i++) {
            if (mm_shim_path(library, sizeof library, libraries[i])) return 1;
            restore(&modules);
            const struct mm_attempt b = mm_attempt_run(real, argc, argv, library);
            if (i != 1 || b.status == 0) a = b; /* if mm24.a fails too, the cap is not the cause: keep mm32.a's error */
            if (b.status == 0) break;
        }
    }
    mm_text_free(&modules.text);
    mm_attempt_repeat(&a, 1);
    if (a.status || !output) return a.status;
    missing = mm_devlink_lacks(output);
    if (!missing) return 0;
    unlink(output);
    return mm_devlink_complain(missing, arch);
}
