# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Interleaving explorer over the core's own headers (explore.h). Models run with one cursor to a class, one at a time who makes blocks of it, and
# a waiting loop that is long enough ("one"), with two cursors and several makers ("two"), and with waiting loops that give up at once ("short"),
# where that makes a difference.

MODEL_PROGRAMS := $(patsubst %,$(BUILD)/model/%,one/tree one/segment one/word one/table short/table one/make two/make one/retire one/run one/grow \
    one/null two/null)
MODEL_HEADERS := $(wildcard tests/model/*.h tests/model/include/runtime/*.h runtime/core/*.h runtime/gallatin/*.h) runtime/heap.h runtime/maintain.h runtime/port.h

# Seconds for each scenario of `make model`, which goes as deep as the scenario asks; `make check`: two preemptions at most, which takes 10.
MODEL_SECONDS ?= 60
# Where runtime is.
MODEL_ROOT ?= .

.PHONY: model check-model litmus
model: $(MODEL_PROGRAMS) litmus
	CC='$(CC)' tests/model/models.sh $(BUILD) $(MODEL_SECONDS) '' $(MODEL_PROGRAMS)
check: check-model
check-model: $(MODEL_PROGRAMS)
	CC='$(CC)' tests/model/models.sh $(BUILD) 30 -2 $^
litmus:
	tests/model/run-litmus.sh

# Slices to a cursor (a shift), looks of a waiting loop, pages to one more maker (config.sh).
$(BUILD)/model/one/mmconfig.h: MODEL_SIZES := 11 64 64
$(BUILD)/model/two/mmconfig.h: MODEL_SIZES := 1 64 1
$(BUILD)/model/short/mmconfig.h: MODEL_SIZES := 11 2 64
$(BUILD)/model/%/mmconfig.h: mmconfig.h tests/model/config.sh tests/model/build.mk
	@mkdir -p $(@D)
	tests/model/config.sh $< $(MODEL_SIZES) > $@

# The explorer and the world know a size, and no scenario; mutants.sh links the explorer, too. The trees' model needs no heap (world.c).
MODEL_CC = $(CC) -std=c11 -O2 -g -Wall -Wextra -Wno-type-limits -Itests/model/include -I$1 -Itests/model -I$(MODEL_ROOT)
define MODEL_RULE
$(BUILD)/model/$1/explore.o $(BUILD)/model/$1/world.o: $(BUILD)/model/$1/%.o: tests/model/%.c $(BUILD)/model/$1/mmconfig.h $(MODEL_HEADERS)
	$$(call MODEL_CC,$(BUILD)/model/$1) -c $$< -o $$@
$(BUILD)/model/$1/%: tests/model/%_model.c $(BUILD)/model/$1/explore.o $(BUILD)/model/$1/world.o
	$$(call MODEL_CC,$(BUILD)/model/$1) $$< $$(filter-out $$(if $$(filter %/tree,$$@),%/world.o),$$(filter %.o,$$^)) -o $$@
endef
$(foreach s,one two short,$(eval $(call MODEL_RULE,$s)))
