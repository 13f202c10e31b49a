/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The list of hooks, and cuGetProcAddress. */
#include "interpose/preload/hooks.h"

#include <string.h>

/* ---- cuGetProcAddress ------------------------------------------------------------------------- */

HOOK(cuGetProcAddress)(const char *symbol, void **function, int version, cuuint64_t flags);
HOOK(cuGetProcAddress_v2)(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

/* The last version whose variant of a function we know. From 12.0 on, cuGraphInstantiate may mean cuGraphInstantiateWithFlags, which has
 * other parameters: cuda.h maps the name to it. */
static int last_known_version(const char *symbol) { return strcmp(symbol, "cuGraphInstantiate") == 0 ? 11080 : CUDA_VERSION; }

/* A program, for example one newer than our toolkit, may request a variant whose parameters we do not know. The function is hooked only
 * if the last known version gets the same one. */
static bool is_our_variant(const char *symbol, const void *function, int version, cuuint64_t flags) {
    const int known = last_known_version(symbol);
    void *ours = NULL;
    if (version <= known) return true;
    return REAL(cuGetProcAddress_v2, symbol, &ours, known, flags, NULL) == CUDA_SUCCESS && ours == function;
}

static void replace(const char *symbol, void **function, int version, cuuint64_t flags) {
    if (!symbol || !function || !*function) return;
    struct mm_hook *h = mm_hook_of_request(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
    if (h && is_our_variant(symbol, *function, version, flags)) *function = mm_hook_take(h, *function);
}

HOOK(cuGetProcAddress)(const char *symbol, void **function, int version, cuuint64_t flags) {
    CUresult r = REAL(cuGetProcAddress, symbol, function, version, flags);
    if (r == CUDA_SUCCESS) replace(symbol, function, version, flags);
    return r;
}

HOOK(cuGetProcAddress_v2)(const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    CUresult r = REAL(cuGetProcAddress_v2, symbol, function, version, flags, status);
    if (r == CUDA_SUCCESS) replace(symbol, function, version, flags);
    return r;
}

/* ---- the list ------------------------------------------------------------------------------------ */

/* Declared by assembler name, so that all can have the same type here. */
#define ADDRESS_OF(symbol, base, version, stream) extern const char address_of_##symbol[] __asm__("mmh_" #symbol) __attribute__((visibility("hidden")));
MM_HOOKED(ADDRESS_OF)
#define TABLE_ENTRY(symbol, base, version, stream) {#symbol, #base, version, MM_STREAM_##stream, (void *)(uintptr_t)address_of_##symbol, NULL},
struct mm_hook mm_hooks[MM_HOOK_COUNT] = {MM_HOOKED(TABLE_ENTRY)};
