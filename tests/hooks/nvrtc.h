/* NVRTC, if there is one: CUDA C in, PTX out. */
#ifndef MM_TEST_NVRTC_H
#define MM_TEST_NVRTC_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* The PTX, or NULL with what was wrong on standard output. library: its file. */
static inline char *nvrtc_ptx(const char *library, const char *source, int count, const char *const *options) {
    typedef void *program;
    int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(program, int, const char *const *), (*size)(program, size_t *), (*ptx)(program, char *);
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle) return printf("%s\n", dlerror()), NULL;
    *(void **)&create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(handle, "nvrtcCompileProgram");
    *(void **)&size = dlsym(handle, "nvrtcGetPTXSize");
    *(void **)&ptx = dlsym(handle, "nvrtcGetPTX");
    program p = NULL;
    size_t bytes = 0;
    char *text = NULL;
    int r = create && compile && size && ptx ? create(&p, source, "source.cu", 0, NULL, NULL) : -1;
    if (!r) r = compile(p, count, options);
    if (!r) r = size(p, &bytes);
    if (!r) text = (char *)malloc(bytes);
    if (text) r = ptx(p, text);
    if (!r && text) return text;
    printf("NVRTC answers %d\n", r);
    free(text);
    return NULL;
}

#endif
