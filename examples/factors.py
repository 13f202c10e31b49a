# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Python program whose kernels allocate: a list of prime factors for each number, created by one kernel, read and freed by another.

    mmrun python factors.py

Needs CuPy (pip install cupy-cuda13x) and a GPU.
"""
import sys

import cupy
import numpy

SOURCE = r"""
struct factor {
    unsigned prime;
    factor *next;
};
extern "C" __global__ void factorise(factor **lists, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    lists[i] = 0;
    unsigned n = i + 2;
    for (unsigned p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) {
            factor *f = (factor *)malloc(sizeof *f);
            if (!f) return;
            f->prime = p;
            f->next = lists[i];
            lists[i] = f;
        }
}
extern "C" __global__ void multiply(factor **lists, int count, unsigned *products) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    products[i] = 1;
    for (factor *f = lists[i], *next; f; f = next) {
        products[i] *= f->prime;
        next = f->next;
        free(f);
    }
}
"""
COUNT, CTA = 20000, 256

module = cupy.RawModule(code=SOURCE)
lists = cupy.zeros(COUNT, dtype=cupy.uint64)
products = cupy.zeros(COUNT, dtype=cupy.uint32)
grid = ((COUNT + CTA - 1) // CTA,)
module.get_function("factorise")(grid, (CTA,), (lists, numpy.int32(COUNT)))
module.get_function("multiply")(grid, (CTA,), (lists, numpy.int32(COUNT), products))
if not (products.get() == numpy.arange(2, COUNT + 2)).all():
    sys.exit("factors: FAILED: a product is not the number")
print(f"factors: ok: {COUNT} numbers")
