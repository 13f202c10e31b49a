# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Models: an explorer of interleavings over the core's own headers (explore.h). There are three configurations: "one" has one cursor
# per size class, one maker of blocks per class at a time, and a waiting loop that is long enough; "two" has two cursors and
# several makers; "short" has waiting loops that give up at once; "walk" is that of random walk, "ring" that of the ring of
# chunks, "ouro_s_p" and so on those of Ouroboros, "queue_s" and so on those of its queues. A model runs in those that make a difference to it.

OURO_QUEUES := queue_s queue_va queue_vl
MODEL_PROGRAMS := $(patsubst %,$(BUILD)/model/%,one/tree one/segment one/word one/table short/table one/make two/make one/retire one/narrow one/run one/grow \
    one/null two/null walk/walk ring/ring $(OURO_FACES:%=%/ouro) $(OURO_QUEUES:%=%/queue))
MODEL_HEADERS := $(wildcard tests/model/*.h tests/model/include/runtime/*.h) $(CORE_HEADERS)

# Seconds per scenario of `make model`, which explores as many preemptions as the scenario asks for. `make check` allows one at most, which takes 20 s
# in all, and CI two (check-model-two).
MODEL_SECONDS ?= 60
# The directory that holds runtime/.
MODEL_ROOT ?= .

.PHONY: model check-model check-model-two check-model-mutants litmus
model: $(MODEL_PROGRAMS) litmus check-model-mutants
	tests/model/models.sh $(MODEL_SECONDS) '' $(MODEL_PROGRAMS)
check: check-model
check-model: $(MODEL_PROGRAMS)
	tests/model/models.sh 10 -1 $^
check-model-two: $(MODEL_PROGRAMS)
	tests/model/models.sh 30 -2 $^
check-model-mutants: $(MODEL_PROGRAMS)
	CC='$(CC)' tests/model/mutants.sh $(BUILD) 20 2
litmus:
	tests/model/run-litmus.sh

# Slices per cursor (a shift), iterations of a waiting loop, pages per additional maker (config.sh).
$(BUILD)/model/one/mmconfig.h: MODEL_SIZES := 11 64 64
$(BUILD)/model/two/mmconfig.h: MODEL_SIZES := 1 64 1
$(BUILD)/model/short/mmconfig.h: MODEL_SIZES := 11 2 64
$(BUILD)/model/walk/mmconfig.h: MODEL_SIZES := 11 64 64
# A sweep of a segment of the ring is 192 steps; a caller that waits for one makes a look every third step.
$(BUILD)/model/ring/mmconfig.h: MODEL_SIZES := 11 128 64 12 6
# A chunk of Ouroboros is a page. Its queue chunks have 64 slots; in the models of the queues two, so that all of a ring has 16. An array has 64 before its
# rows.
$(OURO_FACES:%=$(BUILD)/model/%/mmconfig.h): MODEL_SIZES = 11 128 64 11 6 6 $(if $(findstring ouro_s,$@),5,7)
$(OURO_QUEUES:%=$(BUILD)/model/%/mmconfig.h): MODEL_SIZES := 11 128 64 11 6 1 5 1
$(BUILD)/model/%/mmconfig.h: mmconfig.h tests/model/config.sh tests/model/build.mk
	@mkdir -p $(@D)
	tests/model/config.sh $< $(MODEL_SIZES) > $@

# Explorer and world are compiled once per configuration, not per scenario; mutants.sh links the explorer (explore*.o), too. The model of the trees needs no
# heap (world.c).
MODEL_EXPLORER := explore explore_seen explore_threads
MODEL_FLAGS_walk := -DMM_ALLOCATOR=random_walk
MODEL_FLAGS_ring := -DMM_ALLOCATOR=regeff
$(foreach f,$(OURO_FACES),$(eval MODEL_FLAGS_$f = $$(CORE_FLAGS_$f)))
$(foreach q,s va vl,$(eval MODEL_FLAGS_queue_$q = $$(CORE_FLAGS_ouro_$q_p)))
MODEL_CC = $(CC) -std=c11 -O2 -g -Wall -Wextra -Wno-type-limits -Itests/model/include -I$1 -Itests/model -I$(MODEL_ROOT) $(MODEL_FLAGS_$(notdir $1))
define MODEL_RULE
$(MODEL_EXPLORER:%=$(BUILD)/model/$1/%.o) $(BUILD)/model/$1/world.o: $(BUILD)/model/$1/%.o: tests/model/%.c $(BUILD)/model/$1/mmconfig.h $(MODEL_HEADERS)
	$$(call MODEL_CC,$(BUILD)/model/$1) -c $$< -o $$@
$(BUILD)/model/$1/%: tests/model/%_model.c $(MODEL_EXPLORER:%=$(BUILD)/model/$1/%.o) $(BUILD)/model/$1/world.o
	$$(call MODEL_CC,$(BUILD)/model/$1) $$< $$(filter-out $$(if $$(filter %/tree,$$@),%/world.o),$$(filter %.o,$$^)) -o $$@
endef
$(foreach s,one two short walk ring $(OURO_FACES) $(OURO_QUEUES),$(eval $(call MODEL_RULE,$s)))
