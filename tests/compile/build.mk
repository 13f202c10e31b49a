# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# mmnvcc end to end: each mode, messages; other toolkits and build systems; every combination of mode, linkage and architecture.

COMPILE_TEST := $(BUILD)/tests/compile
# Prints the device images of a file, and what the suites compare.
IMAGES := $(COMPILE_TEST)/images
OTHER_TOOLKITS ?= 12.4 13.5

.PHONY: check-mmnvcc
check: check-mmnvcc
check-mmnvcc: $(IMAGES) all
	CUDA_HOME='$(CUDA_HOME)' tests/compile/mmnvcc.sh $(BUILD)/bin/mmnvcc $(IMAGES) $(COMPILE_TEST)/mmnvcc
$(IMAGES): tests/compile/images.c $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $^ -o $@

# Other allocators, for one architecture: of each family the one whose library is the largest.
SIBLING_TEST := $(COMPILE_TEST)/siblings
SIBLINGS_TESTED := $(addprefix $(SIBLING_TEST)/lib/allocators/,random-walk-coop circular-multi-fused ouroboros-vl-c)
.PHONY: check-allocators
check: check-allocators
check-allocators: $(IMAGES) all
	$(MAKE) ARCHS=90 BUILD=$(SIBLING_TEST) $(SIBLINGS_TESTED:%=%/driver.fatbin)
	CUDA_HOME='$(CUDA_HOME)' tests/compile/allocators.sh $(BUILD)/bin/mmnvcc $(IMAGES) $(COMPILE_TEST)/allocators $(SIBLINGS_TESTED)

.PHONY: check-stack
check: check-stack
check-stack: $(IMAGES) all
	tests/compile/stack.sh $(BUILD)/bin/mmnvcc $(IMAGES) $(COMPILE_TEST)/stack $(ARCHS)

# make check builds each mode once, as a rule for sm_90; make matrix builds all combinations of mode, linkage and architecture.
.PHONY: matrix check-matrix
check: check-matrix
MATRIX = CUDA_HOME='$(CUDA_HOME)' tests/compile/matrix.sh $(BUILD)/bin/mmnvcc $(IMAGES) $(COMPILE_TEST)/$@
matrix check-matrix: $(IMAGES) all
matrix:
	$(MATRIX)
check-matrix:
	ONLY='static 90$$|^all-major|^rdc shared 90$$|^whole static (75|120)$$| none ' $(MATRIX)

.PHONY: check-builds
check: check-builds
check-builds: $(IMAGES) all
	CUDA_HOME='$(CUDA_HOME)' tests/compile/builds.sh $(BUILD)/bin/mmnvcc $(IMAGES) $(COMPILE_TEST)/builds

# Not part of check: fetches 1.3 GB.
.PHONY: check-toolkits
check-toolkits: $(IMAGES) all
	for release in $(OTHER_TOOLKITS); do \
	    [ -d $(BUILD)/toolkits/$$release ] || tests/compile/toolkit.sh $$release $(BUILD)/toolkits/$$release || exit; \
	    echo "CUDA toolkit $$release"; \
	    CUDA_HOME='$(abspath $(BUILD))'/toolkits/$$release tests/compile/mmnvcc.sh $(BUILD)/bin/mmnvcc $(IMAGES) \
	        $(COMPILE_TEST)/$$release || exit; \
	done
