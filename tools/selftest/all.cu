/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The parts as one source, so that nvcc starts its tools once per architecture, and not four times. */
#include "tools/selftest/core.cu"
#include "tools/selftest/stress.cu"
#include "tools/selftest/conv.cu"
#include "tools/selftest/footprint.cu"
