# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The host side of the heap: plain C11, part of libmm.so.1.
HOST_OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard runtime/host/*.c runtime/host/fit/*.c runtime/host/pool/*.c))

# Flags for all objects of libmm.so.1.
CFLAGS_RUN_TIME = $(CFLAGS_MM) -fPIC -fvisibility=hidden -isystem $(CUDA_HOME)/include -MMD -MP

$(HOST_OBJS): $(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_RUN_TIME) -c $< -o $@

-include $(HOST_OBJS:.o=.d)
$(BUILD)/obj/runtime/host/trim.o: $(BUILD)/device/maintain.fatbin
$(BUILD)/obj/runtime/host/trim.o: CFLAGS_RUN_TIME += -DMM_KERNELS_FATBIN='"$(BUILD)/device/maintain.fatbin"'
