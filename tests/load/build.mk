# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suite load: what interpose/load reads and rebuilds, with AddressSanitizer and undefined behaviour. load-mutants plants faults there.

LOAD_TEST  := $(BUILD)/tests/load
LOAD_FLAGS := -std=c11 -O1 -g -Wall -Wextra -Werror -I. -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: check-load load-mutants
check: check-load
check-load: $(LOAD_TEST)/test_load $(LOAD_TEST)/test_cubin all
	CUDA_HOME='$(CUDA_HOME)' tests/load/run.sh $< $(LOAD_TEST)/made
	CUDA_HOME='$(CUDA_HOME)' tests/load/cubin.sh $(LOAD_TEST)/test_cubin $(BUILD)/lib $(LOAD_TEST)/images

$(LOAD_TEST)/test_load $(LOAD_TEST)/test_cubin: $(LOAD_TEST)/%: tests/load/%.c $(wildcard interpose/load/*.c tests/load/*.h interpose/load/*.h) tests/runner.h
	@mkdir -p $(@D)
	$(CC) $(LOAD_FLAGS) $(filter %.c,$^) -o $@ $(LOAD_LIBS) $$(pkg-config --cflags --libs check)

# Not part of check.
load-mutants:
	CC='$(CC)' LOAD_FLAGS='$(LOAD_FLAGS)' LOAD_LIBS='$(LOAD_LIBS)' tests/load/mutants.sh $(LOAD_TEST)/mutants
