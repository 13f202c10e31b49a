# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suites load, make, wants and cubin: the files that interpose/load reads, writes and links, with AddressSanitizer and
# UndefinedBehaviorSanitizer. load-mutants plants faults there, except in the code that only suite cubin tests.

LOAD_TEST  := $(BUILD)/tests/load
# Suites that also take files made by the toolkit.
LOAD_MADE  := $(addprefix $(LOAD_TEST)/,test_load test_make)
LOAD_FLAGS := -std=c11 -O1 -g -Wall -Wextra -Werror -I. -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: check-load load-mutants
check: check-load
check-load: $(LOAD_MADE) $(LOAD_TEST)/test_wants $(LOAD_TEST)/test_cubin all
	$(LOAD_TEST)/test_wants
	CUDA_HOME='$(CUDA_HOME)' tests/load/run.sh $(LOAD_TEST)/made $(LOAD_MADE)
	CUDA_HOME='$(CUDA_HOME)' tests/load/cubin.sh $(LOAD_TEST)/test_cubin $(BUILD)/lib $(LOAD_TEST)/images

$(LOAD_MADE) $(LOAD_TEST)/test_wants $(LOAD_TEST)/test_cubin: $(LOAD_TEST)/%: tests/load/%.c $(wildcard interpose/load/*.[ch] interpose/load/ptx/*.[ch] tests/load/*.h) tests/runner.h
	@mkdir -p $(@D)
	$(CC) $(LOAD_FLAGS) $(filter %.c,$^) -o $@ $(LOAD_LIBS) $$(pkg-config --cflags --libs check)

# Not part of check.
load-mutants:
	CC='$(CC)' LOAD_FLAGS='$(LOAD_FLAGS)' LOAD_LIBS='$(LOAD_LIBS)' tests/load/mutants.sh $(LOAD_TEST)/mutants
