/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/runtime/nvrtc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/runtime/jit.h"

/* As in nvrtc.h, which is not everywhere: a result is 0 if all is well, a program is a pointer. */
typedef int size_function(void *program, size_t *bytes);
typedef int get_function(void *program, char *text);

/* One for each NVRTC in the process: frameworks bring their own. */
struct library {
    size_function *cubin_size, *ptx_size;
    get_function *cubin, *ptx;
};
enum { LIBRARIES = 4 };
static struct library libraries[LIBRARIES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The PTX of a program that allocates, zero-terminated, *bytes with the zero; NULL if it does not, or there is none. */
static char *ptx_of(const struct library *l, void *program, size_t *bytes) {
    char *text = NULL;
    if (!l->ptx_size || !l->ptx || l->ptx_size(program, bytes) != 0 || *bytes < 2 || !(text = (char *)malloc(*bytes))) return NULL;
    if (l->ptx(program, text) == 0 && text[*bytes - 1] == 0 && mm_jit_wants(text, *bytes - 1)) return text;
    free(text);
    return NULL;
}

static int cubin_size(const struct library *l, void *program, size_t *bytes) {
    size_t ptx_bytes = 0;
    char *text = bytes ? ptx_of(l, program, &ptx_bytes) : NULL;
    if (!text) return l->cubin_size(program, bytes);
    free(text);
    *bytes = ptx_bytes;
    return 0;
}
static int cubin(const struct library *l, void *program, char *to) {
    size_t bytes = 0;
    char *text = to ? ptx_of(l, program, &bytes) : NULL;
    if (!text) return l->cubin(program, to);
    memcpy(to, text, bytes);
    free(text);
    return 0;
}

/* A program has no place for us, so each library has functions of its own. */
#define OURS(i)                                                                                           \
    static int cubin_size_##i(void *program, size_t *bytes) { return cubin_size(&libraries[i], program, bytes); } \
    static int cubin_##i(void *program, char *to) { return cubin(&libraries[i], program, to); }
OURS(0)
OURS(1)
OURS(2)
OURS(3)
static size_function *const our_size[LIBRARIES] = {cubin_size_0, cubin_size_1, cubin_size_2, cubin_size_3};
static get_function *const our_cubin[LIBRARIES] = {cubin_0, cubin_1, cubin_2, cubin_3};

void *mm_nvrtc_take(void *handle, const char *name, void *found, void *(*find)(void *handle, const char *name)) {
    struct library l;
    void *const theirs[] = {find(handle, "nvrtcGetCUBINSize"), find(handle, "nvrtcGetCUBIN"), find(handle, "nvrtcGetPTXSize"),
                            find(handle, "nvrtcGetPTX")};
    const int is_size = strcmp(name, "nvrtcGetCUBINSize") == 0;
    memcpy(&l.cubin_size, &theirs[0], sizeof l.cubin_size);
    memcpy(&l.cubin, &theirs[1], sizeof l.cubin);
    memcpy(&l.ptx_size, &theirs[2], sizeof l.ptx_size);
    memcpy(&l.ptx, &theirs[3], sizeof l.ptx);
    if (found != theirs[!is_size] || !l.cubin_size || !l.cubin) return found;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < LIBRARIES && libraries[i].cubin && libraries[i].cubin != l.cubin) i++;
    if (i < LIBRARIES && !libraries[i].cubin) libraries[i] = l;
    pthread_mutex_unlock(&lock);
    if (i == LIBRARIES) return found;
    if (is_size) memcpy(&found, &our_size[i], sizeof found);
    else memcpy(&found, &our_cubin[i], sizeof found);
    return found;
}
