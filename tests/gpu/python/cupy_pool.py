# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CuPy without its memory pool: each array is a cudaMalloc and a cudaFree. Prints sums that must not depend on who serves these calls on standard output, and the
time of a round on standard error."""
import sys
import time

import cupy

cupy.cuda.set_allocator(None)
cupy.random.seed(42)
a = cupy.arange(1 << 20, dtype=cupy.float64)
times = []
for i in range(120):
    begin = time.perf_counter()
    b = a * 2 + i
    c = cupy.sqrt(b) - a[::-1] / 3
    d = c[: (i + 1) * 1000].copy()
    total = float(d.sum())
    times.append(time.perf_counter() - begin)
    if i % 20 == 0:
        print(f"round {i}: sum {total:.3f}")
print("cupy", cupy.__version__, "pool ok")
print(f"a round takes {sorted(times[20:])[50] * 1e6:.0f} us", file=sys.stderr)
