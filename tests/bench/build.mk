# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suites of mmbench: its options, its watchdog and its output, with children that need no GPU; the graph's kernels under the
# sanitizers, with a CPU thread for each thread of a CTA; how the case converged evaluates its notes; and the cases footprint,
# pinned and latency, with loops for kernels: with an account of the heap, and without one, since CUDA's allocator has none.
GRAPH_TEST := $(BUILD)/tests/bench/test_graph

.PHONY: check-bench check-bench-graph check-plot
check: check-bench
check-bench: $(BUILD)/bin/mmbench $(addprefix $(BUILD)/tests/bench/,test_converged test_latency test_footprint test_footprint_builtin) check-bench-graph
	$(BUILD)/tests/bench/test_converged
	$(BUILD)/tests/bench/test_latency
	$(BUILD)/tests/bench/test_footprint
	$(BUILD)/tests/bench/test_footprint_builtin
	tests/bench/run.sh $<

$(BUILD)/tests/bench/test_converged $(BUILD)/tests/bench/test_latency: $(BUILD)/tests/bench/test_%: tests/bench/test_%.c tests/runner.h $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -isystem $(CUDA_HOME)/include $< $$(pkg-config --cflags --libs check) -o $@

FOOTPRINT_C := $(addprefix $(BENCH_SRC)/child/,account.c footprint.c latency.c)
$(BUILD)/tests/bench/test_footprint_builtin: FOOTPRINT_FLAGS := -DNO_ACCOUNT
$(BUILD)/tests/bench/test_footprint $(BUILD)/tests/bench/test_footprint_builtin: tests/bench/test_footprint.c tests/runner.h $(FOOTPRINT_C) $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) $(FOOTPRINT_FLAGS) -isystem $(CUDA_HOME)/include $< $(FOOTPRINT_C) $$(pkg-config --cflags --libs check) -o $@

# Part of CI, not of check: needs matplotlib.
check-plot: $(BUILD)/bin/mmbench
	tests/bench/run.sh $< plot

check-bench-graph: $(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan
	$(GRAPH_TEST)-asan
	$(GRAPH_TEST)-tsan

$(GRAPH_TEST)-asan: GRAPH_TEST_FLAGS := -fsanitize=address$(,)undefined -fno-sanitize-recover=all
$(GRAPH_TEST)-tsan: GRAPH_TEST_FLAGS := -fsanitize=thread
$(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan: tests/bench/test_graph.c tests/bench/cta.h tests/runner.h $(BENCH_SRC)/child/workload.c $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread $(GRAPH_TEST_FLAGS) -isystem $(CUDA_HOME)/include $< \
		$(BENCH_SRC)/child/workload.c $$(pkg-config --cflags --libs check) -o $@
