# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suites of mmbench's own: its options, its watchdog and what it writes, with children that need no GPU; the graph's
# kernels, a thread of the CPU for each of a CTA, under the sanitizers; and what the case converged makes of its notes.
GRAPH_TEST := $(BUILD)/tests/bench/test_graph

.PHONY: check-bench check-bench-graph
check: check-bench
check-bench: $(BUILD)/bin/mmbench $(BUILD)/tests/bench/test_converged check-bench-graph
	$(BUILD)/tests/bench/test_converged
	tests/bench/run.sh $<

$(BUILD)/tests/bench/test_converged: tests/bench/test_converged.c tests/runner.h $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -isystem $(CUDA_HOME)/include $< $$(pkg-config --cflags --libs check) -o $@

check-bench-graph: $(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan
	$(GRAPH_TEST)-asan
	$(GRAPH_TEST)-tsan

$(GRAPH_TEST)-asan: GRAPH_TEST_FLAGS := -fsanitize=address$(,)undefined -fno-sanitize-recover=all
$(GRAPH_TEST)-tsan: GRAPH_TEST_FLAGS := -fsanitize=thread
$(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan: tests/bench/test_graph.c tests/bench/cta.h tests/runner.h $(BENCH_SRC)/child/workload.c $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread $(GRAPH_TEST_FLAGS) -isystem $(CUDA_HOME)/include $< \
		$(BENCH_SRC)/child/workload.c $$(pkg-config --cflags --libs check) -o $@
