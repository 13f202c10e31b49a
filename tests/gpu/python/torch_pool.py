# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch without its cache (PYTORCH_NO_CUDA_MEMORY_CACHING=1): each tensor is a cudaMalloc and a cudaFree. Trains a small network; prints its losses, which must
not depend on who serves these calls, on standard output, and the time of a step on standard error."""
import sys
import time

import torch

torch.manual_seed(42)
torch.use_deterministic_algorithms(True, warn_only=True)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(256, 512).cuda(), torch.randint(0, 10, (256,)).cuda()
times = []
for step in range(120):
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.6f}")
print("torch", torch.__version__, "pool ok")
print(f"a step takes {sorted(times[20:])[50] * 1e6:.0f} us", file=sys.stderr)
