# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mm, installed by pip: the files that make install writes are next to this one. main() runs the programs."""
import glob
import importlib.util
import os
import sys

PREFIX = os.path.dirname(os.path.abspath(__file__))


def nvcc():
    """The newest nvcc among NVIDIA's packages of this environment, or None."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    found = [path for folder in folders for path in glob.glob(os.path.join(folder, "cu[0-9]*", "bin", "nvcc"))]
    return max(found, key=lambda path: int(path.split(os.sep)[-3][2:]), default=None)


def main():
    """Runs the program under whose name this one was started. mmnvcc and mmdoctor use this environment's nvcc before one in PATH."""
    program = os.path.join(PREFIX, "bin", os.path.basename(sys.argv[0]))
    here = nvcc() if not os.environ.get("MM_NVCC") and not os.environ.get("CUDA_HOME") else None
    if here:
        os.environ["MM_NVCC"] = here
    os.execv(program, [program, *sys.argv[1:]])
