# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A CuPy RawKernel, and a RawModule of several kernels, that allocate; NumPy checks what they made."""
import cupy
import numpy

SOURCE = r"""
extern "C" __global__ void fill(int **p, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    p[i] = (int *)malloc(4 * (i % 50 + 1));
    for (int k = 0; p[i] && k <= i % 50; k++) p[i][k] = i + k;
}
extern "C" __global__ void sum(int **p, int n, long long *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long all = p[i] ? 0 : -1;
    for (int k = 0; p[i] && k <= i % 50; k++) all += p[i][k];
    out[i] = all;
    free(p[i]);
}
"""
N = 20000  # 3 MB: CUDA's own heap has 8


def run(fill, total):
    pointers = cupy.zeros(N, dtype=cupy.uint64)
    out = cupy.zeros(N, dtype=cupy.int64)
    grid = ((N + 255) // 256,)
    fill(grid, (256,), (pointers, numpy.int32(N)))
    total(grid, (256,), (pointers, numpy.int32(N), out))
    i = numpy.arange(N)
    count = i % 50 + 1
    assert (out.get() == i * count + count * (count - 1) // 2).all(), "wrong contents"


run(cupy.RawKernel(SOURCE, "fill"), cupy.RawKernel(SOURCE, "sum"))
module = cupy.RawModule(code=SOURCE, options=("--std=c++17",))
run(module.get_function("fill"), module.get_function("sum"))
print("cupy", cupy.__version__, "ok")
