# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite ptx (tokens, modules and names of the PTX that nvcc writes), suite counts (stores of counts in front of arrays), and their mutants.

PTX_TEST := $(BUILD)/tests/ptx
PTX_CHECK_FLAGS = $(shell pkg-config --cflags --libs check)
PTX_TEXTS := $(foreach v,plain debug lines,$(foreach p,all none one address,$(PTX_TEST)/$p.$v.ptx))
COUNTS_TEXTS := $(foreach v,plain debug lines parts,$(PTX_TEST)/arrays.$v.ptx)
PTX_OF_MM = $(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx

.PHONY: check-ptx check-ptx-mutants
check: check-ptx
check-ptx: $(PTX_TEST)/test_ptx $(PTX_TEST)/test_counts $(PTX_TEXTS) $(COUNTS_TEXTS) $(MM_PTX)
	$(PTX_TEST)/test_ptx $(PTX_OF_MM) $(PTX_TEXTS)
	$(PTX_TEST)/test_counts $(COUNTS_TEXTS)
check-ptx-mutants: $(PTX_TEXTS) $(COUNTS_TEXTS) $(MM_PTX)
	CC='$(CC)' CHECK_FLAGS='$(PTX_CHECK_FLAGS)' tests/ptx/mutants.sh $(PTX_TEST)/mutants $(PTX_OF_MM) $(PTX_TEXTS) -- $(COUNTS_TEXTS)

$(PTX_TEST)/test_ptx $(PTX_TEST)/test_counts: $(PTX_TEST)/%: tests/ptx/%.c $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a tests/runner.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $(filter-out %.h,$^) -o $@ $(PTX_CHECK_FLAGS)

ptx_flags = $(if $(filter debug,$1),-G)$(if $(filter lines,$1),-lineinfo)$(if $(filter parts,$1),-rdc=true)
$(PTX_TEXTS) $(COUNTS_TEXTS): $(PTX_TEST)/%.ptx: $(wildcard tests/programs/*.cu)
	@mkdir -p $(@D)
	$(NVCC) -ptx -arch=sm_90 $(call ptx_flags,$(subst .,,$(suffix $*))) tests/programs/$(basename $*).cu -o $@
