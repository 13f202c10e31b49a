# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""driver.py IMAGE KERNEL: loads device code and launches a kernel of it, by the driver alone, as Numba and CuPy do. With the stand-in for the driver of
tests/hooks no GPU is needed."""
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def must(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name}: {code}")


context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
must("cuInit", 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
must("cuCtxSetCurrent", context)
with open(sys.argv[1], "rb") as file:
    must("cuModuleLoadData", ctypes.byref(module), file.read() + b"\0")
must("cuModuleGetFunction", ctypes.byref(function), module, sys.argv[2].encode())
must("cuLaunchKernel", function, *[ctypes.c_uint(1)] * 6, 0, None, None, None)
print("launched")
