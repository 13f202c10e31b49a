/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hooks that load code, possibly as PTX, and hooks that return or end handles of kernels. */
#include <string.h>

#include "interpose/preload/hooks.h"
#include "interpose/load/image.h"
#include "interpose/preload/jit.h"

/* ---- code loaded at run time (jit.h) -------------------------------------------------------------- */

/* Loads an image that try_ours made from the program's, or the program's own if the driver accepts none of those. */
#define LOAD(try_ours, ours, theirs)                                        \
    struct mm_jit j;                                                        \
    memset(&j, 0, sizeof j);                                                \
    for (bool has_one = (try_ours); has_one; has_one = mm_jit_try_next(&j)) \
        if (mm_jit_is_taken(&j, WITH_MEMORY(0, ours))) return CUDA_SUCCESS; \
    return mm_jit_answer(&j, WITH_MEMORY(0, theirs))

HOOK(cuModuleLoadData)(CUmodule *module, const void *image) {
    LOAD(mm_jit_try_image(&j, image, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image), REAL(cuModuleLoadData, module, image));
}

HOOK(cuModuleLoad)(CUmodule *module, const char *path) {
    LOAD(mm_jit_try_file(&j, path, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image), REAL(cuModuleLoad, module, path));
}

HOOK(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    LOAD(mm_jit_try_image(&j, image, options, values, count), REAL(cuModuleLoadDataEx, module, j.image, j.count, j.options, j.values),
         REAL(cuModuleLoadDataEx, module, image, count, options, values));
}

/* cuModuleLoadFatBinary may refuse anything but a fat binary or PTX, so our image is loaded by cuModuleLoadData. */
HOOK(cuModuleLoadFatBinary)(CUmodule *module, const void *image) {
    LOAD(mm_jit_try_image(&j, image, NULL, NULL, 0), REAL(cuModuleLoadData, module, j.image), REAL(cuModuleLoadFatBinary, module, image));
}

HOOK(cuLibraryLoadData)
(CUlibrary *library, const void *image, CUjit_option *options, void **values, unsigned count, CUlibraryOption *more, void **more_values, unsigned more_count) {
    LOAD(mm_jit_try_options(&j, false, more, more_values, more_count) && mm_jit_try_image(&j, image, options, values, count),
         REAL(cuLibraryLoadData, library, j.image, j.options, j.values, j.count, j.library_options, j.library_values, j.library_count),
         REAL(cuLibraryLoadData, library, image, options, values, count, more, more_values, more_count));
}

HOOK(cuLibraryLoadFromFile)
(CUlibrary *library, const char *path, CUjit_option *options, void **values, unsigned count, CUlibraryOption *more, void **more_values, unsigned more_count) {
    LOAD(mm_jit_try_options(&j, true, more, more_values, more_count) && mm_jit_try_file(&j, path, options, values, count),
         REAL(cuLibraryLoadData, library, j.image, j.options, j.values, j.count, j.library_options, j.library_values, j.library_count),
         REAL(cuLibraryLoadFromFile, library, path, options, values, count, more, more_values, more_count));
}

/* Inputs of the driver's linker keep CUDA's allocator and its names; the linked image gets mm's allocator when it is loaded. */
#define LINK_HOOKS(suffix)                                                                                                                              \
    HOOK(cuLinkAddData##suffix)                                                                                                                         \
    (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned count, CUjit_option *options, void **values) {        \
        struct mm_text mended = {NULL, 0, 0};                                                                                                           \
        if (type == CU_JIT_INPUT_PTX && data) data = (void *)(uintptr_t)mm_jit_mend((const char *)data, &bytes, &mended);                               \
        CUresult r = REAL(cuLinkAddData##suffix, state, type, data, bytes, name, count, options, values);                                               \
        mm_text_free(&mended);                                                                                                                          \
        return r;                                                                                                                                       \
    }                                                                                                                                                   \
    HOOK(cuLinkAddFile##suffix)(CUlinkState state, CUjitInputType type, const char *path, unsigned count, CUjit_option *options, void **values) {       \
        struct mm_text file, mended;                                                                                                                    \
        if (type != CU_JIT_INPUT_PTX || !mm_image_try_read(path, &file)) return REAL(cuLinkAddFile##suffix, state, type, path, count, options, values); \
        size_t bytes = file.bytes + 1;                                                                                                                  \
        const char *const text = mm_jit_mend(file.data, &bytes, &mended);                                                                               \
        CUresult r = mended.data ? REAL(cuLinkAddData##suffix, state, type, (void *)(uintptr_t)text, bytes, path, count, options, values)               \
                                 : REAL(cuLinkAddFile##suffix, state, type, path, count, options, values);                                              \
        mm_text_free(&mended);                                                                                                                          \
        mm_text_free(&file);                                                                                                                            \
        return r;                                                                                                                                       \
    }
LINK_HOOKS()
LINK_HOOKS(_v2)

HOOK(cuLinkComplete)(CUlinkState state, void **image, size_t *bytes) { return WITH_MEMORY(0, REAL(cuLinkComplete, state, image, bytes)); }

/* ---- handles --------------------------------------------------------------------------------- */

/* A function of a library's module is recorded with the library as its owner. The record ends with the
 * current context, which is normally the module's. */
static void record_function(CUfunction f, CUmodule module) {
    struct mm_handle m = mm_attach_find(module);
    if (m.kind == MM_HANDLE_MODULE) mm_attach_record(f, MM_HANDLE_INSTANCE, (const void *)m.owner, current_context());
    else mm_attach_record(f, MM_HANDLE_FUNCTION, module, current_context());
}

HOOK(cuModuleGetFunction)(CUfunction *f, CUmodule module, const char *name) {
    CUresult r = WITH_MEMORY(0, REAL(cuModuleGetFunction, f, module, name));
    if (r == CUDA_SUCCESS && f) record_function(*f, module);
    return r;
}

HOOK(cuModuleEnumerateFunctions)(CUfunction *list, unsigned count, CUmodule module) {
    for (unsigned i = 0; list && i < count; i++) list[i] = NULL; /* there may be fewer than `count` */
    CUresult r = WITH_MEMORY(0, REAL(cuModuleEnumerateFunctions, list, count, module));
    for (unsigned i = 0; r == CUDA_SUCCESS && list && i < count && list[i]; i++) record_function(list[i], module);
    return r;
}

HOOK(cuLibraryGetKernel)(CUkernel *kernel, CUlibrary library, const char *name) {
    CUresult r = WITH_MEMORY(0, REAL(cuLibraryGetKernel, kernel, library, name));
    if (r == CUDA_SUCCESS && kernel) mm_attach_record(*kernel, MM_HANDLE_KERNEL, library, NULL);
    return r;
}

HOOK(cuLibraryEnumerateKernels)(CUkernel *list, unsigned count, CUlibrary library) {
    for (unsigned i = 0; list && i < count; i++) list[i] = NULL;
    CUresult r = WITH_MEMORY(0, REAL(cuLibraryEnumerateKernels, list, count, library));
    for (unsigned i = 0; r == CUDA_SUCCESS && list && i < count && list[i]; i++) mm_attach_record(list[i], MM_HANDLE_KERNEL, library, NULL);
    return r;
}

HOOK(cuKernelGetFunction)(CUfunction *f, CUkernel kernel) {
    CUresult r = WITH_MEMORY(0, REAL(cuKernelGetFunction, f, kernel));
    if (r == CUDA_SUCCESS && f) {
        const struct mm_driver *d = mm_driver_get();
        struct mm_handle k = mm_attach_find(kernel);
        CUlibrary library = k.kind == MM_HANDLE_KERNEL ? (CUlibrary)k.owner : NULL;
        if (!library && d && d->cuKernelGetLibrary && d->cuKernelGetLibrary(&library, kernel) != CUDA_SUCCESS) library = NULL;
        if (library) mm_attach_record(*f, MM_HANDLE_INSTANCE, library, current_context());
    }
    return r;
}

HOOK(cuLibraryGetModule)(CUmodule *module, CUlibrary library) {
    CUresult r = WITH_MEMORY(0, REAL(cuLibraryGetModule, module, library));
    if (r == CUDA_SUCCESS && module) mm_attach_record(*module, MM_HANDLE_MODULE, library, current_context());
    return r;
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Removed from the records before the driver's call: after it, another thread may get the same values as new handles. */
HOOK(cuModuleUnload)(CUmodule module) {
    mm_attach_forget_owner(module);
    return REAL(cuModuleUnload, module);
}

HOOK(cuLibraryUnload)(CUlibrary library) {
    mm_attach_forget_owner(library);
    return REAL(cuLibraryUnload, library);
}
