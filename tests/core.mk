# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The allocator core built for the CPU, compiled once for each build variant that suites link (tests/unit, tests/stress).

, := ,
CORE_SOURCES := $(wildcard runtime/cpu/*.c)
CORE_HEADERS := $(filter %.h,$(MM_SIBLING_SOURCES)) $(wildcard runtime/cpu/*.h)
CORE_FLAGS_plain  :=
CORE_FLAGS_small  := -include tests/unit/small.h
CORE_FLAGS_asan   := -fsanitize=address$(,)undefined -fno-sanitize-recover=all
CORE_FLAGS_tsan   := -fsanitize=thread -include tests/unit/jitter.h
# Jitter for tests/stress: a yield before one in 256 atomic accesses (tests/unit/jitter.h).
CORE_FLAGS_often  := $(CORE_FLAGS_tsan) -DUNIT_JITTER_SHIFT=24
# Random walk, once for each face (runtime/random_walk/malloc.h).
WALK_FACES        := walk_rw walk_bm walk_coop walk_runs
$(foreach f,rw bm coop runs,$(eval CORE_FLAGS_walk_$f := -DMM_ALLOCATOR=random_walk -DMM_WALK_FACE=MM_WALK_$(shell echo $f | tr a-z A-Z)))
# The register-efficient allocators (runtime/regeff/allocator.h): rings, and those that only add.
RING_FACES        := circular fused multi multi_fused
BUMP_FACES        := atomic aw
$(foreach f,$(RING_FACES) $(BUMP_FACES),$(eval CORE_FLAGS_$f := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_$(shell echo $f | tr a-z A-Z)))
# Ouroboros: each queue with entries for pages and for chunks (runtime/ouroboros/allocator.h).
OURO_FACES        := $(foreach q,s va vl,ouro_$(q)_p ouro_$(q)_c)
$(foreach q,s va vl,$(foreach e,p c,$(eval CORE_FLAGS_ouro_$(q)_$e := $(MM_FLAGS_ouroboros-$q-$e))))
# The same under ThreadSanitizer.
TSAN_FACES        := $(patsubst %,%_tsan,$(WALK_FACES) $(RING_FACES) $(OURO_FACES))
$(foreach f,$(TSAN_FACES),$(eval CORE_FLAGS_$f := $(CORE_FLAGS_$(f:_tsan=)) $(CORE_FLAGS_tsan)))
CORE_CC = $(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread
core = $(patsubst runtime/cpu/%.c,$(BUILD)/tests/core/$1/%.o,$(CORE_SOURCES))

define CORE_RULE
$(call core,$1): $(BUILD)/tests/core/$1/%.o: runtime/cpu/%.c $(CORE_HEADERS) $(wildcard tests/unit/small.h tests/unit/jitter.h)
	@mkdir -p $$(@D)
	$$(CORE_CC) $(CORE_FLAGS_$1) -c $$< -o $$@
endef
$(foreach b,plain small asan tsan often $(WALK_FACES) $(RING_FACES) $(BUMP_FACES) $(OURO_FACES) $(TSAN_FACES),$(eval $(call CORE_RULE,$b)))
