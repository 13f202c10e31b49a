# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Stress: threads on the CPU build for longer than in the unit suites, with independent oracles (world.h). There are four builds of the
# same programs: plain, ThreadSanitizer, AddressSanitizer with UndefinedBehaviorSanitizer, and with random walk as the allocator. The numbers here are calls of malloc
# and free, a total that the programs of a build share; STRESS_OPS, given to make or in the environment, overrides them. A few per cent
# fewer calls are made where threads wait for each other. The numbers are at least those with which stress-mutants finds its faults.

STRESS_SUITES := lives misuse
# Without the storm of misuse: random walk does not tell a free of an interior pointer apart that races with the valid free (units.h).
STRESS_SUITES_walk := lives
STRESS_BUILDS := plain tsan asan walk
STRESS_DEPS := $(CORE_HEADERS) $(wildcard tests/stress/*.h tests/unit/jitter.h) tests/runner.h
STRESS_OPS_plain := 10000000
STRESS_OPS_tsan  := 2000000
STRESS_OPS_asan  := 4000000
STRESS_OPS_walk  := 4000000
# The variant of the core that each build links.
STRESS_CORE_plain := plain
STRESS_CORE_tsan  := often
STRESS_CORE_asan  := asan
STRESS_CORE_walk  := walk_coop
STRESS_OPS ?=
ifneq ($(STRESS_OPS),)
export STRESS_OPS
endif

.PHONY: stress stress-mutants $(STRESS_BUILDS:%=stress-%)
# make check leaves out the builds with AddressSanitizer and with random walk.
check: stress-plain stress-tsan
stress: $(STRESS_BUILDS:%=stress-%)

define STRESS_RULE
.SECONDARY: $(STRESS_SUITES:%=$(BUILD)/tests/stress/$1/test_%)
stress-$1: $(patsubst %,stress-$1-%,$(or $(STRESS_SUITES_$1),$(STRESS_SUITES)))
stress-$1-%: $(BUILD)/tests/stress/$1/test_%
	TSAN_OPTIONS=halt_on_error=1 $$<
$(BUILD)/tests/stress/$1/world.o: tests/stress/world.c $(STRESS_DEPS)
	@mkdir -p $$(@D)
	$$(CORE_CC) $(CORE_FLAGS_$(STRESS_CORE_$1)) -DSTRESS_OPS=$(STRESS_OPS_$1) -c $$< -o $$@
$(BUILD)/tests/stress/$1/test_%: tests/stress/test_%.c $(STRESS_DEPS) $(BUILD)/tests/stress/$1/world.o $(call core,$(STRESS_CORE_$1))
	@mkdir -p $$(@D)
	$$(CORE_CC) $(CORE_FLAGS_$(STRESS_CORE_$1)) -DSTRESS_OPS=$(STRESS_OPS_$1) $$< $$(filter %.o,$$^) \
	    $$$$(pkg-config --cflags --libs check) -o $$@
endef
$(foreach b,$(STRESS_BUILDS),$(eval $(call STRESS_RULE,$b)))

# Not part of check: plants the faults of tests/stress/mutants.txt and counts those that neither stress nor fuzz notices.
stress-mutants:
	CC='$(CC)' tests/stress/mutants.sh
