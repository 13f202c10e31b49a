/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stands in for the toolkit's ptxas: runs the real one, and if the machine code it made is a whole program that calls CUDA's
 * allocator, links mm's device library to it (load/cubin.h). The program's kernels stay byte for byte what ptxas made.
 *
 * The input calls the allocator by mm's names (load/ptx/names.h). The real ptxas gets CUDA's names, which it accepts undefined. It refuses
 * calls of mm_usable_size in a whole program: then it runs again to make an extensible whole program (-ewp), which can be linked
 * unchanged.
 *
 * Reads these options of ptxas: -o, -arch, -g and -v.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/compile/devlink.h"
#include "interpose/load/cubin.h"
#include "interpose/load/wants.h"
#include "interpose/compile/shim.h"
#include "interpose/load/ptx/names.h"
#include "interpose/load/ptx/token.h"

struct request {
    int input, output; /* indices of the file names among the arguments; 0 if there is none */
    const char *arch;  /* "-arch=sm_90" */
    int verbose, debug;
    bool declares;       /* the input declares a service */
    bool is_extended;    /* assembled again with -ewp */
    struct mm_text text; /* the input with CUDA's names, if it had mm's */
};

/* Our files, in a temporary folder. The text is named like the input, for ptxas's messages. */
struct files {
    char folder[4096], text[4300], image[4200], input[4200], linked[4200];
};

static void read_input(struct request *q, int i, const char *path) {
    struct mm_text text;
    struct mm_token_reader r;
    if (mm_shim_read(path, &text)) return;
    mm_token_start(&r, text.data, text.bytes);
    const struct mm_token first = mm_token_next(&r);
    if (mm_token_is(&first, ".version")) {
        q->input = i;
        const int shown = mm_names_show(text.data, text.bytes, NULL, &q->text);
        q->declares = shown > 0 || mm_names_declared(text.data, text.bytes);
    }
    mm_text_free(&text);
}

static void read_request(struct request *q, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) q->output = ++i;
        else if (strncmp(argv[i], "-arch=sm_", 9) == 0) q->arch = argv[i];
        else if (strcmp(argv[i], "-g") == 0 || strcmp(argv[i], "--device-debug") == 0) q->debug = 1;
        else if (strcmp(argv[i], "-v") == 0 || strcmp(argv[i], "--verbose") == 0) q->verbose = 1;
        else if (argv[i][0] != '-' && !q->input) read_input(q, i, argv[i]);
    }
}

static int write_file(const char *path, const struct mm_text *text) {
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(text->data, 1, text->bytes, f) == text->bytes;
    if (f && fclose(f) == 0 && written) return 0;
    return mm_shim_complain("cannot write '%s': %s", path, strerror(errno));
}

static int read_file(const char *path, struct mm_text *text) {
    return mm_shim_read(path, text) ? mm_shim_complain("cannot read '%s': %s", path, strerror(errno)) : 0;
}

/* Links mm to the image, and reads the result into `linked`; nvlink's output stays in `a`. Returns 0 or an exit status. */
static int link_files(const struct request *q, struct files *f, const char *input, struct mm_attempt *a, struct mm_text *linked) {
    static const char *const libraries[] = {"device/mm32.a", "device/mm24.a"};
    static char out[] = "-o", machine[] = "-m64", verbose[] = "-v", debug[] = "-g";
    char nvlink[4096], library[4096], arch[64];
    if (mm_shim_path(nvlink, sizeof nvlink, "real/nvlink")) return 1;
    snprintf(arch, sizeof arch, "--arch=%s", q->arch + 6);
    /* The program comes first, so that its constants are where its code expects them. */
    char *arguments[9] = {nvlink, machine, arch, out, f->linked, f->input, library};
    int count = 7;
    if (q->verbose) arguments[count++] = verbose;
    if (q->debug) arguments[count++] = debug;
    for (int i = 0; i < 2; i++) {
        if (mm_shim_path(library, sizeof library, libraries[i])) return 1;
        *a = mm_attempt_run(nvlink, count, arguments, NULL);
        if (a->status == 0) return read_file(f->linked, linked);
    }
    char said[300];
    mm_attempt_first_line(a, said, sizeof said);
    return mm_shim_complain("the allocator cannot be linked to the machine code of '%s': %s; -rdc=true may do", input, said);
}

/* Replaces ptxas's image, a whole program without the allocator, by one with it. */
static int add_allocator(const struct request *q, struct files *f, const char *input, struct mm_text *image, struct mm_attempt *a) {
    struct mm_text opened = {NULL, 0, 0}, linked = {NULL, 0, 0};
    const char *where, *wrong = NULL;
    int bad = mm_text_add(&opened, image->data, image->bytes) ? mm_shim_complain("no memory for '%s'", input) : 0;
    if (!bad && !q->is_extended && !mm_cubin_open(opened.data, opened.bytes))
        bad = mm_shim_complain("the machine code of '%s' is not understood; compile with -rdc=true", input);
    if (!bad) bad = write_file(f->input, &opened) || link_files(q, f, input, a, &linked);
    const char *const missing = bad ? NULL : mm_wants_name(mm_wants_of_elf(linked.data, linked.bytes));
    if (missing) bad = mm_devlink_complain(missing, q->arch + sizeof "-arch=" - 1);
    if (!bad) wrong = mm_cubin_settle(linked.data, linked.bytes, q->is_extended ? NULL : image->data, image->bytes, &where);
    if (wrong)
        bad = mm_shim_complain("the allocator cannot be linked to the machine code of '%s': %s%s%s; compile with -rdc=true", input, where, *where ? " " : "",
                               wrong);
    mm_text_free(&opened);
    mm_text_free(bad ? &linked : image);
    if (!bad) *image = linked;
    return bad;
}

/* Runs ptxas on our files. Returns its exit status. */
static int assemble(struct request *q, struct files *f, const char *ptxas, int argc, char **argv, struct mm_attempt *a) {
    static char extensible[] = "-ewp";
    char **changed = (char **)malloc((size_t)argc * sizeof *changed);
    if (!changed || (q->text.data && write_file(f->text, &q->text))) return free(changed), 1;
    memcpy(changed, argv, (size_t)argc * sizeof *changed);
    if (q->text.data) changed[q->input] = f->text;
    changed[q->output] = f->image;
    *a = mm_attempt_run(ptxas, argc, changed, NULL);
    if (a->status) {
        const struct mm_attempt again = mm_attempt_run(ptxas, argc, changed, extensible);
        q->is_extended = again.status == 0;
        if (q->is_extended) *a = again;
    }
    free(changed);
    return a->status;
}

static int run(struct request *q, struct files *f, const char *ptxas, int argc, char **argv) {
    struct mm_attempt assembly = {0, {NULL, NULL}}, link = {0, {NULL, NULL}};
    struct mm_text image;
    const int status = assemble(q, f, ptxas, argc, argv, &assembly);
    if (assembly.said[0]) mm_attempt_repeat(&assembly, 1);
    if (status) return status;
    if (read_file(f->image, &image)) return 1;
    const enum mm_cubin_kind kind = mm_cubin_kind(image.data, image.bytes);
    int bad = 0;
    const bool is_final = q->is_extended || (kind != MM_CUBIN_PART && kind != MM_CUBIN_EXTENSIBLE); /* nvlink.c will link the others */
    if (is_final && mm_wants_name(mm_wants_of_elf(image.data, image.bytes))) bad = add_allocator(q, f, argv[q->input], &image, &link);
    if (!bad && link.said[0]) mm_attempt_repeat(&link, 0); /* nvlink warns of unknown stacks for recursion and indirect calls; ptxas does not */
    if (!bad) bad = write_file(argv[q->output], &image);
    mm_text_free(&image);
    return bad;
}

int main(int argc, char **argv) {
    struct request q;
    struct files f;
    char real[4096];
    memset(&q, 0, sizeof q);
    if (mm_shim_path(real, sizeof real, "real/ptxas")) return 1;
    read_request(&q, argc, argv);
    if (!q.declares || !q.output || !q.arch) {
        execv(real, argv);
        return mm_shim_complain("cannot run '%s': %s", real, strerror(errno));
    }
    const char *temporary = getenv("TMPDIR"), *name = strrchr(argv[q.input], '/');
    if (!temporary || !*temporary) temporary = "/tmp";
    if (snprintf(f.folder, sizeof f.folder, "%s/mmptxas-XXXXXX", temporary) >= (int)sizeof f.folder || !mkdtemp(f.folder))
        return mm_shim_complain("cannot make a folder in '%s': %s", temporary, strerror(errno));
    snprintf(f.text, sizeof f.text, "%s/%.199s", f.folder, name ? name + 1 : argv[q.input]);
    snprintf(f.image, sizeof f.image, "%s/mm:image", f.folder);
    snprintf(f.input, sizeof f.input, "%s/mm:input.cubin", f.folder);
    snprintf(f.linked, sizeof f.linked, "%s/mm:linked.cubin", f.folder);
    const int status = run(&q, &f, real, argc, argv);
    const char *const made[] = {f.text, f.image, f.input, f.linked};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(made[i]);
    rmdir(f.folder);
    mm_text_free(&q.text);
    return status;
}
