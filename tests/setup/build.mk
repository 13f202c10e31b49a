# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The suites of the set-up, and the checkers of our C and shell code.

.PHONY: check-elsewhere check-setup check-toolkit lint
check: check-setup

check-setup:
	tests/setup/run.sh

# Not part of check: fetches the pinned compiler anew (100 MB) and uses it. Run it after a change of the pins.
check-toolkit:
	tests/setup/toolkit.sh

# Part of CI: the suites that use a toolkit, in a folder with a long name and without a toolkit in PATH.
check-elsewhere:
	CUDA_HOME='$(CUDA_HOME)' CC='$(CC)' MM_JOBS='$(shell nproc)' tests/setup/elsewhere.sh check-ptx check-mmnvcc check-install check-machine-code

lint:
	tests/setup/lint.sh
