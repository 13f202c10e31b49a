# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Load time: reading and rebuilding what reaches the driver. With liblz4 and libzstd in it, so that programs need neither.
LOAD_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard interpose/load/*.c interpose/load/ptx/*.c))
LOAD_LIBS := -l:liblz4.a -l:libzstd.a

$(LOAD_OBJS): $(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_RUN_TIME) -c $< -o $@

-include $(LOAD_OBJS:.o=.d)
