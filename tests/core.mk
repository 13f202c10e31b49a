# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The allocator core built for the CPU, compiled once for each build variant that suites link (tests/unit, tests/stress).

, := ,
CORE_SOURCES := $(wildcard runtime/cpu/*.c)
CORE_HEADERS := $(wildcard mmconfig.h runtime/*.h runtime/core/*.h runtime/gallatin/*.h runtime/checked/*.h runtime/cpu/*.h)
CORE_FLAGS_plain  :=
CORE_FLAGS_small  := -include tests/unit/small.h
CORE_FLAGS_asan   := -fsanitize=address$(,)undefined -fno-sanitize-recover=all
CORE_FLAGS_tsan   := -fsanitize=thread -include tests/unit/jitter.h
# Jitter for tests/stress: a yield before one in 256 atomic accesses (tests/unit/jitter.h).
CORE_FLAGS_often  := $(CORE_FLAGS_tsan) -DUNIT_JITTER_SHIFT=24
CORE_CC = $(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread
core = $(patsubst runtime/cpu/%.c,$(BUILD)/tests/core/$1/%.o,$(CORE_SOURCES))

define CORE_RULE
$(call core,$1): $(BUILD)/tests/core/$1/%.o: runtime/cpu/%.c $(CORE_HEADERS) $(wildcard tests/unit/small.h tests/unit/jitter.h)
	@mkdir -p $$(@D)
	$$(CORE_CC) $(CORE_FLAGS_$1) -c $$< -o $$@
endef
$(foreach b,plain small asan tsan often,$(eval $(call CORE_RULE,$b)))
