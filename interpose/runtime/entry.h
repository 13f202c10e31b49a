/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* dlsym itself, in assembly: everything but a function of the driver's, NVRTC's or nvJitLink's asked of an explicit handle must reach the
 * real one by a jump, since it looks at its return address to tell what RTLD_NEXT means (F9). NVRTC's and nvJitLink's are asked of
 * RTLD_DEFAULT, too (cuda.bindings does): these are ours if the process at large has the library. The same
 * text makes libmm.so's exported dlsym and mmhook.o's.
 */
#ifndef MM_INTERPOSE_ENTRY_H
#define MM_INTERPOSE_ENTRY_H

#include <string.h>

/* NVRTC's and nvJitLink's functions for which libmm.so may have others (nvrtc.h, nvjitlink.h). */
static inline int mm_is_nvrtc(const char *name) { return strncmp(name, "nvrtcGetCUBIN", 13) == 0; }
static inline int mm_is_nvjitlink(const char *name) { return strncmp(name, "nvJitLink", 9) == 0; }

/* Address of the real dlsym; NULL until the C function `find` ran. */
static void *mm_real_dlsym __attribute__((used));

#if defined(__x86_64__)
#define MM_DLSYM_VERSIONS "GLIBC_2.34", "GLIBC_2.2.5"
/* binding: assembler lines that declare the symbol; find, ours: local C functions */
#define MM_DLSYM_ENTRY(binding, find, ours)                                                               \
    __asm__(".pushsection .text.mm_dlsym,\"ax\",@progbits\n" binding                                      \
            ".type dlsym, @function\n"                                                                    \
            ".p2align 4\n"                                                                                \
            "dlsym:\n"                                                                                    \
            "    endbr64\n"                                                                               \
            "    movq mm_real_dlsym(%rip), %rax\n"                                                        \
            "    testq %rax, %rax\n"                                                                      \
            "    je 3f\n"                                                                                 \
            "1:  testq %rsi, %rsi\n"                                                                      \
            "    je 2f\n"                                                                                 \
            "    cmpq $-1, %rdi\n" /* RTLD_NEXT */                                                        \
            "    je 2f\n"                                                                                 \
            "    cmpb $'n', (%rsi)\n"                                                                     \
            "    je 4f\n"                                                                                 \
            "    testq %rdi, %rdi\n" /* RTLD_DEFAULT */                                                   \
            "    je 2f\n"                                                                                 \
            "    cmpb $'c', (%rsi)\n"                                                                     \
            "    jne 2f\n"                                                                                \
            "    cmpb $'u', 1(%rsi)\n"                                                                    \
            "    je 5f\n"                                                                                 \
            "    jmp 2f\n"                                                                                \
            "4:  cmpb $'v', 1(%rsi)\n"                                                                    \
            "    jne 2f\n"                                                                                \
            "    testq %rdi, %rdi\n"                                                                      \
            "    je 6f\n"                                                                                 \
            "5:  jmp " ours "\n"                                                                          \
            "2:  jmp *%rax\n"                                                                             \
            "6:  pushq %rdi\n" /* what the process has; if nothing, the caller may */                     \
            "    pushq %rsi\n"                                                                            \
            "    subq $8, %rsp\n"                                                                         \
            "    call " ours "\n"                                                                         \
            "    addq $8, %rsp\n"                                                                         \
            "    popq %rsi\n"                                                                             \
            "    popq %rdi\n"                                                                             \
            "    testq %rax, %rax\n"                                                                      \
            "    je 7f\n"                                                                                 \
            "    ret\n"                                                                                   \
            "7:  movq mm_real_dlsym(%rip), %rax\n"                                                        \
            "    jmp *%rax\n"                                                                             \
            "3:  pushq %rdi\n"                                                                            \
            "    pushq %rsi\n"                                                                            \
            "    subq $8, %rsp\n"                                                                         \
            "    call " find "\n"                                                                         \
            "    addq $8, %rsp\n"                                                                         \
            "    popq %rsi\n"                                                                             \
            "    popq %rdi\n"                                                                             \
            "    movq mm_real_dlsym(%rip), %rax\n"                                                        \
            "    jmp 1b\n"                                                                                \
            ".size dlsym, .-dlsym\n"                                                                      \
            ".popsection\n")
#elif defined(__aarch64__)
#define MM_DLSYM_VERSIONS "GLIBC_2.34", "GLIBC_2.17"
#define MM_DLSYM_ENTRY(binding, find, ours)                                                               \
    __asm__(".pushsection .text.mm_dlsym,\"ax\",@progbits\n" binding                                      \
            ".type dlsym, %function\n"                                                                    \
            ".p2align 4\n"                                                                                \
            "dlsym:\n"                                                                                    \
            "    hint #34\n" /* bti c */                                                                  \
            "    adrp x16, mm_real_dlsym\n"                                                               \
            "    ldr x16, [x16, :lo12:mm_real_dlsym]\n"                                                   \
            "    cbz x16, 3f\n"                                                                           \
            "1:  cbz x1, 2f\n"                                                                            \
            "    cmn x0, #1\n" /* RTLD_NEXT */                                                            \
            "    b.eq 2f\n"                                                                               \
            "    ldrb w9, [x1]\n"                                                                         \
            "    cmp w9, #'n'\n"                                                                          \
            "    b.eq 4f\n"                                                                               \
            "    cbz x0, 2f\n" /* RTLD_DEFAULT */                                                         \
            "    cmp w9, #'c'\n"                                                                          \
            "    b.ne 2f\n"                                                                               \
            "    ldrb w9, [x1, #1]\n"                                                                     \
            "    cmp w9, #'u'\n"                                                                          \
            "    b.eq 5f\n"                                                                               \
            "    b 2f\n"                                                                                  \
            "4:  ldrb w9, [x1, #1]\n"                                                                     \
            "    cmp w9, #'v'\n"                                                                          \
            "    b.ne 2f\n"                                                                               \
            "    cbz x0, 6f\n"                                                                            \
            "5:  b " ours "\n"                                                                            \
            "2:  br x16\n"                                                                                \
            "6:  stp x29, x30, [sp, #-32]!\n" /* what the process has; if nothing, the caller may */      \
            "    stp x0, x1, [sp, #16]\n"                                                                 \
            "    bl " ours "\n"                                                                           \
            "    mov x9, x0\n"                                                                            \
            "    ldp x0, x1, [sp, #16]\n"                                                                 \
            "    ldp x29, x30, [sp], #32\n"                                                               \
            "    cbz x9, 7f\n"                                                                            \
            "    mov x0, x9\n"                                                                            \
            "    ret\n"                                                                                   \
            "7:  adrp x16, mm_real_dlsym\n"                                                               \
            "    ldr x16, [x16, :lo12:mm_real_dlsym]\n"                                                   \
            "    br x16\n"                                                                                \
            "3:  stp x29, x30, [sp, #-32]!\n"                                                             \
            "    stp x0, x1, [sp, #16]\n"                                                                 \
            "    bl " find "\n"                                                                           \
            "    ldp x0, x1, [sp, #16]\n"                                                                 \
            "    ldp x29, x30, [sp], #32\n"                                                               \
            "    adrp x16, mm_real_dlsym\n"                                                               \
            "    ldr x16, [x16, :lo12:mm_real_dlsym]\n"                                                   \
            "    b 1b\n"                                                                                  \
            ".size dlsym, .-dlsym\n"                                                                      \
            ".popsection\n")
#else
#error "dlsym is written for x86-64 and aarch64"
#endif

#endif
