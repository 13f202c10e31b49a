# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# make demo: the list of objects, compiled by nvcc and by mmnvcc; runs both where there is a GPU.

DEMO := $(BUILD)/demo
# The GPU of this machine, else the first of ARCHS. Only the demo uses it.
DEMO_ARCH = $(shell nvidia-smi -L >/dev/null 2>&1 && echo native || echo sm_$(firstword $(ARCHS)))

demo: $(DEMO)/objects_nvcc $(DEMO)/objects_mm $(DEMO)/objects_mm_ptx $(DEMO)/objects_cpu
	demo/demo.sh $(DEMO)

$(DEMO)/objects_nvcc: demo/objects.cu
	@mkdir -p $(@D)
	$(NVCC) -arch=$(DEMO_ARCH) $< -o $@

$(DEMO)/objects_mm: demo/objects.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc -arch=$(DEMO_ARCH) $< -o $@

# Contains only PTX: the driver compiles the allocator together with the program.
$(DEMO)/objects_mm_ptx: demo/objects.cu $(MM_PTX) $(MM_LIBRARIES) | all
	@mkdir -p $(@D)
	$(BUILD)/bin/mmnvcc -arch=compute_$(firstword $(ARCHS)) $< -o $@

$(DEMO)/objects_cpu: demo/objects_cpu.c $(wildcard runtime/cpu/*) $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_MM) demo/objects_cpu.c runtime/cpu/cpuheap.c -lpthread -o $@
