/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The program that launches kernel k; include it after the kernel. */
extern "C" int run() {
    k<<<100, 100>>>();
    return outcome();
}
#ifndef NO_MAIN
int main() { return run(); }
#endif
