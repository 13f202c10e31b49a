/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* dlsym, in assembly. Every call except a look-up of a driver function in an explicit handle must reach the real dlsym by a jump, since dlsym determines
 * from its return address what RTLD_NEXT means. The dlsym that libmm.so exports and that of mmhook.o are both made from this text.
 */
#ifndef MM_INTERPOSE_ENTRY_H
#define MM_INTERPOSE_ENTRY_H

/* Address of the real dlsym; NULL until the C function `find` has run. */
static void *mm_real_dlsym __attribute__((used));

#if defined(__x86_64__)
#define MM_DLSYM_VERSIONS "GLIBC_2.34", "GLIBC_2.2.5"
/* binding: assembler lines that declare the symbol; find, ours: local C functions */
#define MM_DLSYM_ENTRY(binding, find, ours)                                                     \
    __asm__(".pushsection .text.mm_dlsym,\"ax\",@progbits\n" binding ".type dlsym, @function\n" \
            ".p2align 4\n"                                                                      \
            "dlsym:\n"                                                                          \
            "    endbr64\n"                                                                     \
            "    movq mm_real_dlsym(%rip), %rax\n"                                              \
            "    testq %rax, %rax\n"                                                            \
            "    je 3f\n"                                                                       \
            "1:  testq %rsi, %rsi\n"                                                            \
            "    je 2f\n"                                                                       \
            "    leaq 1(%rdi), %rcx\n" /* RTLD_NEXT is -1, RTLD_DEFAULT 0 */                    \
            "    cmpq $1, %rcx\n"                                                               \
            "    jbe 2f\n"                                                                      \
            "    cmpb $'c', (%rsi)\n"                                                           \
            "    jne 2f\n"                                                                      \
            "    cmpb $'u', 1(%rsi)\n"                                                          \
            "    jne 2f\n"                                                                      \
            "    jmp " ours "\n"                                                                \
            "2:  jmp *%rax\n"                                                                   \
            "3:  pushq %rdi\n"                                                                  \
            "    pushq %rsi\n"                                                                  \
            "    subq $8, %rsp\n"                                                               \
            "    call " find "\n"                                                               \
            "    addq $8, %rsp\n"                                                               \
            "    popq %rsi\n"                                                                   \
            "    popq %rdi\n"                                                                   \
            "    movq mm_real_dlsym(%rip), %rax\n"                                              \
            "    jmp 1b\n"                                                                      \
            ".size dlsym, .-dlsym\n"                                                            \
            ".popsection\n")
#elif defined(__aarch64__)
#define MM_DLSYM_VERSIONS "GLIBC_2.34", "GLIBC_2.17"
#define MM_DLSYM_ENTRY(binding, find, ours)                                                     \
    __asm__(".pushsection .text.mm_dlsym,\"ax\",@progbits\n" binding ".type dlsym, %function\n" \
            ".p2align 4\n"                                                                      \
            "dlsym:\n"                                                                          \
            "    hint #34\n" /* bti c */                                                        \
            "    adrp x16, mm_real_dlsym\n"                                                     \
            "    ldr x16, [x16, :lo12:mm_real_dlsym]\n"                                         \
            "    cbz x16, 3f\n"                                                                 \
            "1:  cbz x1, 2f\n"                                                                  \
            "    add x9, x0, #1\n" /* RTLD_NEXT is -1, RTLD_DEFAULT 0 */                        \
            "    cmp x9, #1\n"                                                                  \
            "    b.ls 2f\n"                                                                     \
            "    ldrb w9, [x1]\n"                                                               \
            "    cmp w9, #'c'\n"                                                                \
            "    b.ne 2f\n"                                                                     \
            "    ldrb w9, [x1, #1]\n"                                                           \
            "    cmp w9, #'u'\n"                                                                \
            "    b.ne 2f\n"                                                                     \
            "    b " ours "\n"                                                                  \
            "2:  br x16\n"                                                                      \
            "3:  stp x29, x30, [sp, #-32]!\n"                                                   \
            "    stp x0, x1, [sp, #16]\n"                                                       \
            "    bl " find "\n"                                                                 \
            "    ldp x0, x1, [sp, #16]\n"                                                       \
            "    ldp x29, x30, [sp], #32\n"                                                     \
            "    adrp x16, mm_real_dlsym\n"                                                     \
            "    ldr x16, [x16, :lo12:mm_real_dlsym]\n"                                         \
            "    b 1b\n"                                                                        \
            ".size dlsym, .-dlsym\n"                                                            \
            ".popsection\n")
#else
#error "dlsym is written for x86-64 and aarch64"
#endif

#endif
