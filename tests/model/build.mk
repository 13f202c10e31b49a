# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Interleaving explorer over the core's own headers (explore.h). Models run with blocks of one slice ("one"), of two slices in
# two words of bits ("two") and of two slices in one word ("word"), where that makes a difference; stripes also with rings of
# two lots ("ring"), and with blocks of four slices, of which two are drawn by plain tickets ("four").

MODEL_PROGRAMS := $(patsubst %,$(BUILD)/model/%,one/tree one/segment two/segment one/stripe two/stripe ring/stripe four/stripe \
    one/block two/block word/block one/run two/run one/grow two/grow one/null two/null word/null)
MODEL_HEADERS := $(wildcard tests/unit/serve.h tests/unit/until.h tests/model/*.h tests/model/include/runtime/*.h runtime/core/*.h) runtime/port.h

# Seconds for each scenario of `make model`, which goes as deep as the scenario asks; `make check`: one, two preemptions.
MODEL_SECONDS ?= 60
# Where runtime/core is.
MODEL_ROOT ?= .

.PHONY: model check-model litmus
model: $(MODEL_PROGRAMS) litmus
	CC='$(CC)' tests/model/models.sh $(BUILD) $(MODEL_SECONDS) '' $(MODEL_PROGRAMS)
check: check-model
check-model: $(MODEL_PROGRAMS)
	CC='$(CC)' tests/model/models.sh $(BUILD) 1 2 $^
litmus:
	tests/model/run-litmus.sh

# Shifts (config.sh): slices of a block, of a word; versions; searches before NULL; lots of a ring.
$(BUILD)/model/one/mmconfig.h: MODEL_SIZES := 0 0 0 3 2
$(BUILD)/model/two/mmconfig.h: MODEL_SIZES := 1 0 0 3 2
$(BUILD)/model/word/mmconfig.h: MODEL_SIZES := 1 1 1 3 2
$(BUILD)/model/ring/mmconfig.h: MODEL_SIZES := 1 1 0 2 1
$(BUILD)/model/four/mmconfig.h: MODEL_SIZES := 2 1 0 2 1
$(BUILD)/model/%/mmconfig.h: mmconfig.h tests/model/config.sh tests/model/build.mk
	@mkdir -p $(@D)
	tests/model/config.sh $< $(MODEL_SIZES) > $@

# The explorer and the world know a size, and no scenario; mutants.sh links the explorer, too. The trees' model needs no heap (world.c).
MODEL_CC = $(CC) -std=c11 -O2 -g -Wall -Wextra -Itests/model/include -I$1 -Itests/model -I$(MODEL_ROOT)
define MODEL_RULE
$(BUILD)/model/$1/explore.o $(BUILD)/model/$1/world.o: $(BUILD)/model/$1/%.o: tests/model/%.c $(BUILD)/model/$1/mmconfig.h $(MODEL_HEADERS)
	$$(call MODEL_CC,$(BUILD)/model/$1) -c $$< -o $$@
$(BUILD)/model/$1/%: tests/model/%_model.c $(BUILD)/model/$1/explore.o $(BUILD)/model/$1/world.o
	$$(call MODEL_CC,$(BUILD)/model/$1) $$< $$(filter-out $$(if $$(filter %/tree,$$@),%/world.o),$$(filter %.o,$$^)) -o $$@
endef
$(foreach s,one two word ring four,$(eval $(call MODEL_RULE,$s)))
