/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library whose open_memstream has memory for every call but one: the call whose number is SCARCE. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

FILE *open_memstream(char **text, size_t *bytes) {
    static int calls;
    FILE *(*next)(char **, size_t *) = NULL;
    const char *const scarce = getenv("SCARCE");
    if (scarce && ++calls == atoi(scarce)) return errno = ENOMEM, (FILE *)NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "open_memstream");
    return next(text, bytes);
}
