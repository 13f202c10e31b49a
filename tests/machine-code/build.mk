# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite machine-code: the device libraries contain no YIELD and no NANOSLEEP; and mmunyield, the program that replaces YIELDs, works.

MACHINE_CODE_TEST := $(BUILD)/tests/machine-code

.PHONY: check-machine-code check-machine-code-mutants
check: check-machine-code
check-machine-code check-machine-code-mutants: $(MM_LIBRARIES) $(BUILD)/lib/device/driver.fatbin $(BUILD)/device/linked $(BUILD)/lib/mmunyield
check-machine-code:
	CUDA_HOME='$(CUDA_HOME)' tests/machine-code/run.sh $(BUILD)/lib/mmunyield $(BUILD)/lib $(MACHINE_CODE_TEST)/run
check-machine-code-mutants:
	CC='$(CC)' CUDA_HOME='$(CUDA_HOME)' tests/machine-code/mutants.sh $(BUILD)/lib $(MACHINE_CODE_TEST)/mutants
