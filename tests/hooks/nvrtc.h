/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Compiles CUDA C to PTX or machine code with NVRTC, if available. */
#ifndef MM_TEST_NVRTC_H
#define MM_TEST_NVRTC_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns NVRTC's output (what: "PTX", "CUBIN") of *made bytes, or NULL and prints the error. library: NVRTC's file. */
static inline char *nvrtc_make(const char *library, const char *what, const char *source, int count, const char *const *options, size_t *made) {
    typedef void *program;
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *), (*size)(program, size_t *), (*ptx)(program, char *);
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) return printf("%s\n", dlerror()), NULL;
    *(void **)&create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(handle, "nvrtcCompileProgram");
    char name[32];
    snprintf(name, sizeof name, "nvrtcGet%sSize", what);
    *(void **)&size = dlsym(handle, name);
    name[strlen(name) - 4] = 0;
    *(void **)&ptx = dlsym(handle, name);
    program p = NULL;
    size_t bytes = 0;
    char *text = NULL;
    int r = create && compile && size && ptx ? create(&p, source, "source.cu", 0, NULL, NULL) : -1;
    if (!r) r = compile(p, count, options);
    if (!r) r = size(p, &bytes);
    if (!r) text = (char *)malloc(bytes);
    if (text) r = ptx(p, text);
    *made = bytes;
    if (!r && text) return text;
    printf("NVRTC answers %d\n", r);
    free(text);
    return NULL;
}
#endif
