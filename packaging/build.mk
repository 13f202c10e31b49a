# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Packages of what is built, from the files that make install writes: a Debian package (make deb) and a Python wheel (make wheel). The recipes for conda
# and spack and the container file next to this file build mm from its sources.
.PHONY: deb
deb: all
	CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' packaging/deb.sh $(BUILD) $(MM_VERSION)
.PHONY: wheel
wheel: all
	CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' packaging/wheel.sh $(BUILD) $(MM_VERSION)
