# What bounds malloc when thousands of warps come at once, without a GPU (waves.c). Not part of check.

.PHONY: waves
waves: $(BUILD)/tests/sim/waves
	for bytes in 16 64 256 1024 4096 8192; do $< $$bytes || exit; done

$(BUILD)/tests/sim/waves: tests/sim/waves.c $(UNIT_DEPS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) -D_GNU_SOURCE= $< $(UNIT_CORE) -o $@
