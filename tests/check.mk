# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The long suites of make check begin first, so that no processor is idle at the end.
check: check-model check-unit matrix check-splice check-install check-hooks check-machine-code check-load check-builds
