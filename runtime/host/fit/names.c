/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The names of the kinds. Apart from the fits, since mmenvironment reads the environment without them. */
#include <string.h>

#include "runtime/host/fit/fit.h"

static const char *const names[MM_FIT_COUNT] = {
    [MM_FIT_TLSF] = "tlsf", [MM_FIT_SEGREGATED] = "segregated", [MM_FIT_BITMASK] = "bitmask", [MM_FIT_FIRST] = "first", [MM_FIT_NEXT] = "next",
    [MM_FIT_BEST] = "best",
};

bool mm_fit_parse(const char *name, enum mm_fit_kind *kind) {
    for (int k = 0; k < MM_FIT_COUNT; k++)
        if (strcmp(name, names[k]) == 0) {
            *kind = (enum mm_fit_kind)k;
            return true;
        }
    return false;
}

const char *mm_fit_name(enum mm_fit_kind kind) { return names[kind]; }
