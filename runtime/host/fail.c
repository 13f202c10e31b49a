/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* strnlen */
#include "runtime/host/fail.h"

#include <string.h>

#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"

void mm_fail_image(struct mm_heap *image) {
    const struct mm_host_env *env = mm_host_env_get();
    image->ref.fail = env->fail;
    image->fail.number = env->fail_number, image->fail.seed = env->fail_seed;
    image->fail.inverse = env->fail_number ? UINT64_MAX / env->fail_number : 0;
}

bool mm_fail_try_take(const struct mm_driver *d, const struct mm_host_heap *h, struct mm_fail *fail, struct mm_driver_error *error) {
    return mm_copy_try_from_device(d, fail, h->ref.heap + offsetof(struct mm_heap, fail), sizeof *fail, error);
}

bool mm_fail_try_set(const struct mm_driver *d, const struct mm_host_heap *h, bool is_on, struct mm_driver_error *error) {
    const uint64_t value = is_on;
    return mm_copy_try_to_device(d, h->ref.heap + offsetof(struct mm_heap, fail.is_on), &value, sizeof value, error);
}

/* The identifier at *at in a mangled name, after its length in digits; advances *at behind it. Returns its length, 0: there is none. */
static size_t identifier(const char **at, const char **start) {
    size_t length = 0;
    for (; **at >= '0' && **at <= '9' && length < 1000000; ++*at) length = 10 * length + (size_t)(**at - '0');
    if (length == 0 || strnlen(*at, length) < length) return 0;
    *start = *at, *at += length;
    return length;
}

/* A function's name is _Z, perhaps N for a nested name, and its identifiers, the last of which is its own (Itanium C++ ABI, 5.1); L marks internal linkage. */
bool mm_fail_is_meant(const char *name) {
    const char *const wanted = mm_host_env_get()->fail_kernel;
    if (!name || !wanted) return false;
    if (strcmp(name, wanted) == 0) return true;
    if (strncmp(name, "_Z", 2) != 0) return false;
    const char *at = name + 2, *start = "", *last = "";
    size_t length = 0, last_length = 0;
    const bool is_nested = *at == 'N';
    if (is_nested) at++;
    do {
        if (*at == 'L') at++;
        length = identifier(&at, &start);
        if (length) last = start, last_length = length;
    } while (length && is_nested);
    return last_length == strlen(wanted) && memcmp(last, wanted, last_length) == 0;
}

void mm_fail_say(const struct mm_host_heap *h) {
    const char *const text = mm_host_env_get()->fail_text;
    const struct mm_fail *f = &h->seen.fail;
    const unsigned long long least = h->shared ? __atomic_load_n(&h->shared->mailbox.failed, __ATOMIC_ACQUIRE) : 0;
    if (h->seen.has_fail)
        mm_host_say("device %d: MM_FAIL=%s: %llu of %llu requests failed", h->device, text, (unsigned long long)f->failed, (unsigned long long)f->requests);
    else mm_host_say("device %d: MM_FAIL=%s: at least %llu requests failed", h->device, text, least);
}
