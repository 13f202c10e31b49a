# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The suites of the set-up, and the checkers of our own C and shell.

.PHONY: check-setup check-toolkit lint
check: check-setup

check-setup:
	tests/setup/run.sh

# Not part of check: fetches the pinned compiler anew (100 MB) and uses it. For a change of the pins.
check-toolkit:
	tests/setup/toolkit.sh

lint:
	tests/setup/lint.sh
