# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite of an installation and of how programs find it: versions, mmnvcc's own options, MM_OFF, mmdoctor, manual pages, mm.pc, the CMake
# package, completion, uninstall, dist; and of installations and programs that are moved, shipped and upgraded (ship.sh).
.PHONY: check-install
# A variable, because make -n would run a recipe that contains $(MAKE).
INSTALL_TEST_MAKE = $(MAKE)
check: check-install
check-install: all
	MAKE='$(INSTALL_TEST_MAKE)' CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' tests/install/run.sh $(BUILD)/tests/install
	MAKE='$(INSTALL_TEST_MAKE)' CUDA_HOME='$(CUDA_HOME)' ARCHS='$(ARCHS)' CC='$(CC)' tests/install/ship.sh $(BUILD)/tests/ship
