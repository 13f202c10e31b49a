/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Included before the toolkit's crt/link.stub, in each device link that mmnvcc makes.
 *
 * nvlink lists the modules a program must register, mm's device library among them
 * (DEFINE_REGISTER_FUNC(_mm_v1) in REGISTERLINKBINARYFILE), and the stub then refers to the wrapper of each.
 * mm's wrapper is defined here, so that the final link needs no -lmm and each of several device links in one
 * program has its own. The driver links the code in it when it has to assemble the program's PTX itself. The
 * stub's macro makes the two names below; the second is expanded once, between 'void' and the parameters of the
 * function it defines. A program that needs no allocator gets none of this. (_v1 becomes MM_ABI_VERSION when mm
 * is built.)
 */
#define __fatbinwrap_mm_v1 mm_fatbinwrap_v1

#define __cudaRegisterLinkedBinary_mm_v1                                                                                                  \
    mm_register_unused(void);                                                                                                             \
    static void mm_register_nothing(void **) {}                                                                                           \
    __asm__(".pushsection __nv_relfatbin, \"a\"\n"                                                                                        \
            ".balign 8\n"                                                                                                                 \
            "mm_fatbin_v1: .incbin \"" MM_DRIVER_FATBIN "\"\n"                                                                            \
            ".balign 8\n"                                                                                                                 \
            ".popsection\n"                                                                                                               \
            ".pushsection .nvFatBinSegment, \"aw\"\n"                                                                                     \
            ".balign 8\n"                                                                                                                 \
            "mm_fatbinwrap_v1: .long 0x466243b1, 1\n"                                                                                     \
            ".quad mm_fatbin_v1, 0\n"                                                                                                     \
            ".popsection\n");                                                                                                             \
    static void mm_register_keep(void *) {}                                                                                               \
    static void mm_register_linked(void (*)(void **), void *, void *, void (*)(void *));                                                  \
    __attribute__((constructor)) static void mm_register_start(void) { mm_register_linked(mm_register_nothing, 0, 0, mm_register_keep); } \
    static void mm_register_linked
