/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the papers' cases that take memory: compiled once for each allocator, and by floors.cu. */
#include "tools/mmbench/child/lists.h"
#include "tools/mmbench/child/papers/bursts_kernels.h"
#include "tools/mmbench/child/papers/halves_kernels.h"
#include "tools/mmbench/child/papers/join_kernels.h"
#include "tools/mmbench/child/papers/kdtree_kernels.h"
#include "tools/mmbench/child/papers/ranks_kernels.h"
#include "tools/mmbench/child/papers/registers_kernels.h"
#include "tools/mmbench/child/papers/words_kernels.h"
