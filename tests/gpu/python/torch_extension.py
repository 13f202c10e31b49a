# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A PyTorch extension whose kernel allocates, built by cpp_extension with the nvcc that PYTORCH_NVCC names."""
import sys
import tempfile

import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
__global__ void use(long long *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int *p = new int[i % 100 + 1];
    if (!p) return;
    p[i % 100] = i;
    out[i] = p[i % 100];
    delete[] p;
}
torch::Tensor numbers(int64_t n) {
    auto out = torch::zeros({n}, torch::dtype(torch::kInt64).device(torch::kCUDA));
    use<<<(n + 255) / 256, 256>>>((long long *)out.data_ptr<int64_t>(), (int)n);
    return out;
}
"""
with tempfile.TemporaryDirectory() as folder:
    module = load_inline("mm_extension", cpp_sources="torch::Tensor numbers(int64_t n);", cuda_sources=CUDA, functions=["numbers"],
                         build_directory=folder, with_cuda=True)
    n = 1000000
    assert (module.numbers(n).cpu() == torch.arange(n)).all(), "wrong contents"
    sys.stdout.write(f"torch {torch.__version__} ok\n")
