/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Code loading in the stand-in driver: files, options, and links of several inputs. */
#include "standin_internal.h"

#include <stdint.h>
#include <stdio.h>

#include "tests/hooks/cubin.h"

static bool is_linked(const void *image) { return cubin_is(image, CUBIN_OF_LINK); }
static bool is_wrapper(const void *image) { return memcmp(image, "\xb1\x43\x62\x46", 4) == 0; } /* refers to a fat binary */
static const Elf64_Sym *variable_of(const void *image) { return &((const struct cubin *)image)->symbols[3]; }
static bool holds_variable(const void *image) {
    if (is_linked(image)) return strcmp(((const struct cubin *)image)->names + variable_of(image)->st_name, MM_HEAP_REF_NAME) == 0;
    if (is_wrapper(image)) return false;
    return *(const char *)image != 0x7f && strstr(image, strstr(image, ".version") ? MM_HEAP_REF_NAME : "mm") != NULL;
}
/* The first image of a fat binary, registered or made by libmm; otherwise the image itself. */
static const void *first_of(const void *image) { return memcmp(image, "\x50\xed\x55\xba", 4) == 0 ? (const char *)image + 16 + 64 : image; }

static void note_archs(const void *image) {
    state.last_arch_count = 0;
    if (first_of(image) == image) return;
    const char *at = (const char *)image + 16, *const end = at + *(const uint64_t *)((const char *)image + 8);
    for (; at < end && state.last_arch_count < 4; at += 64 + *(const uint64_t *)(at + 8)) {
        const struct cubin *const its = (const struct cubin *)(at + 64);
        state.last_archs[state.last_arch_count++] = its->head.e_flags == *(const uint32_t *)(at + 28) ? its->head.e_flags : 0;
    }
}

/* Names internal to mm: the driver does not find such functions. */
static bool is_unresolved(const char *text) { return strstr(text, ".version") && strstr(text, " mm_call"); }

int standin_take(const void *whole, unsigned count, void **values) {
    const void *const image = first_of(whole);
    const bool is_text = *(const char *)image != 0x7f && !is_wrapper(image), has_variable = holds_variable(image);
    pthread_mutex_lock(&lock);
    state.loads++;
    state.last_image = whole;
    note_archs(whole);
    state.last_is_linked = is_linked(image) && has_variable;
    state.last_is_undefined = cubin_is(image, CUBIN_BY_HAND) || is_linked(image) ? ((const struct cubin *)image)->symbols[2].st_shndx == SHN_UNDEF : false;
    free(state.last_text);
    state.last_text = is_text ? strdup(image) : NULL;
    state.last_options = count;
    state.last_value = count ? values[0] : NULL;
    pthread_mutex_unlock(&lock);
    if (is_linked(image) && ((state.refuse_linked && has_variable) || ELF64_ST_TYPE(variable_of(image)->st_info) != STT_OBJECT)) return -1;
    if (is_text && is_unresolved(image)) return -1;
    if (count) values[0] = (void *)(uintptr_t)0x1234; /* as for CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: the number of bytes written */
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

static char *read_all(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!f || !text) return free(text), NULL;
    *bytes = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    state.loads_by_path++;
    return text;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    size_t bytes;
    char *text = path ? read_all(path, &bytes) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuModuleLoadData(module, text);
    free(text);
    return r;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options,
                               void **values, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes;
    char *text = path ? read_all(path, &bytes) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuLibraryLoadData(library, text, jit, jit_values, jit_count, options, values, count);
    free(text);
    return r;
}

/* ---- links ------------------------------------------------------------------------------------------- */

/* Needs a context, as the real one does. */
CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *link) {
    if (state.refuse_links) return CUDA_ERROR_NOT_SUPPORTED;
    ENTER();
    if (count > 16) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_FALLBACK_STRATEGY) return CUDA_ERROR_INVALID_VALUE;
    if (!CURRENT) return CUDA_ERROR_INVALID_CONTEXT;
    struct object *made = standin_make(LINK, NULL);
    made->count = count, made->options = options, made->values = values; /* the caller keeps them until the link ends */
    *link = (CUlinkState)made;
    pthread_mutex_lock(&lock);
    __atomic_fetch_add(&state.links, 1, __ATOMIC_RELAXED); /* decremented without the lock */
    state.inputs = state.inputs_with_mm = 0;
    state.link_creates++;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_TARGET) made->target = (unsigned)(uintptr_t)values[i];
        if (options[i] == CU_JIT_MAX_REGISTERS) made->registers = (unsigned)(uintptr_t)values[i];
    }
    state.link_registers = made->registers;
    state.link_options = count;
    if (count) memcpy(state.link_option, options, count * sizeof *options);
    state.link_value = count ? values[0] : NULL;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* The allocator's code: relocatable, with the heap variable. */
static bool is_ours(CUjitInputType type, const void *data, size_t bytes) {
    return type == CU_JIT_INPUT_CUBIN && ((const Elf64_Ehdr *)data)->e_type == ET_REL && memmem(data, bytes, MM_HEAP_REF_NAME, sizeof MM_HEAP_REF_NAME);
}

/* The allocation function that a text declares and does not define; NULL: none. */
static const char *service_of(const char *text) {
    static const char *const services[] = {"__cuda_syscall_aligned_malloc", "malloc", "free"};
    for (int i = 0; i < 3; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s (", services[i]);
        if (strstr(text, ".extern .func") && strstr(text, word) && !strstr(text, MM_HEAP_REF_NAME)) return services[i];
    }
    return NULL;
}

CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned count, CUjit_option *options,
                          void **values) {
    struct object *to = (struct object *)link;
    (void)name, (void)count, (void)options, (void)values;
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (type == CU_JIT_INPUT_PTX && (memchr(data, 0, bytes) != (char *)data + bytes - 1 || is_unresolved(data))) return CUDA_ERROR_INVALID_PTX;
    const bool is_mm = is_ours(type, data, bytes), is_code = type == CU_JIT_INPUT_CUBIN && !is_mm;
    if (is_code && ((const Elf64_Ehdr *)data)->e_type != CUBIN_EXTENSIBLE) return CUDA_ERROR_INVALID_IMAGE;
    if (is_mm && state.refuse_ours) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const bool has_variable = is_mm || holds_variable(data);
    if (has_variable && state.refuse_mm) return CUDA_ERROR_INVALID_PTX;
    pthread_mutex_lock(&lock);
    state.inputs++;
    state.inputs_with_mm += has_variable;
    state.last_input = type;
    if (type == CU_JIT_INPUT_PTX) {
        free(state.linked_text);
        state.linked_text = strdup(data);
    }
    if (is_code) {
        free(state.linked_cubin);
        state.linked_cubin = memcpy(malloc(bytes), data, bytes);
        state.linked_cubin_bytes = bytes;
    }
    if (is_code) to->input = memcpy(malloc(bytes), data, bytes), to->input_bytes = bytes;
    if (type == CU_JIT_INPUT_PTX && !to->service) to->service = service_of(data);
    to->holds_variable |= has_variable;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option *options, void **values) {
    size_t bytes;
    char *text = path ? read_all(path, &bytes) : NULL;
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    const CUresult r = cuLinkAddData_v2(link, type, text, bytes + 1, path, count, options, values);
    free(text);
    return r;
}

/* Writes a log and its length. */
static void write_values(const struct object *link) {
    size_t room = 0;
    for (unsigned i = 0; i < link->count; i++)
        if (link->options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) {
            room = (uintptr_t)link->values[i];
            link->values[i] = (void *)(uintptr_t)0x1234;
        }
    for (unsigned i = 0; i < link->count; i++)
        if (link->options[i] == CU_JIT_INFO_LOG_BUFFER) strncpy(link->values[i], "info: linked", room); /* not terminated if full */
}

/* Of a handmade image: defines the undefined function if mm's code is in the link. */
static void finish(const struct object *link, struct cubin *l) {
    const uint64_t outside = 1ull << 40;
    memcpy(l->head.e_ident + EI_PAD, CUBIN_OF_LINK, EI_NIDENT - EI_PAD - 1);
    if (!link->holds_variable) return;
    l->symbols[2].st_shndx = 4;
    strcpy(cubin_name(l, 3), MM_HEAP_REF_NAME);
    if (state.leaves_objects) l->symbols[3].st_info = ELF64_ST_INFO(STB_WEAK, 13);
    switch (state.leaves_objects) {
    case 2: l->sections[1].sh_offset = outside; break;
    case 3: l->sections[1].sh_size = outside; break;
    case 4: l->head.e_shoff = outside; break;
    case 5: l->head.e_shnum = 0xffff; break;
    case 6: l->head.e_machine = EM_X86_64; break;
    case 7: l->text[20] ^= 1; break;
    default: break;
    }
}

CUresult cuLinkComplete(CUlinkState state_, void **cubin, size_t *bytes) {
    struct object *link = (struct object *)state_;
    for (unsigned i = 0; is(link, LINK) && i < link->count; i++)
        if (link->options[i] == CU_JIT_ERROR_LOG_BUFFER && state.armed) strcpy(link->values[i], "error: no\nreason");
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (!link->input && state.most_registers && (!link->registers || link->registers > state.most_registers)) return CUDA_ERROR_INVALID_PTX;
    link->made_bytes = link->input ? link->input_bytes : sizeof(struct cubin);
    struct cubin *l = link->made = malloc(link->made_bytes);
    if (link->input) memcpy(l, link->input, link->made_bytes);
    else cubin_make(l, link->holds_variable ? NULL : link->service);
    l->head.e_type = ET_EXEC;
    l->head.e_flags = link->target;
    if (!link->input || cubin_is(l, CUBIN_BY_HAND) || cubin_is(l, CUBIN_OF_LINK)) finish(link, l);
    write_values(link);
    *cubin = l;
    *bytes = link->made_bytes;
    return CUDA_SUCCESS;
}

/* Destroys the image as well. */
CUresult cuLinkDestroy(CUlinkState state_) {
    struct object *link = (struct object *)state_;
    ENTER();
    if (!is(link, LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (link->made) memset(link->made, 0xdd, link->made_bytes);
    free(link->made);
    free(link->input);
    __atomic_fetch_sub(&state.links, 1, __ATOMIC_RELAXED);
    standin_unmake(link);
    return CUDA_SUCCESS;
}

/* Their first variants. */
#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
__typeof__(cuLinkCreate_v2) cuLinkCreate;
CUresult cuLinkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *link) { return cuLinkCreate_v2(count, options, values, link); }
__typeof__(cuLinkAddData_v2) cuLinkAddData;
CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name, unsigned count, CUjit_option *options,
                       void **values) {
    return cuLinkAddData_v2(link, type, data, bytes, name, count, options, values);
}
__typeof__(cuLinkAddFile_v2) cuLinkAddFile;
CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned count, CUjit_option *options, void **values) {
    return cuLinkAddFile_v2(link, type, path, count, options, values);
}
