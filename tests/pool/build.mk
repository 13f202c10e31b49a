# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The books of a pool (runtime/host/pool) on the CPU. Suites fit (each kind against an exact oracle), check (whether mm_fit_check finds what is
# broken) and memory (host memory that fails), under AddressSanitizer and UndefinedBehaviorSanitizer; footprint (bytes taken over bytes live); steps (how they grow with the live allocations).

POOL_TEST  := $(BUILD)/tests/pool
POOL_C     := $(wildcard runtime/host/pool/*.c)
POOL_DEPS  := $(wildcard runtime/host/pool/*.h tests/pool/*.h) tests/runner.h mmconfig.h
POOL_FLAGS := -std=c11 -g -Wall -Wextra -Werror -Wc++-compat -I. -D_GNU_SOURCE=
POOL_SAN   := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
POOL_CC     = @mkdir -p $(@D)$(newline)$(CC) $(POOL_FLAGS)
POOL_CHECK := $$(pkg-config --cflags --libs check) -lm

.PHONY: check-pool
check: check-pool
check-pool: $(addprefix $(POOL_TEST)/,test_fit test_check test_memory test_footprint test_steps)
	set -e; for suite in $^; do $$suite; done

$(POOL_TEST)/test_fit: tests/pool/test_fit.c tests/pool/pair.c $(POOL_C) $(POOL_DEPS)
	$(POOL_CC) $(POOL_SAN) $(filter %.c,$^) -o $@ $(POOL_CHECK)
$(POOL_TEST)/test_check: tests/pool/test_check.c $(POOL_C) $(POOL_DEPS)
	$(POOL_CC) $(POOL_SAN) $(filter %.c,$^) -o $@ $(POOL_CHECK)

$(POOL_C:runtime/host/pool/%.c=$(POOL_TEST)/failing/%.o): $(POOL_TEST)/failing/%.o: runtime/host/pool/%.c $(POOL_DEPS)
	$(POOL_CC) $(POOL_SAN) -include tests/pool/failing.h -c $< -o $@
$(POOL_TEST)/test_memory: tests/pool/test_memory.c tests/pool/pair.c $(POOL_C:runtime/host/pool/%.c=$(POOL_TEST)/failing/%.o) $(POOL_DEPS)
	$(POOL_CC) $(POOL_SAN) $(filter %.c %.o,$^) -o $@ $(POOL_CHECK)

# host.h includes a header of the toolkit.
POOL_LOGS := $(addprefix tools/mmbench/child/papers/host_,log.c generate.c)
$(POOL_TEST)/test_footprint: tests/pool/test_footprint.c $(POOL_C) $(POOL_LOGS) $(POOL_DEPS) tools/mmbench/child/papers/host.h
	$(POOL_CC) -O2 -isystem $(CUDA_HOME)/include $(filter %.c,$^) -o $@ $(POOL_CHECK)

$(POOL_TEST)/test_steps: tests/pool/test_steps.c $(POOL_C) $(POOL_DEPS)
	$(POOL_CC) -O2 -DMM_FIT_COUNTS $(filter %.c,$^) -o $@ $(POOL_CHECK)

# Plants faults in the books, and expects the suites to notice each.
.PHONY: check-pool-mutants
check-pool-mutants:
	CC='$(CC)' tests/pool/mutants.sh $(POOL_TEST)/mutants
