/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stands in for the toolkit's ptxas. Of a whole program that holds the allocator it makes machine code in
 * another way: without the allocator as a relocatable object, then linked with the device library. ptxas would
 * copy the allocator into every kernel that calls it, with as many registers as it likes; linked, it is there
 * once, with at most 32, and without YIELDs (mmunyield.c; docs/notes/splice-or-link.md). The PTX itself keeps the allocator, for the
 * driver.
 *
 * Everything else is left to ptxas: relocatable code, text that is not ours, checks without an output, architectures that the device
 * library was not built for, and what does not assemble without the allocator: ptxas takes no address of a malloc that is not
 * there (so nvcc alone refuses such a program).
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/devlink.h"
#include "interpose/shim.h"

struct request {
    int input, output; /* indices of the file names among the arguments; 0 if there is none */
    const char *arch;  /* "-arch=sm_90" */
    int verbose, debug, left_to_ptxas;
    struct mm_splice_text plain; /* the input without the allocator */
};

static void read_request(struct request *q, int argc, char **argv) {
    static const char *const leave[] = {"-c", "--compile-only", "-ewp", "--extensible-whole-program", "-optf",
                                        "--options-file"};
    struct mm_splice_text text;
    for (int i = 1; i < argc; i++) {
        for (size_t k = 0; k < sizeof leave / sizeof *leave; k++) q->left_to_ptxas |= strcmp(argv[i], leave[k]) == 0;
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) q->output = ++i;
        else if (strncmp(argv[i], "-arch=sm_", 9) == 0) q->arch = argv[i];
        else if (strcmp(argv[i], "-g") == 0 || strcmp(argv[i], "--device-debug") == 0) q->debug = 1;
        else if (strcmp(argv[i], "-v") == 0 || strcmp(argv[i], "--verbose") == 0) q->verbose = 1;
        else if (argv[i][0] != '-' && !q->input && mm_shim_read(argv[i], &text) == 0) {
            if (mm_splice_undo(text.data, text.bytes, &q->plain) == MM_SPLICE_DONE) q->input = i;
            mm_splice_text_free(&text);
        }
    }
}

static bool write_file(const char *path, const struct mm_splice_text *text) {
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(text->data, 1, text->bytes, f) == text->bytes;
    return f && fclose(f) == 0 && written;
}

/* Assembles and links, with its files in `folder`, then writes the output: that may be a device, or in a folder that
 * is not ours to write to. Returns whether that made the image; if not, ptxas is to do it
 * alone, and says of the real text what is wrong, if anything is. */
static bool assemble(const struct request *q, int argc, char **argv, const char *ptxas, const char *folder) {
    static const char *const libraries[] = {"device/mm32.a", "device/mm24.a"};
    static char compile_only[] = "-c", out[] = "-o", machine[] = "-m64", verbose[] = "-v", debug[] = "-g";
    char nvlink[4096], library[4096], text[4200], object[4200], image[4200], arch[64];
    char **changed = (char **)malloc((size_t)argc * sizeof *changed);
    snprintf(text, sizeof text, "%s/whole.ptx", folder);
    snprintf(object, sizeof object, "%s/whole.o", folder);
    snprintf(image, sizeof image, "%s/whole.cubin", folder);
    snprintf(arch, sizeof arch, "--arch=%s", q->arch + 6);
    if (!changed || mm_shim_path(nvlink, sizeof nvlink, "real/nvlink") || !write_file(text, &q->plain)) {
        free(changed);
        return false;
    }
    memcpy(changed, argv, (size_t)argc * sizeof *changed);
    changed[q->input] = text;
    changed[q->output] = object;
    const struct mm_attempt assembly = mm_attempt_run(ptxas, argc, changed, compile_only);
    free(changed);
    if (assembly.status) return false;

    char *link[9] = {nvlink, machine, arch, out, image, object, library};
    int arguments = 7;
    if (q->verbose) link[arguments++] = verbose;
    if (q->debug) link[arguments++] = debug;
    for (int i = 0; i < 2; i++) {
        if (mm_shim_path(library, sizeof library, libraries[i])) return false;
        const struct mm_attempt linked = mm_attempt_run(nvlink, arguments, link, NULL);
        if (linked.status) continue;
        struct mm_splice_text cubin;
        if (mm_devlink_lacks(image) || mm_shim_read(image, &cubin)) return false;
        const bool written = write_file(argv[q->output], &cubin);
        mm_splice_text_free(&cubin);
        if (!written) return false; /* ptxas will say why it cannot */
        mm_attempt_repeat(&assembly, 1);
        mm_attempt_repeat(&linked, 0); /* of recursion and indirect calls nvlink says that it knows no stack; ptxas does not */
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    struct request q;
    char real[4096], folder[4096], file[4200];
    memset(&q, 0, sizeof q);
    if (mm_shim_path(real, sizeof real, "real/ptxas")) return 1;
    read_request(&q, argc, argv);
    if (q.left_to_ptxas || !q.input || !q.output || !q.arch) {
        execv(real, argv);
        return mm_shim_complain("cannot run '%s': %s", real, strerror(errno));
    }
    const char *temporary = getenv("TMPDIR");
    if (!temporary || !*temporary) temporary = "/tmp";
    if (snprintf(folder, sizeof folder, "%s/mmptxas-XXXXXX", temporary) >= (int)sizeof folder || !mkdtemp(folder))
        return mm_shim_complain("cannot make a folder in '%s': %s", temporary, strerror(errno));
    const bool made = assemble(&q, argc, argv, real, folder);
    for (int i = 0; i < 3; i++) {
        static const char *const kinds[] = {"ptx", "o", "cubin"};
        snprintf(file, sizeof file, "%s/whole.%s", folder, kinds[i]);
        unlink(file);
    }
    rmdir(folder);
    mm_splice_text_free(&q.plain);
    return made ? 0 : mm_shim_run(real, argv);
}
