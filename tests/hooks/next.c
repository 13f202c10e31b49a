/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libnext.so: the answer that libthird.so looks for with RTLD_NEXT. */
int answer(void);
int answer(void) { return 1; }
