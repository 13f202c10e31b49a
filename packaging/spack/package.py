# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mm for Spack: in a repository of packages, as packages/mm_cuda/package.py. `spack dev-build mm-cuda@0.1.0` builds a checkout.
tests/packages/root.sh runs build and install, without Spack: the dependencies are not tested."""
from spack.package import *


class MmCuda(MakefilePackage):
    """malloc, free, new and delete for CUDA kernels: mmrun, mmnvcc and libmm."""

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type=("build", "run"))
    depends_on("binutils", type=("build", "run"))
    depends_on("cuda@13:", type=("build", "run"))
    depends_on("lz4 libs=static", type="build")
    depends_on("zstd libs=static", type="build")
    requires("platform=linux", "target=x86_64:")

    def build(self, spec, prefix):
        make("all", f"CUDA_HOME={spec['cuda'].prefix}")

    def install(self, spec, prefix):
        make("install", f"CUDA_HOME={spec['cuda'].prefix}", f"PREFIX={prefix}")
