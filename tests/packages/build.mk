# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suites of the packages. check-packages needs no network; check-packages-pypi installs the wheel together with NVIDIA's compiler from PyPI (100 MB); check-packages-root,
# run by hand as root, installs and builds in a fresh Debian (debootstrap).
PACKAGES_TEST = $(BUILD) $(BUILD)/mm-cuda_$(MM_VERSION)_amd64.deb $(BUILD)/mm_cuda-$(MM_VERSION)-*.whl

.PHONY: check-packages check-packages-pypi check-packages-root check-packages-mutants
check: check-packages
check-packages: deb wheel $(HT)/libcuda.so.1
	CUDA_HOME='$(CUDA_HOME)' tests/packages/run.sh $(PACKAGES_TEST)
check-packages-mutants: deb wheel $(HT)/libcuda.so.1
	CUDA_HOME='$(CUDA_HOME)' tests/packages/mutants.sh $(PACKAGES_TEST)
check-packages-pypi: wheel $(HT)/libcuda.so.1
	tests/packages/pypi.sh $(BUILD) $(BUILD)/mm_cuda-$(MM_VERSION)-*.whl
check-packages-root: deb wheel
	tests/packages/root.sh $(PACKAGES_TEST)
