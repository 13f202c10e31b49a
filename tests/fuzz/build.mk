# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The fuzzer of operation sequences (fuzz_heap.c): libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer.
# The seeds are a minimised corpus of longer runs. After a change of the input's format, regenerate them:
#   build/tests/fuzz/fuzz_heap -set_cover_merge=1 -use_counters=0 tests/fuzz/corpus build/tests/fuzz/corpus
# Their names say how many segments are mapped, of how many, and the calls: a size follows malloc, aligned, many and churn.
# The seeds classes-N are hand-made: more than a block of each class from 2^N bytes to below 2^(N+1), drained, then freed.

CLANG        ?= clang
FUZZ_SECONDS ?= 10
FUZZ_SOURCES := $(wildcard tests/fuzz/*.c runtime/cpu/*.c)
FUZZ_DEPS := $(FUZZ_SOURCES) $(CORE_HEADERS) $(wildcard tests/fuzz/*.h)
FUZZ_FLAGS := -std=c11 -O1 -g -Wall -Wextra -Werror -I. -D_GNU_SOURCE= -fno-sanitize-recover=all

# The fuzzer of the files that are read at load time (load/fuzz_load.c). Its seeds are hand-made, one of each kind.
FUZZ_LOAD := tests/fuzz/load/fuzz_load.c $(wildcard interpose/load/*.c interpose/load/ptx/*.c)

# The fuzzer of the books of a pool (pool/fuzz_fit.c). Its seeds are made, one for each kind.
FUZZ_FIT := tests/fuzz/fit/fuzz_fit.c tests/fit/pair.c $(wildcard runtime/host/fit/*.c)

.PHONY: fuzz fuzz-load fuzz-fit
check: fuzz fuzz-load fuzz-fit
fuzz: $(BUILD)/tests/fuzz/fuzz_heap
	tests/fuzz/run.sh $< '$(FUZZ_SECONDS)' tests/fuzz/corpus 512
fuzz-load: $(BUILD)/tests/fuzz/load/fuzz_load
	tests/fuzz/run.sh $< '$(FUZZ_SECONDS)' tests/fuzz/load/corpus 4096
fuzz-fit: $(BUILD)/tests/fuzz/fit/fuzz_fit
	tests/fuzz/run.sh $< '$(FUZZ_SECONDS)' tests/fuzz/fit/corpus 1024

$(BUILD)/tests/fuzz/load/fuzz_load: $(FUZZ_LOAD) $(wildcard interpose/load/*.h interpose/load/ptx/*.h) tests/load/exercise.h
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $(FUZZ_LOAD) -o $@ $(LOAD_LIBS)

$(BUILD)/tests/fuzz/fit/fuzz_fit: $(FUZZ_FIT) $(wildcard runtime/host/fit/*.h tests/fit/*.h) mmconfig.h
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $(FUZZ_FIT) -o $@

$(BUILD)/tests/fuzz/fuzz_heap: $(FUZZ_DEPS)
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined $(FUZZ_SOURCES) -o $@
