/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The member of libmmshared.a that is linked into shared libraries only: mmhook.o refers to _start, which programs already define.
 *
 * It makes mmhook.o's dlsym hidden. A program's dlsym must be visible: a shared cudart calls the first one in the process, and
 * gets libmm.so's functions from it. A library's dlsym has no such use, and if loaded early enough, other images would bind to it.
 */
#include "interpose/preload/program/refer.h"

__attribute__((weak, visibility("hidden"))) void _start(void);
void _start(void) { __builtin_trap(); }

__asm__(".hidden dlsym\n" MM_REFER("dlsym"));
