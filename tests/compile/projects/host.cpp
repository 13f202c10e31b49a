/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
extern "C" int run();
int main() { return run(); }
