# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite of the documents: what they say to type can be typed, and what they name is there.
.PHONY: check-docs
check: check-docs
check-docs: all
	CUDA_HOME='$(CUDA_HOME)' tests/docs/check.sh $(BUILD)
	CUDA_HOME='$(CUDA_HOME)' tests/docs/mutants.sh $(BUILD)
