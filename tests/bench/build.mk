# Suite of mmbench's own: its options, its watchdog and what it writes, with children that need no GPU.
.PHONY: check-bench
check: check-bench
check-bench: $(BUILD)/bin/mmbench
	tests/bench/run.sh $<
