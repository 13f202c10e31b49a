# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Device code: PTX for each entry of ARCHS (lib/ptx/mm_ARCH.ptx), made from runtime/device.cu, and the libraries that are made from it (lib/device/).

MM_PTX := $(ARCHS:%=$(BUILD)/lib/ptx/mm_%.ptx)
MM_DEVICE_SOURCES := $(wildcard runtime/*.cu runtime/*.h runtime/core/* runtime/gallatin/* runtime/checked/*) mmconfig.h
MM_ARCH_FIRST := $(firstword $(shell printf '%s\n' $(ARCHS) | sort -n))

MM_LIBRARIES := $(BUILD)/lib/device/mm32.a $(BUILD)/lib/device/mm24.a $(BUILD)/lib/device/mmptx.a
all: $(MM_PTX) $(MM_LIBRARIES)

# The value of ARCHS, for make install.
.PHONY: $(BUILD)/archs
all: $(BUILD)/archs
$(BUILD)/archs:
	@mkdir -p $(@D)
	@echo '$(ARCHS)' | cmp -s - $@ || echo '$(ARCHS)' >$@

.SECONDARY: $(ARCHS:%=$(BUILD)/device/device_%.ptx)

$(BUILD)/device/device_%.ptx: $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -rdc=true -ptx -arch=compute_$* runtime/device.cu -o $@

$(BUILD)/lib/ptx/mm_%.ptx: $(BUILD)/device/device_%.ptx interpose/compile/devicetext.sh
	@mkdir -p $(@D)
	interpose/compile/devicetext.sh $(CUDA_HOME)/bin/ptxas $* $< $@

# Where mm is installed, mmconfig.h and mmunyield are next to devicelib.c.
$(BUILD)/lib/devicelib.c $(BUILD)/lib/mmconfig.h: $(BUILD)/lib/%:
	@mkdir -p $(@D)
	install -m 644 $< $@
$(BUILD)/lib/devicelib.c: runtime/devicelib.c
$(BUILD)/lib/mmconfig.h: mmconfig.h

$(MM_LIBRARIES) $(BUILD)/lib/device/driver.fatbin &: $(MM_PTX) interpose/compile/mmdevice $(BUILD)/lib/devicelib.c $(BUILD)/lib/mmconfig.h $(BUILD)/lib/mmunyield
	CC='$(CC)' interpose/compile/mmdevice $(BUILD)/lib/ptx $(CUDA_HOME)/bin $(BUILD)/lib/devicelib.c $(BUILD)/lib/device $(ARCHS)

# The other allocators: texts and libraries in lib/allocators/NAME, by make allocators. Their names: mmconfig.h.
MM_SIBLINGS := $(filter-out $(firstword $(MM_ALLOCATOR_NAMES)),$(MM_ALLOCATOR_NAMES))
MM_FLAGS_random-walk        := -DMM_ALLOCATOR=random_walk -DMM_WALK_FACE=MM_WALK_RW
MM_FLAGS_random-walk-bitmap := -DMM_ALLOCATOR=random_walk -DMM_WALK_FACE=MM_WALK_BM
MM_FLAGS_random-walk-coop   := -DMM_ALLOCATOR=random_walk -DMM_WALK_FACE=MM_WALK_COOP
MM_FLAGS_random-walk-runs   := -DMM_ALLOCATOR=random_walk -DMM_WALK_FACE=MM_WALK_RUNS
MM_FLAGS_atomic               := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_ATOMIC
MM_FLAGS_aw                   := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_AW
MM_FLAGS_circular             := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_CIRCULAR
MM_FLAGS_circular-fused       := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_FUSED
MM_FLAGS_circular-multi       := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_MULTI
MM_FLAGS_circular-multi-fused := -DMM_ALLOCATOR=regeff -DMM_REGEFF_FACE=MM_REGEFF_MULTI_FUSED
$(foreach q,s va vl,$(eval MM_FLAGS_ouroboros-$q-p := -DMM_ALLOCATOR=ouroboros -DMM_OURO_QUEUE=MM_OURO_$(shell echo $q | tr a-z A-Z) -DMM_OURO_ENTRY=MM_OURO_PAGES))
$(foreach q,s va vl,$(eval MM_FLAGS_ouroboros-$q-c := $(MM_FLAGS_ouroboros-$q-p:PAGES=CHUNKS)))
MM_SIBLING_SOURCES := $(MM_DEVICE_SOURCES) $(wildcard runtime/listed/* runtime/random_walk/* runtime/regeff/* runtime/ouroboros/*)

.PHONY: allocators
allocators: $(MM_SIBLINGS:%=$(BUILD)/lib/allocators/%/driver.fatbin)
define MM_SIBLING_TEXT
.SECONDARY: $(BUILD)/device/$1_$2.ptx
$(BUILD)/device/$1_$2.ptx: $$(MM_SIBLING_SOURCES)
	@mkdir -p $$(@D)
	$$(NVCC) -I. $$(MM_FLAGS_$1) -DMM_ALLOCATOR_SUFFIX=_$(subst -,_,$1) -rdc=true -ptx -arch=compute_$2 runtime/device.cu -o $$@
$(BUILD)/lib/allocators/$1/mm_$2.ptx: $(BUILD)/device/$1_$2.ptx interpose/compile/devicetext.sh
	@mkdir -p $$(@D)
	interpose/compile/devicetext.sh $$(CUDA_HOME)/bin/ptxas $2 $$< $$@
endef
define MM_SIBLING
$(addprefix $(BUILD)/lib/allocators/$1/,driver.fatbin mm32.a mm24.a mmptx.a release) &: $(ARCHS:%=$(BUILD)/lib/allocators/$1/mm_%.ptx) interpose/compile/mmdevice $(addprefix $(BUILD)/lib/,devicelib.c mmconfig.h mmunyield)
	CC='$$(CC)' interpose/compile/mmdevice $$(@D) $$(CUDA_HOME)/bin $(BUILD)/lib/devicelib.c $$(@D) $$(ARCHS)
endef
$(foreach n,$(MM_SIBLINGS),$(eval $(call MM_SIBLING,$n)) $(foreach a,$(ARCHS),$(eval $(call MM_SIBLING_TEXT,$n,$a))))

# The kernels of runtime/maintain.cu, for each architecture, and as PTX for GPUs that are not in ARCHS. They are a part of libmm.so.1.
$(BUILD)/device/maintain_%.cubin: runtime/maintain.cu $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -cubin -arch=sm_$* $< -o $@
$(BUILD)/device/maintain.ptx: runtime/maintain.cu $(MM_DEVICE_SOURCES)
	@mkdir -p $(@D)
	$(NVCC) -I. -ptx -arch=compute_$(MM_ARCH_FIRST) $< -o $@
$(BUILD)/device/maintain.fatbin: $(ARCHS:%=$(BUILD)/device/maintain_%.cubin) $(BUILD)/device/maintain.ptx
	$(CUDA_HOME)/bin/fatbinary -64 --create=$@ $(foreach a,$(ARCHS),--image3=kind=elf,sm=$a,file=$(BUILD)/device/maintain_$a.cubin) \
	    --image3=kind=ptx,sm=$(MM_ARCH_FIRST),file=$(BUILD)/device/maintain.ptx
