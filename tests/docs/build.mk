# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite of the documents: the commands that they show can be typed, and the files and options that they name exist.
.PHONY: check-docs check-docs-mutants
check: check-docs
check-docs: all
	CUDA_HOME='$(CUDA_HOME)' tests/docs/check.sh $(BUILD)
check-docs-mutants: all
	CUDA_HOME='$(CUDA_HOME)' tests/docs/mutants.sh $(BUILD)
