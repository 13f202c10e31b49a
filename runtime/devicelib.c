/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocator as a device library for relocatable code, in the form in which nvcc -dc leaves a
 * translation unit (crt/host_runtime.h of the toolkit): machine code and PTX in __nv_relfatbin, a wrapper
 * that points there, and the module's name, which nvlink lists among those the program must register.
 *
 * Our nvlink names the library; our link stub (interpose/compile/link_stub.h) defines the host's side of it in the
 * device link's own object, so that the last link need not know of it. What is below besides the code is what
 * nvlink wants to see, and serves where somebody links the library into a program by other means.
 */
#include "mmconfig.h"

#define NAME(prefix) MM_CAT(prefix, MM_CAT(_mm_v, MM_ABI_VERSION))
#define WRAP NAME(__fatbinwrap)
#define REGISTER NAME(__cudaRegisterLinkedBinary)

__asm__(".pushsection __nv_relfatbin, \"a\"\n"
        ".balign 8\n"
        "mm_fatbin: .incbin \"" MM_FATBIN "\"\n"
        ".balign 8\n"
        ".popsection\n");
extern const char mm_fatbin[] __attribute__((visibility("hidden")));

/* Hidden: two images of one process each have their own. */
struct fatbin_wrapper {
    int magic, version;
    const void *data;
    void *file;
};
extern const struct fatbin_wrapper WRAP;
__attribute__((visibility("hidden"), section(".nvFatBinSegment"), aligned(8))) const struct fatbin_wrapper WRAP = {0x466243b1, 1, mm_fatbin, 0};

__attribute__((section("__nv_module_id"), used)) static const char module_id[] = "_mm_v" MM_STR(MM_ABI_VERSION);

/* The link stub defines this for each module that nvlink lists, and waits until all have called. */
__attribute__((visibility("hidden"))) void REGISTER(void (*)(void **), const void *, const void *, void (*)(void *));

static void nothing_to_register(void **handle) { (void)handle; }
static void keep(void *p) { (void)p; }

__attribute__((constructor)) static void register_module(void) { REGISTER(nothing_to_register, &WRAP, module_id, keep); }
