# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmnvcc with other toolkits and build systems, and in every combination of mode, linkage and architecture.

INTERPOSE_TEST := $(BUILD)/tests/interpose
OTHER_TOOLKITS ?= 12.4 13.5

.PHONY: check-stack
check: check-stack
check-stack: $(SPLICE_TEST)/images all
	tests/interpose/stack.sh $(BUILD)/bin/mmnvcc $(SPLICE_TEST)/images $(INTERPOSE_TEST)/stack $(ARCHS)

# make check builds each mode once, as a rule for sm_90; make matrix builds all combinations of mode, linkage and architecture.
.PHONY: matrix check-matrix
check: check-matrix
MATRIX = CUDA_HOME='$(CUDA_HOME)' tests/interpose/matrix.sh $(BUILD)/bin/mmnvcc $(SPLICE_TEST)/images $(INTERPOSE_TEST)/$@
matrix check-matrix: $(SPLICE_TEST)/images all
matrix:
	$(MATRIX)
check-matrix:
	ONLY='static (90|-)$$|^rdc shared 90$$|^whole static (75|120)$$| none ' $(MATRIX)

.PHONY: check-builds
check: check-builds
check-builds: $(SPLICE_TEST)/images all
	CUDA_HOME='$(CUDA_HOME)' tests/interpose/builds.sh $(BUILD)/bin/mmnvcc $(SPLICE_TEST)/images $(INTERPOSE_TEST)/builds

# Not part of check: fetches 1.3 GB.
.PHONY: check-toolkits
check-toolkits: $(SPLICE_TEST)/images all
	for release in $(OTHER_TOOLKITS); do \
	    [ -d $(BUILD)/toolkits/$$release ] || tests/interpose/toolkit.sh $$release $(BUILD)/toolkits/$$release || exit; \
	    echo "CUDA toolkit $$release"; \
	    CUDA_HOME='$(abspath $(BUILD))'/toolkits/$$release tests/splice/mmnvcc.sh $(BUILD)/bin/mmnvcc $(SPLICE_TEST)/images \
	        $(INTERPOSE_TEST)/$$release || exit; \
	done
