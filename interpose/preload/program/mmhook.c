/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmhook.o: linked into every image that mmnvcc links, so that its CUDA calls reach libmm.so, whatever was
 * loaded before.
 *
 * It defines, WEAK and HIDDEN, dlsym and the driver functions that libmm.so intercepts. Hidden: they bind only
 * inside this image. But a program's dlsym is visible to all images, so that a shared cudart calls it. Weak: the program's
 * own definition wins, and naming the library twice in a link does no harm. A program without CUDA never gets here.
 * The first use of a driver function looks for libmm.so.1: one that the process has loaded, one that the loader finds for
 * this image (its run path, LD_LIBRARY_PATH, the system's folders), one where it was when this object was built
 * (MM_LIBDIR). It takes the first of the image's own version; if there is none, the first it finds. Without libmm.so, everything
 * behaves as if this object were not there.
 * No CUDA header, no constructor, no variable that needs a relocation.
 */
#define _GNU_SOURCE /* dlvsym, dladdr, RTLD_NOLOAD */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "interpose/preload/program/refer.h"
#include "interpose/preload/entry.h"
#include "interpose/preload/names.h"
#include "mmconfig.h"

#ifndef MM_LIBDIR
#error "MM_LIBDIR: the folder of libmm.so.1, absolute"
#endif

#define LIBMM "libmm.so.1"

/* Follows a mark, by which mmdoctor finds it in a linked file; has its own section, which mmview replaces if mm was copied elsewhere. */
#define MARK "mm's run time: "
static const char where[] __attribute__((used, section(".rodata.mm_place"))) = MARK MM_LIBDIR "/" LIBMM;

typedef void *dlsym_function(void *handle, const char *name);

static void *no_dlsym(void *handle, const char *name) {
    (void)handle;
    (void)name;
    return NULL;
}

__attribute__((used)) static void find_real_dlsym(void) {
    static const char versions[][16] = {MM_DLSYM_VERSIONS};
    void *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !found; i++) found = dlvsym(RTLD_DEFAULT, "dlsym", versions[i]);
    if (!found) {
        dlsym_function *none = no_dlsym;
        memcpy(&found, &none, sizeof found);
    }
    __atomic_store_n(&mm_real_dlsym, found, __ATOMIC_RELEASE);
}

static void *real_dlsym(void *handle, const char *name) {
    dlsym_function *call;
    if (!__atomic_load_n(&mm_real_dlsym, __ATOMIC_ACQUIRE)) find_real_dlsym();
    memcpy(&call, &mm_real_dlsym, sizeof call);
    return call(handle, name);
}

static const char earlier[] =
    " is of an earlier version of mm than this program, whose kernels get no heap; put that of mm " MM_VERSION " there, or start the program with its mmrun\n";

/* Reports a library that cannot itself detect that the program is of another version. */
static void complain(void *mm_dlsym) {
    Dl_info found;
    char line[1024] = "mm: ";
    if (!dladdr(mm_dlsym, &found) || !found.dli_fname) return;
    strncat(line, found.dli_fname, sizeof line - sizeof earlier - 4);
    strcat(line, earlier);
    if (write(STDERR_FILENO, line, strlen(line)) < 0) return; /* nowhere left to report it */
}

/* mm's dlsym in a library; NULL: not mm's library, but another of the same name. */
static void *mm_dlsym_of(void *library) { return real_dlsym(library, "mm_dlsym_v1"); }

/* The agreement version of a libmm.so; NULL: too old to export it. */
static const unsigned *agreement_of(void *library) { return (const unsigned *)real_dlsym(library, "mm_agreement"); }

static void *open_libmm(void) {
    void *other = NULL;
    for (int place = 0; place < 3; place++) {
        void *handle = dlopen(place < 2 ? LIBMM : where + sizeof MARK - 1, place == 0 ? RTLD_LAZY | RTLD_NOLOAD : RTLD_NOW);
        if (!handle) continue;
        const unsigned *agreement = agreement_of(handle);
        if (agreement && *agreement == MM_ABI_VERSION) return handle;
        if (!other && mm_dlsym_of(handle)) other = handle;
        else dlclose(handle);
    }
    if (other && !agreement_of(other)) complain(mm_dlsym_of(other));
    return other;
}

static void *libmm(void) {
    static void *library;
    static char tried;
    void *handle = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (handle || __atomic_load_n(&tried, __ATOMIC_ACQUIRE)) return handle;
    handle = open_libmm();
    dlerror(); /* clears an error that the program must not see */
    __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
    __atomic_store_n(&tried, 1, __ATOMIC_RELEASE);
    return handle;
}

/* dlsym of a name that begins with "cu" on an explicit handle. */
__attribute__((used)) static void *hooked_dlsym(void *handle, const char *name) {
    dlsym_function *call = NULL;
    if (name[2] >= 'A' && name[2] <= 'Z') { /* cuXxx, not curl_… or cublas… */
        void *library = libmm(), *found = library ? real_dlsym(library, "mm_dlsym_v1") : NULL;
        memcpy(&call, &found, sizeof call);
    }
    return call ? call(handle, name) : real_dlsym(handle, name);
}

MM_DLSYM_ENTRY(".weak dlsym\n", "find_real_dlsym", "hooked_dlsym");
__asm__(MM_REFER("_start")); /* hides dlsym in a shared library (shared.c) */

/* ---- plain symbols: forwarders that find their target at the first call ------------------------- */

/* Laid out by the assembly: the target, and the name. */
struct forwarder {
    void *target;
    char name[];
};

static int no_driver(void) { return 3; /* CUDA_ERROR_NOT_INITIALIZED, and mm.h's MM_ERROR_NO_RUN_TIME */ }

__attribute__((used)) static void *resolve_forwarder(struct forwarder *f) {
    void *library = libmm(), *found = library ? real_dlsym(library, f->name) : NULL;
    if (!found && f->name[0] == 'c') { /* not mm's own */
        library = dlopen("libcuda.so.1", RTLD_LAZY);
        found = library ? real_dlsym(library, f->name) : NULL;
    }
    if (!found) {
        int (*none)(void) = no_driver;
        memcpy(&found, &none, sizeof found);
    }
    __atomic_store_n(&f->target, found, __ATOMIC_RELEASE);
    return found;
}

#define FORWARDER_DATA(symbol)                                            \
    ".pushsection .data.mmhook,\"aw\",@progbits\n"                        \
    ".p2align 3\n"                                                        \
    "mmhook_" symbol ": .quad 0\n"                                        \
    ".asciz \"" symbol "\"\n"                                             \
    ".popsection\n"                                                       \
    ".weak " symbol "\n.hidden " symbol "\n.type " symbol ", %function\n" \
    ".p2align 4\n" symbol ":\n"

/* No function in the lists takes floating-point arguments: saving the integer registers is enough. */
#if defined(__x86_64__)
#define FORWARDER(symbol)                      \
    FORWARDER_DATA(symbol)                     \
    "    endbr64\n"                            \
    "    leaq mmhook_" symbol "(%rip), %rax\n" \
    "    jmp mmhook_forward\n"
__asm__(".text\n"
        "mmhook_forward:\n"
        "    movq (%rax), %r11\n"
        "    testq %r11, %r11\n"
        "    je 1f\n"
        "    jmp *%r11\n"
        "1:  pushq %rdi\n"
        "    pushq %rsi\n"
        "    pushq %rdx\n"
        "    pushq %rcx\n"
        "    pushq %r8\n"
        "    pushq %r9\n"
        "    subq $8, %rsp\n"
        "    movq %rax, %rdi\n"
        "    call resolve_forwarder\n"
        "    addq $8, %rsp\n"
        "    popq %r9\n"
        "    popq %r8\n"
        "    popq %rcx\n"
        "    popq %rdx\n"
        "    popq %rsi\n"
        "    popq %rdi\n"
        "    jmp *%rax\n");
#else
#define FORWARDER(symbol)                         \
    FORWARDER_DATA(symbol)                        \
    "    hint #34\n"                              \
    "    adrp x16, mmhook_" symbol "\n"           \
    "    add x16, x16, :lo12:mmhook_" symbol "\n" \
    "    b mmhook_forward\n"
__asm__(".text\n"
        "mmhook_forward:\n"
        "    ldr x17, [x16]\n"
        "    cbz x17, 1f\n"
        "    br x17\n"
        "1:  stp x29, x30, [sp, #-80]!\n"
        "    stp x0, x1, [sp, #16]\n"
        "    stp x2, x3, [sp, #32]\n"
        "    stp x4, x5, [sp, #48]\n"
        "    stp x6, x7, [sp, #64]\n"
        "    mov x0, x16\n"
        "    bl resolve_forwarder\n"
        "    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n"
        "    ldp x2, x3, [sp, #32]\n"
        "    ldp x4, x5, [sp, #48]\n"
        "    ldp x6, x7, [sp, #64]\n"
        "    ldp x29, x30, [sp], #80\n"
        "    br x16\n");
#endif

#define FORWARD(symbol, base, version, stream) FORWARDER(#symbol)
#define FORWARD_OWN(symbol) FORWARDER(#symbol)
__asm__(".text\n" MM_HOOKED(FORWARD) MM_OWN(FORWARD_OWN));
