/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The fuzzer of the load-time readers: each input is read as fat binary, cubin and PTX. */
#include "interpose/load/cookies.h"
#include "interpose/load/cubin.h"
#include "interpose/load/elf.h"
#include "interpose/load/ptx/counts.h"
#include "interpose/load/ptx/names.h"
#include "mmconfig.h"
#include "tests/load/exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void *copy_of(const uint8_t *data, size_t bytes) {
    void *const at = malloc(bytes);
    PROMISE(at);
    return memcpy(at, data, bytes);
}

/* Applies all cubin functions, changes to copies. A refused change must change nothing. */
static void exercise_cubin(const uint8_t *data, size_t bytes) {
    void *const opened = copy_of(data, bytes), *const renamed = copy_of(data, bytes);
    const char *where;
    const bool is_whole = mm_cubin_kind(data, bytes) == MM_CUBIN_WHOLE;
    mm_wants_of_elf(data, bytes);
    mm_cookies_may_be_stored(data, bytes);
    PROMISE(mm_cubin_open(opened, bytes) ? is_whole : memcmp(opened, data, bytes) == 0);
    PROMISE(mm_cookies_try_make_room(renamed, bytes) || memcmp(renamed, data, bytes) == 0);
    mm_elf_defines(data, bytes, MM_HEAP_REF_NAME);
    mm_cubin_settle(renamed, bytes, data, bytes, &where);
    mm_cubin_settle(opened, bytes, renamed, bytes, &where);
    free(opened);
    free(renamed);
}

static void exercise_text(const char *text, size_t bytes) {
    struct mm_text out;
    mm_names_declared(text, bytes);
    if (mm_names_show(text, bytes, NULL, &out) > 0) mm_text_free(&out);
    if (mm_names_hide(text, bytes, 0, &out) > 0) mm_text_free(&out);
    if (mm_counts_remove(text, bytes, &out) > 0) mm_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (!bytes) return 0;
    exercise(data, bytes);
    exercise_cubin(data, bytes);
    exercise_text((const char *)data, bytes);
    return 0;
}
