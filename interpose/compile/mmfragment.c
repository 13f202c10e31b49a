/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Build tool: mmfragment VERSION < device.ptx > fragment.ptx */
#include <stdio.h>
#include <stdlib.h>

#include "interpose/load/ptx/text.h"

int main(int argc, char **argv) {
    struct mm_splice_text in = {NULL, 0, 0}, out;
    struct mm_splice_error error;
    char piece[4096];
    size_t n;
    if (argc != 2) {
        fprintf(stderr, "mmfragment: usage: mmfragment PTX-VERSION < device.ptx > fragment.ptx\n");
        return 2;
    }
    while ((n = fread(piece, 1, sizeof piece, stdin)) > 0)
        if (mm_text_add(&in, piece, n)) return fprintf(stderr, "mmfragment: no memory\n"), 1;
    if (mm_splice_fragment(in.data ? in.data : "", in.bytes, argv[1], &out, &error) != MM_SPLICE_DONE) {
        fprintf(stderr, "mmfragment: line %d: %s\n", error.line, error.message);
        return 1;
    }
    const int failed = fwrite(out.data, 1, out.bytes, stdout) != out.bytes || fflush(stdout) != 0;
    if (failed) fprintf(stderr, "mmfragment: cannot write the fragment\n");
    mm_splice_text_free(&in);
    mm_splice_text_free(&out);
    return failed;
}
