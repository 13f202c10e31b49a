# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Stress: threads on the CPU build for longer than the unit suites, with oracles of their own (world.h). The same
# programs three times: plain, ThreadSanitizer, AddressSanitizer and undefined behaviour. STRESS_OPS in the
# environment goes before the numbers here: calls of malloc and free that the programs of a build share; a few per cent
# fewer are made, where threads wait for each other.

STRESS_SUITES := lives misuse
STRESS_BUILDS := plain tsan asan
STRESS_SOURCES := tests/stress/world.c $(wildcard runtime/cpu/*.c)
STRESS_DEPS := $(STRESS_SOURCES) \
    $(wildcard mmconfig.h runtime/port*.h runtime/core/*.h runtime/cpu/*.h tests/stress/*.h tests/unit/jitter.h)
STRESS_FLAGS_plain := -DSTRESS_OPS=55000000
STRESS_FLAGS_tsan  := -DSTRESS_OPS=11000000 -fsanitize=thread -include tests/unit/jitter.h -DUNIT_JITTER_SHIFT=24
STRESS_FLAGS_asan  := -DSTRESS_OPS=10000000 -fsanitize=address,undefined -fno-sanitize-recover=all

.PHONY: stress stress-mutants $(STRESS_BUILDS:%=stress-%)
check: stress
stress: $(STRESS_BUILDS:%=stress-%)

define STRESS_RULE
.SECONDARY: $(STRESS_SUITES:%=$(BUILD)/tests/stress/$1/test_%)
stress-$1: $(STRESS_SUITES:%=stress-$1-%)
stress-$1-%: $(BUILD)/tests/stress/$1/test_%
	TSAN_OPTIONS=halt_on_error=1 $$<
$(BUILD)/tests/stress/$1/test_%: tests/stress/test_%.c $(STRESS_DEPS)
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread $(STRESS_FLAGS_$1) $$< $(STRESS_SOURCES) \
	    $$$$(pkg-config --cflags --libs check) -o $$@
endef
$(foreach b,$(STRESS_BUILDS),$(eval $(call STRESS_RULE,$b)))

# Not part of check: plants the faults of tests/stress/mutants.txt and counts those that neither stress nor fuzz
# notices.
stress-mutants:
	CC='$(CC)' tests/stress/mutants.sh
