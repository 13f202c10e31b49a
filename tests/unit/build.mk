# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The unit suites: the allocator core on the CPU, one Check program per component. Three builds: plain (all suites),
# AddressSanitizer with UndefinedBehaviorSanitizer (the sequential ones), ThreadSanitizer (test_stress only).

UNIT_SEQUENTIAL := class tree segment word table make tickets retire malloc null heap run run_search span grow report usage guard fill fail trace cookie
UNIT_THREADS := twice claims interleave schedule suspended lanes lanes_small shortage shortage_small sweep sweep_small narrow warps warps_small stress
UNIT_SMALL := lanes_small shortage_small sweep_small warps_small
UNIT_PLAIN := $(UNIT_SEQUENTIAL) $(UNIT_THREADS)
# Suites of random walk, each built for each face: test_walk, those of threads and warps with it, and that of mmbench's case probes.
UNIT_WALK := walk listed_usage stress warps probes
# The same of the register-efficient allocators.
UNIT_RING := ring listed_usage stress warps
UNIT_BUMP := bump listed_usage
# The same of Ouroboros.
UNIT_OURO := ouroboros semaphore queues full_queues listed_usage stress warps
# Those that have a first draw of their own.
UNIT_OURO_SOON := first first_warps
OURO_SOON_FACES := ouro_s_p ouro_va_p ouro_vl_p
# Those that have hints.
UNIT_OURO_HINTS := hints
OURO_HINTS_FACES := ouro_s_c ouro_va_c ouro_vl_c
# Threads of theirs under ThreadSanitizer: make check runs one face, stress-faces all of them, which takes minutes.
UNIT_TSAN := run-walk_coop_tsan-stress
UNIT_DEPS := $(CORE_HEADERS) $(wildcard tests/unit/*.h tools/mmbench/child/papers/probes*) tests/runner.h tools/kernels.h
# $(1): compiler flags for the test only; $(2): the variant of the core
UNIT_CHECK = $(CORE_CC) $1 $(CORE_FLAGS_$2) $< $(call core,$2) $$(pkg-config --cflags --libs check) -o $@

.PHONY: check-unit check-unit-plain check-asan check-tsan check-walk check-regeff check-ouroboros stress-faces mutants
.SECONDARY: $(UNIT_PLAIN:%=$(BUILD)/tests/unit/test_%) $(UNIT_SEQUENTIAL:%=$(BUILD)/tests/asan/test_%) $(BUILD)/tests/tsan/test_stress \
    $(foreach f,$(WALK_FACES),$(UNIT_WALK:%=$(BUILD)/tests/$f/test_%)) $(foreach f,$(RING_FACES),$(UNIT_RING:%=$(BUILD)/tests/$f/test_%)) \
    $(foreach f,$(OURO_FACES),$(UNIT_OURO:%=$(BUILD)/tests/$f/test_%)) $(foreach f,$(OURO_SOON_FACES),$(UNIT_OURO_SOON:%=$(BUILD)/tests/$f/test_%)) \
    $(foreach f,$(OURO_HINTS_FACES),$(UNIT_OURO_HINTS:%=$(BUILD)/tests/$f/test_%))
# make check leaves out the plain build of the suites that it runs under AddressSanitizer.
check: $(UNIT_THREADS:%=run-unit-%) check-asan check-tsan check-walk check-regeff check-ouroboros
check-unit: $(UNIT_PLAIN:%=run-unit-%) check-asan check-tsan check-walk check-regeff check-ouroboros
check-walk: $(foreach f,$(WALK_FACES),$(UNIT_WALK:%=run-$f-%))
check-regeff: $(foreach f,$(RING_FACES),$(UNIT_RING:%=run-$f-%)) $(foreach f,$(BUMP_FACES),$(UNIT_BUMP:%=run-$f-%))
check-ouroboros: $(foreach f,$(OURO_FACES),$(UNIT_OURO:%=run-$f-%)) $(foreach f,$(OURO_SOON_FACES),$(UNIT_OURO_SOON:%=run-$f-%)) \
    $(foreach f,$(OURO_HINTS_FACES),$(UNIT_OURO_HINTS:%=run-$f-%))
stress: stress-faces
stress-faces: $(TSAN_FACES:%=run-%-stress)
check-unit-plain: $(UNIT_SEQUENTIAL:%=run-unit-%)
check-asan: $(UNIT_SEQUENTIAL:%=run-asan-%)
check-tsan: run-tsan-stress $(UNIT_TSAN)

$(BUILD)/tests/unit/test_%: tests/unit/test_%.c $(UNIT_DEPS) $(call core,plain)
	@mkdir -p $(@D)
	$(call UNIT_CHECK,,plain)

# These use a heap with small sizes (tests/unit/small.h).
$(BUILD)/tests/unit/test_interleave $(BUILD)/tests/unit/test_schedule $(BUILD)/tests/unit/test_suspended: $(BUILD)/tests/unit/test_%: tests/unit/test_%.c $(UNIT_DEPS) $(call core,small)
	@mkdir -p $(@D)
	$(call UNIT_CHECK,,small)
$(UNIT_SMALL:%=$(BUILD)/tests/unit/test_%): $(BUILD)/tests/unit/test_%_small: tests/unit/test_%.c $(UNIT_DEPS) $(call core,small)
	@mkdir -p $(@D)
	$(call UNIT_CHECK,,small)

# -DUNIT_FEW: suites that are slow under a sanitizer make fewer rounds.
$(BUILD)/tests/asan/test_%: tests/unit/test_%.c $(UNIT_DEPS) $(call core,asan)
	@mkdir -p $(@D)
	$(call UNIT_CHECK,-DUNIT_FEW,asan)

$(BUILD)/tests/tsan/test_%: tests/unit/test_%.c $(UNIT_DEPS) $(call core,tsan)
	@mkdir -p $(@D)
	$(call UNIT_CHECK,-DUNIT_FEW,tsan)

define FACE_RULE
$(BUILD)/tests/$1/test_%: tests/unit/test_%.c $(UNIT_DEPS) $(call core,$1)
	@mkdir -p $$(@D)
	$$(CORE_CC) -DUNIT_FEW $(CORE_FLAGS_$1) $$< $(call core,$1) $$$$(pkg-config --cflags --libs check) -lm -o $$@
run-$1-%: $(BUILD)/tests/$1/test_%
	TSAN_OPTIONS=halt_on_error=1 $$<
endef
$(foreach f,$(WALK_FACES) $(RING_FACES) $(BUMP_FACES) $(OURO_FACES) $(TSAN_FACES),$(eval $(call FACE_RULE,$f)))

run-unit-%: $(BUILD)/tests/unit/test_%
	$<
run-asan-%: $(BUILD)/tests/asan/test_%
	$<
run-tsan-%: $(BUILD)/tests/tsan/test_%
	TSAN_OPTIONS=halt_on_error=1 $<

# Not part of check: plants faults in a copy of the tree and counts those that no suite notices.
mutants:
	CC='$(CC)' tests/unit/mutants.sh
