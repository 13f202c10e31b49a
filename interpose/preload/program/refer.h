/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Makes an object refer to a symbol, for the linker to find, without using it. */
#ifndef MM_INTERPOSE_REFER_H
#define MM_INTERPOSE_REFER_H

#if defined(__x86_64__)
#define MM_REFER(symbol) ".pushsection .text\n.reloc ., R_X86_64_NONE, " symbol "\n.popsection\n"
#else
#define MM_REFER(symbol) ".pushsection .text\n.reloc ., R_AARCH64_NONE, " symbol "\n.popsection\n"
#endif

#endif
