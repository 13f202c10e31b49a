# Interleaving explorer over the core's own headers (explore.h). Most models run twice: blocks of the largest classes
# with one slice ("one") and with two ("two"); null needs blocks of one slice, whose free is a block given back.

MODEL_PROGRAMS := $(patsubst %,$(BUILD)/model/%,one/tree one/segment one/null one/block one/run two/segment two/block two/run)
MODEL_HEADERS := $(wildcard tests/model/*.h tests/model/include/runtime/*.h runtime/core/*.h) runtime/port.h

# Seconds for each scenario of `make model`, which goes as deep as the scenario asks; `make check`: one, two preemptions.
MODEL_SECONDS ?= 1

.PHONY: model check-model
model: $(MODEL_PROGRAMS)
	CC='$(CC)' tests/model/models.sh $(BUILD) $(MODEL_SECONDS) '' $^
check: check-model
check-model: $(MODEL_PROGRAMS)
	CC='$(CC)' tests/model/models.sh $(BUILD) 1 2 $^

$(BUILD)/model/one/mmconfig.h: MODEL_SHIFT := 0
$(BUILD)/model/two/mmconfig.h: MODEL_SHIFT := 1
$(BUILD)/model/%/mmconfig.h: mmconfig.h tests/model/config.sh
	@mkdir -p $(@D)
	tests/model/config.sh $< $(MODEL_SHIFT) > $@

# The trees' model needs no heap (world.c).
define MODEL_RULE
$(BUILD)/model/$1/%: tests/model/%_model.c tests/model/explore.c tests/model/world.c $(BUILD)/model/$1/mmconfig.h $(MODEL_HEADERS)
	$(CC) -std=c11 -O2 -g -Wall -Wextra -Itests/model/include -I$(BUILD)/model/$1 -Itests/model -I. \
	    $$(filter-out $$(if $$(filter %/tree,$$@),%/world.c),$$(filter %.c,$$^)) -o $$@
endef
$(foreach s,one two,$(eval $(call MODEL_RULE,$s)))
