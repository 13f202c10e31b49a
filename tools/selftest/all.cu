/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The parts as one source: so nvcc starts its tools once for each architecture, and not four times. */
#include "tools/selftest/core.cu"
#include "tools/selftest/stress.cu"
#include "tools/selftest/conv.cu"
#include "tools/selftest/footprint.cu"
