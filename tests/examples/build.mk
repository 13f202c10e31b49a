# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The programs in examples/, compiled for each of ARCHS by mmnvcc and by nvcc. check-examples runs their logic on the CPU; check-gpu runs the programs.
EXAMPLES := $(patsubst examples/%.cu,%,$(wildcard examples/*.cu))
EXAMPLES_MM := $(EXAMPLES:%=$(BUILD)/examples/%)
EXAMPLES_PLAIN := $(EXAMPLES:%=$(BUILD)/examples/plain_%)
EXAMPLES_FLAGS = $(foreach a,$(ARCHS),-gencode arch=compute_$a,code=sm_$a) -Xcompiler -Wall,-Wextra,-Werror

.PHONY: check-examples check-examples-mutants
check: check-examples
check-examples: all $(EXAMPLES_MM) $(EXAMPLES_PLAIN)
	ARCHS='$(ARCHS)' tests/examples/run.sh $(BUILD)
check-examples-mutants:
	tests/examples/mutants.sh
build-gpu-tests: $(EXAMPLES_MM) $(EXAMPLES_PLAIN)
check-gpu: $(EXAMPLES_MM) $(EXAMPLES_PLAIN)

$(EXAMPLES_MM): $(BUILD)/examples/%: examples/%.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc $(EXAMPLES_FLAGS) $< -o $@
$(EXAMPLES_PLAIN): $(BUILD)/examples/plain_%: examples/%.cu
	@mkdir -p $(@D)
	$(NVCC) $(EXAMPLES_FLAGS) $< -o $@
