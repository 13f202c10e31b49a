# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite of what is installed and how it is found: versions, mmnvcc's own options, MM_OFF, mmdoctor, manual pages, mm.pc, the CMake
# package, completion, uninstall, dist; and of what is moved, shipped and upgraded (ship.sh).
.PHONY: check-install
# Not as $(MAKE) in the recipe, which make -n would run.
INSTALL_TEST_MAKE = $(MAKE)
check: check-install
check-install: all
	MAKE='$(INSTALL_TEST_MAKE)' CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' tests/install/run.sh $(BUILD)/tests/install
	MAKE='$(INSTALL_TEST_MAKE)' CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' tests/install/ship.sh $(BUILD)/tests/ship
