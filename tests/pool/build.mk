# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The books of a pool (runtime/host/pool) on the CPU: suite fit, each kind against an exact oracle, under AddressSanitizer and
# UndefinedBehaviorSanitizer.

POOL_TEST  := $(BUILD)/tests/pool
POOL_C     := $(wildcard runtime/host/pool/*.c)
POOL_DEPS  := $(POOL_C) $(wildcard runtime/host/pool/*.h tests/pool/*.h) tests/pool/pair.c tests/runner.h mmconfig.h
POOL_FLAGS := -std=c11 -O1 -g -Wall -Wextra -Werror -Wc++-compat -I. -D_GNU_SOURCE= -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: check-pool
check: check-pool
check-pool: $(POOL_TEST)/test_fit
	$(POOL_TEST)/test_fit

$(POOL_TEST)/test_fit: tests/pool/test_fit.c $(POOL_DEPS)
	@mkdir -p $(@D)
	$(CC) $(POOL_FLAGS) $< $(filter %.c,$(POOL_DEPS)) -o $@ $$(pkg-config --cflags --libs check)
