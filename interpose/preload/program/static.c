/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmstatic.o: what -lmm resolves to under -static. A static program has no loader to load libmm.so.1, so GNU ld prints this. */
static const char warning[] __attribute__((used, section(".gnu.warning"))) =
    "mm: a static program gets no run time of mm, and its kernels that call malloc will fail with cudaErrorLaunchFailure; link it without -static";
