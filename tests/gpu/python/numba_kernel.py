# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Numba kernel that calls malloc and free, which it declares as what they are: functions of the device."""
import numpy

if not hasattr(numpy, "row_stack"):  # numba 0.68 asks for it, NumPy 2.5 has it no more
    numpy.row_stack = numpy.vstack
import numba
from numba import cuda, types

malloc = cuda.declare_device("malloc", types.uint64(types.uint64), abi="c")
free = cuda.declare_device("free", types.void(types.uint64), abi="c")
N = 10000  # 3 MB: CUDA's own heap has 8


@cuda.jit
def pairs(ok):
    i = cuda.grid(1)
    if i < ok.size:
        at = malloc(types.uint64(i % 500 + 1))
        ok[i] = 1 if at != 0 and at % 16 == 0 else 0
        free(at)


ok = numpy.zeros(N, dtype=numpy.int32)
device_ok = cuda.to_device(ok)
for _ in range(10):
    pairs[(N + 255) // 256, 256](device_ok)
assert device_ok.copy_to_host().all(), "NULL, or not aligned"
print("numba", numba.__version__, "ok")
