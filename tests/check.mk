# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The long suites of make check begin first, so that no processor is idle at the end.
check: check-model check-matrix check-mmnvcc check-install check-hooks check-machine-code check-load check-builds

# Whether the suites notice planted faults: the lists that take minutes. CI runs this target after check. The lists that take longer are
# mutants, fit-mutants, hook-mutants, load-mutants and stress-mutants; of these check-stale finds faults that cannot be planted any more.
.PHONY: check-mutants check-stale
check-mutants: check-model-mutants check-machine-code-mutants check-ptx-mutants check-docs-mutants check-examples-mutants check-stale
check-stale:
	tests/stale.sh
