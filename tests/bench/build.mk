# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Suites of mmbench: its options, its watchdog and its output, with children that need no GPU; the graph's kernels under the
# sanitizers, with a CPU thread for each thread of a CTA; how the case converged evaluates its notes; and the cases footprint,
# pinned and latency, accounts of memory and replays, with loops for kernels: with an account of the heap, and without one, since CUDA's allocator has none.
GRAPH_TEST := $(BUILD)/tests/bench/test_graph

.PHONY: check-bench check-bench-graph check-plot
check: check-bench
check-bench: $(BUILD)/bin/mmbench $(addprefix $(BUILD)/tests/bench/,test_converged test_latency test_footprint test_footprint_builtin test_account test_account_builtin test_trace) check-bench-graph
	$(BUILD)/tests/bench/test_converged
	$(BUILD)/tests/bench/test_latency
	$(BUILD)/tests/bench/test_footprint
	$(BUILD)/tests/bench/test_footprint_builtin
	$(BUILD)/tests/bench/test_account
	$(BUILD)/tests/bench/test_account_builtin
	$(BUILD)/tests/bench/test_trace
	tests/bench/run.sh $<

$(BUILD)/tests/bench/test_converged $(BUILD)/tests/bench/test_latency: $(BUILD)/tests/bench/test_%: tests/bench/test_%.c tests/runner.h $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -isystem $(CUDA_HOME)/include $< $$(pkg-config --cflags --libs check) -o $@

FOOTPRINT_C := $(addprefix $(BENCH_SRC)/child/,account.c footprint.c latency.c replay_case.c replay_plan.c trace.c)
FOOTPRINT_TESTS := $(addprefix $(BUILD)/tests/bench/,test_footprint test_account)
FOOTPRINT_DEPS := tests/bench/footprint.h tests/runner.h $(FOOTPRINT_C) $(BENCH_H)
FOOTPRINT_CC = @mkdir -p $(@D)$(newline)$(CC) $(CFLAGS_MM) $1 -isystem $(CUDA_HOME)/include $< $(FOOTPRINT_C) $$(pkg-config --cflags --libs check) -o $@
$(FOOTPRINT_TESTS): $(BUILD)/tests/bench/%: tests/bench/%.c $(FOOTPRINT_DEPS)
	$(call FOOTPRINT_CC)
$(FOOTPRINT_TESTS:%=%_builtin): $(BUILD)/tests/bench/%_builtin: tests/bench/%.c $(FOOTPRINT_DEPS)
	$(call FOOTPRINT_CC,-DNO_ACCOUNT)

# Traces: the writer of the run time, the reader, the plan of a replay.
TRACE_C := runtime/host/trace_write.c runtime/host/events.c $(addprefix $(BENCH_SRC)/child/,trace.c replay_plan.c)
$(BUILD)/tests/bench/test_trace: tests/bench/test_trace.c $(addprefix tests/bench/,counted.h cta.h) tests/runner.h $(TRACE_C) runtime/host/trace_write.h $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread -fsanitize=address,undefined -fno-sanitize-recover=all -isystem $(CUDA_HOME)/include $< $(TRACE_C) \
		$$(pkg-config --cflags --libs check) -o $@

# The papers' cases, with a CPU thread for each thread of a CTA. Those in which threads of a CTA hand work to one another run under
# ThreadSanitizer, too.
PAPERS_SRC := $(BENCH_SRC)/child/papers
PAPERS_TESTS := papers kdtree join ranks host host_log probes
PAPERS_TSAN := kdtree join
papers_C := $(addprefix $(PAPERS_SRC)/,run.c bursts_case.c words_case.c halves_case.c)
kdtree_C := $(PAPERS_SRC)/kdtree_host.c
ranks_C := $(PAPERS_SRC)/ranks_host.c $(BENCH_SRC)/child/workload.c
join_C := $(PAPERS_SRC)/join_host.c
host_C := $(addprefix $(PAPERS_SRC)/host_,log.c generate.c calls.c case.c streams.c)
probes_C := $(PAPERS_SRC)/probes_host.c
host_log_C := $(addprefix $(PAPERS_SRC)/host_,log.c generate.c)
PAPERS_BINARIES := $(PAPERS_TESTS:%=$(BUILD)/tests/bench/test_%-asan) $(PAPERS_TSAN:%=$(BUILD)/tests/bench/test_%-tsan)

.PHONY: check-bench-papers
check-bench: check-bench-papers
check-bench-papers: $(PAPERS_BINARIES)
	set -e; for test in $^; do $$test; done

define PAPERS_TEST
$(BUILD)/tests/bench/test_$1-$2: tests/bench/test_$1.c $(addprefix tests/bench/,counted.h cta.h device.h) tests/runner.h $$($1_C) $$(BENCH_H)
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_MM) -D_GNU_SOURCE= -pthread $3 -isystem $$(CUDA_HOME)/include $$< $$($1_C) \
		$$$$(pkg-config --cflags --libs check) -lm -o $$@
endef
$(foreach t,$(PAPERS_TESTS),$(eval $(call PAPERS_TEST,$t,asan,-fsanitize=address$(,)undefined -fno-sanitize-recover=all)))
$(foreach t,$(PAPERS_TSAN),$(eval $(call PAPERS_TEST,$t,tsan,-fsanitize=thread)))

# Part of CI, not of check: needs matplotlib.
check-plot: $(BUILD)/bin/mmbench
	tests/bench/run.sh $< plot

check-bench-graph: $(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan
	$(GRAPH_TEST)-asan
	$(GRAPH_TEST)-tsan

$(GRAPH_TEST)-asan: GRAPH_TEST_FLAGS := -fsanitize=address$(,)undefined -fno-sanitize-recover=all
$(GRAPH_TEST)-tsan: GRAPH_TEST_FLAGS := -fsanitize=thread
$(GRAPH_TEST)-asan $(GRAPH_TEST)-tsan: tests/bench/test_graph.c tests/bench/counted.h tests/bench/cta.h tests/runner.h $(BENCH_SRC)/child/workload.c $(BENCH_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= -pthread $(GRAPH_TEST_FLAGS) -isystem $(CUDA_HOME)/include $< \
		$(BENCH_SRC)/child/workload.c $$(pkg-config --cflags --libs check) -o $@
