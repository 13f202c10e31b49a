# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The books of a pool (runtime/host/fit) on the CPU. Suites fit (each kind against an exact oracle), check (whether mm_fit_check finds what is
# broken) and memory (host memory that fails), under AddressSanitizer and UndefinedBehaviorSanitizer; footprint (bytes taken over bytes live); steps (how they grow with the live allocations).

FIT_TEST  := $(BUILD)/tests/fit
FIT_C     := $(wildcard runtime/host/fit/*.c)
FIT_DEPS  := $(wildcard runtime/host/fit/*.h tests/fit/*.h) tests/runner.h mmconfig.h
FIT_FLAGS := -std=c11 -g -Wall -Wextra -Werror -Wc++-compat -I. -D_GNU_SOURCE=
FIT_SAN   := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
FIT_CC     = @mkdir -p $(@D)$(newline)$(CC) $(FIT_FLAGS)
FIT_CHECK := $$(pkg-config --cflags --libs check) -lm

.PHONY: check-fit
check: check-fit
check-fit: $(addprefix $(FIT_TEST)/,test_fit test_check test_memory test_footprint test_steps)
	set -e; for suite in $^; do $$suite; done

$(FIT_TEST)/test_fit: tests/fit/test_fit.c tests/fit/pair.c $(FIT_C) $(FIT_DEPS)
	$(FIT_CC) $(FIT_SAN) $(filter %.c,$^) -o $@ $(FIT_CHECK)
$(FIT_TEST)/test_check: tests/fit/test_check.c $(FIT_C) $(FIT_DEPS)
	$(FIT_CC) $(FIT_SAN) $(filter %.c,$^) -o $@ $(FIT_CHECK)

$(FIT_C:runtime/host/fit/%.c=$(FIT_TEST)/failing/%.o): $(FIT_TEST)/failing/%.o: runtime/host/fit/%.c $(FIT_DEPS)
	$(FIT_CC) $(FIT_SAN) -include tests/fit/failing.h -c $< -o $@
$(FIT_TEST)/test_memory: tests/fit/test_memory.c tests/fit/pair.c $(FIT_C:runtime/host/fit/%.c=$(FIT_TEST)/failing/%.o) $(FIT_DEPS)
	$(FIT_CC) $(FIT_SAN) $(filter %.c %.o,$^) -o $@ $(FIT_CHECK)

# host.h includes a header of the toolkit.
FIT_LOGS := $(addprefix tools/mmbench/child/papers/host_,log.c generate.c)
$(FIT_TEST)/test_footprint: tests/fit/test_footprint.c $(FIT_C) $(FIT_LOGS) $(FIT_DEPS) tools/mmbench/child/papers/host.h
	$(FIT_CC) -O2 -isystem $(CUDA_HOME)/include $(filter %.c,$^) -o $@ $(FIT_CHECK)

$(FIT_TEST)/test_steps: tests/fit/test_steps.c $(FIT_C) $(FIT_DEPS)
	$(FIT_CC) -O2 -DMM_FIT_COUNTS $(filter %.c,$^) -o $@ $(FIT_CHECK)

# Plants faults in the books, and expects the suites to notice each.
.PHONY: fit-mutants
fit-mutants:
	CC='$(CC)' tests/fit/mutants.sh $(FIT_TEST)/mutants
