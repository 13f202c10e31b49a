/* The stand-in driver's ways of taking code: files, options, and links of several inputs. */
#include <stdint.h>
#include <stdio.h>

#include "standin_internal.h"

int standin_take(const void *image, unsigned count, void **values) {
    const bool is_text = *(const char *)image != 0x7f;
    const bool has_variable = is_text && strstr(image, strstr(image, ".version") ? MM_HEAP_REF_NAME : "mm") != NULL;
    pthread_mutex_lock(&lock);
    state.loads++;
    state.last_image = image;
    free(state.last_text);
    state.last_text = is_text ? strdup(image) : NULL;
    state.last_options = count;
    state.last_value = count ? values[0] : NULL;
    pthread_mutex_unlock(&lock);
    if (count) values[0] = (void *)(uintptr_t)0x1234; /* as of CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: so much was written */
    return has_variable && state.refuse_mm ? -1 : has_variable;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    void *first = count ? values[0] : NULL;
    (void)options;
    const CUresult r = cuModuleLoadData(module, image);
    state.last_options = count;
    state.last_value = first;
    if (count) values[0] = (void *)(uintptr_t)0x1234;
    return r;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!f || !text) return free(text), NULL;
    if (!fread(text, 1, (1 << 20) - 1, f)) text[0] = 0;
    fclose(f);
    state.loads_by_path++;
    return text;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    char *text = path ? read_all(path) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuModuleLoadData(module, text);
    free(text);
    return r;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,
                               CUlibraryOption *options, void **values, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
    char *text = path ? read_all(path) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuLibraryLoadData(library, text, jit, jit_values, jit_count, options, values, count);
    free(text);
    return r;
}

/* ---- links ------------------------------------------------------------------------------------------- */

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *link) {
    (void)count, (void)options, (void)values;
    ENTER();
    *link = (CUlinkState)standin_make(LINK, NULL);
    state.inputs = state.inputs_with_mm = 0;
    state.registers = 0;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned count,
                          CUjit_option *options, void **values) {
    (void)name;
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (type == CU_JIT_INPUT_PTX && memchr(data, 0, bytes) != (char *)data + bytes - 1) return CUDA_ERROR_INVALID_PTX;
    void *copies[8];
    if (count > 8) abort();
    if (count) memcpy(copies, values, count * sizeof *values);
    const int has_variable = standin_take(data, count, copies);
    if (has_variable < 0) return CUDA_ERROR_INVALID_PTX;
    state.inputs++;
    state.inputs_with_mm += has_variable;
    for (unsigned i = 0; has_variable && i < count; i++)
        if (options[i] == CU_JIT_MAX_REGISTERS) state.registers = (unsigned)(uintptr_t)values[i];
    ((struct object *)link)->holds_variable |= has_variable;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                          void **values) {
    char *text = path ? read_all(path) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuLinkAddData_v2(link, type, text, strlen(text) + 1, path, count, options, values);
    free(text);
    return r;
}

CUresult cuLinkComplete(CUlinkState link, void **cubin, size_t *bytes) {
    static char with[] = "mm", without[] = "plain";
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    *cubin = ((struct object *)link)->holds_variable ? with : without;
    *bytes = strlen(*cubin);
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link) {
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    standin_unmake((struct object *)link);
    return CUDA_SUCCESS;
}

/* Their first variants. */
#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
__typeof__(cuLinkCreate_v2) cuLinkCreate;
CUresult cuLinkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *link) {
    return cuLinkCreate_v2(count, options, values, link);
}
__typeof__(cuLinkAddData_v2) cuLinkAddData;
CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned count,
                       CUjit_option *options, void **values) {
    return cuLinkAddData_v2(link, type, data, bytes, name, count, options, values);
}
__typeof__(cuLinkAddFile_v2) cuLinkAddFile;
CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                       void **values) {
    return cuLinkAddFile_v2(link, type, path, count, options, values);
}
