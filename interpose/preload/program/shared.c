/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The member of libmmshared.a that goes into shared libraries and not into programs: mmhook.o asks for _start, which programs have.
 *
 * It makes mmhook.o's dlsym hidden. In a program dlsym is to be seen by all: a shared cudart asks the first one in the process, and
 * takes libmm.so's functions from it. A library's would be nobody's but, loaded early enough, somebody else's.
 */
#include "interpose/preload/program/refer.h"

__attribute__((weak, visibility("hidden"))) void _start(void);
void _start(void) { __builtin_trap(); }

__asm__(".hidden dlsym\n" MM_REFER("dlsym"));
