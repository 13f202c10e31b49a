/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libmock.so: another library's functions with driver functions' names; the stand-in lacks the second. */
int cuLaunchKernel(void);
int cuLaunchKernel(void) { return 4711; }

int cuLaunchGridAsync(void);
int cuLaunchGridAsync(void) { return 4712; }
