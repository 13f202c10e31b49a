# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite ptx (tokens, modules and names of the PTX that nvcc writes), suite counts (stores of counts in front of arrays), their
# mutants, and mmnvcc end to end.

SPLICE_TEST := $(BUILD)/tests/splice
SPLICE_CHECK_FLAGS = $(shell pkg-config --cflags --libs check)
SPLICE_PTX := $(foreach v,plain debug lines,$(foreach p,all none one address,$(SPLICE_TEST)/ptx/$p.$v.ptx))
COUNTS_PTX := $(foreach v,plain debug lines parts,$(SPLICE_TEST)/ptx/arrays.$v.ptx)

SPLICE_FRAGMENT = $(BUILD)/lib/ptx/mm_$(MM_ARCH_FIRST).ptx

.PHONY: check-splice check-splice-suites check-splice-mutants check-mmnvcc
check: check-splice
check-splice: check-splice-suites check-mmnvcc
check-splice-suites: $(SPLICE_TEST)/test_ptx $(SPLICE_TEST)/test_counts $(SPLICE_PTX) $(COUNTS_PTX) $(MM_PTX)
	$(SPLICE_TEST)/test_ptx $(SPLICE_FRAGMENT) $(SPLICE_PTX)
	$(SPLICE_TEST)/test_counts $(COUNTS_PTX)
check-splice-mutants: $(SPLICE_PTX) $(COUNTS_PTX) $(MM_PTX)
	CC='$(CC)' CHECK_FLAGS='$(SPLICE_CHECK_FLAGS)' tests/splice/mutants.sh $(SPLICE_TEST)/mutants $(SPLICE_FRAGMENT) $(SPLICE_PTX) -- $(COUNTS_PTX)
check-mmnvcc: $(SPLICE_TEST)/images all
	CUDA_HOME='$(CUDA_HOME)' tests/splice/mmnvcc.sh $(BUILD)/bin/mmnvcc $(SPLICE_TEST)/images $(SPLICE_TEST)/programs

$(SPLICE_TEST)/test_ptx $(SPLICE_TEST)/test_counts: $(SPLICE_TEST)/%: tests/splice/%.c $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a tests/runner.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $(filter-out %.h,$^) -o $@ $(SPLICE_CHECK_FLAGS)

$(SPLICE_TEST)/images: tests/splice/images.c $(BUILD)/interpose/compile/shim.o $(BUILD)/interpose/libload.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $^ -o $@

splice_flags = $(if $(filter debug,$1),-G)$(if $(filter lines,$1),-lineinfo)$(if $(filter parts,$1),-rdc=true)
$(SPLICE_PTX) $(COUNTS_PTX): $(SPLICE_TEST)/ptx/%.ptx: $(wildcard tests/splice/programs/*.cu)
	@mkdir -p $(@D)
	$(NVCC) -ptx -arch=sm_90 $(call splice_flags,$(subst .,,$(suffix $*))) tests/splice/programs/$(basename $*).cu -o $@
